//! Completes a multipart upload.
//!
//! The object's entity tag and checksums are computed from those of its parts, without a read of
//! the content. For example, the CRC-64 of the object is combined from the CRC-64 and the length of
//! each part.
//!
//! A missing upload takes precedence over errors in the list of parts.

use http::StatusCode;
use record::{Sum, SumAlgorithm, SumKind, Tag, Upload};
use s3::checksum::{Combined, checksum_mismatch, combine, composite};
use s3::request::{
    ChecksumAlgorithm, ChecksumType, CompleteMultipartUpload, CompletedPart, FinalChecksum,
    UploadIdText,
};
use s3::response::CompleteMultipartUploadOutput;
use s3::{Code, Fault};
use volume::{
    CompletePart, CompleteUpload, FoundPart, FsError, ObjectDigests, PART_BYTES_MIN, VolumeError,
};

use super::lifecycle;
use super::multipart::upload_id;
use super::publish::{check_precondition, refusal};
use crate::call::Call;
use crate::encryption;
use crate::http::HttpBody;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate::{
    self, checksum, checksum_algorithm, checksum_type, etag, part_count, shown_sum, sum_algorithm,
    tags_of, write_condition,
};

/// The reason why an upload was not completed. The volume passes the fault through without
/// knowledge of its type.
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
    let (bucket, key) = call.object()?;
    let (name, object) = (bucket.as_str(), key.as_str().as_bytes());
    let id = upload_id(&UploadIdText::from_query(&call.arguments())?)?;
    let request = CompleteMultipartUpload::parse(&call.arguments(), &document);
    let (request, parts) = match request.and_then(|request| Ok((listed(&request)?, request))) {
        Ok((parts, request)) => (request, parts),
        Err(fault) => {
            // `NoSuchUpload` takes precedence over an error in the list.
            call.volume.upload(name, object, id).await.map_err(translate::fault)?;
            return Err(fault);
        }
    };
    let completion = CompleteUpload {
        parts: &parts,
        // The volume need not compare the size: `finish` below compares it with the parts.
        object_size: None,
        condition: write_condition(&request.condition),
    };
    let finish = |upload: &Upload, parts: &[FoundPart]| {
        let (requested, own) = (request.encryption.as_ref(), upload.encryption.as_ref());
        let fits = encryption::check_completion(call, requested, own);
        fits.and_then(|()| finish(upload, parts, &request)).map_err(Refusal::Fault)
    };
    let completed = match call.volume.complete(name, object, id, completion, finish).await {
        Ok(completed) => completed,
        Err(Refusal::Fault(fault)) => return Err(fault),
        Err(Refusal::Volume(VolumeError::Fs(FsError::PreconditionFailed))) => {
            check_precondition(call, name, object, &request.condition).await?;
            return Err(Code::ConditionalRequestConflict.into());
        }
        Err(Refusal::Volume(error)) => return Err(refused(error, &request)),
    };
    // For a repeated request, which has not come to `finish`.
    encryption::check_completion(call, request.encryption.as_ref(), completed.encryption.as_ref())?;
    let output = CompleteMultipartUploadOutput {
        location: call.location_of(bucket, &s3::xml::url_encode(key.as_str())),
        bucket: bucket.to_string(),
        key: key.to_string(),
        etag: etag(&completed.tag),
        checksum: shown_sum(&completed.sums).map(|sum| checksum(sum, part_count(&completed.tag))),
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    response.version(translate::shown_new_version(completed.version));
    let key = encryption::customer_key(request.encryption.as_ref());
    response.encryption(completed.encryption.as_ref(), key.map(|key| &**key));
    lifecycle::describe_current(call, &mut response).await?;
    Ok(response)
}

/// Returns the fault for a multipart upload that the volume has not completed.
#[expect(clippy::wildcard_enum_match_arm, reason = "`publish::refusal` has all other errors")]
fn refused(error: VolumeError, request: &CompleteMultipartUpload) -> Fault {
    let part = |number: u16| request.parts.iter().find(|part| part.number.get() == number);
    match error {
        VolumeError::Fs(FsError::InvalidPart(number)) => match part(number) {
            Some(part) => invalid_part(request, part),
            None => Code::InvalidPart.into(),
        },
        VolumeError::Fs(FsError::PartTooSmall { number, bytes }) => {
            let fault = Fault::new(Code::EntityTooSmall)
                .with("ProposedSize", bytes.to_string())
                .with("MinSizeAllowed", PART_BYTES_MIN.to_string())
                .with("PartNumber", number.to_string());
            match part(number) {
                Some(part) => fault.with("ETag", &part.etag),
                None => fault,
            }
        }
        error => refusal(error, &request.condition),
    }
}

fn invalid_part(request: &CompleteMultipartUpload, part: &CompletedPart) -> Fault {
    Fault::new(Code::InvalidPart)
        .with("UploadId", request.upload.as_str())
        .with("PartNumber", part.number.get().to_string())
        .with("ETag", &part.etag)
}

