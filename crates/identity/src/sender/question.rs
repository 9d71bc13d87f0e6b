//! The condition values of one permission: the question to which policies answer.
//!
//! The code of an operation makes the `Permission`, with the values that the operation uses.
//! Conditions take their values from this permission, from its sender, and from its object. No
//! value comes from a header that the operation ignores. For example, `s3:x-amz-acl` has a value
//! only for operations that set an ACL.

use http::header::HeaderValue;
use policy::{ConditionKey, ConditionValues, KeySource, ResolvedPatterns, Values};
use record::{RetainUntil, RetentionMode};
use s3::auth::{AuthKind, Verified};
use s3::object_lock::{LegalHold, LockMode};
use s3::operation::{LockFacts, Permission};
use s3::{TagSet, VersionId};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use volume::Object;

use crate::access::{Identity, Session, WebIdentity};
use crate::origin::RequestOrigin;

/// The length of a day in seconds, for `s3:object-lock-remaining-retention-days`.
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The age, in milliseconds, of a signature without a date. A policy that denies old signatures
/// denies it, because its age is unknown.
const UNKNOWN_AGE_MILLISECONDS: i64 = i64::MAX;

/// One permission of a sender for an object, as policies evaluate it.
pub(super) struct PermissionQuestion<'a> {
    /// The sender; `None` for an anonymous request.
    pub(super) identity: Option<&'a Identity>,
    pub(super) verified: &'a Verified,
    pub(super) origin: RequestOrigin<'a>,
    /// Patterns of policies after variable substitution, cached for all questions of the request.
    pub(super) resolved: &'a ResolvedPatterns,
    pub(super) permission: &'a Permission,
    /// The object version of the permission, if it was looked up and exists.
    pub(super) object: Option<&'a Object>,
}

