//! Translations between the volume's types and those of S3: entity tags, checksums, headers, times,
//! errors.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use record::{Header, Inode, ObjectHeaders, Sum, SumAlgorithm, SumKind, Tag, Timestamp};
use s3::conditions::{ETagList, WritePrecondition, failed};
use s3::request::{ChecksumAlgorithm, ChecksumType};
use s3::response::{Checksum, Owner};
use s3::{Code, Fault, Metadata};
use time::OffsetDateTime;
use tracing::{error, warn};
use volume::{FsError, TagMatch, VolumeError};

/// An entity tag as clients see it, without quotes.
pub(crate) fn etag(tag: &Tag) -> String {
    tag.to_string()
}

/// The tags that this text may stand for. One with a dash may be of two kinds.
pub(crate) fn tags_of(etag: &str) -> Vec<Tag> {
    let (digits, count) = match etag.split_once('-') {
        Some((digits, count)) => (digits, Some(count)),
        None => (etag, None),
    };
    let mut bytes = [0; 16];
    if hex::decode_to_slice(digits, &mut bytes).is_err() {
        return Vec::new();
    }
    let Some(count) = count else { return vec![Tag::Md5(bytes)] };
    let multipart = count.parse().map(|count| Tag::Multipart(bytes, count));
    let opaque = count.parse().map(|version| Tag::Opaque(bytes, version));
    multipart.into_iter().chain(opaque).collect()
}

/// A list of entity tags as a condition of the namespace. On a write, weak tags match nothing.
pub(crate) fn tag_match(list: &ETagList) -> TagMatch {
    match list {
        ETagList::Any => TagMatch::Any,
        ETagList::Tags(tags) => {
            let strong = tags.iter().filter(|listed| !listed.weak);
            TagMatch::OneOf(strong.flat_map(|listed| tags_of(&listed.tag)).collect())
        }
    }
}

/// The precondition of a write, as a condition of the namespace.
pub(crate) fn write_condition(condition: &WritePrecondition) -> volume::WriteCondition {
    match condition {
        WritePrecondition::None => volume::WriteCondition::None,
        WritePrecondition::IfNoneMatchStar => volume::WriteCondition::IfAbsent,
        WritePrecondition::IfMatch(list) => volume::WriteCondition::IfMatch(tag_match(list)),
    }
}

/// The header of a write's precondition, for the fault that says that it does not hold.
pub(crate) fn condition_name(condition: &WritePrecondition) -> &'static str {
    match condition {
        WritePrecondition::IfNoneMatchStar => "If-None-Match",
        WritePrecondition::None | WritePrecondition::IfMatch(_) => "If-Match",
    }
}

/// A checksum algorithm, from S3 to the volume.
pub(crate) fn sum_algorithm(algorithm: ChecksumAlgorithm) -> SumAlgorithm {
    match algorithm {
        ChecksumAlgorithm::Crc32 => SumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c => SumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme => SumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1 => SumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256 => SumAlgorithm::Sha256,
    }
}

/// A checksum algorithm, from the volume to S3.
pub(crate) fn checksum_algorithm(algorithm: SumAlgorithm) -> ChecksumAlgorithm {
    match algorithm {
        SumAlgorithm::Crc32 => ChecksumAlgorithm::Crc32,
        SumAlgorithm::Crc32c => ChecksumAlgorithm::Crc32c,
        SumAlgorithm::Crc64Nvme => ChecksumAlgorithm::Crc64Nvme,
        SumAlgorithm::Sha1 => ChecksumAlgorithm::Sha1,
        SumAlgorithm::Sha256 => ChecksumAlgorithm::Sha256,
    }
}

/// The kind of a checksum, from the volume to S3.
pub(crate) fn checksum_type(kind: SumKind) -> ChecksumType {
    match kind {
        SumKind::FullObject => ChecksumType::FullObject,
        SumKind::Composite => ChecksumType::Composite,
    }
}

/// The kind of a checksum, from S3 to the volume.
pub(crate) fn sum_kind(kind: ChecksumType) -> SumKind {
    match kind {
        ChecksumType::FullObject => SumKind::FullObject,
        ChecksumType::Composite => SumKind::Composite,
    }
}

/// The checksum that responses show: the one that the client sent, or else the one that is always
/// computed.
pub(crate) fn shown_sum(sums: &[Sum]) -> Option<&Sum> {
    sums.iter().find(|sum| sum.algorithm != SumAlgorithm::Crc64Nvme).or(sums.first())
}

/// A checksum as responses show it. A composite one ends in the number of parts.
pub(crate) fn checksum(sum: &Sum, parts: u32) -> Checksum {
    let mut value = STANDARD.encode(&sum.bytes);
    if sum.kind == SumKind::Composite {
        value = format!("{value}-{parts}");
    }
    let kind = Some(checksum_type(sum.kind));
    Checksum { algorithm: checksum_algorithm(sum.algorithm), value, kind }
}

