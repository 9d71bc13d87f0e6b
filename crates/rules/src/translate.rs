//! Translations from values of records to values of S3.
//!
//! For example, [`time`] turns nanoseconds since 1970 into a date, with which rules compute.

use record::{AclRight, Timestamp};
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