impl ConditionValues for PermissionQuestion<'_> {
    fn resolved(&self) -> Option<&ResolvedPatterns> {
        Some(self.resolved)
    }

    #[expect(clippy::too_many_lines, reason = "a row for each key, so that none is forgotten")]
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        let facts = &self.permission.facts;
        let listing = |value| Values::from_borrowed(Option::as_deref(value));
        let lock = || self.lock();
        match key {
            ConditionKey::SourceIp => self.source_ip(),
            ConditionKey::SecureTransport => self.secure_transport(),
            ConditionKey::TlsVersion => self.tls_version(),
            ConditionKey::TokenIssueTime => self.token_issue_time(),
            ConditionKey::FederatedProvider => {
                Values::from_owned(self.web().map(WebIdentity::provider_arn))
            }
            ConditionKey::Jwt(claim) => self.web().map_or(Values::Absent, |web| web.claim(claim)),
            ConditionKey::AuthType => self.auth_type(),
            ConditionKey::SignatureVersion => self.signature_version(),
            ConditionKey::SignatureAge => self.signature_age(),
            ConditionKey::ContentSha256 => {
                let payload = self.verified.payload();
                Values::from_owned(Some(payload.content_sha256().into_owned()))
            }
            ConditionKey::CurrentTime => Values::from_owned(self.origin.now.format(&Rfc3339).ok()),
            ConditionKey::EpochTime => {
                Values::from_owned(Some(self.origin.now.unix_timestamp().to_string()))
            }
            ConditionKey::Prefix => listing(&facts.listing.prefix),
            ConditionKey::Delimiter => listing(&facts.listing.delimiter),
            ConditionKey::MaxKeys => listing(&facts.listing.max_keys),
            ConditionKey::VersionId => {
                Values::from_owned(self.permission.version.as_ref().map(version_text))
            }
            ConditionKey::IfMatch => Values::from_owned(facts.condition.if_match()),
            ConditionKey::IfNoneMatch => Values::from_borrowed(facts.condition.if_none_match()),
            ConditionKey::ObjectCreationOperation => {
                let creates = facts.creates_object;
                Values::from_borrowed(creates.map(|creates| if creates { "true" } else { "false" }))
            }
            ConditionKey::CopySource => Values::from_borrowed(facts.copy_source.as_deref()),
            ConditionKey::LocationConstraint => Values::from_borrowed(facts.location.as_deref()),
            // The table of condition keys has the names of these headers.
            ConditionKey::Referer
            | ConditionKey::UserAgent
            | ConditionKey::Acl
            | ConditionKey::GrantRead
            | ConditionKey::GrantWrite
            | ConditionKey::GrantReadAcp
            | ConditionKey::GrantWriteAcp
            | ConditionKey::GrantFullControl
            | ConditionKey::MetadataDirective
            | ConditionKey::StorageClass
            | ConditionKey::ServerSideEncryption
            | ConditionKey::KmsKeyId
            | ConditionKey::CustomerAlgorithm
            | ConditionKey::ObjectOwnership => self.header(key),
            ConditionKey::ExistingObjectTag(tag) => value_of(self.tags_of_object(), tag),
            ConditionKey::RequestObjectTag(tag) => value_of(self.tags_of_request(), tag),
            ConditionKey::RequestObjectTagKeys => match self.tags_of_request() {
                [] => Values::Absent,
                tags => Values::Many(tags.iter().map(|(name, _)| name.as_str().into()).collect()),
            },
            ConditionKey::ObjectLockMode => {
                Values::from_borrowed(lock().mode.map(LockMode::as_str))
            }
            ConditionKey::ObjectLockRetainUntilDate => {
                Values::from_owned(lock().until.and_then(|until| until.format(&Rfc3339).ok()))
            }
            ConditionKey::ObjectLockRemainingRetentionDays => {
                let days = lock().until.map(|until| remaining_days(until, self.origin.now));
                Values::from_owned(days.map(|days| days.to_string()))
            }
            ConditionKey::ObjectLockLegalHold => {
                let hold = lock().legal_hold.map(|on| LegalHold::from_bool(on).as_str());
                Values::from_borrowed(hold)
            }
            // Only a service acts for a bucket: see `log_delivery`.
            ConditionKey::SourceAccount
            | ConditionKey::SourceArn
            // The `policy` crate takes these from the principal.
            | ConditionKey::Username
            | ConditionKey::UserId
            | ConditionKey::PrincipalArn
            | ConditionKey::PrincipalAccount
            | ConditionKey::PrincipalType
            // The parser refuses policies that use one of these.
            | ConditionKey::PrincipalOrgId
            | ConditionKey::MultiFactorAuthAge
            | ConditionKey::MultiFactorAuthPresent
            | ConditionKey::SourceOwner
            | ConditionKey::SourceVpc
            | ConditionKey::SourceVpce
            | ConditionKey::DataAccessPointArn
            | ConditionKey::DataAccessPointAccount => Values::Absent,
        }
    }
}

