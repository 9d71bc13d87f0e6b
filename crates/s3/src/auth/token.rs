//! Session tokens: where they stand, and when one may.

use super::signature_rules::SignatureRules;
use crate::{Code, Fault};

/// The header, the parameter or the field that holds a session token.
pub(super) const SESSION_TOKEN: &str = "x-amz-security-token";

/// Refuses a session token with an access key that is none of a session. Fault: `InvalidToken`.
pub(super) fn check_token(has_token: bool, rules: &SignatureRules<'_>) -> Result<(), Fault> {
    if has_token && !rules.has_session { Err(Code::InvalidToken.into()) } else { Ok(()) }
}
