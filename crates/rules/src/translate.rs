//! Translations between values of records and values of S3.
//!
//! For example, [`time()`] turns nanoseconds since 1970 into a date, with which rules compute.

use record::{AclRight, Timestamp, VersionRef, VersionStamp};
use s3::VersionId;
use s3::acl::AclPermission;
use time::OffsetDateTime;

/// Converts a time from a record to S3. A time out of range, which no supported clock produces,
/// becomes 1970.
pub fn time(at: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Converts the permission of a grant from a record to S3.
pub fn acl_permission(permission: AclRight) -> AclPermission {
    match permission {
        AclRight::FullControl => AclPermission::FullControl,
        AclRight::Read => AclPermission::Read,
        AclRight::Write => AclPermission::Write,
        AclRight::ReadAcp => AclPermission::ReadAcp,
        AclRight::WriteAcp => AclPermission::WriteAcp,
    }
}

/// Converts a version id of S3 to a record's; `None` if it is malformed.
pub fn version(version: &VersionId) -> Option<VersionRef> {
    match version {
        VersionId::Null => Some(VersionRef::Null),
        VersionId::Other(id) => id.parse::<VersionStamp>().ok().map(VersionRef::Id),
    }
}

/// Returns a version id as responses show it.
pub fn version_text(version: VersionRef) -> String {
    match version {
        VersionRef::Null => VersionId::Null.as_str().to_owned(),
        VersionRef::Id(id) => id.to_string(),
    }
}
