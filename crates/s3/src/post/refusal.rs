//! The faults of form policies.

use crate::{Code, Fault};

/// Returns the fault of a form that the policy does not allow.
pub(super) fn denied(why: &str) -> Fault {
    Fault::because(Code::AccessDenied, format!("Invalid according to Policy: {why}"))
}

/// Returns the fault of a malformed policy.
pub(super) fn invalid(why: &str) -> Fault {
    Fault::because(Code::InvalidPolicyDocument, format!("Invalid Policy: {why}"))
}
