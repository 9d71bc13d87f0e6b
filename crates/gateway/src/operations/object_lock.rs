//! Object Lock: the default retention of a bucket, and the retention and legal hold of versions.
//!
//! For example, `PutObjectRetention` in compliance mode keeps a version until a date. No client can
//! delete it before, and no client can shorten the time.

use bytes::Bytes;
use http::StatusCode;
use record::{BucketConfig, BucketConfigKind, RetentionDefault};
use s3::object_lock::{LegalHold, ObjectLockConfiguration, Retention};
use s3::operation::{LockFacts, Permission};
use s3::xml::XmlLimits;
use s3::{Code, Fault};
use volume::{FsError, Object, ObjectChange, VolumeError};

use super::locks::{not_locking, now, requests_bypass, to_mode, to_retain_until, to_retention};
use super::{bucket_access, change, read};
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::{document, required_document};
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get_bucket(call: &Call<'_>) -> Result<S3Response, Fault> {
    let config = bucket_access::config(call, BucketConfigKind::ObjectLock).await?;
    let config = config
        .ok_or_else(|| bucket_access::absent(call, Code::ObjectLockConfigurationNotFoundError))?;
    let config = ObjectLockConfiguration::parse(&config.bytes)?;
    Ok(S3Response::xml(StatusCode::OK, config.to_xml()))
}

pub(super) async fn put_bucket(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let requested = ObjectLockConfiguration::parse(&document)?;
    let default = requested.default.map(|default| RetentionDefault {
        mode: to_mode(default.mode),
        days: default.period.days(),
    });
    let (name, bytes) = (call.bucket()?, Bytes::from(requested.to_xml()));
    match call.volume.set_object_lock(call.named_bucket()?, &BucketConfig { bytes }, default).await
    {
        Ok(()) => Ok(S3Response::empty(StatusCode::OK)),
        Err(VolumeError::Fs(FsError::KeepsNoVersions)) => Err(Fault::because(
            Code::InvalidBucketState,
            "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
        )),
        Err(error) => Err(translate::bucket_fault(name, error)),
    }
}

pub(super) async fn get_retention(call: &Call<'_>) -> Result<S3Response, Fault> {
    let object = find(call).await?;
    let retention = object.file().object.lock.retention.ok_or_else(|| unlocked(call))?;
    Ok(S3Response::xml(StatusCode::OK, to_retention(retention).to_xml()))
}

pub(super) async fn put_retention(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, XmlLimits::SMALL.bytes).await?;
    let retention = Retention::parse(&document, now(call))?;
    let lock = LockFacts {
        mode: retention.map(|retention| retention.mode),
        until: retention.map(|retention| retention.until),
        legal_hold: None,
    };
    let permissions = call.permissions_with_body(|facts| facts.lock = Some(lock))?;
    call.require_permissions(&permissions).await?;
    let bypass = bypass(call, Some(lock))?;
    let retention = retention.map(to_retain_until);
    let needs_object = match &bypass {
        Some(bypass) => call.depends_on_object(std::slice::from_ref(bypass))?,
        None => false,
    };
    set(call, &permissions, needs_object, |object| {
        let may = |bypass| call.is_allowed(bypass, object);
        let bypasses_governance = bypass.as_ref().map(may).transpose()?.unwrap_or(false);
        Ok(Some(ObjectChange::Retention { retention, bypasses_governance }))
    })
    .await
}

pub(super) async fn get_legal_hold(call: &Call<'_>) -> Result<S3Response, Fault> {
    let object = find(call).await?;
    let hold = object.file().object.lock.legal_hold.ok_or_else(|| unlocked(call))?;
    Ok(S3Response::xml(StatusCode::OK, LegalHold::from_bool(hold).to_xml()))
}

pub(super) async fn put_legal_hold(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, XmlLimits::SMALL.bytes).await?;
    let hold = LegalHold::parse(&document)?;
    let lock = LockFacts { legal_hold: Some(hold.is_on()), ..LockFacts::default() };
    let permissions = call.permissions_with_body(|facts| facts.lock = Some(lock))?;
    call.require_permissions(&permissions).await?;
    let change = |_: Option<&Object>| Ok(Some(ObjectChange::LegalHold(hold.is_on())));
    set(call, &permissions, false, change).await
}

async fn find(call: &Call<'_>) -> Result<Object, Fault> {
    let object = read::find(call, call.arguments().version()?.as_ref()).await?;
    call.rules()?.object_lock.ok_or_else(not_locking)?;
    Ok(object)
}

async fn set(
    call: &Call<'_>,
    permissions: &[Permission],
    needs_object: bool,
    change: impl Fn(Option<&Object>) -> Result<Option<ObjectChange<'static>>, Fault>,
) -> Result<S3Response, Fault> {
    call.rules()?.object_lock.ok_or_else(not_locking)?;
    let version = change::object(call, permissions, needs_object, change).await?;
    let mut response = S3Response::empty(StatusCode::OK);
    response.version(version);
    Ok(response)
}

/// Returns the permission to bypass a retention in governance mode, if the request asks for it.
fn bypass(call: &Call<'_>, lock: Option<LockFacts>) -> Result<Option<Permission>, Fault> {
    let version = call.arguments().version()?;
    let (bucket, key) = call.object()?;
    let permission = || Permission::bypass_governance(bucket, key, version.as_ref(), lock);
    Ok(requests_bypass(call)?.then(permission))
}

fn unlocked(call: &Call<'_>) -> Fault {
    let key = call.resource.key().map_or("", s3::ObjectKey::as_str);
    Fault::new(Code::NoSuchObjectLockConfiguration).with("Key", key)
}
