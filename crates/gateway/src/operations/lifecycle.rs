//! Lifecycle configurations, and the response headers that announce expirations.
//!
//! For example, a rule expires `logs/` after 30 days. A GET of `logs/a` then has the header
//! `x-amz-expiration` with the date and the id of the rule.

use http::StatusCode;
use record::{BucketConfigKind, Timestamp};
use s3::conditions::format_http_date;
use s3::lifecycle::{LifecycleConfiguration, expiration_header};
use s3::xml::XmlLimits;
use s3::{Code, Fault};
use time::{Duration, OffsetDateTime};
use volume::Object;

use super::bucket_access::{absent, config, set};
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate::time;

/// The header for the minimum size of objects that move to a cheaper storage class. This gateway
/// has one class, so the header always has the default of S3.
const TRANSITION_SIZE: (&str, &str) =
    ("x-amz-transition-default-minimum-object-size", "all_storage_classes_128K");

/// The size in bytes of a generated rule id.
const ID_BYTES: usize = 18;

pub(super) async fn get(call: &Call<'_>) -> Result<S3Response, Fault> {
    let config = config(call, BucketConfigKind::Lifecycle).await?;
    let config = config.ok_or_else(|| absent(call, Code::NoSuchLifecycleConfiguration))?;
    let config = LifecycleConfiguration::parse(&config.bytes)?;
    let mut response = S3Response::xml(StatusCode::OK, config.to_xml());
    response.set_named(TRANSITION_SIZE.0, TRANSITION_SIZE.1);
    Ok(response)
}

pub(super) async fn put(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let mut config = LifecycleConfiguration::parse(&document)?;
    for rule in &mut config.rules {
        if rule.id.is_none() {
            rule.id = Some(fresh_id()?);
        }
    }
    set(call, BucketConfigKind::Lifecycle, Some(config.to_xml().into())).await?;
    let mut response = S3Response::empty(StatusCode::OK);
    response.set_named(TRANSITION_SIZE.0, TRANSITION_SIZE.1);
    Ok(response)
}

fn fresh_id() -> Result<String, Fault> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "cannot create a rule id: the machine gives no random bytes");
        Fault::new(Code::InternalError)
    })?;
    Ok(hex::encode(bytes))
}

/// Returns the configured length of a day of lifecycle rules: 24 hours, shorter in tests.
pub(crate) fn day(call: &Call<'_>) -> Duration {
    call.settings.lifecycle_day.try_into().unwrap_or(Duration::DAY)
}

/// Adds the header with the expiration of an object, if a rule expires it.
pub(super) fn describe(
    call: &Call<'_>,
    response: &mut S3Response,
    size: u64,
    tags: &[(String, String)],
    changed: Timestamp,
) -> Result<(), Fault> {
    let Some(config) = &call.rules()?.lifecycle else { return Ok(()) };
    let (_, key) = call.object()?;
    let due = config.next_expiration(key.as_str(), size, tags, time(changed), day(call));
    if let Some((rule, date)) = due {
        let id = rule.id.as_deref().unwrap_or_default();
        response.set_named("x-amz-expiration", &expiration_header(id, date));
    }
    Ok(())
}

/// As [`describe`], for an object that was looked up.
pub(super) fn describe_object(
    call: &Call<'_>,
    response: &mut S3Response,
    object: &Object,
) -> Result<(), Fault> {
    let tags = &object.file().object.tags;
    describe(call, response, object.size(), tags, object.changed())
}

/// As [`describe`], for the current object of the request's key. Looks the object up, and only if
/// the bucket has lifecycle rules.
pub(super) async fn describe_current(
    call: &Call<'_>,
    response: &mut S3Response,
) -> Result<(), Fault> {
    if call.rules()?.lifecycle.is_none() {
        return Ok(());
    }
    let (_, key) = call.object()?;
    // The operation has succeeded. If another client has changed or removed the object since then,
    // the header describes the new object or is missing, and the operation is still a success.
    // Boxed, so that requests to buckets without rules do not reserve memory for this future.
    let found = Box::pin(call.volume.stat(call.named_bucket()?, key.as_str().as_bytes()));
    match found.await {
        Ok(object) => describe_object(call, response, &object),
        Err(_) => Ok(()),
    }
}

/// Adds the headers with the abort date of an upload, if a rule aborts it.
pub(super) fn describe_upload(
    call: &Call<'_>,
    response: &mut S3Response,
    begun: OffsetDateTime,
) -> Result<(), Fault> {
    let Some(config) = &call.rules()?.lifecycle else { return Ok(()) };
    let (_, key) = call.object()?;
    if let Some((rule, date)) = config.next_abort(key.as_str(), begun, day(call)) {
        response.set_named("x-amz-abort-date", &format_http_date(date));
        response.set_named("x-amz-abort-rule-id", rule.id.as_deref().unwrap_or_default());
    }
    Ok(())
}
