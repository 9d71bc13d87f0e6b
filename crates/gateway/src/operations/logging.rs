//! The delivery of a bucket's access log into another bucket.
//!
//! The gateway refuses a destination to which it could not deliver, because a log that never
//! arrives is noticed too late. For example, a target without a policy for
//! `logging.s3.amazonaws.com` is refused with `AccessDenied`. The delivery makes the same checks
//! again for each object.

use http::StatusCode;
use identity::{LogDelivery, LogRefusal};
use record::BucketConfigKind;
use s3::bucket_logging::{LogSource, LoggingEnabled, NO_LOGGING, invalid_target};
use s3::xml::XmlLimits;
use s3::{Code, Fault};
use volume::{FsError, VolumeError};

use super::bucket_access::{config, set, stub};
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get(call: &Call<'_>) -> Result<S3Response, Fault> {
    let Some(config) = config(call, BucketConfigKind::Logging).await? else {
        return stub(call, NO_LOGGING);
    };
    match LoggingEnabled::parse(&config.bytes)? {
        Some(enabled) => Ok(S3Response::xml(StatusCode::OK, enabled.to_xml())),
        None => stub(call, NO_LOGGING),
    }
}

pub(super) async fn put(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    // "You must be the bucket owner to set the logging status of a bucket."
    if call.sender.account() != call.rules()?.settings.owner {
        return Err(Code::AccessDenied.into());
    }
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let enabled = LoggingEnabled::parse(&document)?;
    if let Some(enabled) = &enabled {
        check_target(call, enabled).await?;
    }
    let stored = enabled.map(|enabled| enabled.to_xml().into());
    set(call, BucketConfigKind::Logging, stored).await?;
    Ok(S3Response::empty(StatusCode::OK))
}

/// Fails if the log could not be delivered to its target now.
async fn check_target(call: &Call<'_>, enabled: &LoggingEnabled) -> Result<(), Fault> {
    let (source, target) = (call.rules()?, &enabled.target);
    let rules = match call.all_rules.get(call.volume, target).await {
        Ok(rules) => rules,
        Err(rules::RulesError::Volume(VolumeError::Fs(FsError::NoSuchBucket))) => {
            let why = "The target bucket for logging does not exist";
            return Err(invalid_target(target.as_str(), why));
        }
        Err(error) => return Err(translate::rules_fault(target, error)),
    };
    let log_source = LogSource {
        account: &source.account,
        region: &call.settings.region,
        bucket: call.bucket()?.as_str(),
    };
    let now = call.sender.origin.now;
    let key = enabled.key(&log_source, now, 0);
    let delivery = LogDelivery { source: log_source, target, key: &key, now };
    delivery.check(&rules).map_err(|refusal| match refusal {
        LogRefusal::OtherOwner | LogRefusal::DefaultRetention => {
            invalid_target(target.as_str(), refusal.sentence())
        }
        LogRefusal::NoPermission => Fault::because(Code::AccessDenied, refusal.sentence()),
    })
}
