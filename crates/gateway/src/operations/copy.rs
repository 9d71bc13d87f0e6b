//! Copies by reference: the copy shares the blocks of its source.
//!
//! The gateway reads the content only if the copy needs a checksum that the source does not have.
//! For example, a copy of 5 GiB within a volume is a single commit.

use http::StatusCode;
use record::Sum;
use s3::conditions::ConditionNames;
use s3::operation::Permission;
use s3::request::{CopyObject, Directive, PartNumber, UploadPartCopy};
use s3::response::{CopyObjectOutput, CopyPartOutput};
use s3::{Code, CopySource, Fault, VersionId};
use volume::{CopyChanges, FsError, NamedBucket, Object, VolumeError};

use super::multipart::upload_id;
use super::{acl, lifecycle, locks};
use crate::call::Call;
use crate::encryption;
use crate::quota::{self, Incoming};
use crate::response::S3Response;
use crate::summing::{sum_of, sums_of_copy};
use crate::translate::{
    self, checksum, checksum_algorithm, etag, part_count, shown_sum, time, write_condition,
};

/// The limit of the source of `CopyObject` and of a copied part, in bytes. S3 has the same limit, 5
/// GiB.
const COPY_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// The most bytes that a copy reads while writers of its source wait for it: 1 MiB.
const RESERVED_READ_BYTES_MAX: u64 = 1024 * 1024;

/// Fails with `AccessDenied` if the source has tags and the client must not copy them to the new
/// key. The check needs the source, because a source without tags needs no permission.
async fn check_tags(call: &Call<'_>, from: &CopySource, object: &Object) -> Result<(), Fault> {
    let (bucket, key) = call.object()?;
    let tags = &object.file().object.tags;
    if tags.is_empty() {
        return Ok(());
    }
    call.require_permissions(&Permission::copy_tags(from, tags, bucket, key)).await
}

/// Returns the object to copy, after a check of the permissions for it. Faults: `NoSuchKey`,
/// `NoSuchVersion`, or `AccessDenied` in their place if the client must not list the source bucket.
async fn source(call: &Call<'_>, source: &CopySource) -> Result<Object, Fault> {
    let key = source.key.as_str();
    let version = translate::version(source.version.as_ref())?;
    let rules = call.rules_of(&source.bucket).await?;
    let bucket = NamedBucket { name: source.bucket.as_str().as_bytes(), ino: Some(rules.ino) };
    match call.volume.stat_version(bucket, key.as_bytes(), version).await {
        // On a retry the key may have another object, so the permissions are checked for the object
        // that this attempt copies.
        Ok(object) => {
            let about = (&source.bucket, &source.key, source.version.as_ref());
            call.check_object(&object, about, &rules)?;
            Ok(object)
        }
        Err(VolumeError::Fs(error @ (FsError::NoSuchKey | FsError::Deleted(_)))) => {
            let missing = translate::fault(error).with("Key", key);
            Err(call.hide_absence(&source.bucket, missing).await)
        }
        Err(VolumeError::Fs(FsError::NoSuchVersion)) => {
            let version = source.version.as_ref().map_or("", VersionId::as_str);
            let missing = Fault::new(Code::NoSuchVersion).with("Key", key);
            Err(call.hide_absence(&source.bucket, missing.with("VersionId", version)).await)
        }
        Err(VolumeError::Fs(FsError::IsMarker(..))) => {
            let marker = Fault::because(
                Code::InvalidRequest,
                "The source of a copy request may not specifically refer to a delete marker by \
                 version id.",
            );
            Err(call.hide_absence(&source.bucket, marker).await)
        }
        Err(error) => Err(translate::fault(error)),
    }
}