/// Returns the parts in the client's list.
fn listed(request: &CompleteMultipartUpload) -> Result<Vec<CompletePart>, Fault> {
    let of_a_part = |tag: &Tag| !matches!(tag, Tag::Multipart(..));
    let listed = |part: &CompletedPart| {
        let tag = tags_of(&part.etag).into_iter().find(of_a_part);
        let tag = tag.ok_or_else(|| invalid_part(request, part))?;
        let sums = part.checksum.iter();
        let sums = sums.map(|(algorithm, bytes)| (sum_algorithm(*algorithm), bytes.clone()));
        Ok(CompletePart { number: part.number.get(), tag, sums: sums.collect() })
    };
    request.parts.iter().map(listed).collect()
}

/// Computes the digests of the object from those of its parts.
fn finish(
    upload: &Upload,
    parts: &[FoundPart],
    request: &CompleteMultipartUpload,
) -> Result<ObjectDigests, Fault> {
    check_type(request.checksum_type, upload)?;
    if let Some((algorithm, kind)) = upload.checksum {
        check_parts(checksum_algorithm(algorithm), kind, &request.parts)?;
    }
    check_size(parts, request.object_size)?;
    let md5s: Vec<[u8; 16]> = parts.iter().map(|found| found.part.tag.bytes()).collect();
    let count = u16::try_from(parts.len()).map_err(|_| Code::InvalidPart)?;
    let tag = Tag::Multipart(s3::etag::multipart_digest(&md5s), count);
    let (algorithm, kind) =
        upload.checksum.unwrap_or((SumAlgorithm::Crc64Nvme, SumKind::FullObject));
    let part_sums: Option<Vec<Sum>> = parts
        .iter()
        .map(|found| found.part.sums.iter().find(|sum| sum.algorithm == algorithm).cloned())
        .collect();
    let sum = part_sums.as_deref().and_then(|sums| whole(algorithm, kind, parts, sums));
    if upload.checksum.is_some()
        && let Some(expected) = &request.checksum
    {
        check_whole(expected, checksum_algorithm(algorithm), sum.as_ref(), count)?;
    }
    // The parts' checksums are kept only if the upload was created with a checksum.
    let part_sums = part_sums.filter(|_| upload.checksum.is_some()).unwrap_or_default();
    Ok(ObjectDigests { tag, sums: sum.into_iter().collect(), part_sums })
}

/// Fails with `BadDigest` if a part in the list has a checksum of another algorithm than the
/// upload, and with `InvalidRequest` if a part of an upload with a composite checksum has none. For
/// a full-object checksum, the client may omit the checksums of parts.
fn check_parts(
    wanted: ChecksumAlgorithm,
    kind: SumKind,
    parts: &[CompletedPart],
) -> Result<(), Fault> {
    for part in parts {
        let number = part.number.get();
        match part.checksum.as_ref().map(|(algorithm, _)| *algorithm) {
            Some(stated) if stated != wanted => {
                let stated = stated.lower_case();
                return Err(Fault::because(
                    Code::BadDigest,
                    format!(
                        "The {stated} you specified for part {number} did not match what we \
                         received."
                    ),
                ));
            }
            None if kind == SumKind::Composite => {
                let wanted = wanted.lower_case();
                return Err(Fault::because(
                    Code::InvalidRequest,
                    format!(
                        "The upload was created using a {wanted} checksum. The complete request \
                         must include the checksum for each part. It was missing for part \
                         {number} in the request."
                    ),
                ));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn check_size(parts: &[FoundPart], expected: Option<u64>) -> Result<(), Fault> {
    let size: u64 = parts.iter().map(|found| found.part.size).fold(0, u64::saturating_add);
    match expected {
        Some(expected) if expected != size => Err(Fault::because(
            Code::InvalidRequest,
            format!(
                "The provided 'x-amz-mp-object-size' header value {expected} does not match what \
                 was computed: {size}"
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Fails if the object's checksum differs from the one that the client sent, in its algorithm, its
/// value or its number of parts. `count` is the number of parts.
fn check_whole(
    expected: &FinalChecksum,
    wanted: ChecksumAlgorithm,
    sum: Option<&Sum>,
    count: u16,
) -> Result<(), Fault> {
    if expected.algorithm != wanted {
        return Err(wanted.mismatch(Some(expected.algorithm)));
    }
    let computed = sum.map_or(&[][..], |sum| &sum.bytes);
    let counts = match sum.map(|sum| sum.kind) {
        // Some clients omit the number of parts.
        Some(SumKind::Composite) => expected.parts.is_none_or(|parts| parts == u32::from(count)),
        Some(SumKind::FullObject) | None => expected.parts.is_none(),
    };
    if counts && computed == expected.sum {
        Ok(())
    } else {
        Err(checksum_mismatch(wanted, &expected.sum, computed))
    }
}

/// Fails if the client names another checksum type than that of the upload. An upload without a
/// checksum algorithm gets a full-object checksum.
fn check_type(stated: Option<ChecksumType>, upload: &Upload) -> Result<(), Fault> {
    let kind = upload.checksum.map(|(_, kind)| checksum_type(kind));
    match stated {
        Some(stated) if stated != kind.unwrap_or(ChecksumType::FullObject) => {
            let kind = kind.map_or("null", ChecksumType::as_str);
            Err(Fault::because(
                Code::InvalidRequest,
                format!(
                    "The upload was created using the {kind} checksum mode. The complete request \
                     must use the same checksum mode."
                ),
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// Computes the checksum of the object from those of its parts; `None` if the algorithm cannot
/// combine them.
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

#[cfg(test)]
mod tests;
