//! Changes of an object's tags, ACL or lock.
//!
//! Policies may depend on the tags, the lock and the owner of an object. The commit therefore
//! succeeds only if the object is still in the state for which the permissions were checked.
//!
//! For example, a client may change the tags of objects with the tag `team=a`. If another client
//! replaces the object after the check, the commit fails, and the gateway checks the permissions
//! for the new object.

use s3::operation::Permission;
use s3::{Fault, ObjectKey};
use volume::{FsError, Object, ObjectChange, VersionRef, VolumeError};

use crate::call::Call;
use crate::translate;

/// Changes the object that the request names. Returns its version id, if the bucket has versions.
///
/// `permissions` are those of the request, with the values from its body. The object is looked up
/// if a permission depends on it or if `needs_object` is true. `change` gets the object that was
/// looked up and returns the change; `None` if the object stays as it is.
pub(super) async fn object<'c>(
    call: &Call<'_>,
    permissions: &[Permission],
    needs_object: bool,
    change: impl Fn(Option<&Object>) -> Result<Option<ObjectChange<'c>>, Fault>,
) -> Result<Option<VersionRef>, Fault> {
    let version = translate::version(call.arguments().version()?.as_ref())?;
    let (name, key) = call.object()?;
    let (bucket, bytes) = (call.named_bucket()?, key.as_str().as_bytes());
    let needs_object = needs_object || call.depends_on_object(permissions)?;
    let mut tries = call.volume.tries();
    loop {
        // If another client changes the object between this lookup and the commit, the commit fails
        // with `OtherObject`, and the loop checks the permissions for the new object.
        let found_or_absent =
            if needs_object { Some(find(call, key, version).await?) } else { None };
        let found = found_or_absent.as_ref().and_then(|found| found.as_ref().ok());
        call.require_permissions_for_object(permissions, found).await?;
        if let Some(Err(absent)) = found_or_absent {
            return Err(absent);
        }
        let Some(change) = change(found)? else { return Ok(None) };
        let changed = call.volume.change_object(bucket, bytes, version, found, change);
        match tries.run(changed).await {
            Ok(version) => return Ok(version),
            Err(VolumeError::Fs(FsError::OtherObject)) if tries.again(found).await => {}
            Err(error) => return Err(translate::no_object(translate::bucket_fault(name, error))),
        }
    }
}

/// Finds the object. The inner error is the fault for a missing object, a missing version or a
/// delete marker. It is returned separately because only a client with the permission may see it.
pub(super) async fn find(
    call: &Call<'_>,
    key: &ObjectKey,
    version: Option<VersionRef>,
) -> Result<Result<Object, Fault>, Fault> {
    match call.volume.stat_version(call.named_bucket()?, key.as_str().as_bytes(), version).await {
        Ok(object) => Ok(Ok(object)),
        Err(VolumeError::Fs(
            error @ (FsError::NoSuchKey
            | FsError::NoSuchVersion
            | FsError::Deleted(_)
            | FsError::IsMarker(..)),
        )) => Ok(Err(translate::no_object(translate::fault(error)))),
        Err(error) => Err(translate::bucket_fault(call.bucket()?, error)),
    }
}

#[cfg(test)]
mod tests;
