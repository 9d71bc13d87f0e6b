//! Renaming an object, as S3's `RenameObject` does.
//!
//! For example, a rename of `a/x` to `b/x` replaces the object `b/x` in the same commit, so readers
//! of `b/x` see the old object or the new one.

use namespace::{NamedBucket, ObjectCondition, Path, RenameKey};
use record::RenameToken;

use super::expected::{IfExpected, ObjectExpectation};
use crate::{Volume, VolumeError};

/// The conditions under which an object gets another key.
#[derive(Clone, Debug, Default)]
pub struct RenameConditions<'a> {
    /// The object that the caller has found under the old key.
    pub expected: ObjectExpectation<'a>,
    /// The condition on that object.
    pub source: ObjectCondition,
    /// The condition on the object that has the new key, if there is one.
    pub target: ObjectCondition,
}

impl Volume {
    /// Gives an object another key of its bucket, in one commit, in place of the object that has
    /// that key. `token` identifies the request: if a request with the same token was carried out
    /// already, nothing changes.
    ///
    /// # Errors
    /// [`namespace::FsError::NoSuchKey`], [`namespace::FsError::PreconditionFailed`],
    /// [`namespace::FsError::OtherObject`]; [`namespace::FsError::TooDeep`] if both keys have so
    /// many directories that one commit cannot create and remove them.
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
        // Directories of the new key may be missing, and are created in the same commit.
        let fresh = self.session.allocate_inodes(to.directories.len()).await?;
        let operation = RenameKey {
            from: &from,
            to: &to,
            fresh: &fresh,
            source: &conditions.source,
            target: &conditions.target,
            token,
        };
        let expected = conditions.expected;
        let operation =
            IfExpected { path: &from, version: None, expected, condition: None, operation };
        // A noncurrent version that binds the file gets its own copy first, because the rename
        // changes the inode.
        let renamed = self.detaching_object(&from, None, || self.session.run(&operation)).await?;
        if renamed.replaced.is_some() {
            self.session.wake_reaper();
        }
        Ok(())
    }
}
