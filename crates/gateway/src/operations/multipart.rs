//! Multipart uploads.

use http::StatusCode;
use record::{PartTag, Sum, SumAlgorithm, SumKind, Tag, Upload};
use s3::checksum::{Combined, combine, composite};
use s3::request::{
    AbortMultipartUpload, CompleteMultipartUpload, CompletedPart, CreateMultipartUpload,
    ListMultipartUploads, ListParts, UploadPart,
};
use s3::response::{
    CompleteMultipartUploadOutput, CreateMultipartUploadOutput, ListMultipartUploadsOutput,
    ListPartsOutput, PartEntry, UploadEntry,
};
use s3::{Code, Fault};
use volume::{
    CompletePart, CompleteUpload, Finished, FoundPart, NewUpload, PART_BYTES_MIN, UploadId,
    UploadsEntry, UploadsQuery, VolumeError, opaque_tag,
};

use super::write::{etag_kind, refusal, refuse_early};
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::{self, Placement, document};
use crate::response::S3Response;
use crate::translate::{
    self, checksum, checksum_algorithm, checksum_type, etag, owner, part_count, shown_sum,
    sum_algorithm, sum_kind, tags_of, time, write_condition,
};

/// An upload's id, if it can be one of ours.
pub(super) fn upload_id(id: &s3::request::UploadIdText) -> Result<UploadId, Fault> {
    id.as_str().parse().map_err(|_| Code::NoSuchUpload.into())
}

