//! Appends to an object: `PutObject` with `x-amz-write-offset-bytes`.
//!
//! An append keeps the object's metadata, tags and ACL. Those of the request have an effect only if
//! it creates the object. For example, an append with a `Content-Type` header to an existing object
//! does not change the type.

use record::{Sum, SumKind, Tag};
use s3::checksum::{Combined, combine};
use s3::conditions::WritePrecondition;
use s3::request::PutObject;
use s3::{Code, Fault};
use volume::{FsError, Object, PublishedObject, VolumeError, opaque_tag};

use super::publish::Written;
use super::{publish, read};
use crate::call::Call;
use crate::encryption;
use crate::http::HttpBody;
use crate::receive::{self, EtagKind, Placement};
use crate::translate::{self, checksum_algorithm, etag};

/// Appends to the object, in the mode of its encryption. If there is none and the offset is 0,
/// creates it.
///
/// Faults: `AccessDenied` if a policy needs a header of a new object and the object exists;
/// `InvalidWriteOffset` if the offset is not the object's size; `NoSuchKey` if there is no
/// object and the offset is not 0; `InvalidRequest` if the object has further hard links, because
/// the client's permissions do not cover their names; `ConditionalRequestConflict` if another
/// client changed the object meanwhile.
pub(super) async fn object(
    call: &Call<'_>,
    request: PutObject,
    body: HttpBody,
    offset: u64,
) -> Result<Written, Fault> {
    let Some(object) = find_at_offset(call, &request.condition, offset).await? else {
        // `If-None-Match: *` ensures that this write creates the object and does not replace one.
        let first = PutObject { condition: WritePrecondition::IfNoneMatchStar, ..request };
        // Another client may have created the object since the lookup.
        return publish::replace(call, first, body).await.map_err(|fault| {
            let was_created = fault.code == Code::PreconditionFailed;
            if was_created { Code::InvalidWriteOffset.into() } else { fault }
        });
    };
    // At another offset, the permissions never had the headers of a new object.
    if offset == 0 {
        require_permissions_to_append(call, &object).await?;
    }
    // All links share the content, and the client's permissions cover only this key.
    if object.file().links > 1 {
        return Err(Fault::because(
            Code::InvalidRequest,
            "The object has several hard links, and an append would change all of them.",
        ));
    }
    encryption::check_append(request.encryption.as_ref(), &object)?;
    let encryption = object.file().encryption.clone();
    let received =
        receive::content(call, body, Placement::Append(&object), EtagKind::Opaque).await?;
    // Without new bytes there is nothing to commit, and the entity tag stays.
    if received.bytes == 0 {
        let (tag, sums) = (*object.tag(), object.file().sums.clone());
        let published =
            PublishedObject { object_changed: object.changed(), tag, sums, version: None };
        return Ok(Written { published, size: offset, encryption, customer_key: None });
    }
    let sums = combined_sums(&object, &received.sums, received.bytes);
    let tag = Tag::opaque(opaque_tag().map_err(translate::fault)?);
    match call.volume.append(&object, received.staged, received.bytes, tag, sums).await {
        Ok(published) => {
            let size = offset + received.bytes;
            Ok(Written { published, size, encryption, customer_key: None })
        }
        Err(VolumeError::Fs(FsError::WrongSize)) => Err(Code::EntityTooLarge.into()),
        Err(VolumeError::Fs(FsError::SourceChanged)) => {
            find_at_offset(call, &request.condition, offset).await?;
            Err(Code::ConditionalRequestConflict.into())
        }
        Err(error) => Err(translate::fault(error)),
    }
}

/// Fails if the client lacks a permission of the request without the headers of a new object, which
/// have no effect on the existing object. For example, if a policy denies writes without
/// `x-amz-server-side-encryption`, an append with this header cannot change an object that was
/// stored without encryption.
async fn require_permissions_to_append(call: &Call<'_>, object: &Object) -> Result<(), Fault> {
    let mut permissions = call.permissions().to_vec();
    for permission in &mut permissions {
        permission.facts = permission.facts.of_append();
    }
    call.require_permissions_for_object(&permissions, Some(object)).await
}

/// Returns the object to which the request appends; `None` if there is none and the offset is 0, so
/// that the append creates it. Fails with `InvalidWriteOffset` if its size is not the offset, with
/// `NoSuchKey` if there is none and the offset is not 0, and if the condition does not hold.
async fn find_at_offset(
    call: &Call<'_>,
    condition: &WritePrecondition,
    offset: u64,
) -> Result<Option<Object>, Fault> {
    let found = match read::find(call, None).await {
        // A directory that a program made is not an object yet.
        Ok(object) => Some(object).filter(|object| object.inode.file().is_some()),
        Err(fault) if fault.code == Code::NoSuchKey => None,
        Err(fault) => return Err(fault),
    };
    condition.check(found.as_ref().map(|object| etag(object.tag())).as_deref())?;
    match &found {
        None if offset > 0 => Err(Code::NoSuchKey.into()),
        Some(object) if object.size() != offset => {
            let size = object.size().to_string();
            Err(Fault::new(Code::InvalidWriteOffset).with("ActualObjectSize", size))
        }
        _ => Ok(found),
    }
}

/// Returns the checksums of the extended object: those that can be combined from the object's
/// checksum and the checksum of the appended bytes. `bytes` is the number of appended bytes.
fn combined_sums(object: &Object, appended: &[Sum], bytes: u64) -> Vec<Sum> {
    let combine_one = |before: &Sum| {
        let is_same = |sum: &&Sum| sum.algorithm == before.algorithm;
        let of_appended = appended.iter().find(is_same)?;
        let pieces = [
            Combined { sum: &before.bytes, length: object.size() },
            Combined { sum: &of_appended.bytes, length: bytes },
        ];
        let bytes = combine(checksum_algorithm(before.algorithm), pieces)?;
        Some(Sum { algorithm: before.algorithm, kind: SumKind::FullObject, bytes })
    };
    let whole = object.file().sums.iter().filter(|sum| sum.kind == SumKind::FullObject);
    whole.filter_map(combine_one).collect()
}