pub(super) async fn object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = CopyObject::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let bucket_encrypts = call.rules()?.settings.default_encryption.is_some();
    request.check_not_to_itself(bucket, key, bucket_encrypts)?;
    let owner = call.owner(request.acl.as_ref())?;
    let acl = acl::for_new_object(call, request.acl.as_ref(), &owner)?;
    let lock = locks::for_new_object(call)?;
    let mut tries = call.volume.tries_of_copy();
    let (object, mode, published) = loop {
        // If the source changes before the commit, the commit fails with `SourceChanged`, and the
        // loop checks its conditions and permissions again.
        let mut object = source(call, &request.source).await?;
        let (tag, changed) = (etag(object.tag()), time(object.changed()));
        request.source_conditions.check(&ConditionNames::COPY_SOURCE, &tag, changed)?;
        encryption::unlock(call, &mut object, request.source_key.as_deref())?;
        let mode = encryption::of_copy(call, request.encryption.as_ref(), &object)?;
        if object.size() > COPY_BYTES_MAX {
            return Err(Fault::because(
                Code::InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy \
                 source: 5368709120",
            ));
        }
        let headers = match &request.metadata {
            Directive::Copy => translate::copied_headers(&object.file().object, &request.labels),
            Directive::Replace(metadata) => Some(translate::object_headers(metadata.clone(), &[])),
        };
        let tags = match &request.tags {
            Directive::Copy => {
                check_tags(call, &request.source, &object).await?;
                None
            }
            Directive::Replace(tags) => Some(tags.as_slice().to_vec()),
        };
        quota::refuse_early(call, Incoming::Object, Some(object.size())).await?;
        let sums = match request.checksum {
            None => None,
            Some(algorithm) => Some(sums_of_copy(call, &object, algorithm).await?),
        };
        let copy_changes =
            CopyChanges { headers, tags, acl: acl.clone(), sums, lock, mode: mode.clone() };
        let condition = write_condition(&request.condition);
        let (bucket, key) = (call.named_bucket()?, key.as_str().as_bytes());
        // In a box, because the future is large.
        let copy = call.volume.copy(&object, bucket, key, copy_changes, condition, &owner);
        let reads = request.checksum.is_some() || !object.is_shared_by(&mode);
        match tries.run(Box::pin(copy)).await {
            Ok(published) => break (object, mode, published),
            Err(VolumeError::Fs(FsError::SourceChanged))
                if tries.again(reserved(&object, reads.then_some(object.size()))).await => {}
            Err(error) => return Err(super::publish::refusal(error, &request.condition)),
        }
    };
    drop(tries);
    let sum = shown_sum(&published.sums);
    let output = CopyObjectOutput {
        etag: etag(&published.tag),
        last_modified: time(published.object_changed),
        checksum: sum.map(|sum| checksum(sum, part_count(object.tag()))),
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    response.version(translate::shown_new_version(published.version));
    let key = encryption::customer_key(request.encryption.as_ref());
    response.encryption(mode.encryption(), key.map(|key| &**key));
    describe_source(&mut response, &object);
    lifecycle::describe_current(call, &mut response).await?;
    Ok(response)
}

/// Returns the source, if its writers may wait for the next try of the copy; `None` if the copy
/// reads too many bytes for that. `read` is the number of bytes that it reads; `None` if it shares
/// blocks.
fn reserved(source: &Object, read: Option<u64>) -> Option<&Object> {
    Some(source).filter(|_| read.is_none_or(|bytes| bytes <= RESERVED_READ_BYTES_MAX))
}

/// Adds the version id of the source.
fn describe_source(response: &mut S3Response, source: &Object) {
    if let Some(version) = source.version {
        let version = translate::version_text(version);
        response.set_named("x-amz-copy-source-version-id", &version);
    }
}

pub(super) async fn part(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = UploadPartCopy::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let (bucket, key) = (bucket.as_str(), key.as_str().as_bytes());
    let id = upload_id(&request.upload)?;
    let number = PartNumber::get(request.part);
    // This early check saves work for requests that would fail. The commit checks again.
    let upload = call.volume.upload(bucket, key, id).await.map_err(translate::fault)?;
    let mode = encryption::of_part(call, request.encryption.as_ref(), upload.encryption.as_ref())?;
    let upload_algorithm = upload.checksum.map(|(algorithm, _)| checksum_algorithm(algorithm));
    let mut tries = call.volume.tries_of_copy();
    let (object, part) = loop {
        let mut object = source(call, &request.source).await?;
        let (tag, changed) = (etag(object.tag()), time(object.changed()));
        request.source_conditions.check(&ConditionNames::COPY_SOURCE, &tag, changed)?;
        encryption::unlock(call, &mut object, request.source_key.as_deref())?;
        let range = match request.range {
            None => 0..object.size(),
            Some(range) => {
                let span = range.resolve_source(object.size())?;
                span.first..span.first + span.length
            }
        };
        if range.end - range.start > COPY_BYTES_MAX {
            return Err(Code::EntityTooLarge.into());
        }
        quota::refuse_early(call, Incoming::Bytes, Some(range.end - range.start)).await?;
        let sum = match upload_algorithm {
            None => None,
            Some(algorithm) => Some(sum_of(call, &object, range.clone(), algorithm).await?),
        };
        // The holes of a sparse source are written as zeros.
        let shares = object.is_shared_by(&mode) && !object.file().sparse;
        let (reads, bytes) = (sum.is_some() || !shares, range.end - range.start);
        let part = call.volume.copy_part(bucket, key, id, number, &mode, &object, range, sum);
        match tries.run(part).await {
            Ok(part) => break (object, part.part),
            Err(VolumeError::Fs(FsError::SourceChanged))
                if tries.again(reserved(&object, reads.then_some(bytes))).await => {}
            Err(error) => return Err(translate::fault(error)),
        }
    };
    drop(tries);
    let is_of_upload = |sum: &&Sum| upload_algorithm == Some(checksum_algorithm(sum.algorithm));
    let sum = part.sums.iter().find(is_of_upload);
    let output = CopyPartOutput {
        etag: etag(&part.tag.tag()),
        last_modified: time(part.arrived),
        checksum: sum.map(|sum| s3::response::Checksum { kind: None, ..checksum(sum, 1) }),
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    let key = encryption::customer_key(request.encryption.as_ref());
    response.encryption(upload.encryption.as_ref(), key.map(|key| &**key));
    describe_source(&mut response, &object);
    Ok(response)
}
