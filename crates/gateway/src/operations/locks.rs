//! Object locks in requests and responses of other operations.

use record::{ObjectLock, RetainUntil, RetentionMode, Timestamp};
use s3::object_lock::{LegalHold, LockMode, ObjectLockHeaders, Retention, bypasses_governance};
use s3::operation::Permission;
use s3::{Code, Fault, VersionId};
use time::OffsetDateTime;
use volume::Object;

use crate::call::Call;
use crate::response::S3Response;
use crate::translate;

/// Returns the lock that the headers of a new object request. If they request no retention, the
/// commit that creates the object gives it the default retention of its bucket at that time.
///
/// Fault: `InvalidRequest` if the headers request a lock and the bucket has no object lock.
pub(super) fn for_new_object(call: &Call<'_>) -> Result<ObjectLock, Fault> {
    let requested = ObjectLockHeaders::parse(call.fields(), now(call))?;
    if !requested.is_empty() && call.rules()?.object_lock.is_none() {
        let why = "Bucket is missing ObjectLockConfiguration";
        return Err(Fault::because(Code::InvalidRequest, why));
    }
    let retention = requested.retention.map(to_retain_until);
    Ok(ObjectLock { retention, legal_hold: requested.legal_hold })
}

/// Adds the lock headers of an object. Each needs its own permission.
pub(super) fn describe(
    call: &Call<'_>,
    response: &mut S3Response,
    object: &Object,
    version: Option<&VersionId>,
) -> Result<(), Fault> {
    let lock = &object.file().object.lock;
    if lock.is_none() {
        return Ok(());
    }
    let (bucket, key) = call.object()?;
    let may = |action| {
        call.is_allowed(&Permission::on_version(action, bucket, key, version), Some(object))
    };
    if let Some(retention) = lock.retention
        && may("s3:GetObjectRetention")?
    {
        let retention = to_retention(retention);
        response.set_named("x-amz-object-lock-mode", retention.mode.as_str());
        let until = s3::xml::format_time(retention.until);
        response.set_named("x-amz-object-lock-retain-until-date", &until);
    }
    if let Some(hold) = lock.legal_hold
        && may("s3:GetObjectLegalHold")?
    {
        let hold = LegalHold::from_bool(hold).as_str();
        response.set_named("x-amz-object-lock-legal-hold", hold);
    }
    Ok(())
}

/// Returns true if the request asks to bypass retentions in governance mode. Policies then decide
/// for each version.
///
/// Fault: `InvalidArgument` if the bucket has no object lock.
pub(super) fn requests_bypass(call: &Call<'_>) -> Result<bool, Fault> {
    if !bypasses_governance(call.fields())? {
        return Ok(false);
    }
    if call.rules()?.object_lock.is_none() {
        return Err(Fault::because(
            Code::InvalidArgument,
            "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.",
        )
        .with("ArgumentName", "x-amz-bypass-governance-retention"));
    }
    Ok(true)
}

pub(super) fn not_locking() -> Fault {
    Fault::because(Code::InvalidRequest, "Bucket is missing Object Lock Configuration")
}

/// Returns the current time, with which the dates of requests are compared. The end of a retention
/// is compared with `Volume::passed` instead, so that no lock ends early.
pub(super) fn now(call: &Call<'_>) -> OffsetDateTime {
    translate::time(call.volume.now())
}

/// Converts a retention mode from S3 to the volume.
pub(super) fn to_mode(mode: LockMode) -> RetentionMode {
    match mode {
        LockMode::Governance => RetentionMode::Governance,
        LockMode::Compliance => RetentionMode::Compliance,
    }
}

/// Converts a retention from S3 to the volume.
pub(super) fn to_retain_until(retention: Retention) -> RetainUntil {
    let mode = to_mode(retention.mode);
    let until = i64::try_from(retention.until.unix_timestamp_nanos()).unwrap_or(i64::MAX);
    RetainUntil { mode, until: Timestamp(until) }
}

/// Converts a retention from the volume to S3.
pub(super) fn to_retention(retention: RetainUntil) -> Retention {
    let mode = match retention.mode {
        RetentionMode::Governance => LockMode::Governance,
        RetentionMode::Compliance => LockMode::Compliance,
    };
    Retention { mode, until: translate::time(retention.until) }
}
