//! Deletes and renames that apply only to the object by which the caller has decided.
//!
//! A caller finds an object, decides by its tags or its lock that a client may delete it, and
//! deletes it. In between another client can replace the object. For example, a client may delete
//! objects with the tag `team=a`, and another client puts an object with the tag `team=b` under the
//! key. So the commit guards the object, and the caller decides again if it has changed.

use namespace::{
    Branch, Env, Exempt, FoundObject, FsError, Halt, Lookup, NamedBucket, Path, Planner, Removal,
    Remove, RemoveCondition, RemoveVersion, RemovedKey, RemovedVersion, Step, View,
};
use record::VersionRef;
use store::Guard;

use super::Object;
use crate::{Volume, VolumeError};

/// The object by which a caller has decided about a delete or a rename. If the key has another
/// object at the commit, the operation fails, and the caller decides again.
#[derive(Clone, Copy, Debug, Default)]
pub enum ObjectExpectation<'a> {
    /// The decision does not depend on the object: any object is accepted.
    #[default]
    Any,
    /// The caller found no object. The operation fails with `OtherObject` if there is one.
    Absent,
    /// The caller found this object. The operation fails with `OtherObject` if the key has another
    /// one.
    Object(&'a Object),
}

/// An operation on the object at `path` that is carried out only if the object is the expected one
/// and the condition holds, both at the commit.
#[derive(Debug)]
pub(super) struct IfExpected<'a, P> {
    pub(super) path: &'a Path,
    pub(super) version: Option<VersionRef>,
    pub(super) expected: ObjectExpectation<'a>,
    pub(super) condition: Option<&'a RemoveCondition>,
    pub(super) operation: P,
}

impl<P: Planner> Planner for IfExpected<'_, P> {
    type Output = P::Output;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<P::Output>, Halt> {
        // Without an expectation the operation needs no lookup.
        if matches!(self.expected, ObjectExpectation::Any) && self.condition.is_none() {
            return self.operation.plan(view, env);
        }
        let lookup = Lookup { path: self.path, version: self.version };
        // Both ask for their records in one pass, so the lookup costs no round trip of its own.
        let (found, planned) = (lookup.find(view), self.operation.plan(view, env));
        let guard = match found {
            Ok(found) => self.accept(&found)?,
            Err(Halt::Fail(error)) if is_absence(&error) => self.accept_absence(error)?,
            Err(halt) => return Err(halt),
        };
        let mut step = planned?;
        if let Step::Commit(plan, _) = &mut step {
            // The operation itself guards the name, also if there is no object.
            plan.guards.extend(guard.filter(|guard| !plan.guards.contains(guard)));
        }
        Ok(step)
    }
}

impl<P> IfExpected<'_, P> {
    /// Fails if this is not the expected object, or the condition does not hold. Returns the guard
    /// that the object stays as it is.
    fn accept(&self, found: &FoundObject) -> Result<Option<Guard>, Halt> {
        let is_expected = match self.expected {
            ObjectExpectation::Any => true,
            ObjectExpectation::Absent => false,
            ObjectExpectation::Object(expected) => is_same(expected, found),
        };
        if !is_expected {
            return Err(FsError::OtherObject.into());
        }
        if self.condition.is_some_and(|condition| !condition.accepts(&found.inode)) {
            return Err(FsError::PreconditionFailed.into());
        }
        // A directory that S3 shows as an object has no properties by which a caller decides.
        let file = found.inode.file();
        Ok(file.map(|_| Guard::Equals(record::key::inode(found.ino), found.record.clone())))
    }

    /// Handles a key without an object. Fails with `OtherObject` if the caller expects one, and
    /// with `error` if there is a condition. `error` is the reason for which there is no object.
    fn accept_absence(&self, error: FsError) -> Result<Option<Guard>, Halt> {
        match self.expected {
            ObjectExpectation::Object(_) => Err(FsError::OtherObject.into()),
            ObjectExpectation::Any | ObjectExpectation::Absent if self.condition.is_some() => {
                Err(error.into())
            }
            ObjectExpectation::Any | ObjectExpectation::Absent => Ok(None),
        }
    }
}

