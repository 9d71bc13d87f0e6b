//! Translations between types of the volume and types of S3: entity tags, checksums, headers,
//! times, errors.
//!
//! For example, [`fault`] turns `FsError::NoSuchKey` into the code `NoSuchKey`. The tables have no
//! default row, so a new variant of the volume does not compile before it has a translation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use identity::Access;
use record::{Header, ObjectHeaders, ObjectOwnership, S3Acl, Sum, SumAlgorithm, SumKind, Tag};
use rules::RulesError;
use s3::acl::{AclGrant, AclGrantee, AclGroup, AclPermission, RequestedAcl};
use s3::conditions::{ETagList, ReadPreconditions, WritePrecondition, failed};
use s3::encryption::missing_customer_key;
use s3::request::{ChecksumAlgorithm, ChecksumType, CopyLabels};
use s3::response::Checksum;
use s3::{BucketName, Code, Fault, Metadata};
use time::OffsetDateTime;
use tracing::{error, warn};
use volume::{
    FsError, ObjectCondition, ProtectionError, ProtectionErrorKind, TagMatch, VersionRef,
    VolumeError,
};

pub(crate) use rules::{acl_permission, time, version_text};

/// Returns an entity tag as clients see it, without quotes.
pub(crate) fn etag(tag: &Tag) -> String {
    tag.to_string()
}

/// Returns the tags that this text may mean: none if it is not a tag of this gateway, and two if it
/// has a dash, because multipart tags and opaque tags have the same form.
pub(crate) fn tags_of(etag: &str) -> Vec<Tag> {
    let (digits, count) = match etag.split_once('-') {
        Some((digits, count)) => (digits, Some(count)),
        None => (etag, None),
    };
    let mut bytes = [0; 16];
    // Another server may have made the text. It matches no object here.
    if hex::decode_to_slice(digits, &mut bytes).is_err() {
        return Vec::new();
    }
    let Some(count) = count else { return vec![Tag::Md5(bytes)] };
    let multipart = count.parse().map(|count| Tag::Multipart(bytes, count));
    let opaque = count.parse().map(|version| Tag::Opaque(bytes, version));
    multipart.into_iter().chain(opaque).collect()
}

/// Converts a list of entity tags to a condition of a write. Weak tags match nothing there.
pub(crate) fn tag_match(list: &ETagList) -> TagMatch {
    match list {
        ETagList::Any => TagMatch::Any,
        ETagList::Tags(tags) => {
            let strong = tags.iter().filter(|listed| !listed.weak);
            TagMatch::OneOf(strong.flat_map(|listed| tags_of(&listed.tag)).collect())
        }
    }
}

/// Converts a list of entity tags that an object must not have. Weak tags match there, too.
fn weak_tag_match(list: &ETagList) -> TagMatch {
    match list {
        ETagList::Any => TagMatch::Any,
        ETagList::Tags(tags) => {
            TagMatch::OneOf(tags.iter().flat_map(|listed| tags_of(&listed.tag)).collect())
        }
    }
}

/// Converts the precondition of a write.
pub(crate) fn write_condition(condition: &WritePrecondition) -> volume::WriteCondition {
    match condition {
        WritePrecondition::None => volume::WriteCondition::None,
        WritePrecondition::IfNoneMatchStar => volume::WriteCondition::IfAbsent,
        WritePrecondition::IfMatch(list) => volume::WriteCondition::IfMatch(tag_match(list)),
        WritePrecondition::IfNoneMatch(list) => match weak_tag_match(list) {
            TagMatch::Any => volume::WriteCondition::IfAbsent,
            TagMatch::OneOf(tags) => volume::WriteCondition::IfNoneMatch(tags),
        },
    }
}

/// Converts the preconditions on an object that is renamed or replaced by a rename.
pub(crate) fn object_condition(conditions: &ReadPreconditions) -> ObjectCondition {
    ObjectCondition {
        tags: conditions.if_match.as_ref().map(tag_match),
        unchanged_since: conditions.if_unmodified_since.map(OffsetDateTime::unix_timestamp),
        other_tags: conditions.if_none_match.as_ref().map(weak_tag_match),
        changed_since: conditions.if_modified_since.map(OffsetDateTime::unix_timestamp),
    }
}

