//! The trash of buckets.

use std::sync::Arc;

use block::BlockStore;
use namespace::{FindBucketConfig, FsError, SetBucketConfig};
use record::{BucketConfig, BucketConfigKind, Timestamp, VersionStamp, Versioning};
use session::VolumeError;
use volume::{NamedBucket, Trashed, Volume};

use crate::bucket::parse;
use crate::{Admin, AdminError};

/// A bucket whose trash is looked into, in a session of its own.
///
/// [`BucketTrash::close`] is to be called before it is dropped.
#[derive(Debug)]
pub struct BucketTrash {
    volume: Arc<Volume>,
    name: String,
}

/// What was looked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Keys that have again what they had lost.
    pub restored: u64,
    /// Keys that have something by now, which stays.
    pub taken: u64,
}

impl Admin {
    /// Gives a bucket a trash, in which what its keys lose stays for so many days, or changes the days;
    /// with none, ends a trash that is empty. It is made as [`Admin::set_bucket`] is.
    ///
    /// # Errors
    /// Those of [`Admin::set_bucket`]; [`AdminError::KeepsVersions`], [`AdminError::TrashLeft`].
    pub async fn set_trash(&self, name: &str, days: Option<u32>) -> Result<(), AdminError> {
        let bucket = parse(name)?;
        let value = days.map(BucketConfig::of_trash_days);
        let (name, kind) = (bucket.as_str().as_bytes(), BucketConfigKind::Trash);
        self.in_session(&SetBucketConfig {
            name,
            kind,
            value: value.as_ref(),
            default_retention: None,
        })
        .await
    }

    /// Days that what its keys lose stays in a bucket's trash; nothing if it has none.
    ///
    /// # Errors
    /// Those of [`Admin::bucket`].
    pub async fn trash_days(&self, name: &str) -> Result<Option<u32>, AdminError> {
        let bucket = parse(name)?;
        let (name, kind) = (bucket.as_str().as_bytes(), BucketConfigKind::Trash);
        let config = self.run(&FindBucketConfig { name, kind }, None).await?;
        let days = config.map(|config| config.trash_days()).transpose();
        days.map_err(|error| AdminError::Corrupt(format!("the days of a trash: {error}")))
    }

    /// Opens the trash of a bucket. `sole` says that nobody else uses the metadata store.
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
        if self.bucket(name).await?.versioning != Versioning::Trash {
            return Err(AdminError::HasNoTrash);
        }
        let volume = self.volume(blocks, sole).await?;
        Ok(BucketTrash { volume, name: name.to_owned() })
    }
}

impl BucketTrash {
    fn bucket(&self) -> NamedBucket<'_> {
        NamedBucket { name: self.name.as_bytes(), ino: None }
    }

    /// A page of what is in it: see [`Volume::trash`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn page(
        &self,
        prefix: &[u8],
        after: Option<(Vec<u8>, VersionStamp)>,
    ) -> Result<Vec<(Vec<u8>, Trashed)>, AdminError> {
        self.volume.trash(self.bucket(), prefix, after).await.map_err(refused)
    }

    /// Gives a key back what it has lost of this name, or last; what has the key by now goes to the
    /// trash.
    ///
    /// # Errors
    /// [`AdminError::NotInTrash`], and if the store does not take it.
    pub async fn restore(&self, key: &[u8], id: Option<VersionStamp>) -> Result<(), AdminError> {
        let id = match id {
            Some(id) => id,
            None => {
                let page = self.page(key, None).await?;
                let newest = page.into_iter().find(|(found, _)| found == key);
                newest.map(|(_, trashed)| trashed.id).ok_or(AdminError::NotInTrash)?
            }
        };
        self.volume.restore(self.bucket(), key, id, true).await.map_err(refused)
    }

    /// Gives all keys back what they lost last that begin with `prefix`, unless they have something
    /// by now. `done` hears of each key.
    ///
    /// # Errors
    /// As [`BucketTrash::restore`]. What was restored until then is.
    pub async fn restore_all(
        &self,
        prefix: &[u8],
        mut done: impl FnMut(&Restored),
    ) -> Result<Restored, AdminError> {
        let (mut restored, mut last) = (Restored::default(), None::<Vec<u8>>);
        let mut after = None;
        loop {
            let page = self.page(prefix, after).await?;
            after = page.last().map(|(key, trashed)| (key.clone(), trashed.id));
            if after.is_none() {
                return Ok(restored);
            }
            for (key, trashed) in page {
                if last.as_ref() == Some(&key) {
                    continue;
                }
                match self.volume.restore(self.bucket(), &key, trashed.id, false).await {
                    Ok(()) => restored.restored += 1,
                    Err(VolumeError::Fs(FsError::NameExists)) => restored.taken += 1,
                    // It has been restored, or removed, meanwhile.
                    Err(VolumeError::Fs(FsError::NoSuchVersion)) => {}
                    Err(error) => return Err(refused(error)),
                }
                done(&restored);
                last = Some(key);
            }
        }
    }

    /// Removes what is in it for good of keys that begin with `prefix`, and answers how many.
    ///
    /// # Errors
    /// If a store fails. What was removed until then is.
    pub async fn empty(&self, prefix: &[u8]) -> Result<u64, AdminError> {
        self.volume.empty_trash(self.bucket(), prefix, Timestamp(i64::MAX)).await.map_err(refused)
    }

    /// Ends the session.
    pub async fn close(self) {
        self.volume.close().await;
    }
}

fn refused(error: VolumeError) -> AdminError {
    match error {
        VolumeError::Fs(FsError::NoSuchVersion) => AdminError::NotInTrash,
        VolumeError::Fs(error) => error.into(),
        error => error.into(),
    }
}
