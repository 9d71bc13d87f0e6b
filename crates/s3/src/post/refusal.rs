//! What is said of a policy that does not hold.

use crate::{Code, Fault};

pub(super) fn denied(why: &str) -> Fault {
    Fault::because(Code::AccessDenied, format!("Invalid according to Policy: {why}"))
}

pub(super) fn invalid(why: &str) -> Fault {
    Fault::because(Code::InvalidPolicyDocument, format!("Invalid Policy: {why}"))
}
