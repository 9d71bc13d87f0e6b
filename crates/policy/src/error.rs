//! The error of a policy document that is refused.
//!
//! The error has two parts: AWS's sentence, which clients compare, and a detail in our own words.
//! For example, the sentence "Policy has an invalid condition key" comes with the name of the key.
//! The sentences are those that versitygw (Apache-2.0) copied from responses of S3.

use std::borrow::Cow;
use std::fmt;

/// The reason why a policy document is refused.
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
    /// The error of a condition value that does not have the type of the operator. Its sentence is
    /// worded like that of `ADDRESS`; AWS's sentence for other values is not known.
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

    /// Returns the error of a bucket policy that names a principal (an account, a user or a role)
    /// that does not exist. It is for callers that check principals after `Policy::parse`, because
    /// the check takes a round trip to a database.
    pub fn unknown_principal() -> PolicyError {
        PolicyError::PRINCIPAL
    }

    /// Returns the S3 error code of the response.
    pub const fn code(&self) -> &'static str {
        "MalformedPolicy"
    }

    /// Returns the sentence with which AWS refuses such a document, for the client.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Returns the exact mistake in our own words, if the sentence does not name it.
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
