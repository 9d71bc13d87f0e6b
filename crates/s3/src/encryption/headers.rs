//! The names of the headers of encryption, and the rules for headers that an operation does not
//! use.

use crate::fields::Fields;
use crate::{Code, Fault};

/// The mode of a new object: `AES256` or `aws:kms`. All other headers of encryption, except those
/// of copy sources, begin with this name.
pub(super) const MODE: &str = "x-amz-server-side-encryption";
/// The key of the key management service.
pub(super) const KMS_KEY: &str = "x-amz-server-side-encryption-aws-kms-key-id";
/// The encryption context for the key management service: JSON in base64.
pub(super) const KMS_CONTEXT: &str = "x-amz-server-side-encryption-context";
/// True if one data key may serve several objects.
pub(super) const BUCKET_KEY: &str = "x-amz-server-side-encryption-bucket-key-enabled";
/// The cipher for the client's key.
pub(super) const CUSTOMER_ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";
/// The MD5 of the client's key.
pub(super) const CUSTOMER_MD5: &str = "x-amz-server-side-encryption-customer-key-md5";

const CUSTOMER_KEY: &str = "x-amz-server-side-encryption-customer-key";
const COPY_SOURCE_PREFIX: &str = "x-amz-copy-source-server-side-encryption";

/// The only cipher of SSE-S3 and SSE-C.
pub(super) const AES256: &str = "AES256";
/// The value of the header [`MODE`] for SSE-KMS.
pub(super) const AWS_KMS: &str = "aws:kms";

/// The three headers of a client's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct CustomerHeaders {
    pub(super) algorithm: &'static str,
    pub(super) key: &'static str,
    pub(super) md5: &'static str,
}

impl CustomerHeaders {
    /// The headers of the object that the request names.
    pub(super) const OBJECT: CustomerHeaders =
        CustomerHeaders { algorithm: CUSTOMER_ALGORITHM, key: CUSTOMER_KEY, md5: CUSTOMER_MD5 };

    /// The headers of the source of a copy.
    pub(super) const COPY_SOURCE: CustomerHeaders = CustomerHeaders {
        algorithm: "x-amz-copy-source-server-side-encryption-customer-algorithm",
        key: "x-amz-copy-source-server-side-encryption-customer-key",
        md5: "x-amz-copy-source-server-side-encryption-customer-key-md5",
    };

    /// Returns true if the request has at least one of the headers.
    pub(super) fn any(self, fields: Fields<'_>) -> bool {
        [self.algorithm, self.key, self.md5].iter().any(|name| fields.has(name))
    }

    fn contains(self, name: &str) -> bool {
        [self.algorithm, self.key, self.md5].contains(&name)
    }
}

/// Refuses headers of encryption that this module does not know, with `NotImplemented`, and headers
/// of a copy source if the operation is no copy, with `InvalidArgument`.
pub(super) fn refuse_unknown(fields: Fields<'_>, is_copy: bool) -> Result<(), Fault> {
    let known = [MODE, KMS_KEY, KMS_CONTEXT, BUCKET_KEY];
    for name in fields.names(MODE) {
        if !known.contains(&name) && !CustomerHeaders::OBJECT.contains(name) {
            return Err(Fault::unserved_header(name));
        }
    }
    for name in fields.names(COPY_SOURCE_PREFIX) {
        if !CustomerHeaders::COPY_SOURCE.contains(name) {
            return Err(Fault::unserved_header(name));
        }
        if !is_copy {
            return Err(not_for_this_operation(name));
        }
    }
    Ok(())
}

/// Refuses the headers that select the encryption of a new object in a request that makes none. S3
/// answers them with status 400, because a read cannot change the encryption.
pub(super) fn refuse_modes(fields: Fields<'_>) -> Result<(), Fault> {
    match [MODE, KMS_KEY, KMS_CONTEXT, BUCKET_KEY].iter().find(|name| fields.has(name)) {
        None => Ok(()),
        Some(name) => Err(not_for_this_operation(name)),
    }
}

/// Returns the fault of a header of encryption that the operation does not use.
fn not_for_this_operation(name: &str) -> Fault {
    let why = format!("{name} header is not supported for this operation.");
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", name)
}

/// Returns `InvalidArgument` with the name of the argument that S3 gives for each wrong header of
/// encryption, and with its value.
pub(super) fn invalid(why: &'static str, value: &str) -> Fault {
    // A value from the network can be long.
    let shown: String = value.chars().take(100).collect();
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", MODE)
        .with("ArgumentValue", shown)
}
