//! Listings.

use namespace::{Halt, ListQuery, ListStart, Listing, NamedBucket, WalkStep};
use session::corrupt;

use crate::{Volume, VolumeError};

impl Volume {
    /// A page of a bucket's keys, in their order. A directory's page costs one round trip when the
    /// directories above it are remembered.
    pub async fn list(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        query: ListQuery,
    ) -> Result<Listing, VolumeError> {
        let _reading = self.session.reading();
        let start = ListStart { bucket: bucket.into(), query: &query };
        let mut walk = self.session.run(&start).await?;
        loop {
            match walk.advance() {
                Ok(WalkStep::Page(page)) => return Ok(page),
                Ok(WalkStep::Read(reads)) => walk.learn(self.session.read_coalesced(&reads).await?),
                Err(Halt::Corrupt(key, error)) => return Err(corrupt(&key, &error)),
                Err(Halt::Fail(error)) => return Err(error.into()),
                Err(Halt::Need) => unreachable!("a walk asks by its steps"),
            }
        }
    }
}
