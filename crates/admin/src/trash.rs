//! The trash of buckets, in which deleted and replaced objects remain for some days.
//!
//! For example, after `set_trash("box", Some(30))` an object that a client deletes can be restored
//! for 30 days.

use std::sync::Arc;

use block::BlockStore;
use namespace::{FindBucketConfig, FsError, SetBucketConfig};
use record::{BucketConfig, BucketConfigKind, Ino, Timestamp, VersionStamp, Versioning};
use session::VolumeError;
use volume::{NamedBucket, Trashed};

use crate::bucket::parse;
use crate::fork::OpenVolume;
use crate::{Admin, AdminError};

/// The open trash of a bucket, in the session of the process or in one of its own.
///
/// The caller calls [`BucketTrash::close`] before it drops this.
#[derive(Debug)]
pub struct BucketTrash {
    opened: OpenVolume,
    name: String,
    /// The bucket that had the name when the trash was opened.
    ino: Ino,
}

/// The numbers of keys that [`BucketTrash::restore_all`] has restored and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Keys whose object was restored.
    pub restored: u64,
    /// Keys that already have another object, which remains.
    pub taken: u64,
}

impl Admin {
    /// Sets the number of days for which the trash of a bucket keeps deleted and replaced objects.
    /// `None` removes the trash, which must be empty. Runs in a session, as [`Admin::set_bucket`].
    ///
    /// # Errors
    /// Those of [`Admin::set_bucket`]; [`AdminError::KeepsVersions`], [`AdminError::TrashLeft`].
    pub async fn set_trash(&self, name: &str, days: Option<u32>) -> Result<(), AdminError> {
        let bucket = parse(name)?;
        let value = days.map(BucketConfig::of_trash_days);
        self.change_joined(&SetBucketConfig {
            bucket: bucket.as_str().into(),
            kind: BucketConfigKind::Trash,
            value: value.as_ref(),
            default_retention: None,
            default_encryption: None,
        })
        .await
    }

    /// Returns the number of days for which the trash keeps objects. `None` if the bucket has no
    /// trash.
    ///
    /// # Errors
    /// Those of [`Admin::bucket`].
    pub async fn trash_days(&self, name: &str) -> Result<Option<u32>, AdminError> {
        let bucket = parse(name)?;
        let (name, kind) = (bucket.as_str().as_bytes(), BucketConfigKind::Trash);
        let config = self.look(&FindBucketConfig { bucket: name.into(), kind }).await?;
        let days = config.map(|config| config.trash_days()).transpose();
        days.map_err(|error| AdminError::Corrupt(format!("the days of a trash: {error}")))
    }

    /// Opens the trash of a bucket. `sole` is true if no other process uses the metadata store:
    /// sessions that are still open are then ended without a wait.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], [`AdminError::BucketName`], [`AdminError::NoSuchBucket`],
    /// [`AdminError::HasNoTrash`], and if the volume cannot be opened, or a store fails.
    pub async fn trash(
        &self,
        blocks: Arc<dyn BlockStore>,
        name: &str,
        sole: bool,
    ) -> Result<BucketTrash, AdminError> {
        let bucket = self.bucket(name).await?;
        if bucket.versioning != Versioning::Trash {
            return Err(AdminError::HasNoTrash);
        }
        let opened = self.volume(blocks, sole).await?;
        Ok(BucketTrash { opened, name: name.to_owned(), ino: bucket.ino })
    }
}

impl BucketTrash {
    fn bucket(&self) -> NamedBucket<'_> {
        NamedBucket { name: self.name.as_bytes(), ino: Some(self.ino) }
    }

    /// Returns the inode number of the bucket. All work on the trash is on this bucket, also if its
    /// name is given to a new bucket.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns a page of the objects in the trash whose keys begin with `prefix`; see
    /// [`volume::Volume::trash`]. `after` is the key and the id of the last object of the page
    /// before, `None` for the first page.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn page(
        &self,
        prefix: &[u8],
        after: Option<(Vec<u8>, VersionStamp)>,
    ) -> Result<Vec<(Vec<u8>, Trashed)>, AdminError> {
        self.opened.volume.trash(self.bucket(), prefix, after).await.map_err(refused)
    }

    /// Restores an object of the key: the one with `id`, or the last one that was deleted or
    /// replaced. An object that has the key now goes to the trash.
    ///
    /// # Errors
    /// [`AdminError::NotInTrash`], and if the store refuses the change.
    pub async fn restore(&self, key: &[u8], id: Option<VersionStamp>) -> Result<(), AdminError> {
        let id = match id {
            Some(id) => id,
            None => {
                let page = self.page(key, None).await?;
                // The prefix `key` also matches longer keys, and the newest object of a key comes
                // first.
                let newest = page.into_iter().find(|(found, _)| found == key);
                newest.map(|(_, trashed)| trashed.id).ok_or(AdminError::NotInTrash)?
            }
        };
        self.opened.volume.restore(self.bucket(), key, id, true).await.map_err(refused)
    }

    /// Restores the last object of each key with `prefix`, except for keys that have an object now.
    /// `done` is called after each key.
    ///
    /// # Errors
    /// As [`BucketTrash::restore`]. Objects that were restored before the error remain.
    pub async fn restore_all(
        &self,
        prefix: &[u8],
        mut done: impl FnMut(&Restored),
    ) -> Result<Restored, AdminError> {
        let (mut restored, mut last) = (Restored::default(), None::<Vec<u8>>);
        let mut after = None;
        loop {
            let page = self.page(prefix, after).await?;
            // An object that was restored leaves the trash, so the next page begins behind the last
            // seen one.
            after = page.last().map(|(key, trashed)| (key.clone(), trashed.id));
            if after.is_none() {
                return Ok(restored);
            }
            for (key, trashed) in page {
                // Only the newest object of a key is restored, and it is the first in the listing.
                if last.as_ref() == Some(&key) {
                    continue;
                }
                match self.opened.volume.restore(self.bucket(), &key, trashed.id, false).await {
                    Ok(()) => restored.restored += 1,
                    Err(VolumeError::Fs(FsError::NameExists)) => restored.taken += 1,
                    // Another process has restored or removed the object meanwhile.
                    Err(VolumeError::Fs(FsError::NoSuchVersion)) => {}
                    Err(error) => return Err(refused(error)),
                }
                done(&restored);
                last = Some(key);
            }
        }
    }

    /// Removes the objects of keys with `prefix` from the trash permanently. Returns their number.
    ///
    /// # Errors
    /// If a store fails. Objects that were removed before the error are gone.
    pub async fn empty(&self, prefix: &[u8]) -> Result<u64, AdminError> {
        self.opened
            .volume
            .empty_trash(self.bucket(), prefix, Timestamp(i64::MAX))
            .await
            .map_err(refused)
    }

    /// Closes the volume and ends the session.
    pub async fn close(self) {
        self.opened.close().await;
    }
}

fn refused(error: VolumeError) -> AdminError {
    match error {
        VolumeError::Fs(FsError::NoSuchVersion) => AdminError::NotInTrash,
        VolumeError::Fs(error) => error.into(),
        error => error.into(),
    }
}
