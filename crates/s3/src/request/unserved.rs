//! Refuses headers of features that the gateway does not implement.

use super::{Fields, WRITE_OFFSET};
use crate::{Code, Fault};

/// Refuses server-side encryption, with keys of the client or of the server, for reads and writes.
pub(super) fn refuse_encryption(fields: Fields<'_>) -> Result<(), Fault> {
    for prefix in ["x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption"] {
        if let Some(name) = fields.names(prefix).first() {
            return Err(not_implemented(name));
        }
    }
    Ok(())
}

/// Refuses the header of an append for any operation but `PutObject`.
pub(super) fn refuse_append(fields: Fields<'_>) -> Result<(), Fault> {
    if fields.has(WRITE_OFFSET) { Err(not_implemented(WRITE_OFFSET)) } else { Ok(()) }
}

pub(super) fn not_implemented(name: &str) -> Fault {
    Fault::new(Code::NotImplemented).with("Header", name)
}
