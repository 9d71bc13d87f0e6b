//! Forks of buckets.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::BlockStore;
use namespace::FsError;
use session::{SessionOptions, VolumeError};
use volume::{ForkWatch, Forked, Volume, VolumeOptions};

use crate::bucket::parse;
use crate::{Admin, AdminError};

/// A bucket that is to be made of another one.
#[derive(Clone, Copy, Debug)]
pub struct BucketFork<'a> {
    /// The bucket that is there.
    pub source: &'a str,
    /// The name of the new one.
    pub target: &'a str,
    /// Whether nobody else uses the metadata store. Then sessions that look open are left over from
    /// processes that were killed, and are ended.
    pub sole: bool,
}

impl Admin {
    /// Makes a bucket that holds what another one holds now, in a session of its own: see
    /// [`Volume::fork_bucket`]. It is ended when `stop` returns. What was made until then stays.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], [`AdminError::BucketName`], [`AdminError::NoSuchBucket`],
    /// [`AdminError::BucketExists`], [`AdminError::Interrupted`], [`AdminError::ForkTaken`], and if
    /// the volume cannot be opened, or a store fails.
    pub async fn fork_bucket(
        &self,
        blocks: Arc<dyn BlockStore>,
        fork: BucketFork<'_>,
        watch: &dyn ForkWatch,
        stop: impl Future<Output = ()>,
    ) -> Result<Forked, AdminError> {
        let (source, target) = (parse(fork.source)?, parse(fork.target)?);
        self.check_volume().await?;
        let volume = self.volume(blocks, fork.sole).await?;
        let forking = volume.fork_bucket(source.as_str(), target.as_str(), watch);
        let forked = unless(forking, stop).await;
        volume.close().await;
        match forked {
            None => Err(AdminError::Interrupted),
            Some(Ok(forked)) => Ok(forked),
            Some(Err(VolumeError::Fs(FsError::BucketExists))) => Err(AdminError::BucketExists),
            Some(Err(VolumeError::Fs(FsError::KeepsVersions))) => Err(AdminError::ForkTaken),
            Some(Err(VolumeError::Fs(error))) => Err(error.into()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Opens the volume in a session of its own. `sole` says that nobody else uses the metadata store.
    pub(crate) async fn volume(
        &self,
        blocks: Arc<dyn BlockStore>,
        sole: bool,
    ) -> Result<Arc<Volume>, AdminError> {
        let session = SessionOptions {
            sole,
            place: self.surroundings.place.clone(),
            clock: Arc::clone(&self.surroundings.clock),
            creates_volume: false,
            ..SessionOptions::default()
        };
        let options = VolumeOptions { session, collect: false, ..VolumeOptions::default() };
        Ok(Volume::open(options, Arc::clone(&self.store), blocks).await?)
    }
}

/// What comes of work that is dropped when it is told to stop.
async fn unless<T>(work: impl Future<Output = T>, stop: impl Future<Output = ()>) -> Option<T> {
    let (mut work, mut stop) = (pin!(work), pin!(stop));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => stop.as_mut().poll(context).map(|()| None),
    })
    .await
}
