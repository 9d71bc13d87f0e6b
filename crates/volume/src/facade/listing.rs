//! Listing the keys of a bucket.
//!
//! For example, `ListObjectsV2` with the delimiter `/` calls [`Volume::list`] once for each page.

use namespace::{Halt, ListQuery, ListStart, Listing, NamedBucket, WalkStep};
use session::corrupt;

use crate::{Volume, VolumeError};

impl Volume {
    /// Returns a page of a bucket's keys, in their order. A page of one directory costs one round
    /// trip if the directories above it are cached. While the session is alone or has leases, it
    /// keeps the page, and the next listing costs no round trip for the parts that are unchanged.
    pub async fn list(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        query: ListQuery,
    ) -> Result<Listing, VolumeError> {
        let _reading = self.session.reading();
        let start = ListStart { bucket: bucket.into(), query: &query };
        let mut walk = self.session.run_client_listing(&start).await?;
        loop {
            match walk.advance() {
                Ok(WalkStep::Page(page)) => return Ok(page),
                Ok(WalkStep::Read(reads)) => {
                    walk.learn(self.session.read_client_pages(&reads).await?);
                }
                Err(Halt::Corrupt(key, error)) => return Err(corrupt(&key, &error)),
                Err(Halt::Fail(error)) => return Err(error.into()),
                Err(Halt::Need) => unreachable!("a walk reads by its steps"),
            }
        }
    }
}
