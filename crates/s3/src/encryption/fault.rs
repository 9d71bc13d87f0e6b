//! Faults of encryption that more than one module uses, or that the gateway finds.

use super::headers::{CUSTOMER_ALGORITHM, invalid};
use crate::{Code, Fault};

/// The length of a key's id in a fault, in characters.
const SHOWN_CHARACTERS: usize = 100;

/// Returns the fault of a request whose key of the client is not the key of the object.
///
/// S3 answers `AccessDenied` with status 403. `s3-tests` and the gateway of Ceph expect status 400.
/// This gateway follows them.
pub fn wrong_customer_key() -> Fault {
    let why = "Requests specifying Server Side Encryption with Customer provided keys must provide \
               the correct secret key.";
    Fault::because(Code::InvalidArgument, why)
}

/// Returns the fault of a request without a key of the client for an object that needs one.
pub fn missing_customer_key() -> Fault {
    let why = "The object was stored using a form of Server Side Encryption. The correct parameters \
               must be provided to retrieve the object.";
    Fault::because(Code::InvalidRequest, why)
}

/// Returns the fault of a step of a multipart upload whose key of the client is not the key with
/// which the upload began.
pub fn other_customer_key() -> Fault {
    let why = "The provided encryption parameters did not match the ones used originally.";
    Fault::because(Code::InvalidRequest, why)
}

/// Returns the fault of a client's key that arrives without TLS, where the gateway requires TLS.
pub fn insecure_customer_key() -> Fault {
    let why = "Requests specifying Server Side Encryption with Customer provided keys must be made \
               over a secure connection.";
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", CUSTOMER_ALGORITHM)
}

/// Returns the fault of a key id that the key management service does not know.
pub fn unknown_kms_key(id: &str) -> Fault {
    let shown: String = id.chars().take(SHOWN_CHARACTERS).collect();
    Fault::because(Code::KmsNotFoundException, format!("Invalid keyId '{shown}'"))
}

/// Returns the fault of a request that names SSE-C and another mode.
pub(super) fn incompatible(mode: &str) -> Fault {
    let why = "Server Side Encryption with Customer provided key is incompatible with the \
               encryption method specified";
    invalid(why, mode)
}