/// Returns the header of a write's precondition, for the fault of a failed precondition.
pub(crate) fn condition_name(condition: &WritePrecondition) -> &'static str {
    match condition {
        WritePrecondition::IfNoneMatchStar | WritePrecondition::IfNoneMatch(_) => "If-None-Match",
        WritePrecondition::None | WritePrecondition::IfMatch(_) => "If-Match",
    }
}

/// Converts a version id of a request. Fails with `InvalidArgument` if it is malformed.
pub(crate) fn version(version: Option<&s3::VersionId>) -> Result<Option<VersionRef>, Fault> {
    let Some(named) = version else { return Ok(None) };
    let version = rules::version(named);
    version.map(Some).ok_or_else(|| s3::VersionId::invalid(named.as_str()))
}

/// Returns the version that a write created, as its response shows it. `None` if the bucket has no
/// versions, and for a null version, which S3 does not show here.
pub(crate) fn shown_new_version(version: Option<VersionRef>) -> Option<VersionRef> {
    version.filter(|version| *version != VersionRef::Null)
}

/// Converts a checksum algorithm from S3 to the volume.
pub(crate) fn sum_algorithm(algorithm: ChecksumAlgorithm) -> SumAlgorithm {
    match algorithm {
        ChecksumAlgorithm::Crc32 => SumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c => SumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme => SumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1 => SumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256 => SumAlgorithm::Sha256,
        ChecksumAlgorithm::Sha512 => SumAlgorithm::Sha512,
        ChecksumAlgorithm::Md5 => SumAlgorithm::Md5,
        ChecksumAlgorithm::Xxhash64 => SumAlgorithm::Xxhash64,
        ChecksumAlgorithm::Xxhash3 => SumAlgorithm::Xxhash3,
        ChecksumAlgorithm::Xxhash128 => SumAlgorithm::Xxhash128,
    }
}

/// Converts a checksum algorithm from the volume to S3.
pub(crate) fn checksum_algorithm(algorithm: SumAlgorithm) -> ChecksumAlgorithm {
    match algorithm {
        SumAlgorithm::Crc32 => ChecksumAlgorithm::Crc32,
        SumAlgorithm::Crc32c => ChecksumAlgorithm::Crc32c,
        SumAlgorithm::Crc64Nvme => ChecksumAlgorithm::Crc64Nvme,
        SumAlgorithm::Sha1 => ChecksumAlgorithm::Sha1,
        SumAlgorithm::Sha256 => ChecksumAlgorithm::Sha256,
        SumAlgorithm::Sha512 => ChecksumAlgorithm::Sha512,
        SumAlgorithm::Md5 => ChecksumAlgorithm::Md5,
        SumAlgorithm::Xxhash64 => ChecksumAlgorithm::Xxhash64,
        SumAlgorithm::Xxhash3 => ChecksumAlgorithm::Xxhash3,
        SumAlgorithm::Xxhash128 => ChecksumAlgorithm::Xxhash128,
    }
}

/// Converts the kind of a checksum from the volume to S3.
pub(crate) fn checksum_type(kind: SumKind) -> ChecksumType {
    match kind {
        SumKind::FullObject => ChecksumType::FullObject,
        SumKind::Composite => ChecksumType::Composite,
    }
}

/// Converts the kind of a checksum from S3 to the volume.
pub(crate) fn sum_kind(kind: ChecksumType) -> SumKind {
    match kind {
        ChecksumType::FullObject => SumKind::FullObject,
        ChecksumType::Composite => SumKind::Composite,
    }
}

/// Returns the checksum that responses show: the client's, otherwise the CRC-64 that is always
/// computed.
pub(crate) fn shown_sum(sums: &[Sum]) -> Option<&Sum> {
    sums.iter().find(|sum| sum.algorithm != SumAlgorithm::Crc64Nvme).or(sums.first())
}

