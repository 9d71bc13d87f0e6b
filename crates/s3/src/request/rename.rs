//! `RenameObject`.

use super::{Arguments, Fields, invalid_argument};
use crate::conditions::ReadPreconditions;
use crate::name::{BucketName, ObjectKey, decode_once};
use crate::{Code, Fault};

/// The header that says what is renamed.
const SOURCE: &str = "x-amz-rename-source";

/// The header by which a request is known again.
const TOKEN: &str = "x-amz-client-token";

/// Characters of a token, at most.
const TOKEN_MAX: usize = 64;

/// `RenameObject`: the key that the request names becomes that of an object of the same bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameObject {
    /// The key that the object has.
    pub source: ObjectKey,
    /// What must hold for it.
    pub source_conditions: ReadPreconditions,
    /// What must hold for the object that has the new key, if there is one.
    pub target_conditions: ReadPreconditions,
    /// What the client calls this request, so that it is not carried out twice.
    pub token: Option<String>,
}

impl RenameObject {
    /// Reads the request. Faults: those of its parts; `InvalidRequest` for keys that end in `/`, as
    /// S3 says ("will not succeed on objects that end with the slash delimiter", user guide,
    /// "Renaming objects in directory buckets").
    pub fn parse(
        arguments: &Arguments<'_>,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<RenameObject, Fault> {
        let fields = arguments.fields;
        let source = RenameObject::source(bucket, fields)?;
        if [&source, key].iter().any(|key| key.as_str().ends_with('/')) {
            return Err(Fault::because(
                Code::InvalidRequest,
                "RenameObject does not support keys that end with the slash (/) delimiter.",
            ));
        }
        Ok(RenameObject {
            source,
            source_conditions: ReadPreconditions::parse_for_rename(fields)?,
            target_conditions: ReadPreconditions::parse(fields)?,
            token: token(fields)?,
        })
    }

    /// The key that is renamed: percent-encoded, after an optional slash, or after `/bucket/`.
    ///
    /// Faults: `InvalidArgument`, and what a key answers.
    pub(crate) fn source(bucket: &BucketName, fields: Fields<'_>) -> Result<ObjectKey, Fault> {
        let value = fields.get(SOURCE)?.unwrap_or_default();
        let invalid = || {
            invalid_argument(SOURCE, value, "Invalid rename source object key")
                .detail("The rename source must be a key of the same bucket, percent-encoded.")
        };
        let decoded = decode_once(value).map_err(|_| invalid())?;
        let own = decoded.strip_prefix('/').and_then(|path| path.strip_prefix(bucket.as_str()));
        let own = own.and_then(|path| path.strip_prefix('/'));
        let key = own.or_else(|| decoded.strip_prefix('/')).unwrap_or(&decoded);
        if key.is_empty() { Err(invalid()) } else { ObjectKey::parse(key) }
    }

    /// Whether the request compares something with the object that has the new key. Whether there
    /// is one, `*`, every writer may ask.
    pub(crate) fn compares_target(fields: Fields<'_>) -> bool {
        let compares = |name| fields.joined(name).is_ok_and(|list| list.is_some_and(|l| l != "*"));
        ["if-match", "if-none-match"].into_iter().any(compares)
            || ["if-modified-since", "if-unmodified-since"].iter().any(|name| fields.has(name))
    }
}

/// The token. Fault: `InvalidArgument` for one of other characters, or too many.
fn token(fields: Fields<'_>) -> Result<Option<String>, Fault> {
    let Some(token) = fields.get(TOKEN)? else { return Ok(None) };
    let valid =
        (1..=TOKEN_MAX).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if valid {
        return Ok(Some(token.to_owned()));
    }
    let why = "A client token has 1 to 64 characters of ASCII, none of them a space.";
    Err(invalid_argument(TOKEN, token, why))
}
