//! Binding a key to bytes that were sent, and what every write checks before they are.

use record::{ObjectHeaders, Tag};
use s3::conditions::{WritePrecondition, failed};
use s3::request::PutObject;
use s3::{Code, Fault};
use volume::{FsError, NewObject, PublishedObject, VolumeError, opaque_tag};

use super::{acl, locks};
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::{self, EtagKind, Placement};
use crate::translate::{self, condition_name, etag, write_condition};

/// Receives the bytes of an object and binds it to its key, in place of the one that has it.
pub(super) async fn replace(
    call: &Call<'_>,
    request: PutObject,
    body: HttpBody,
) -> Result<(PublishedObject, u64), Fault> {
    let (bucket, key) = call.object()?;
    let key = key.as_str().as_bytes();
    // What can be refused before the body arrives is refused here. The commit decides again.
    let owner = call.owner(request.acl.as_ref())?;
    let acl = acl::of_new(call, request.acl.as_ref(), &owner)?;
    let lock = locks::of_new(call)?;
    let etag_kind = etag_kind(call)?;
    refuse_early(call, bucket.as_str(), key, &request.condition).await?;

    let received = receive::content(call, body, Placement::Any, etag_kind).await?;
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
    };
    let condition = write_condition(&request.condition);
    let size = received.staged.size();
    let bucket = call.named_bucket()?;
    let published = call.volume.put(bucket, key, received.staged, new, condition).await;
    published.map_err(|error| refusal(error, &request.condition)).map(|published| (published, size))
}

/// The kind of entity tag that uploads into a bucket get, as this process last saw the bucket. That
/// needs no round trip, and a change is noticed soon.
pub(super) fn etag_kind(call: &Call<'_>) -> Result<EtagKind, Fault> {
    let opaque = call.rules()?.settings.opaque_tags;
    Ok(if opaque { EtagKind::Opaque } else { EtagKind::Md5 })
}

/// Refuses a write whose precondition does not hold now.
pub(super) async fn refuse_early(
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

/// The fault of a write that did not happen.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the table of `translate::fault` has the others"
)]
pub(super) fn refusal(error: VolumeError, condition: &WritePrecondition) -> Fault {
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => failed(condition_name(condition)),
        // The client that states a condition decides again. Any other only retries.
        VolumeError::Fs(FsError::Contended) if *condition != WritePrecondition::None => {
            Code::ConditionalRequestConflict.into()
        }
        error => translate::fault(error),
    }
}

#[cfg(test)]
mod tests;
