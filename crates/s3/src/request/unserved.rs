//! Headers that ask for what we do not serve.

use super::Fields;
use crate::{Code, Fault};

/// Refuses headers that would change how an object is stored.
///
/// Faults: `NotImplemented`, and `InvalidRequest` for locks, as S3 answers on a bucket that was
/// made without them.
pub(super) fn refuse_on_write(fields: Fields<'_>) -> Result<(), Fault> {
    refuse_encryption(fields)?;
    if !fields.names("x-amz-object-lock-").is_empty() {
        return Err(Fault::because(
            Code::InvalidRequest,
            "Bucket is missing Object Lock Configuration",
        ));
    }
    for name in ["x-amz-write-offset-bytes", "x-amz-website-redirect-location"] {
        if fields.has(name) {
            return Err(not_implemented(name));
        }
    }
    if let Some(class) = fields.get("x-amz-storage-class")?
        && class != "STANDARD"
    {
        return Err(not_implemented("x-amz-storage-class").with("ArgumentValue", class));
    }
    refuse_acl(fields)
}

/// Refuses encryption with keys of the client's or of ours, on reads and writes.
pub(super) fn refuse_encryption(fields: Fields<'_>) -> Result<(), Fault> {
    for prefix in ["x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption"] {
        if let Some(name) = fields.names(prefix).first() {
            return Err(not_implemented(name));
        }
    }
    Ok(())
}

/// Accepts the access control lists that state what holds anyway, and refuses all others.
pub(super) fn refuse_acl(fields: Fields<'_>) -> Result<(), Fault> {
    if let Some(name) = fields.names("x-amz-grant-").first() {
        return Err(not_implemented(name));
    }
    match fields.get("x-amz-acl")? {
        None | Some("private" | "bucket-owner-full-control") => Ok(()),
        Some(
            other @ ("public-read" | "public-read-write" | "authenticated-read" | "aws-exec-read"
            | "bucket-owner-read" | "log-delivery-write"),
        ) => Err(not_implemented("x-amz-acl").with("ArgumentValue", other)),
        Some(_) => Err(super::invalid("x-amz-acl", "The canned ACL is not known.")),
    }
}

pub(super) fn not_implemented(name: &str) -> Fault {
    Fault::new(Code::NotImplemented).with("Header", name)
}
