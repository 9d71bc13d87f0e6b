//! Publishes uploaded content, that is, binds a key to it, with the checks that all writes make
//! before their body.
//!
//! For example, a PUT with `If-None-Match: *` to an existing key fails before its body is read. If
//! another client creates the object during the body, the commit fails.

use std::sync::Arc;

use record::{Encryption, ObjectHeaders, Tag};
use s3::conditions::{WritePrecondition, failed};
use s3::encryption::CustomerKey;
use s3::request::PutObject;
use s3::{Code, Fault};
use volume::{FsError, NewObject, ObjectMode, PublishedObject, VolumeError, opaque_tag};

use super::{acl, locks};
use crate::call::Call;
use crate::encryption;
use crate::http::HttpBody;
use crate::receive::{self, EtagKind, Placement};
use crate::translate::{self, condition_name, etag, write_condition};

/// An object that a request wrote.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) published: PublishedObject,
    /// The size of the object in bytes.
    pub(super) size: u64,
    /// The mode of the object's encryption.
    pub(super) encryption: Option<Encryption>,
    /// The key of the client, if the request has one.
    pub(super) customer_key: Option<Arc<CustomerKey>>,
}

/// Receives the content of an object and publishes it, that is, binds its key to it in one commit.
/// Replaces an existing object.
pub(super) async fn replace(
    call: &Call<'_>,
    request: PutObject,
    body: HttpBody,
) -> Result<Written, Fault> {
    let (bucket, key) = call.object()?;
    let key = key.as_str().as_bytes();
    // These early checks refuse a request before its body. The commit checks again.
    let owner = call.owner(request.acl.as_ref())?;
    let acl = acl::for_new_object(call, request.acl.as_ref(), &owner)?;
    let lock = locks::for_new_object(call)?;
    let mode = encryption::of_new_object(call, request.encryption.as_ref())?;
    let etag_kind = etag_kind(call, &mode)?;
    check_precondition(call, bucket.as_str(), key, &request.condition).await?;

    let placement = Placement::Any(&mode);
    let received = receive::content(call, body, placement, etag_kind).await?;
    let tag = match (etag_kind, received.md5) {
        (EtagKind::Md5, Some(md5)) => Tag::Md5(md5),
        (EtagKind::Md5, None) | (EtagKind::Opaque, _) => {
            Tag::opaque(opaque_tag().map_err(translate::fault)?)
        }
    };
    let new = NewObject {
        owner,
        headers: ObjectHeaders {
            acl,
            lock,
            ..translate::object_headers(request.metadata, request.tags.as_slice())
        },
        tag,
        sums: received.sums,
        encryption: mode.encryption().cloned(),
    };
    let condition = write_condition(&request.condition);
    let size = received.staged.size();
    let bucket = call.named_bucket()?;
    let published = call.volume.put(bucket, key, received.staged, new, condition).await;
    let published = published.map_err(|error| refusal(error, &request.condition))?;
    let customer_key = encryption::customer_key(request.encryption.as_ref()).cloned();
    Ok(Written { published, size, encryption: mode.encryption().cloned(), customer_key })
}

/// Returns the kind of entity tag for uploads into a bucket, from the cached record. This needs no
/// round trip, and a change of the setting arrives soon. Content under a key of the client gets an
/// opaque tag, as in S3: an MD5 would reveal a part of it.
pub(super) fn etag_kind(call: &Call<'_>, mode: &ObjectMode) -> Result<EtagKind, Fault> {
    let is_customers = matches!(mode.encryption(), Some(Encryption::Customer(_)));
    let opaque = is_customers || call.rules()?.settings.opaque_tags;
    Ok(if opaque { EtagKind::Opaque } else { EtagKind::Md5 })
}

/// Fails if the precondition of a write does not hold now.
pub(super) async fn check_precondition(
    call: &Call<'_>,
    bucket: &str,
    key: &[u8],
    condition: &WritePrecondition,
) -> Result<(), Fault> {
    if *condition == WritePrecondition::None {
        return Ok(());
    }
    match call.volume.stat(bucket, key).await {
        Ok(object) => condition.check(Some(&etag(object.tag()))),
        Err(VolumeError::Fs(FsError::NoSuchKey | FsError::Deleted(_))) => condition.check(None),
        Err(error) => Err(translate::fault(error)),
    }
}

/// Returns the fault, the error on the wire, of a failed write.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the table of `translate::fault` has the others"
)]
pub(super) fn refusal(error: VolumeError, condition: &WritePrecondition) -> Fault {
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => failed(condition_name(condition)),
        // A client with a condition must decide again. A client without one just retries.
        VolumeError::Fs(FsError::Contended) if *condition != WritePrecondition::None => {
            Code::ConditionalRequestConflict.into()
        }
        error => translate::fault(error),
    }
}

#[cfg(test)]
mod tests;
