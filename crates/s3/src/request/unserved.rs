//! Headers that ask for what we do not serve.

use super::{Fields, WRITE_OFFSET};
use crate::{Code, Fault};

/// Refuses encryption with keys of the client's or of ours, on reads and writes.
pub(super) fn refuse_encryption(fields: Fields<'_>) -> Result<(), Fault> {
    for prefix in ["x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption"] {
        if let Some(name) = fields.names(prefix).first() {
            return Err(not_implemented(name));
        }
    }
    Ok(())
}

/// Refuses to append by anything but `PutObject`.
pub(super) fn refuse_append(fields: Fields<'_>) -> Result<(), Fault> {
    if fields.has(WRITE_OFFSET) { Err(not_implemented(WRITE_OFFSET)) } else { Ok(()) }
}

pub(super) fn not_implemented(name: &str) -> Fault {
    Fault::new(Code::NotImplemented).with("Header", name)
}
