//! The settings of buckets.

use namespace::{BucketChange, FindBucket, FoundBucket, SetBucket};
use s3::BucketName;

use crate::{Admin, AdminError};

impl Admin {
    /// A bucket and its settings.
    ///
    /// # Errors
    /// [`AdminError::BucketName`], [`AdminError::NoSuchBucket`].
    pub async fn bucket(&self, name: &str) -> Result<FoundBucket, AdminError> {
        let name = parse(name)?;
        self.run(&FindBucket { name: name.as_str().as_bytes() }, None).await
    }

    /// Changes one of a bucket's settings; what is in it stays as it is.
    ///
    /// The change is made in a session, so that a gateway that was alone with the volume stops
    /// answering from memory. That may take a second. Gateways learn of the change from the change
    /// feed, as they learn of each other's changes.
    ///
    /// # Errors
    /// [`AdminError::BucketName`], [`AdminError::NoSuchBucket`], and if the store does not take it.
    pub async fn set_bucket(&self, name: &str, change: BucketChange) -> Result<(), AdminError> {
        let name = parse(name)?;
        let place = &self.surroundings.place;
        let short =
            session::begin_short_session(&*self.store, place, self.surroundings.clock.now())
                .await?;
        let set = SetBucket { name: name.as_str().as_bytes(), change };
        let done = self.run(&set, Some(&short)).await;
        short.leave(&*self.store).await;
        done
    }
}

fn parse(name: &str) -> Result<BucketName, AdminError> {
    let parsed = BucketName::parse(name);
    parsed.map_err(|fault| AdminError::BucketName(fault.message.into_owned()))
}
