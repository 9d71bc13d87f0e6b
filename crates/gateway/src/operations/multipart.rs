//! Creates, lists and aborts multipart uploads, and receives their parts. `complete` completes
//! them.

use http::StatusCode;
use record::{ObjectHeaders, PartTag, Upload};
use s3::operation::RequestFacts;
use s3::request::{
    AbortMultipartUpload, CreateMultipartUpload, ListMultipartUploads, ListParts, UploadPart,
};
use s3::response::{
    CreateMultipartUploadOutput, ListMultipartUploadsOutput, ListPartsOutput, PartEntry,
    UploadEntry,
};
use s3::{Code, Fault};
use volume::{NewUpload, UploadId, UploadsEntry, UploadsQuery, opaque_tag};

use super::publish::etag_kind;
use super::{acl, lifecycle, locks};
use crate::call::Call;
use crate::encryption;
use crate::http::HttpBody;
use crate::receive::{self, Placement};
use crate::response::S3Response;
use crate::translate::{
    self, checksum, checksum_algorithm, checksum_type, etag, shown_sum, sum_algorithm, sum_kind,
    time,
};

/// Parses the id of a multipart upload. Fails with `NoSuchUpload` if it is malformed, because no
/// upload can have such an id.
pub(super) fn upload_id(id: &s3::request::UploadIdText) -> Result<UploadId, Fault> {
    id.as_str().parse().map_err(|_| Code::NoSuchUpload.into())
}