/// Returns a checksum as responses show it. A composite one ends with the number of parts.
pub(crate) fn checksum(sum: &Sum, parts: u32) -> Checksum {
    let mut value = STANDARD.encode(&sum.bytes);
    if sum.kind == SumKind::Composite {
        value = format!("{value}-{parts}");
    }
    let kind = Some(checksum_type(sum.kind));
    Checksum { algorithm: checksum_algorithm(sum.algorithm), value, kind }
}

/// Returns the number of parts from which an object with this tag was completed.
pub(crate) fn part_count(tag: &Tag) -> u32 {
    match tag {
        Tag::Multipart(_, count) => u32::from(*count),
        Tag::Md5(_) | Tag::Opaque(..) => 1,
    }
}

/// Converts the metadata and tags of an object from S3 to the volume.
pub(crate) fn object_headers(metadata: Metadata, tags: &[(String, String)]) -> ObjectHeaders {
    let Metadata {
        content_type,
        cache_control,
        content_disposition,
        content_encoding,
        content_language,
        expires,
        website_redirect,
        storage_class,
        user,
    } = metadata;
    let headers = [
        (Header::ContentType, content_type),
        (Header::CacheControl, cache_control),
        (Header::ContentDisposition, content_disposition),
        (Header::ContentEncoding, content_encoding),
        (Header::ContentLanguage, content_language),
        (Header::Expires, expires),
        (Header::WebsiteRedirect, website_redirect),
        (Header::StorageClass, storage_class),
    ];
    let headers = headers.into_iter().filter_map(|(header, value)| Some((header, value?)));
    ObjectHeaders {
        headers: headers.collect(),
        user,
        tags: tags.to_vec(),
        ..ObjectHeaders::default()
    }
}

/// Returns the headers of a copy that takes its metadata from its source, without the source's
/// labels, such as its storage class: a copy has only the labels in its own request. Returns `None`
/// if the headers are those of the source.
pub(crate) fn copied_headers(source: &ObjectHeaders, labels: &CopyLabels) -> Option<ObjectHeaders> {
    const LABELS: [Header; 2] = [Header::WebsiteRedirect, Header::StorageClass];
    let has_labels = source.headers.iter().any(|(header, _)| LABELS.contains(header));
    if !has_labels && *labels == CopyLabels::default() {
        return None;
    }
    let kept = source.headers.iter().filter(|(header, _)| !LABELS.contains(header)).cloned();
    let CopyLabels { website_redirect, storage_class } = labels.clone();
    let named = [website_redirect, storage_class].into_iter().zip(LABELS);
    let named = named.filter_map(|(value, header)| Some((header, value?)));
    let headers = kept.chain(named).collect();
    Some(ObjectHeaders { headers, ..source.clone() })
}

/// Converts the metadata of an object from the volume to S3.
pub(crate) fn metadata(object: &ObjectHeaders) -> Metadata {
    let header = |header| object.header(header).map(str::to_owned);
    Metadata {
        content_type: header(Header::ContentType),
        cache_control: header(Header::CacheControl),
        content_disposition: header(Header::ContentDisposition),
        content_encoding: header(Header::ContentEncoding),
        content_language: header(Header::ContentLanguage),
        expires: header(Header::Expires),
        website_redirect: header(Header::WebsiteRedirect),
        storage_class: header(Header::StorageClass),
        user: object.user.clone(),
    }
}

/// Converts object ownership from S3 to the volume.
pub(crate) fn ownership(ownership: s3::request::OwnershipRule) -> ObjectOwnership {
    match ownership {
        s3::request::OwnershipRule::BucketOwnerEnforced => ObjectOwnership::BucketOwnerEnforced,
        s3::request::OwnershipRule::BucketOwnerPreferred => ObjectOwnership::BucketOwnerPreferred,
        s3::request::OwnershipRule::ObjectWriter => ObjectOwnership::ObjectWriter,
    }
}

