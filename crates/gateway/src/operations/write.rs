//! Writes of one object.

use http::StatusCode;
use record::Tag;
use s3::conditions::{WritePrecondition, failed};
use s3::request::PutObject;
use s3::{Code, Fault};
use volume::{FsError, NewObject, VolumeError, opaque_tag};

use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::{self, EtagKind, Placement};
use crate::response::S3Response;
use crate::translate::{self, condition_name, etag, shown_sum, write_condition};

pub(super) async fn put_object(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let request = PutObject::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let (bucket, key) = (bucket.as_str(), key.as_str().as_bytes());
    // What can be refused before the body arrives is refused here. The commit decides again.
    let etag_kind = etag_kind(call, bucket).await?;
    refuse_early(call, bucket, key, &request.condition).await?;

    let received = receive::content(call, body, Placement::Any, etag_kind).await?;
    let tag = match (etag_kind, received.md5) {
        (EtagKind::Md5, Some(md5)) => Tag::Md5(md5),
        _ => Tag::opaque(opaque_tag().map_err(translate::fault)?),
    };
    let new = NewObject {
        owner: call.owner(),
        headers: translate::object_headers(request.metadata, request.tags.as_slice()),
        tag,
        sums: received.sums,
    };
    let condition = write_condition(&request.condition);
    let published = call.volume.put(bucket, key, received.staged, new, condition).await;
    let published = published.map_err(|error| refusal(error, &request.condition))?;
    let mut response = S3Response::empty(StatusCode::OK);
    response.etag(&published.tag);
    if let Some(sum) = shown_sum(&published.sums) {
        response.checksum(sum, 1);
    }
    Ok(response)
}

/// The kind of entity tag that uploads into a bucket get, as this process last saw the bucket. That
/// needs no round trip, and a change is noticed soon. Faults if the bucket is known to be gone.
pub(super) async fn etag_kind(call: &Call<'_>, bucket: &str) -> Result<EtagKind, Fault> {
    let found = call.volume.remembered_bucket(bucket).await.map_err(translate::fault)?;
    Ok(if found.bucket.opaque_tags { EtagKind::Opaque } else { EtagKind::Md5 })
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
        Err(VolumeError::Fs(FsError::NoSuchKey)) => condition.check(None),
        Err(error) => Err(translate::fault(error)),
    }
}

/// The fault of a write that did not happen.
pub(super) fn refusal(error: VolumeError, condition: &WritePrecondition) -> Fault {
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => failed(condition_name(condition)),
        // Without a precondition the client has nothing to decide again: it only has to retry.
        VolumeError::Fs(FsError::Contended) if *condition == WritePrecondition::None => {
            Code::SlowDown.into()
        }
        other => translate::fault(other),
    }
}
