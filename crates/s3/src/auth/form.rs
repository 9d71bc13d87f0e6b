//! The credentials in a form: a signature of its policy.
//!
//! The signature covers only the policy, and the policy covers the fields.
//! [`FormCredentials::verify`] therefore checks both. Invariant: a [`VerifiedForm`] exists only for
//! a form whose policy allows its fields. For example, a form with a valid signature and a field
//! that no policy condition covers is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sigv4::{ALGORITHM, CredentialScope, SigningKey, parse_timestamp};
use subtle::ConstantTimeEq as _;
use time::{Duration, OffsetDateTime};

use super::canonical::spaced_hex;
use super::credentials::Credentials;
use super::head::RequestHead;
use super::header::parse_credential;
use super::kind::AuthKind;
use super::payload::PayloadMode;
use super::presigned::PRESIGN_SECONDS_MAX;
use super::signature_rules::{SignatureRules, check_future};
use super::token::{SESSION_TOKEN, check_token};
use super::unknown_key::{DUMMY_SECRET, unknown_key};
use super::v2::{hmac_sha1, unsupported};
use super::verified::Verified;
use crate::fields::invalid;
use crate::name::BucketName;
use crate::post::{Form, LengthRange, PostPolicy, expired, missing};
use crate::{Code, Fault};

// Names of form fields, in lower case.
const ALGORITHM_FIELD: &str = "x-amz-algorithm";
const CREDENTIAL: &str = "x-amz-credential";
const DATE: &str = "x-amz-date";
const SIGNATURE: &str = "x-amz-signature";
const POLICY: &str = "policy";
const ACCESS_KEY_V2: &str = "awsaccesskeyid";
const SIGNATURE_V2: &str = "signature";

/// The credentials in the fields of an upload form: an access key and a signature of the form's
/// policy, parsed and not yet verified.
#[derive(Clone, Debug)]
pub struct FormCredentials<'a> {
    form: &'a Form,
    signature: FormSignature,
}

/// The signature of a form, of one of two versions.
#[derive(Clone, Debug)]
enum FormSignature {
    /// The form has neither a signature nor a policy.
    Absent,
    V4(FormV4),
    V2(FormV2),
}

/// A SigV4 signature of a form's policy, not yet verified.
#[derive(Clone, Debug)]
struct FormV4 {
    access_key: String,
    /// The credential as sent, for error messages.
    credential: String,
    scope: CredentialScope,
    timestamp: String,
    signed_at: OffsetDateTime,
    policy: String,
    signature: String,
}

/// A SigV2 signature of a form's policy, not yet verified.
#[derive(Clone, Debug)]
struct FormV2 {
    access_key: String,
    policy: String,
    signature: String,
}

/// An upload form whose sender is verified or anonymous, and whose signed policy, if it has one,
/// allows its fields.
///
/// Only [`FormCredentials::verify`] creates one.
#[derive(Clone, Debug)]
pub struct VerifiedForm<'a> {
    form: &'a Form,
    verified: Verified,
    lengths: LengthRange,
}

impl VerifiedForm<'_> {
    /// Returns the form.
    pub fn form(&self) -> &Form {
        self.form
    }

    /// Returns the verified sender of the form.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    /// Returns the minimum and maximum length of the file that the policy of the form allows. The
    /// caller checks the maximum while the file arrives, and the whole range at the end of the
    /// file.
    pub fn lengths(&self) -> LengthRange {
        self.lengths
    }
}