pub(super) async fn create(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = CreateMultipartUpload::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let new = NewUpload {
        owner: call.owner(),
        headers: translate::object_headers(request.metadata, request.tags.as_slice()),
        checksum: request
            .checksum
            .map(|(algorithm, kind)| (sum_algorithm(algorithm), sum_kind(kind))),
    };
    let created = call.volume.create_upload(bucket.as_str(), key.as_str().as_bytes(), new);
    let id = created.await.map_err(translate::fault)?;
    let output = CreateMultipartUploadOutput {
        bucket: bucket.to_string(),
        key: key.to_string(),
        upload_id: id.to_string(),
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    if let Some((algorithm, kind)) = request.checksum {
        response.set_named("x-amz-checksum-algorithm", algorithm.as_str());
        response.set_named("x-amz-checksum-type", kind.as_str());
    }
    Ok(response)
}

pub(super) async fn put_part(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let request = UploadPart::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let (bucket, key) = (bucket.as_str(), key.as_str().as_bytes());
    let id = upload_id(&request.upload)?;
    // What can be refused before the body arrives is refused here. The commit decides again.
    let upload = call.volume.upload(bucket, key, id).await.map_err(translate::fault)?;
    let wanted = upload.checksum.map(|(algorithm, _)| algorithm);
    let etag_kind = etag_kind(call, bucket).await?;
    let received = receive::content(call, body, Placement::Blocks(wanted), etag_kind).await?;
    // If the MD5 was computed anyway, it is the part's tag: some clients send an MD5 with each part
    // and compare the object's tag with what they compute from them.
    let tag = match received.md5 {
        Some(md5) => PartTag::Md5(md5),
        None => PartTag::Opaque(opaque_tag().map_err(translate::fault)?),
    };
    let (number, sums) = (request.part.get(), received.sums);
    let part = call.volume.put_part(bucket, key, id, number, received.staged, tag, sums);
    let part = part.await.map_err(translate::fault)?.part;
    let mut response = S3Response::empty(StatusCode::OK);
    response.etag(&part.tag.tag());
    if let Some(sum) = shown_sum(&part.sums) {
        let sum = checksum(sum, 1);
        response.set_named(sum.algorithm.header(), &sum.value);
    }
    Ok(response)
}

/// Why an upload is not completed. The volume passes a fault on without knowing the type.
#[derive(Debug)]
enum Refusal {
    Volume(VolumeError),
    Fault(Fault),
}

impl From<VolumeError> for Refusal {
    fn from(error: VolumeError) -> Refusal {
        Refusal::Volume(error)
    }
}

pub(super) async fn complete(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::LARGE.bytes).await?;
    let request = CompleteMultipartUpload::parse(&call.arguments(), &document)?;
    let (bucket, key) = call.object()?;
    let id = upload_id(&request.upload)?;
    let parts = request.parts.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    let (name, object) = (bucket.as_str(), key.as_str().as_bytes());
    let wanted = CompleteUpload {
        parts: &parts,
        object_size: request.object_size,
        condition: write_condition(&request.condition),
    };
    let finish = |upload: &Upload, parts: &[FoundPart]| {
        finish(upload, parts, &request).map_err(Refusal::Fault)
    };
    let completed = match call.volume.complete(name, object, id, wanted, finish).await {
        Ok(completed) => completed,
        Err(Refusal::Fault(fault)) => return Err(fault),
        Err(Refusal::Volume(VolumeError::Fs(volume::FsError::PreconditionFailed))) => {
            refuse_early(call, name, object, &request.condition).await?;
            return Err(Code::ConditionalRequestConflict.into());
        }
        Err(Refusal::Volume(VolumeError::Fs(volume::FsError::PartTooSmall))) => {
            return Err(
                Fault::new(Code::EntityTooSmall).with("MinSizeAllowed", PART_BYTES_MIN.to_string())
            );
        }
        Err(Refusal::Volume(error)) => return Err(refusal(error, &request.condition)),
    };
    let output = CompleteMultipartUploadOutput {
        location: format!("/{bucket}/{key}"),
        bucket: bucket.to_string(),
        key: key.to_string(),
        etag: etag(&completed.tag),
        checksum: shown_sum(&completed.sums).map(|sum| checksum(sum, part_count(&completed.tag))),
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

/// A part as the client lists it.
fn listed(part: &CompletedPart) -> Result<CompletePart, Fault> {
    let of_a_part = |tag: &Tag| !matches!(tag, Tag::Multipart(..));
    let tag = tags_of(&part.etag).into_iter().find(of_a_part).ok_or(Code::InvalidPart)?;
    let mut sums = Vec::with_capacity(part.checksums.len());
    for (algorithm, text) in &part.checksums {
        let bytes = s3::checksum::decode_sum(*algorithm, text).ok_or(Code::InvalidPart)?;
        sums.push((sum_algorithm(*algorithm), bytes));
    }
    Ok(CompletePart { number: part.number.get(), tag, sums })
}

/// Computes what is stored with the object from what is stored with its parts. No content is read.
fn finish(
    upload: &Upload,
    parts: &[FoundPart],
    request: &CompleteMultipartUpload,
) -> Result<Finished, Fault> {
    let md5s: Vec<[u8; 16]> = parts.iter().map(|found| found.part.tag.bytes()).collect();
    let count = u16::try_from(parts.len()).map_err(|_| Code::InvalidPart)?;
    let tag = Tag::Multipart(s3::etag::of_parts(&md5s), count);
    let (algorithm, kind) =
        upload.checksum.unwrap_or((SumAlgorithm::Crc64Nvme, SumKind::FullObject));
    let part_sums: Option<Vec<Sum>> = parts
        .iter()
        .map(|found| found.part.sums.iter().find(|sum| sum.algorithm == algorithm).cloned())
        .collect();
    let sum = part_sums.as_deref().and_then(|sums| whole(algorithm, kind, parts, sums));
    if let Some((wanted, text)) = &request.checksum {
        let matches = sum.as_ref().is_some_and(|sum| {
            let shown = checksum(sum, u32::from(count));
            // Some clients leave out the number of parts that follows a composite checksum.
            let value = shown.value.split('-').next();
            shown.algorithm == *wanted && (shown.value == *text || value == Some(text))
        });
        if !matches {
            return Err(Fault::because(
                Code::BadDigest,
                "The checksum does not match that of the parts.",
            ));
        }
    }
    if let Some(wanted) = request.checksum_type
        && upload.checksum.is_some()
        && wanted != checksum_type(kind)
    {
        return Err(Fault::because(
            Code::InvalidRequest,
            "The checksum type is not the one that the upload was begun with.",
        ));
    }
    // The parts' checksums are kept only if the upload was created with a checksum.
    let part_sums = part_sums.filter(|_| upload.checksum.is_some()).unwrap_or_default();
    Ok(Finished { tag, sums: sum.into_iter().collect(), part_sums })
}

/// The checksum of the object, from those of its parts.
fn whole(algorithm: SumAlgorithm, kind: SumKind, parts: &[FoundPart], sums: &[Sum]) -> Option<Sum> {
    let algorithm_name = checksum_algorithm(algorithm);
    let bytes = match kind {
        SumKind::Composite => {
            composite(algorithm_name, sums.iter().map(|sum| sum.bytes.as_slice()))
        }
        SumKind::FullObject => {
            let pieces = parts
                .iter()
                .zip(sums)
                .map(|(found, sum)| Combined { sum: &sum.bytes, length: found.part.size });
            combine(algorithm_name, pieces)?
        }
    };
    Some(Sum { algorithm, kind, bytes })
}

pub(super) async fn abort(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = AbortMultipartUpload::parse(&call.arguments())?;
    let (bucket, key) = call.object()?;
    let id = upload_id(&request.upload)?;
    let abort = call.volume.abort(bucket.as_str(), key.as_str().as_bytes(), id);
    abort.await.map_err(translate::fault)?;
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
    let promised = page.upload.checksum.map(|(algorithm, _)| algorithm);
    let entry = |found: volume::PartStat| {
        let sum = found.part.sums.iter().find(|sum| Some(sum.algorithm) == promised);
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
        owner: owner(page.upload.uid),
        part_marker: request.part_marker,
        next_part_marker: last.filter(|_| page.truncated),
        max_parts: request.max_parts,
        parts: page.parts.into_iter().map(entry).collect(),
        checksum: promised_checksum(&page.upload),
        url_encoded: request.url_encoded,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

fn promised_checksum(
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
        Some(id) if !marker.is_empty() => Some(upload_id(id)?),
        _ => None,
    };
    let query = UploadsQuery {
        prefix: request.prefix.as_str().as_bytes().to_vec(),
        delimiter: request.delimiter.as_ref().map(|text| text.as_bytes().to_vec()),
        key_after: (!marker.is_empty()).then(|| marker.as_bytes().to_vec()),
        id_after,
        limit: request.max_uploads as usize,
    };
    let page = call.volume.uploads(bucket.as_str(), query).await.map_err(translate::fault)?;
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
                    owner: owner(upload.uid),
                    checksum: promised_checksum(&upload),
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