/// Converts object ownership from the volume to S3.
pub(crate) fn shown_ownership(ownership: ObjectOwnership) -> s3::request::OwnershipRule {
    match ownership {
        ObjectOwnership::BucketOwnerEnforced => s3::request::OwnershipRule::BucketOwnerEnforced,
        ObjectOwnership::BucketOwnerPreferred => s3::request::OwnershipRule::BucketOwnerPreferred,
        ObjectOwnership::ObjectWriter => s3::request::OwnershipRule::ObjectWriter,
    }
}

/// Converts an ACL from S3 to the volume. Fails with `InvalidArgument` if an account does not
/// exist.
pub(crate) fn acl(access: &Access, grants: &[AclGrant]) -> Result<S3Acl, Fault> {
    let mut rows = Vec::with_capacity(grants.len());
    for AclGrant { grantee, permission } in grants {
        let grantee = match grantee {
            AclGrantee::Account(id) => {
                let (_, id) = access.account_of(id).ok_or_else(|| {
                    Fault::because(Code::InvalidArgument, "Invalid id")
                        .with("ArgumentName", "CanonicalUser/ID")
                        .with("ArgumentValue", id)
                })?;
                record::Grantee::Account(id)
            }
            AclGrantee::Group(AclGroup::AllUsers) => record::Grantee::AllUsers,
            AclGrantee::Group(AclGroup::AuthenticatedUsers) => record::Grantee::AuthenticatedUsers,
            AclGrantee::Group(AclGroup::LogDelivery) => record::Grantee::LogDelivery,
        };
        let permission = match permission {
            AclPermission::FullControl => record::AclRight::FullControl,
            AclPermission::Read => record::AclRight::Read,
            AclPermission::Write => record::AclRight::Write,
            AclPermission::ReadAcp => record::AclRight::ReadAcp,
            AclPermission::WriteAcp => record::AclRight::WriteAcp,
        };
        rows.push(record::Grant { grantee, permission });
    }
    Ok(S3Acl { grants: rows })
}

/// Returns the ACL for which the headers of a request ask. `owner` and `bucket_owner` are canonical
/// ids. Fails with `InvalidArgument` if an account does not exist.
pub(crate) fn requested_acl(
    access: &Access,
    requested: &RequestedAcl,
    owner: &str,
    bucket_owner: &str,
) -> Result<S3Acl, Fault> {
    match requested {
        RequestedAcl::Canned(canned) => acl(access, &canned.grants(owner, bucket_owner)),
        RequestedAcl::Grants(grants) => acl(access, grants),
    }
}

/// Returns the grants of an ACL as S3 shows them, with the names of accounts.
pub(crate) fn shown_grants(access: &Access, acl: &S3Acl) -> Vec<(AclGrant, String)> {
    let row = |grant: &record::Grant| {
        let (grantee, name) = match grant.grantee {
            record::Grantee::Account(id) => {
                let id = id.to_string();
                let name = access.account_of(&id).map(|(id, _)| access.owner(id).display_name);
                (AclGrantee::Account(id), name.unwrap_or_default())
            }
            record::Grantee::AllUsers => (AclGrantee::Group(AclGroup::AllUsers), String::new()),
            record::Grantee::AuthenticatedUsers => {
                (AclGrantee::Group(AclGroup::AuthenticatedUsers), String::new())
            }
            record::Grantee::LogDelivery => {
                (AclGrantee::Group(AclGroup::LogDelivery), String::new())
            }
        };
        (AclGrant { grantee, permission: acl_permission(grant.permission) }, name)
    };
    acl.grants.iter().map(row).collect()
}