/// Returns true if the error means that there is no object.
fn is_absence(error: &FsError) -> bool {
    matches!(
        error,
        FsError::NoSuchKey | FsError::NoSuchVersion | FsError::Deleted(_) | FsError::IsMarker(..)
    )
}

/// Returns true if this is the expected object with the same owner and the same S3 metadata.
fn is_same(expected: &Object, found: &FoundObject) -> bool {
    let kept = match (expected.inode.file(), found.inode.file()) {
        (Some(seen), Some(now)) => seen.writer == now.writer && seen.object == now.object,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    expected.ino == found.ino && kept
}

impl Volume {
    /// Removes the current object of a key, as [`Volume::delete`] does, if it is the expected one
    /// and the condition holds at the commit.
    ///
    /// # Errors
    /// [`FsError::OtherObject`] if the key has another object than the expected one;
    /// [`FsError::PreconditionFailed`] if the condition does not hold, and [`FsError::NoSuchKey`]
    /// if there is a condition and no object; [`FsError::NoSuchBucket`].
    pub async fn delete_expected(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        expected: ObjectExpectation<'_>,
        condition: Option<RemoveCondition>,
    ) -> Result<RemovedKey, VolumeError> {
        let bucket = bucket.into();
        let path = Path::new(bucket, key);
        let removals = vec![Removal { name: path.name.clone(), condition }];
        let branches = [Branch { directories: path.directories.clone(), removals }];
        let operation = Remove { bucket, branches: &branches };
        let operation =
            IfExpected { path: &path, version: None, expected, condition: None, operation };
        let removed = self.session.run(&operation).await?;
        self.session.wake_reaper();
        removed.into_iter().next().unwrap_or_else(|| Ok(RemovedKey::default())).map_err(Into::into)
    }

    /// Removes one version of a key, or a delete marker, for good. If it was the current version or
    /// the newest delete marker, the next older version becomes the current one.
    /// `bypasses_governance` is true if a retention in governance mode does not keep the version.
    ///
    /// # Errors
    /// [`FsError::Locked`] if a retention or a legal hold keeps the version;
    /// [`FsError::NoSuchVersion`] if the key is bound to a directory; [`FsError::NoSuchBucket`].
    pub async fn delete_version(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: VersionRef,
        bypasses_governance: bool,
    ) -> Result<RemovedVersion, VolumeError> {
        let unconditional = (ObjectExpectation::Any, None);
        self.delete_expected_version(bucket, key, version, bypasses_governance, unconditional).await
    }

    /// As [`Volume::delete_version`], if the version is the expected object and the condition
    /// holds.
    ///
    /// # Errors
    /// As [`Volume::delete_version`]; [`FsError::OtherObject`] if the version is another object
    /// than the expected one, which can happen with the version `null`, or if its tags or its lock
    /// have changed; [`FsError::PreconditionFailed`]; and the errors of a lookup if there is a
    /// condition and no object.
    pub async fn delete_expected_version(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: VersionRef,
        bypasses_governance: bool,
        (expected, condition): (ObjectExpectation<'_>, Option<&RemoveCondition>),
    ) -> Result<RemovedVersion, VolumeError> {
        let path = Path::new(bucket, key);
        // If an older version becomes current, its directories may have to be created again.
        let fresh = self.session.allocate_inodes(path.directories.len()).await?;
        let operation = RemoveVersion {
            path: &path,
            version,
            fresh: &fresh,
            bypasses_governance,
            exempt: Exempt::Nothing,
            object_tags: None,
        };
        let version = Some(version);
        let operation = IfExpected { path: &path, version, expected, condition, operation };
        let removed = self.session.run(&operation).await?;
        self.session.wake_reaper();
        Ok(removed)
    }
}
