//! Forks of buckets: new buckets with the content of an existing one, by reference.
//!
//! For example, a fork of `data` as `data-test` copies no block. It makes names and inodes in a
//! session of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::BlockStore;
use namespace::{FsError, NamedBucket};
use record::Ino;
use session::VolumeError;
use volume::{ForkWatch, Forked, Volume, VolumeOptions};

use crate::bucket::parse;
use crate::{Admin, AdminError};

/// The parameters of a fork, which makes a new bucket with the content of an existing one.
#[derive(Clone, Copy, Debug)]
pub struct BucketFork<'a> {
    /// The name of the existing bucket.
    pub source: &'a str,
    /// The inode number that the existing bucket must have, if the permissions of a client were
    /// checked for it.
    pub source_ino: Option<Ino>,
    /// The name of the new bucket.
    pub target: &'a str,
    /// True if no other process uses the metadata store. Open sessions then belong to processes
    /// that were killed, and are fenced, that is, ended from outside, without a wait.
    pub sole: bool,
}

impl Admin {
    /// Creates a bucket with the current content of another one, in a session of its own; see
    /// [`volume::Volume::fork_bucket`]. If `stop` completes, the fork ends and the part that exists
    /// remains.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], [`AdminError::BucketName`], [`AdminError::NoSuchBucket`],
    /// [`AdminError::BucketExists`], [`AdminError::Interrupted`],
    /// [`AdminError::ForkTargetChanged`], and if the volume cannot be opened, or a store fails.
    pub async fn fork_bucket(
        &self,
        blocks: Arc<dyn BlockStore>,
        fork: BucketFork<'_>,
        watch: &dyn ForkWatch,
        stop: impl Future<Output = ()>,
    ) -> Result<Forked, AdminError> {
        let (source, target) = (parse(fork.source)?, parse(fork.target)?);
        self.check_volume().await?;
        let opened = self.volume(blocks, fork.sole).await?;
        let source = NamedBucket { name: source.as_str().as_bytes(), ino: fork.source_ino };
        let forking = opened.volume.fork_bucket(source, target.as_str(), watch);
        let forked = until_stopped(forking, stop).await;
        // The session ends before the result is returned, also after an error.
        opened.close().await;
        match forked {
            None => Err(AdminError::Interrupted),
            Some(Ok(forked)) => Ok(forked),
            Some(Err(VolumeError::Fs(FsError::BucketExists))) => Err(AdminError::BucketExists),
            Some(Err(VolumeError::Fs(FsError::KeepsVersions))) => {
                Err(AdminError::ForkTargetChanged)
            }
            Some(Err(VolumeError::Fs(error))) => Err(error.into()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Returns the volume of this process, or opens it in a session of its own. `sole` is true if
    /// no other process uses the metadata store: sessions that are still open are then ended
    /// without a wait.
    pub(crate) async fn volume(
        &self,
        blocks: Arc<dyn BlockStore>,
        sole: bool,
    ) -> Result<OpenVolume, AdminError> {
        if let Some(volume) = &self.volume {
            return Ok(OpenVolume { volume: Arc::clone(volume), is_own: false });
        }
        let session = self.session_options(sole);
        let options = VolumeOptions { session, ..VolumeOptions::default() };
        let volume = Volume::open(options, Arc::clone(&self.store), blocks).await?;
        Ok(OpenVolume { volume, is_own: true })
    }
}

/// A volume that an operation uses.
#[derive(Debug)]
pub(crate) struct OpenVolume {
    pub(crate) volume: Arc<Volume>,
    /// True if the operation has opened the volume.
    is_own: bool,
}

impl OpenVolume {
    /// Ends the session if the operation has begun it.
    pub(crate) async fn close(self) {
        if self.is_own {
            self.volume.close().await;
        }
    }
}

/// Returns the result of `work`, or `None` if `stop` completes first. `work` is polled first, so a
/// result that is ready is never lost.
async fn until_stopped<T>(
    work: impl Future<Output = T>,
    stop: impl Future<Output = ()>,
) -> Option<T> {
    let (mut work, mut stop) = (pin!(work), pin!(stop));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => stop.as_mut().poll(context).map(|()| None),
    })
    .await
}