/// Converts an error of an operation on a bucket to a fault. Faults about the bucket itself get its
/// name.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table of `fault` has the others")]
pub(crate) fn bucket_fault(bucket: &BucketName, error: impl Into<VolumeError>) -> Fault {
    match error.into() {
        VolumeError::Fs(FsError::NoSuchBucket) => {
            Fault::new(Code::NoSuchBucket).with("BucketName", bucket.as_str())
        }
        VolumeError::Fs(FsError::BucketNotEmpty) => {
            Fault::new(Code::BucketNotEmpty).with("BucketName", bucket.as_str())
        }
        VolumeError::Fs(FsError::VersionsLeft) => {
            let why = "The bucket you tried to delete is not empty. You must delete all versions in \
                       the bucket.";
            Fault::because(Code::BucketNotEmpty, why).with("BucketName", bucket.as_str())
        }
        VolumeError::Fs(FsError::TrashLeft) => Fault::new(Code::BucketNotEmpty)
            .with("BucketName", bucket.as_str())
            .detail("Its trash holds deleted objects: empty it with `ashlar trash empty`."),
        error => fault(error),
    }
}

/// Converts an error of the rules of a bucket to a fault. Faults about the bucket itself get its
/// name.
pub(crate) fn rules_fault(bucket: &BucketName, error: RulesError) -> Fault {
    match error {
        RulesError::Volume(error) => bucket_fault(bucket, error),
        RulesError::Unreadable(_) => Fault::new(Code::InternalError)
            .detail("A configuration of the bucket cannot be parsed."),
    }
}

/// Returns the fault of content that cannot be encrypted or decrypted.
fn encryption_fault(error: &ProtectionError) -> Fault {
    warn!(%error, "a key is not usable");
    match error.kind {
        ProtectionErrorKind::NotConfigured => {
            let why = "Server side encryption specified but KMS is not configured.";
            Fault::because(Code::NotImplemented, why)
        }
        ProtectionErrorKind::NoSuchKey => Code::KmsNotFoundException.into(),
        ProtectionErrorKind::Refused => Code::KmsDisabledException.into(),
        ProtectionErrorKind::Unavailable => Code::ServiceUnavailable.into(),
    }
}

/// Converts an error of the volume to a fault. Logs the errors that an operator must see; no caller
/// logs them again.
pub(crate) fn fault(error: impl Into<VolumeError>) -> Fault {
    match error.into() {
        VolumeError::Fs(error) => fs_fault(error),
        VolumeError::Overloaded => Code::SlowDown.into(),
        VolumeError::Unavailable(what) => {
            warn!(%what, "a store behind the gateway is unavailable");
            Code::ServiceUnavailable.into()
        }
        VolumeError::Full(what) => {
            warn!(%what, "a store behind the gateway is full");
            Code::XMinioStorageFull.into()
        }
        VolumeError::Unknown(what) => {
            warn!(%what, "the outcome of a change is unknown");
            Fault::because(
                Code::ServiceUnavailable,
                "The outcome of the request is unknown. Check the state before you retry.",
            )
        }
        VolumeError::Encryption(error) => encryption_fault(&error),
        VolumeError::Fenced => {
            Fault::because(Code::ServiceUnavailable, "This gateway has lost its session.")
        }
        VolumeError::Corrupt(what) => {
            error!(%what, "stored data is corrupt");
            Fault::because(Code::InternalError, "Stored data is corrupt.")
        }
        // Only the opening of a volume returns this error, and a gateway needs an open volume.
        refused @ VolumeError::Refused(_) => {
            error!(error = %refused, "an error of the volume that no request should cause");
            Code::InternalError.into()
        }
    }
}

/// Converts the fault of a delete marker for operations on tags, ACLs and locks, which a marker
/// does not have. The result is `MethodNotAllowed`, also if the marker is the current version and
/// the request names no version. Other faults stay as they are.
pub(crate) fn no_object(fault: Fault) -> Fault {
    let is_marker = fault.headers.iter().any(|(name, _)| name == "x-amz-delete-marker");
    if !is_marker || fault.code != Code::NoSuchKey {
        return fault;
    }
    let headers = fault.headers;
    let fault = Fault::new(Code::MethodNotAllowed).with("ResourceType", "DeleteMarker");
    Fault { headers, ..fault }.with_header(http::header::ALLOW, "DELETE")
}

/// Adds the headers of a delete marker, which names its version, to a fault that the marker causes.
fn marked(fault: Fault, marker: VersionRef) -> Fault {
    fault
        .with_header(HeaderName::from_static("x-amz-delete-marker"), "true")
        .with_header(HeaderName::from_static("x-amz-version-id"), &version_text(marker))
}