pub(super) async fn create(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = CreateMultipartUpload::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let owner = call.owner(request.acl.as_ref())?;
    let acl = acl::for_new_object(call, request.acl.as_ref(), &owner)?;
    let mode = encryption::of_new_object(call, request.encryption.as_ref())?;
    // A mode without a usable key is refused now, and not at the first part.
    call.volume.object_keys(&mode).await.map_err(translate::fault)?;
    let new = NewUpload {
        owner,
        headers: ObjectHeaders {
            acl,
            lock: locks::for_new_object(call)?,
            ..translate::object_headers(request.metadata, request.tags.as_slice())
        },
        checksum: request
            .checksum
            .map(|(algorithm, kind)| (sum_algorithm(algorithm), sum_kind(kind))),
        asked: RequestFacts::upload_headers(call.fields()),
        encryption: mode.encryption().cloned(),
    };
    let named = call.named_bucket()?;
    let created = call.volume.create_upload(named, key.as_str().as_bytes(), new);
    let id = created.await.map_err(translate::fault)?;
    let output = CreateMultipartUploadOutput {
        bucket: bucket.to_string(),
        key: key.to_string(),
        upload_id: id.to_string(),
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    let key = encryption::customer_key(request.encryption.as_ref());
    response.encryption(mode.encryption(), key.map(|key| &**key));
    if let Some((algorithm, kind)) = request.checksum {
        response.set_named("x-amz-checksum-algorithm", algorithm.as_str());
        response.set_named("x-amz-checksum-type", kind.as_str());
    }
    lifecycle::describe_upload(call, &mut response, time(call.volume.now()))?;
    Ok(response)
}

pub(super) async fn put_part(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let request = UploadPart::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let (bucket, key) = (bucket.as_str(), key.as_str().as_bytes());
    let id = upload_id(&request.upload)?;
    // This early check refuses a part of a missing upload before its body. The commit checks again.
    let upload = call.volume.upload(bucket, key, id).await.map_err(translate::fault)?;
    let mode = encryption::of_part(call, request.encryption.as_ref(), upload.encryption.as_ref())?;
    let etag_kind = etag_kind(call, &mode)?;
    let placement = Placement::Blocks(&upload, &mode);
    let received = receive::content(call, body, placement, etag_kind).await?;
    let is_customers = encryption::customer_key(request.encryption.as_ref()).is_some();
    // If the MD5 was computed, it becomes the part's entity tag. Some clients send an MD5 with each
    // part and compare the object's tag with the one that they compute from these.
    let tag = match received.md5.filter(|_| !is_customers) {
        Some(md5) => PartTag::Md5(md5),
        None => PartTag::Opaque(opaque_tag().map_err(translate::fault)?),
    };
    let (number, sums) = (request.part.get(), received.sums);
    let part = call.volume.put_part(bucket, key, id, number, received.staged, tag, sums);
    let part = part.await.map_err(translate::fault)?.part;
    let mut response = S3Response::empty(StatusCode::OK);
    response.etag(&part.tag.tag());
    let key = encryption::customer_key(request.encryption.as_ref());
    response.encryption(upload.encryption.as_ref(), key.map(|key| &**key));
    if let Some(sum) = shown_sum(&part.sums) {
        let sum = checksum(sum, 1);
        response.set_named(sum.algorithm.header(), &sum.value);
    }
    Ok(response)
}

pub(super) async fn abort(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = AbortMultipartUpload::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let (bucket, key) = (bucket.as_str(), key.as_str().as_bytes());
    let id = upload_id(&request.upload)?;
    // The creation time of an upload never changes, so the check need not be part of the commit. S3
    // ignores a condition with a future time.
    if let Some(initiated) = request.initiated.filter(|at| *at <= call.sender.origin.now) {
        let upload = call.volume.upload(bucket, key, id).await.map_err(translate::fault)?;
        if time(upload.begun).unix_timestamp() != initiated.unix_timestamp() {
            return Err(s3::conditions::failed("If-Match-Initiated-Time"));
        }
    }
    call.volume.abort(bucket, key, id).await.map_err(translate::fault)?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}

pub(super) async fn parts(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListParts::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let id = upload_id(&request.upload)?;
    let after = u16::try_from(request.part_marker).unwrap_or(u16::MAX);
    let limit = request.max_parts as usize;
    let page = call.volume.parts(bucket.as_str(), key.as_str().as_bytes(), id, after, limit);
    let page = page.await.map_err(translate::fault)?;
    let (customer, mode) = (request.customer_key.as_deref(), page.upload.encryption.as_ref());
    let shows_sums = encryption::opens_upload(call, customer, mode)?;
    let upload_algorithm = page.upload.checksum.map(|(algorithm, _)| algorithm);
    let upload_algorithm = upload_algorithm.filter(|_| shows_sums);
    let entry = |found: volume::PartStat| {
        let sum = found.part.sums.iter().find(|sum| Some(sum.algorithm) == upload_algorithm);
        PartEntry {
            number: u32::from(found.number),
            last_modified: time(found.part.arrived),
            etag: etag(&found.part.tag.tag()),
            size: found.part.size,
            checksum: sum.map(|sum| s3::response::Checksum { kind: None, ..checksum(sum, 1) }),
        }
    };
    let last = page.parts.last().map(|part| u32::from(part.number));
    let output = ListPartsOutput {
        bucket: bucket.to_string(),
        key: key.to_string(),
        upload_id: id.to_string(),
        owner: call.owner_of(page.upload.writer)?,
        part_marker: request.part_marker,
        next_part_marker: last.filter(|_| page.truncated),
        max_parts: request.max_parts,
        parts: page.parts.into_iter().map(entry).collect(),
        checksum: upload_checksum(&page.upload),
        url_encoded: request.url_encoded,
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    lifecycle::describe_upload(call, &mut response, time(page.upload.begun))?;
    Ok(response)
}

fn upload_checksum(
    upload: &Upload,
) -> Option<(s3::request::ChecksumAlgorithm, s3::request::ChecksumType)> {
    let (algorithm, kind) = upload.checksum?;
    Some((checksum_algorithm(algorithm), checksum_type(kind)))
}

pub(super) async fn uploads(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListMultipartUploads::parse(&call.arguments())?;
    let bucket = call.bucket()?;
    let marker = request.key_marker.as_str();
    let id_after = match &request.upload_marker {
        Some(id) if !marker.is_empty() => Some(upload_id(id).map_err(|_| {
            Fault::because(Code::InvalidArgument, "Invalid uploadId marker")
                .with("ArgumentName", "upload-id-marker")
                .with("ArgumentValue", id.as_str())
        })?),
        Some(_) | None => None,
    };
    let query = UploadsQuery {
        prefix: request.prefix.as_str().as_bytes().to_vec(),
        delimiter: request.delimiter.as_ref().map(|text| text.as_bytes().to_vec()),
        key_after: (!marker.is_empty()).then(|| marker.as_bytes().to_vec()),
        id_after,
        limit: request.max_uploads as usize,
    };
    let page = call.volume.uploads(call.named_bucket()?, query).await.map_err(translate::fault)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (mut uploads, mut common_prefixes, mut last) = (Vec::new(), Vec::new(), None);
    for entry in page.entries {
        match entry {
            UploadsEntry::Upload { key, id, upload } => {
                let key = text(key);
                last = Some((key.clone(), id.to_string()));
                uploads.push(UploadEntry {
                    key,
                    upload_id: id.to_string(),
                    initiated: time(upload.begun),
                    owner: call.owner_of(upload.writer)?,
                    checksum: upload_checksum(&upload),
                });
            }
            UploadsEntry::Prefix(prefix) => {
                let prefix = text(prefix);
                last = Some((prefix.clone(), String::new()));
                common_prefixes.push(prefix);
            }
        }
    }
    let output = ListMultipartUploadsOutput {
        bucket: bucket.to_string(),
        prefix: request.prefix.to_string(),
        delimiter: request.delimiter,
        key_marker: marker.to_owned(),
        upload_marker: request.upload_marker.map_or_else(String::new, |id| id.as_str().to_owned()),
        next: last.filter(|_| page.truncated),
        max_uploads: request.max_uploads,
        url_encoded: request.url_encoded,
        uploads,
        common_prefixes,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

#[cfg(test)]
mod tests;