impl<'a> FormCredentials<'a> {
    /// Parses the credentials of a form, and checks that the HTTP request has no other credentials.
    ///
    /// Fails with `InvalidArgument` for two kinds of credentials at once and for missing or
    /// malformed fields, or as `Credentials::parse`.
    pub fn parse(request: &RequestHead<'_>, form: &'a Form) -> Result<FormCredentials<'a>, Fault> {
        // A form must be the only credential of its request, because its signature does not cover
        // the request head.
        let has_other_credentials = !matches!(Credentials::parse(request)?, Credentials::Anonymous);
        let has_any = |names: &[&str]| names.iter().any(|name| form.has(name));
        let v4 = has_any(&[ALGORITHM_FIELD, CREDENTIAL, DATE, SIGNATURE]);
        let v2 = has_any(&[ACCESS_KEY_V2, SIGNATURE_V2]);
        let signature = match (has_other_credentials, v4, v2) {
            (false, false, false) if !form.has(POLICY) => FormSignature::Absent,
            // A form with a policy and without a signature is treated as an incomplete SigV4 form,
            // so it is refused.
            (false, _, false) => FormSignature::V4(FormV4::parse(form)?),
            (false, false, true) => FormSignature::V2(FormV2::parse(form)?),
            _ => {
                return Err(invalid(
                    "Authorization",
                    "Only one auth mechanism allowed; the form's fields, a query parameter or the \
                     Authorization header should be specified",
                ));
            }
        };
        Ok(FormCredentials { form, signature })
    }

    /// Returns the kind of credentials that the form has: SigV4, SigV2 or none.
    pub fn kind(&self) -> AuthKind {
        match self.signature {
            FormSignature::Absent => AuthKind::Anonymous,
            FormSignature::V4(_) => AuthKind::Form,
            FormSignature::V2(_) => AuthKind::FormV2,
        }
    }

    /// Returns the token of temporary credentials in the form; `None` if the form has none.
    pub fn session_token(&self) -> Option<&str> {
        self.form.get(SESSION_TOKEN)
    }

    /// Returns the access key whose secret [`verify`](Self::verify) needs. It is not verified yet.
    pub fn access_key(&self) -> Option<&str> {
        match &self.signature {
            FormSignature::Absent => None,
            FormSignature::V4(signature) => Some(&signature.access_key),
            FormSignature::V2(signature) => Some(&signature.access_key),
        }
    }

    /// Verifies the signature of the form, and checks the fields against the signed policy.
    /// `bucket` is the bucket in the URL; `secret` is as in [`Credentials::verify`].
    ///
    /// Fails, in the order of the checks, with `InvalidRequest` if the form has a SigV2 signature
    /// and SigV2 is disabled; `InvalidArgument` (scope); `RequestTimeTooSkewed` for a time in the
    /// future; `AccessDenied` for a time more than seven days in the past;
    /// `InvalidAccessKeyId`; `SignatureDoesNotMatch`; `InvalidToken`; `InvalidPolicyDocument`;
    /// `AccessDenied` (policy).
    pub fn verify(
        &self,
        secret: Option<&str>,
        bucket: &BucketName,
        rules: &SignatureRules<'_>,
    ) -> Result<VerifiedForm<'a>, Fault> {
        let policy = match &self.signature {
            FormSignature::Absent => None,
            FormSignature::V4(signature) => Some(signature.verify(secret, rules)?),
            FormSignature::V2(signature) => Some(signature.verify(secret, rules)?),
        };
        // The policy is parsed only after its signature was verified.
        if policy.is_some() {
            check_token(self.form.has(SESSION_TOKEN), rules)?;
        }
        let lengths = match policy {
            None => LengthRange::ANY,
            Some(policy) => PostPolicy::parse(policy)?.check(self.form, bucket, rules.now)?,
        };
        let verified = Verified {
            access_key: self.access_key().map(str::to_owned),
            kind: self.kind(),
            payload: PayloadMode::Unsigned,
            seed: None,
            hoisted: Vec::new(),
            signed_at: match &self.signature {
                FormSignature::V4(signature) => Some(signature.signed_at),
                // A SigV2 signature has no time.
                FormSignature::Absent | FormSignature::V2(_) => None,
            },
        };
        Ok(VerifiedForm { form: self.form, verified, lengths })
    }
}

impl FormV4 {
    fn parse(form: &Form) -> Result<FormV4, Fault> {
        let policy = required(form, POLICY)?;
        let algorithm = required(form, ALGORITHM_FIELD)?;
        let credential = required(form, CREDENTIAL)?;
        let timestamp = required(form, DATE)?;
        let signature = required(form, SIGNATURE)?;
        if algorithm != ALGORITHM {
            return Err(invalid("X-Amz-Algorithm", "Only AWS4-HMAC-SHA256 is supported")
                .with("ArgumentValue", algorithm));
        }
        let signed_at = parse_timestamp(&timestamp).ok_or_else(|| {
            invalid("X-Amz-Date", "X-Amz-Date must be formated via ISO8601 Long format")
                .with("ArgumentValue", timestamp.as_str())
        })?;
        let (access_key, scope) = parse_credential(&credential).ok_or_else(|| {
            refuse(
                &credential,
                "the Credential is mal-formed; expecting \
                 \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."
                    .to_owned(),
            )
        })?;
        Ok(FormV4 { access_key, credential, scope, timestamp, signed_at, policy, signature })
    }