/// The table from errors of the namespace's operations to faults with codes of S3.
#[expect(clippy::too_many_lines, reason = "a row for each refusal, so that none is forgotten")]
fn fs_fault(error: FsError) -> Fault {
    match error {
        FsError::NoSuchBucket => Code::NoSuchBucket.into(),
        FsError::BucketExists => Code::BucketAlreadyOwnedByYou.into(),
        FsError::BucketNotEmpty => Code::BucketNotEmpty.into(),
        FsError::NoSuchKey => Code::NoSuchKey.into(),
        FsError::Deleted(marker) => marked(Code::NoSuchKey.into(), marker),
        FsError::NoSuchVersion => Code::NoSuchVersion.into(),
        FsError::IsMarker(marker, made) => {
            let fault = Fault::new(Code::MethodNotAllowed).with("ResourceType", "DeleteMarker");
            let made = s3::conditions::format_http_date(time(made));
            marked(fault, marker)
                .with_header(http::header::ALLOW, "DELETE")
                .with_header(http::header::LAST_MODIFIED, &made)
        }
        FsError::KeepsVersions => Fault::because(
            Code::InvalidRequest,
            "Objects of a bucket that keeps versions are not changed or renamed in place.",
        ),
        FsError::Locked => Fault::because(
            Code::AccessDenied,
            "Access Denied because object protected by object lock.",
        ),
        FsError::QuotaExceeded => Code::QuotaExceeded.into(),
        FsError::PreconditionFailed => failed("If-Match"),
        FsError::NoSuchUpload => Code::NoSuchUpload.into(),
        FsError::InvalidPart(_) => Code::InvalidPart.into(),
        FsError::TooManyTransmissions => Fault::because(
            Code::InvalidRequest,
            "The part was sent too often. Create a new upload.",
        ),
        FsError::InvalidPartOrder => Code::InvalidPartOrder.into(),
        FsError::PartTooSmall { .. } => Code::EntityTooSmall.into(),
        FsError::WrongSize => Fault::because(
            Code::InvalidRequest,
            "The total size of the parts is not the stated size, or it exceeds 5 TiB.",
        ),
        FsError::NeedsCustomerKey => missing_customer_key(),
        FsError::OtherRequest => Code::IdempotencyParameterMismatch.into(),
        FsError::TooDeep => Fault::because(
            Code::InvalidRequest,
            "The keys have more directories than one request can make and remove.",
        ),
        // Only a request with a condition reports a conflict; its operation handles that. Others
        // retry.
        FsError::Contended | FsError::OtherObject | FsError::SourceChanged => Code::SlowDown.into(),
        // `bucket_fault` handles these two, which only the deletion of a bucket causes.
        FsError::VersionsLeft
        | FsError::TrashLeft
        // No S3 request causes the others, or its operation handles them: the trash belongs to the
        // operator, some concern only programs on a mount, and some the session handles itself.
        | FsError::HasTrash
        | FsError::HasNoTrash
        | FsError::NotCurrent
        | FsError::VersionKept
        | FsError::KeepsNoVersions
        | FsError::NameExists
        | FsError::NotADirectory
        | FsError::IsADirectory
        | FsError::DirectoryNotEmpty
        | FsError::BelowItself
        | FsError::OtherBucket
        | FsError::OnlyBuckets
        | FsError::LinkedDirectory
        | FsError::TooManyLinks
        | FsError::Stale
        | FsError::ContentReplaced
        | FsError::BlockReleasePending
        | FsError::NoSuchAttribute
        | FsError::AttributeExists
        | FsError::TooManyAttributes
        | FsError::NoAcl
        | FsError::NoDefaultAcl
        | FsError::NoObject
        | FsError::MetadataTooLarge
        | FsError::TooManyTags
        | FsError::InodeNumberInUse => Code::InternalError.into(),
    }
}

#[cfg(test)]
mod tests;
