//! Why a document is refused, in the words of AWS where its words are known.
//!
//! The sentences are those that versitygw (Apache-2.0) copied from S3's answers.

use std::borrow::Cow;
use std::fmt;

/// A policy that is not understood in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    sentence: Cow<'static, str>,
    detail: Option<String>,
}

impl PolicyError {
    pub(crate) const NOT_AN_OBJECT: PolicyError =
        PolicyError::new("Policies must be valid JSON and the first byte must be '{'");
    pub(crate) const TOO_LARGE: PolicyError =
        PolicyError::new("Policy exceeds the maximum allowed document size.");
    pub(crate) const JSON: PolicyError = PolicyError::new("This policy contains invalid Json");
    pub(crate) const NO_STATEMENT: PolicyError =
        PolicyError::new("Could not parse the policy: Statement is empty!");
    pub(crate) const VERSION: PolicyError =
        PolicyError::new("The policy must contain a valid version string");
    pub(crate) const PRINCIPAL: PolicyError = PolicyError::new("Invalid principal in policy");
    pub(crate) const ACTION: PolicyError = PolicyError::new("Policy has invalid action");
    pub(crate) const RESOURCE: PolicyError = PolicyError::new("Policy has invalid resource");
    pub(crate) const NO_RESOURCE_FOR_ACTION: PolicyError =
        PolicyError::new("Action does not apply to any resource(s) in statement");
    pub(crate) const CONDITION_KEY: PolicyError =
        PolicyError::new("Policy has an invalid condition key");
    pub(crate) const CONDITION_MISMATCH: PolicyError = PolicyError::new(
        "Conditions do not apply to combination of actions and resources in statement",
    );
    pub(crate) const ADDRESS: PolicyError = PolicyError::new("Invalid IP address in Conditions");
    /// In the manner of `ADDRESS`; what AWS says of other values is not known.
    pub(crate) const CONDITION_VALUE: PolicyError = PolicyError::new("Invalid value in Conditions");

    const fn new(sentence: &'static str) -> PolicyError {
        PolicyError { sentence: Cow::Borrowed(sentence), detail: None }
    }

    pub(crate) fn missing(field: &str) -> PolicyError {
        PolicyError { sentence: format!("Missing required field {field}").into(), detail: None }
    }

    pub(crate) fn unknown_field(field: &str) -> PolicyError {
        PolicyError { sentence: format!("Unknown field {field}").into(), detail: None }
    }

    pub(crate) fn effect(effect: &str) -> PolicyError {
        PolicyError { sentence: format!("Invalid effect: {effect}").into(), detail: None }
    }

    pub(crate) fn operator(name: &str) -> PolicyError {
        PolicyError { sentence: format!("Invalid Condition type : {name}").into(), detail: None }
    }

    pub(crate) fn because(mut self, detail: impl fmt::Display) -> PolicyError {
        self.detail = Some(detail.to_string());
        self
    }

    /// The error of a policy that names a principal which does not exist. For callers that look
    /// principals up after `Policy::parse`, because looking them up takes a round trip.
    pub fn unknown_principal() -> PolicyError {
        PolicyError::PRINCIPAL
    }

    /// S3's code for it.
    pub const fn code(&self) -> &'static str {
        "MalformedPolicy"
    }

    /// AWS's sentence, for the one who sent the policy.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// What exactly is wrong, in our words, where the sentence leaves that open.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PolicyError {}
