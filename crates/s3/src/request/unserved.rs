//! Refuses headers of features that the gateway does not implement.

use super::{Fields, WRITE_OFFSET};
use crate::Fault;

/// Refuses the header of an append for any operation but `PutObject`.
pub(super) fn refuse_append(fields: Fields<'_>) -> Result<(), Fault> {
    if fields.has(WRITE_OFFSET) { Err(Fault::unserved_header(WRITE_OFFSET)) } else { Ok(()) }
}
