//! Copies by reference.

use http::StatusCode;
use s3::operation::Permission;
use s3::request::{CopyObject, Directive, PartNumber, UploadPartCopy};
use s3::response::{CopyObjectOutput, CopyPartOutput};
use s3::{Code, CopySource, Fault};
use volume::{FsError, Object, VolumeError};

use super::multipart::upload_id;
use crate::call::{Call, only_current};
use crate::response::S3Response;
use crate::translate::{self, checksum, etag, part_count, shown_sum, time, write_condition};

/// How often a copy starts again because its source has changed. Each time somebody else's write
/// went through, so only a key that is written without a pause comes close to this.
const SOURCE_TRIES: u32 = 64;

/// The most bytes of one `CopyObject`, and of a part (S3's limits: 5 GiB).
const COPY_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Whether the client may give the copy the tags of its source. It is checked this late because
/// only the source says whether there are any.
fn check_tags(call: &Call<'_>, from: &CopySource, object: &Object) -> Result<(), Fault> {
    let (bucket, key) = call.object()?;
    if object.file().object.tags.is_empty() {
        return Ok(());
    }
    call.demand(&Permission::carry_tags(from, bucket, key))
}

async fn source(call: &Call<'_>, source: &CopySource) -> Result<Object, Fault> {
    only_current(source.version.as_ref())?;
    let (bucket, key) = (source.bucket.as_str(), source.key.as_str());
    match call.volume.stat(bucket, key.as_bytes()).await {
        Ok(object) => Ok(object),
        Err(VolumeError::Fs(FsError::NoSuchKey)) => {
            Err(Fault::new(Code::NoSuchKey).with("Key", key))
        }
        Err(error) => Err(translate::fault(error)),
    }
}

pub(super) async fn object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = CopyObject::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    request.check_not_to_itself(bucket, key)?;
    let mut tries = 0;
    let (object, published) = loop {
        tries += 1;
        let object = source(call, &request.source).await?;
        let (tag, changed) = (etag(object.tag()), time(object.changed()));
        request.source_conditions.check_source(&tag, changed)?;
        if object.size() > COPY_BYTES_MAX {
            return Err(Fault::because(
                Code::InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy \
                 source: 5368709120",
            ));
        }
        let replace = match &request.metadata {
            Directive::Copy => None,
            Directive::Replace(metadata) => Some(translate::object_headers(metadata.clone(), &[])),
        };
        let tags = match &request.tags {
            Directive::Copy => {
                check_tags(call, &request.source, &object)?;
                None
            }
            Directive::Replace(tags) => Some(tags.as_slice().to_vec()),
        };
        let condition = write_condition(&request.condition);
        let (bucket, key, owner) = (bucket.as_str(), key.as_str().as_bytes(), call.owner());
        let copy = call.volume.copy(&object, bucket, key, replace, tags, condition, &owner);
        match copy.await {
            Ok(published) => break (object, published),
            Err(VolumeError::Fs(FsError::SourceChanged)) if tries < SOURCE_TRIES => {}
            Err(error) => return Err(super::write::refusal(error, &request.condition)),
        }
    };
    let sum = shown_sum(&published.sums);
    let output = CopyObjectOutput {
        etag: etag(&published.tag),
        last_modified: time(published.object_changed),
        checksum: sum.map(|sum| checksum(sum, part_count(object.tag()))),
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

pub(super) async fn part(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = UploadPartCopy::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let (bucket, key) = (bucket.as_str(), key.as_str().as_bytes());
    let id = upload_id(&request.upload)?;
    let number = PartNumber::get(request.part);
    let mut tries = 0;
    let part = loop {
        tries += 1;
        let object = source(call, &request.source).await?;
        let (tag, changed) = (etag(object.tag()), time(object.changed()));
        request.source_conditions.check_source(&tag, changed)?;
        let range = match request.range {
            None => 0..object.size(),
            Some(range) => {
                let span = range.of_source(object.size())?;
                span.first..span.first + span.length
            }
        };
        if range.end - range.start > COPY_BYTES_MAX {
            return Err(Code::EntityTooLarge.into());
        }
        match call.volume.copy_part(bucket, key, id, number, &object, range).await {
            Ok(part) => break part.part,
            Err(VolumeError::Fs(FsError::SourceChanged)) if tries < SOURCE_TRIES => {}
            Err(error) => return Err(translate::fault(error)),
        }
    };
    let output = CopyPartOutput {
        etag: etag(&part.tag.tag()),
        last_modified: time(part.arrived),
        checksum: None,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}
