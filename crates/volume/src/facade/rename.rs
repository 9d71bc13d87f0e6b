//! Renaming an object.

use namespace::{NamedBucket, ObjectCondition, Path, RenameKey};
use record::RenameToken;

use super::expected::{ExpectedObject, IfExpected};
use crate::{Volume, VolumeError};

/// What must hold for an object to be renamed.
#[derive(Clone, Debug, Default)]
pub struct RenameConditions<'a> {
    /// What the caller has found under the old key.
    pub expected: ExpectedObject<'a>,
    /// What must hold of it.
    pub source: ObjectCondition,
    /// What must hold of the object that has the new key, if there is one.
    pub target: ObjectCondition,
}

impl Volume {
    /// Gives an object another key of its bucket, in one commit, in place of the object that has it.
    /// A request that was carried out already, by its token, is carried out no more.
    ///
    /// # Errors
    /// [`namespace::FsError::NoSuchKey`], [`namespace::FsError::PreconditionFailed`],
    /// [`namespace::FsError::OtherObject`]; [`namespace::FsError::TooDeep`] if both keys have so many
    /// directories that no commit can make and remove them at once.
    pub async fn rename(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        from: &[u8],
        to: &[u8],
        conditions: &RenameConditions<'_>,
        token: Option<RenameToken>,
    ) -> Result<(), VolumeError> {
        let bucket = bucket.into();
        let (from, to) = (Path::new(bucket, from), Path::new(bucket, to));
        let fresh = self.session.allocate_inodes(to.directories.len()).await?;
        let operation = RenameKey {
            from: &from,
            to: &to,
            fresh: &fresh,
            source: &conditions.source,
            target: &conditions.target,
            overlap: self.overlap(bucket),
            token,
        };
        let expected = conditions.expected;
        let operation =
            IfExpected { path: &from, version: None, expected, condition: None, operation };
        let renamed = self.detaching_object(&from, None, || self.session.run(&operation)).await?;
        if renamed.replaced.is_some() {
            self.session.wake_reaper();
        }
        Ok(())
    }
}