/// How many parts an object with this tag was completed from.
pub(crate) fn part_count(tag: &Tag) -> u32 {
    match tag {
        Tag::Multipart(_, count) => u32::from(*count),
        Tag::Md5(_) | Tag::Opaque(..) => 1,
    }
}

/// What is stored with an object, from S3 to the volume.
pub(crate) fn object_headers(metadata: Metadata, tags: &[(String, String)]) -> ObjectHeaders {
    let Metadata {
        content_type,
        cache_control,
        content_disposition,
        content_encoding,
        content_language,
        expires,
        user,
    } = metadata;
    let headers = [
        (Header::ContentType, content_type),
        (Header::CacheControl, cache_control),
        (Header::ContentDisposition, content_disposition),
        (Header::ContentEncoding, content_encoding),
        (Header::ContentLanguage, content_language),
        (Header::Expires, expires),
    ];
    let headers = headers.into_iter().filter_map(|(header, value)| Some((header, value?)));
    ObjectHeaders { headers: headers.collect(), user, tags: tags.to_vec() }
}

/// What is stored with an object, from the volume to S3.
pub(crate) fn metadata(object: &ObjectHeaders) -> Metadata {
    let header = |header| object.header(header).map(str::to_owned);
    Metadata {
        content_type: header(Header::ContentType),
        cache_control: header(Header::CacheControl),
        content_disposition: header(Header::ContentDisposition),
        content_encoding: header(Header::ContentEncoding),
        content_language: header(Header::ContentLanguage),
        expires: header(Header::Expires),
        user: object.user.clone(),
    }
}

/// An instant, from the volume to S3. One out of range, which no clock of ours produces, becomes
/// 1970.
pub(crate) fn time(at: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The owner with a user id.
pub(crate) fn owner(uid: u32) -> Owner {
    Owner { id: format!("{uid:064x}"), display_name: format!("uid-{uid}") }
}

/// The owner of an inode.
pub(crate) fn owner_of(inode: &Inode) -> Owner {
    owner(inode.attributes.uid)
}

/// An error of the volume, as a fault. What an operator must look at is logged here, once.
pub(crate) fn fault(error: impl Into<VolumeError>) -> Fault {
    match error.into() {
        VolumeError::Fs(error) => fs_fault(error),
        VolumeError::Overloaded => Code::SlowDown.into(),
        VolumeError::Unavailable(what) | VolumeError::Full(what) => {
            warn!(%what, "a store behind the gateway is unavailable");
            Code::ServiceUnavailable.into()
        }
        VolumeError::Unknown(what) => {
            warn!(%what, "the outcome of a change is not known");
            Fault::because(
                Code::ServiceUnavailable,
                "The outcome of the request is not known; look before trying again.",
            )
        }
        VolumeError::Fenced => {
            Fault::because(Code::ServiceUnavailable, "This gateway has lost its session.")
        }
        VolumeError::Corrupt(what) => {
            error!(%what, "stored data does not check");
            Fault::because(Code::InternalError, "Stored data does not check.")
        }
        other => {
            error!(error = %other, "a failure that has no code of its own");
            Code::InternalError.into()
        }
    }
}

/// The table that gives each refusal of the namespace its code.
fn fs_fault(error: FsError) -> Fault {
    match error {
        FsError::NoSuchBucket => Code::NoSuchBucket.into(),
        FsError::BucketExists => Code::BucketAlreadyOwnedByYou.into(),
        FsError::BucketNotEmpty => Code::BucketNotEmpty.into(),
        FsError::NoSuchKey => Code::NoSuchKey.into(),
        FsError::PreconditionFailed => failed("If-Match"),
        FsError::OverlapsFile => Code::ObjectParentIsFile.into(),
        FsError::OverlapsDirectory => Code::ExistingObjectIsDirectory.into(),
        FsError::NoSuchUpload => Code::NoSuchUpload.into(),
        FsError::InvalidPart => Code::InvalidPart.into(),
        FsError::TooManyTransmissions => Fault::because(
            Code::InvalidRequest,
            "The part was sent too often: begin another upload.",
        ),
        FsError::InvalidPartOrder => Code::InvalidPartOrder.into(),
        FsError::PartTooSmall => Code::EntityTooSmall.into(),
        FsError::WrongSize => Fault::because(
            Code::InvalidRequest,
            "The parts are together not as long as the request said, or longer than 5 TiB.",
        ),
        FsError::Contended => Code::ConditionalRequestConflict.into(),
        FsError::SourceChanged => Code::SlowDown.into(),
        _ => Code::InternalError.into(),
    }
}

#[cfg(test)]
mod tests;
