//! Access keys that do not exist.

use crate::{Code, Fault};

/// The secret with which the signature of a request is computed if its access key does not exist,
/// so that verification takes the same time as for an existing key. The request is refused in any
/// case.
pub(super) const DUMMY_SECRET: &str = "no key of this name, so the work is for nothing";

/// Returns the fault of an access key that does not exist.
pub(super) fn unknown_key(access_key: &str) -> Fault {
    Fault::because(
        Code::InvalidAccessKeyId,
        "The AWS Access Key Id you provided does not exist in our records.",
    )
    .with("AWSAccessKeyId", access_key)
}
