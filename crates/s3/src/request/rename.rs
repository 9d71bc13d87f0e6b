//! The request `RenameObject`.
//!
//! For example, `PUT /bucket/new?renameObject` with `x-amz-rename-source: /bucket/old` renames the
//! object `old` to `new`.

use super::{Arguments, Fields, invalid_argument};
use crate::conditions::ReadPreconditions;
use crate::name::{BucketName, ObjectKey, decode_once};
use crate::{Code, Fault};

/// The header with the current key of the object.
const SOURCE: &str = "x-amz-rename-source";

/// The header with the idempotency token of the request.
const TOKEN: &str = "x-amz-client-token";

/// The maximum length of a token, in characters.
const TOKEN_MAX: usize = 64;

/// A `RenameObject` request: it gives an object of the bucket the key in the request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameObject {
    /// The current key of the object.
    pub source: ObjectKey,
    /// The preconditions on this object.
    pub source_conditions: ReadPreconditions,
    /// The preconditions on the object that the rename replaces, if there is one.
    pub target_conditions: ReadPreconditions,
    /// The idempotency token. A retry with the same token does not rename again.
    pub token: Option<String>,
}

impl RenameObject {
    /// Parses a `RenameObject` request. Fails with the faults of its parts; or with
    /// `InvalidRequest` for keys that end in `/`, as in S3 ("will not succeed on objects that end
    /// with the slash delimiter", user guide, "Renaming objects in directory buckets").
    pub fn parse(
        arguments: &Arguments<'_>,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<RenameObject, Fault> {
        let fields = arguments.fields;
        let source = RenameObject::source(bucket, fields)?;
        // Keys that end in `/` are refused, as in AWS. A mount can rename whole directories.
        if [&source, key].iter().any(|key| key.as_str().ends_with('/')) {
            return Err(Fault::because(
                Code::InvalidRequest,
                "RenameObject does not support keys that end with the slash (/) delimiter.",
            ));
        }
        Ok(RenameObject {
            source,
            source_conditions: ReadPreconditions::parse_for_rename(fields)?,
            target_conditions: ReadPreconditions::parse_for_target(fields)?,
            token: token(fields)?,
        })
    }

    /// Returns the current key of the object: percent-encoded, after an optional slash or after
    /// `/bucket/`.
    ///
    /// Fails with `InvalidArgument`, or with the faults of `ObjectKey::parse`.
    pub(crate) fn source(bucket: &BucketName, fields: Fields<'_>) -> Result<ObjectKey, Fault> {
        let value = fields.get(SOURCE)?.unwrap_or_default();
        let invalid = || {
            invalid_argument(SOURCE, value, "Invalid rename source object key")
                .detail("The rename source must be a key of the same bucket, percent-encoded.")
        };
        let decoded = decode_once(value).map_err(|_| invalid())?;
        // The source is a key, `/key` or `/bucket/key`. With another bucket name, the whole text is
        // the key.
        let own = decoded.strip_prefix('/').and_then(|path| path.strip_prefix(bucket.as_str()));
        let own = own.and_then(|path| path.strip_prefix('/'));
        let key = own.or_else(|| decoded.strip_prefix('/')).unwrap_or(&decoded);
        if key.is_empty() { Err(invalid()) } else { ObjectKey::parse(key) }
    }

    /// Returns true if the request compares properties of the object that the rename replaces. `*`
    /// only tests whether this object exists, and each writer may ask that.
    pub(crate) fn compares_target(fields: Fields<'_>) -> bool {
        let compares = |name| fields.joined(name).is_ok_and(|list| list.is_some_and(|l| l != "*"));
        // A malformed list does not count here; `parse` refuses it later.
        ["if-match", "if-none-match"].into_iter().any(compares)
            || ["if-modified-since", "if-unmodified-since"].iter().any(|name| fields.has(name))
    }
}

/// Returns the idempotency token, by which a retry of the same rename is recognised; `None` if the
/// request has none. Fails with `InvalidArgument` if it is too long or has characters that are not
/// visible ASCII.
fn token(fields: Fields<'_>) -> Result<Option<String>, Fault> {
    let Some(token) = fields.get(TOKEN)? else { return Ok(None) };
    let valid =
        (1..=TOKEN_MAX).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if valid {
        return Ok(Some(token.to_owned()));
    }
    let why = "A client token must have 1 to 64 visible ASCII characters.";
    Err(invalid_argument(TOKEN, token, why))
}