impl PermissionQuestion<'_> {
    fn source_ip(&self) -> Values<'_> {
        Values::from_owned(self.origin.client.map(|client| client.address.to_string()))
    }

    fn secure_transport(&self) -> Values<'_> {
        let tls = self.origin.client.is_some_and(|client| client.tls.is_some());
        Values::from_borrowed(Some(if tls { "true" } else { "false" }))
    }

    fn tls_version(&self) -> Values<'_> {
        Values::from_borrowed(self.origin.client.and_then(|client| client.tls.flatten()))
    }

    fn session(&self) -> Option<&Session> {
        self.identity.and_then(|identity| identity.session.as_ref())
    }

    /// Returns the web identity of the sender's session, if it has one.
    fn web(&self) -> Option<&WebIdentity> {
        self.session().and_then(|session| session.web.as_ref())
    }

    fn token_issue_time(&self) -> Values<'_> {
        Values::from_owned(self.session().and_then(|session| session.began.format(&Rfc3339).ok()))
    }

    fn auth_type(&self) -> Values<'_> {
        Values::from_borrowed(match self.verified.kind() {
            AuthKind::Anonymous => None,
            AuthKind::Header => Some("REST-HEADER"),
            AuthKind::Query | AuthKind::QueryV2 => Some("REST-QUERY-STRING"),
            AuthKind::Form | AuthKind::FormV2 => Some("POST"),
        })
    }

    fn signature_version(&self) -> Values<'_> {
        Values::from_borrowed(match self.verified.kind() {
            AuthKind::Anonymous => None,
            AuthKind::Header | AuthKind::Query | AuthKind::Form => Some("AWS4-HMAC-SHA256"),
            AuthKind::QueryV2 | AuthKind::FormV2 => Some("AWS"),
        })
    }

    /// Returns the milliseconds since the request was signed, as the value of `s3:signatureAge`.
    fn signature_age(&self) -> Values<'_> {
        let verified = self.verified;
        let age = match (verified.kind(), verified.signed_at()) {
            (AuthKind::Anonymous, _) => None,
            (_, Some(at)) => Some((self.origin.now - at).whole_milliseconds().max(0)),
            (_, None) => Some(UNKNOWN_AGE_MILLISECONDS.into()),
        };
        Values::from_owned(age.map(|age| age.to_string()))
    }

    /// Returns the value of a condition key that copies one header of the request. The table of
    /// keys names the header.
    fn header(&self, key: &ConditionKey) -> Values<'_> {
        match key.source() {
            KeySource::Header(name) => Values::from_borrowed(self.permission.facts.header(name)),
            KeySource::Transport(name) => self.transport_header(name),
            KeySource::Principal(_)
            | KeySource::Sender
            | KeySource::Service
            | KeySource::Request
            | KeySource::Object
            | KeySource::Lock
            | KeySource::Unsupported => Values::Absent,
        }
    }

    /// Returns the value of an HTTP header that S3 does not interpret, such as `Referer`, as the
    /// value of a condition key.
    fn transport_header(&self, name: &str) -> Values<'_> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let values: Vec<String> = self.origin.headers.get_all(name).iter().map(text).collect();
        Values::from_owned((!values.is_empty()).then(|| values.join(", ")))
    }

    fn tags_of_request(&self) -> &[(String, String)] {
        self.permission.facts.tags.as_ref().map_or(&[], TagSet::as_slice)
    }

    fn tags_of_object(&self) -> &[(String, String)] {
        self.object.map_or(&[], |object| &object.file().object.tags)
    }

    /// Returns the lock that the action leaves: the parts that it sets, and the others of the
    /// object version. For example, an action that removes the retention has the version's mode. A
    /// new object has only the parts that the action sets.
    fn lock(&self) -> LockFacts {
        let facts = &self.permission.facts;
        let own = facts.lock.unwrap_or_default();
        if facts.creates_object.is_some() {
            return own;
        }
        let object = self.object.map(lock_of).unwrap_or_default();
        LockFacts {
            mode: own.mode.or(object.mode),
            until: own.until.or(object.until),
            legal_hold: own.legal_hold.or(object.legal_hold),
        }
    }
}

fn value_of<'t>(tags: &'t [(String, String)], tag: &str) -> Values<'t> {
    let found = tags.iter().find(|(name, _)| name == tag);
    Values::from_borrowed(found.map(|(_, value)| value.as_str()))
}

/// Returns the number of days until a retention ends at `until`, rounded up.
fn remaining_days(until: OffsetDateTime, now: OffsetDateTime) -> i64 {
    let rest = until - now;
    if !rest.is_positive() {
        return 0;
    }
    let partial_day =
        i64::from(rest.whole_seconds() % DAY_SECONDS != 0 || rest.subsec_nanoseconds() != 0);
    rest.whole_seconds() / DAY_SECONDS + partial_day
}

/// Returns the retention and the legal hold of an object version, for the condition keys of object
/// locks.
fn lock_of(object: &Object) -> LockFacts {
    let lock = &object.file().object.lock;
    let mode = |retention: RetainUntil| match retention.mode {
        RetentionMode::Governance => LockMode::Governance,
        RetentionMode::Compliance => LockMode::Compliance,
    };
    LockFacts {
        mode: lock.retention.map(mode),
        until: lock.retention.map(|retention| rules::time(retention.until)),
        legal_hold: lock.legal_hold,
    }
}

/// Returns a version id in the form that responses use, for each spelling in the request.
fn version_text(version: &VersionId) -> String {
    match rules::version(version) {
        Some(known) => rules::version_text(known),
        None => version.as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests;
