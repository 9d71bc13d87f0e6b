//! Changes of files that noncurrent versions bind.
//!
//! A noncurrent version, that is, an earlier version of an object, never changes. If a program
//! writes to a file that is such a version, because it has the file open or the file has another
//! hard link, the versions first get a copy of the file by reference. Then the program's change
//! meets a file that no version binds. For example, an S3 client overwrites `log` in a versioned
//! bucket while a program appends to it: the old version keeps the bytes that it had.

use std::future::Future;

use namespace::{Assumption, DetachVersions, FoundNode, FsError, Lookup, NodeName, Path};
use record::{Ino, InodeBody, Kind, VersionRef, key};

use super::fork::entry::FileParts;
use crate::{Volume, VolumeError};

/// Tries of a change that meets noncurrent versions. Another client may overwrite another hard link
/// of the file in between.
const DETACH_ATTEMPTS_MAX: u32 = 16;

impl Volume {
    /// Gives the noncurrent versions (and items of a trash) that bind a file a copy of it by
    /// reference, so that the file itself may change. No data moves. Does nothing if no version
    /// binds the file.
    ///
    /// # Errors
    /// [`FsError::Contended`] if the file changed each time that it was copied,
    /// [`FsError::QuotaExceeded`] if the bucket may not hold it once more, and
    /// [`VolumeError::Refused`] if it has more extended attributes than one plan carries.
    pub async fn detach_versions(&self, ino: Ino) -> Result<(), VolumeError> {
        for _ in 0..DETACH_ATTEMPTS_MAX {
            let found = self.find_node(ino).await?;
            match self.detach_from(&found).await {
                Err(VolumeError::Fs(FsError::SourceChanged)) => {}
                detached => return detached.map(|_| ()),
            }
        }
        Err(FsError::Contended.into())
    }

    async fn detach_from(&self, found: &FoundNode) -> Result<bool, VolumeError> {
        let source = found.ino;
        let file = found.inode.file().ok_or(FsError::IsADirectory)?;
        let [copy_ino] = self.fresh().await?;
        let FileParts { content, writes } = self.file_parts(source, file, copy_ino).await?;
        let long = self.long_xattrs(source, &found.inode, copy_ino).await?;
        let long = long.ok_or(FsError::SourceChanged)?;
        let mut copy = found.inode.clone();
        if let (InodeBody::File(file), Some(content)) = (&mut copy.body, content) {
            file.content = content;
        }
        // The copy must be of the file as it was found, or the versions would change.
        let staged = self.stage(copy_ino, &[unchanged(found)], writes).await?;
        let writes = [staged.writes(), &long].concat();
        let record = &found.record;
        let operation =
            DetachVersions { ino: source, record, copy_ino, copy: &copy, writes: &writes };
        match self.session.run(&operation).await {
            Ok(true) => {
                self.session.wake_reaper();
                Ok(true)
            }
            // No version binds the file any more, so the records that were staged for the copy are
            // taken back.
            Ok(false) => {
                self.unstage(staged, &FsError::NotCurrent.into()).await;
                Ok(false)
            }
            Err(error) => {
                self.unstage(staged, &error).await;
                Err(error)
            }
        }
    }

    /// Runs a change of the file `ino`. If it fails because noncurrent versions bind the file,
    /// detaches them and runs it again, as [`Volume::detaching_files`] does.
    pub(super) async fn detaching<T, F>(
        &self,
        ino: Ino,
        change: impl Fn() -> F,
    ) -> Result<T, VolumeError>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        self.detaching_files(change, || async move { Ok(vec![ino]) }).await
    }

    /// Runs a change of the files with these names. If it fails because noncurrent versions bind
    /// one of them, detaches the versions and runs it again, as [`Volume::detaching_files`] does.
    pub(super) async fn detaching_names<T, F>(
        &self,
        names: [&NodeName; 2],
        change: impl Fn() -> F,
    ) -> Result<T, VolumeError>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        let files = || async move {
            let mut files = Vec::new();
            for name in names {
                match self.find_name(name).await {
                    Ok(found) if found.inode.kind() == Kind::File => files.push(found.ino),
                    Ok(_) | Err(VolumeError::Fs(FsError::NoSuchKey)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(files)
        };
        self.detaching_files(change, files).await
    }

    /// Runs a change of the object at `path`, or of one of its versions. If it fails because
    /// noncurrent versions bind the file, detaches them and runs it again, as
    /// [`Volume::detaching_files`] does.
    pub(super) async fn detaching_object<T, F>(
        &self,
        path: &Path,
        version: Option<VersionRef>,
        change: impl Fn() -> F,
    ) -> Result<T, VolumeError>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        let lookup = Lookup { path, version };
        let files = || async { Ok(vec![self.session.run(&lookup).await?.ino]) };
        self.detaching_files(change, files).await
    }

    /// Runs a change. If it fails because noncurrent versions bind a file, gives these versions
    /// copies of `files` and runs the change again.
    ///
    /// # Errors
    /// [`FsError::Contended`] if other clients make noncurrent versions of the files each time.
    async fn detaching_files<T, F, G>(
        &self,
        change: impl Fn() -> F,
        files: impl Fn() -> G,
    ) -> Result<T, VolumeError>
    where
        F: Future<Output = Result<T, VolumeError>>,
        G: Future<Output = Result<Vec<Ino>, VolumeError>>,
    {
        for _ in 0..DETACH_ATTEMPTS_MAX {
            match change().await {
                Err(VolumeError::Fs(FsError::NotCurrent)) => {}
                done => return done,
            }
            for file in files().await? {
                self.detach_versions(file).await?;
            }
        }
        Err(FsError::Contended.into())
    }
}

/// Returns the assumption that the file is as it was copied.
fn unchanged(found: &FoundNode) -> Assumption {
    let (key, value) = (key::inode(found.ino), found.record.clone());
    Assumption { key, value, otherwise: FsError::SourceChanged }
}
