//! The settings of buckets.

use namespace::{BucketChange, FindBucket, FoundBucket, Planner, SetBucket, SetBucketConfig};
use record::BucketConfigKind;
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
        self.in_session(&SetBucket { name: name.as_str().as_bytes(), change }).await
    }
}

impl Admin {
    /// Removes what a bucket is set to do, of one kind, as if it had never been set: the way out for
    /// an account that has locked itself out by a policy. It is made as [`Admin::set_bucket`] is.
    ///
    /// # Errors
    /// Those of [`Admin::set_bucket`].
    pub async fn clear_bucket(&self, name: &str, kind: BucketConfigKind) -> Result<(), AdminError> {
        let name = parse(name)?;
        let set = SetBucketConfig { name: name.as_str().as_bytes(), kind, value: None };
        self.in_session(&set).await
    }

    /// Makes a change of what gateways remember.
    async fn in_session(
        &self,
        change: &(impl Planner<Output = ()> + Sync),
    ) -> Result<(), AdminError> {
        let place = &self.surroundings.place;
        let short =
            session::begin_short_session(&*self.store, place, self.surroundings.clock.now())
                .await?;
        let done = self.run(change, Some(&short)).await;
        short.leave(&*self.store).await;
        done
    }
}

pub(crate) fn parse(name: &str) -> Result<BucketName, AdminError> {
    let parsed = BucketName::parse(name);
    parsed.map_err(|fault| AdminError::BucketName(fault.message.into_owned()))
}