    /// Verifies the signature of the form. Returns the policy that it covers, in base64.
    fn verify(&self, secret: Option<&str>, rules: &SignatureRules<'_>) -> Result<&str, Fault> {
        if let Some(why) = self.scope_error(rules.region) {
            return Err(refuse(&self.credential, why));
        }
        check_future(self.signed_at, rules.now)?;
        // The policy sets its own expiration, which cannot be later than the maximum age of a
        // signature.
        if rules.now > self.signed_at.saturating_add(Duration::seconds(PRESIGN_SECONDS_MAX)) {
            return Err(expired());
        }
        let key = SigningKey::derive(secret.unwrap_or(DUMMY_SECRET), &self.scope);
        let signed = key.sign(&self.policy).matches(&self.signature);
        check_verdict(secret, signed, &self.access_key, &self.policy, &self.signature)
    }

    /// Returns the error message for a wrong credential scope; `None` if it is correct.
    fn scope_error(&self, region: &str) -> Option<String> {
        let scope = &self.scope;
        let date = scope.date();
        let is_date = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
        if !scope.is_terminated() {
            let terminal = scope.terminator();
            Some(format!("incorrect terminal \"{terminal}\". This endpoint uses \"aws4_request\"."))
        } else if scope.service() != "s3" {
            let service = scope.service();
            Some(format!("incorrect service \"{service}\". This endpoint belongs to \"s3\"."))
        } else if !is_date {
            Some(format!(
                "incorrect date format \"{date}\". This date in the credential must be in the \
                 format \"yyyyMMdd\"."
            ))
        } else if scope.region() != region {
            let wrong = scope.region();
            Some(format!("the region \"{wrong}\" is wrong; expecting \"{region}\""))
        } else if self.timestamp.get(..8) != Some(date) {
            Some(format!("the credential's date \"{date}\" differs from the date of x-amz-date."))
        } else {
            None
        }
    }
}

impl FormV2 {
    fn parse(form: &Form) -> Result<FormV2, Fault> {
        let name = |lower, shown| form.get(lower).map(str::to_owned).ok_or_else(|| missing(shown));
        Ok(FormV2 {
            policy: name(POLICY, POLICY)?,
            access_key: name(ACCESS_KEY_V2, "AWSAccessKeyId")?,
            signature: name(SIGNATURE_V2, SIGNATURE_V2)?,
        })
    }

    /// Verifies the signature of the form. Returns the policy that it covers, in base64.
    fn verify(&self, secret: Option<&str>, rules: &SignatureRules<'_>) -> Result<&str, Fault> {
        if !rules.sigv2_presign {
            return Err(unsupported());
        }
        let mac = hmac_sha1(secret.unwrap_or(DUMMY_SECRET).as_bytes(), self.policy.as_bytes());
        let claimed = STANDARD.decode(&self.signature).unwrap_or_default();
        // Base64 has several encodings of the same bytes. Only the canonical one is accepted.
        let canonical = STANDARD.encode(&claimed) == self.signature;
        let signed = bool::from(mac.as_slice().ct_eq(&claimed)) && canonical;
        check_verdict(secret, signed, &self.access_key, &self.policy, &self.signature)
    }
}

/// Returns the policy of the form if the access key exists and signed the policy; otherwise the
/// fault.
fn check_verdict<'a>(
    secret: Option<&str>,
    signed: bool,
    access_key: &str,
    policy: &'a str,
    signature: &str,
) -> Result<&'a str, Fault> {
    match (secret, signed) {
        (None, _) => Err(unknown_key(access_key)),
        (Some(_), true) => Ok(policy),
        (Some(_), false) => Err(Fault::because(
            Code::SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. \
             Check your key and signing method.",
        )
        .with("AWSAccessKeyId", access_key)
        .with("StringToSign", policy)
        .with("SignatureProvided", signature)
        .with("StringToSignBytes", spaced_hex(policy.as_bytes()))),
    }
}

/// Returns the value of a form field that the signature needs. Fails if it is missing.
fn required(form: &Form, name: &'static str) -> Result<String, Fault> {
    form.get(name).map(str::to_owned).ok_or_else(|| missing(name))
}

/// Returns the fault of a malformed credential.
fn refuse(credential: &str, why: String) -> Fault {
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", CREDENTIAL)
        .with("ArgumentValue", credential)
}
