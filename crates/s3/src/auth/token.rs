//! Session tokens in requests.

use super::signature_rules::SignatureRules;
use crate::{Code, Fault};

/// The name of the header, parameter or form field that holds a session token.
pub(super) const SESSION_TOKEN: &str = "x-amz-security-token";

/// Refuses a session token if the access key does not belong to a session. Fails with
/// `InvalidToken`.
pub(super) fn check_token(has_token: bool, rules: &SignatureRules<'_>) -> Result<(), Fault> {
    if has_token && !rules.has_session { Err(Code::InvalidToken.into()) } else { Ok(()) }
}
