//! The policy of a form: the uploads that its signer allows.
//!
//! For example, `{"expiration": "2026-01-01T00:00:00Z", "conditions": [{"bucket": "photos"},
//! ["starts-with", "$key", "up/"]]}` allows uploads to `photos` with keys that begin with `up/`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::condition::{Condition, FieldCondition, not_json};
use super::form::Form;
use super::length::LengthRange;
use super::refusal::{denied, invalid};
use crate::Fault;
use crate::name::BucketName;

/// The decoder of policies. Some clients omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Form fields that need no condition in the policy. None of them changes the object.
const EXEMPT_FIELDS: [&str; 6] =
    ["awsaccesskeyid", "file", "policy", "signature", "submit", "x-amz-signature"];

/// The parsed policy of an upload form: the time at which it expires, and the conditions that the
/// fields and the file must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostPolicy {
    expiration: OffsetDateTime,
    conditions: Vec<FieldCondition>,
    lengths: LengthRange,
}

impl PostPolicy {
    /// Parses the field `policy`: JSON in base64.
    ///
    /// Fails with `InvalidPolicyDocument`, or with `AccessDenied` for a condition that can never
    /// hold.
    pub fn parse(base64: &str) -> Result<PostPolicy, Fault> {
        let text = base64.trim();
        if text.is_empty() {
            return Err(invalid("Expecting '{' but found End-of-Input"));
        }
        let json = BASE64.decode(text).map_err(|_| invalid("invalid Base64 encoding."))?;
        let json = String::from_utf8(json).map_err(|_| not_json())?;
        // The escape is removed before parsing, because JSON does not allow it.
        let json = without_dollar_escapes(&json);
        // The values stay raw text, because error messages repeat conditions exactly as written.
        let document: BTreeMap<String, &RawValue> =
            serde_json::from_str(&json).map_err(|_| not_json())?;
        let expiration =
            *document.get("expiration").ok_or_else(|| invalid("Policy missing expiration."))?;
        let conditions =
            *document.get("conditions").ok_or_else(|| invalid("Policy missing conditions."))?;
        let unknown =
            document.keys().find(|key| !matches!(key.as_str(), "expiration" | "conditions"));
        // An unknown member could be a restriction, so it is refused.
        if let Some(name) = unknown {
            return Err(invalid(&format!("Unexpected: \"{name}\"")));
        }
        let conditions: Vec<&RawValue> = serde_json::from_str(conditions.get())
            .map_err(|_| invalid("Invalid 'conditions' value: must be a List."))?;
        let expiration: String = serde_json::from_str(expiration.get()).map_err(|_| not_json())?;
        let expiration = OffsetDateTime::parse(&expiration, &Rfc3339)
            .map_err(|_| invalid(&format!("Invalid 'expiration' value: '{expiration}'")))?;
        let mut policy =
            PostPolicy { expiration, conditions: Vec::new(), lengths: LengthRange::ANY };
        for raw in conditions {
            match Condition::parse(raw)? {
                Condition::Field(condition) => policy.conditions.push(condition),
                Condition::Length(range) => policy.lengths = policy.lengths.and(range),
            }
        }
        Ok(policy)
    }

    /// Checks that the policy is valid at `now` and allows the fields of a form for a bucket.
    /// Returns the length range, which the caller checks when the file arrives.
    ///
    /// Fails with `AccessDenied` for a policy that has expired or does not name the bucket, for a
    /// field without a condition, and for a condition that does not hold.
    pub fn check(
        &self,
        form: &Form,
        bucket: &BucketName,
        now: OffsetDateTime,
    ) -> Result<LengthRange, Fault> {
        if now > self.expiration {
            return Err(expired());
        }
        // Each field must be covered, so that the signer controls the whole upload.
        if let Some(name) = form.names().find(|name| needs_condition(name) && !self.covers(name)) {
            return Err(denied(&format!("Extra input fields: {name}")));
        }
        for condition in &self.conditions {
            let field = condition.field.as_str();
            // The bucket comes from the URL. A form field with another bucket must not satisfy the
            // condition.
            if field == "bucket" {
                condition.check(Some(bucket.as_str()))?;
            }
            if field != "bucket" || form.has("bucket") {
                condition.check(form.get(field))?;
            }
        }
        // A policy without a bucket condition would be valid for each bucket of the signer.
        if !self.covers("bucket") {
            return Err(denied("Extra input fields: bucket"));
        }
        Ok(self.lengths)
    }

    /// Returns true if a condition of the policy names this form field.
    fn covers(&self, name: &str) -> bool {
        self.conditions.iter().any(|condition| condition.field == name)
    }
}

/// Returns true if the policy must have a condition on this form field.
fn needs_condition(name: &str) -> bool {
    !EXEMPT_FIELDS.contains(&name) && !name.starts_with("x-ignore-")
}

/// Replaces `\$` by `$`. S3 allows this escape in policies, and JSON does not.
fn without_dollar_escapes(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut characters = json.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            match characters.next() {
                Some('$') => out.push('$'),
                escaped => {
                    out.push('\\');
                    out.extend(escaped);
                }
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// Returns the fault of an expired policy.
pub(crate) fn expired() -> Fault {
    denied("Policy expired.")
}
