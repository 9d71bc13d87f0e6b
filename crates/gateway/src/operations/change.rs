//! Changes of what S3 keeps with an object: its tags, its access control list, its lock.
//!
//! Policies may ask for the tags, the lock and the owner of the object, and an access control list
//! belongs to one object. The commit therefore changes the very object about which the permissions
//! were asked, as it was then. For example, a client may change the tags of objects with the tag
//! `team=a`. If another client replaces the object after the permission was asked, the commit fails,
//! and the permission is asked about the new object.

use s3::operation::Permission;
use s3::{Fault, ObjectKey};
use volume::{Backoff, FsError, Object, ObjectChange, VersionRef, VolumeError};

use crate::call::Call;
use crate::translate;

/// Changes the object that the request names. `change` says how, by the object if that was looked
/// at. Returns the version, if the bucket keeps any.
///
/// `permissions` are those of the request, with the values that its body has. The object is looked
/// at if one of them depends on it, or if `looks` is true. `change` returns nothing if the object
/// stays as it is.
pub(super) async fn object<'c>(
    call: &Call<'_>,
    permissions: &[Permission],
    looks: bool,
    change: impl Fn(Option<&Object>) -> Result<Option<ObjectChange<'c>>, Fault>,
) -> Result<Option<VersionRef>, Fault> {
    let version = translate::version(call.arguments().version()?.as_ref())?;
    let (name, key) = call.object()?;
    let (bucket, bytes) = (call.named_bucket()?, key.as_str().as_bytes());
    let looks = looks || call.object_decides(permissions)?;
    let mut backoff = Backoff::default();
    loop {
        let judged = if looks { Some(find(call, key, version).await?) } else { None };
        let found = judged.as_ref().and_then(|found| found.as_ref().ok());
        call.demand_about(permissions, found).await?;
        if let Some(Err(absent)) = judged {
            return Err(absent);
        }
        let Some(change) = change(found)? else { return Ok(None) };
        match call.volume.change_object(bucket, bytes, version, found, change).await {
            Ok(version) => return Ok(version),
            Err(VolumeError::Fs(FsError::OtherObject)) if backoff.pause().await => {}
            Err(error) => return Err(translate::no_object(translate::on(name, error))),
        }
    }
}

/// Finds the object. The inner fault says that there is none, which only clients with the permission
/// may know.
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
        Err(error) => Err(translate::on(call.bucket()?, error)),
    }
}

#[cfg(test)]
mod tests;
