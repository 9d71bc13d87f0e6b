//! Entity tags of resources.
//!
//! A tag is a hash of the resource as JSON, or of the record from which it was made. A change with
//! `If-Match` names the state that the client has read. For example, of two operators who read a
//! quota and change it, the second one gets the status 412 with the code `Changed`.

use http::HeaderMap;
use http::header::IF_MATCH;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::ApiError;

/// The bytes of a hash that a tag shows.
const SHOWN_BYTES: usize = 16;

/// Returns the entity tag of a resource: 32 hexadecimal digits in quotes.
pub fn of(resource: &impl Serialize) -> Result<String, ApiError> {
    let json = serde_json::to_vec(resource).map_err(|error| {
        tracing::error!(%error, "cannot encode a resource of the administration API");
        ApiError::from(s3::Code::InternalError)
    })?;
    Ok(format!("\"{}\"", hex::encode(&Sha256::digest(json)[..SHOWN_BYTES])))
}

/// Returns the entity tag of a record with this version; empty without a version.
pub fn of_version(version: Option<admin::Etag>) -> String {
    version.map(|version| format!("\"{version}\"")).unwrap_or_default()
}

/// The precondition of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfMatch(Option<String>);

impl IfMatch {
    /// Returns the precondition of a request. Fails with `BadRequest` if there are several.
    pub(crate) fn parse(headers: &HeaderMap) -> Result<IfMatch, ApiError> {
        let mut values = headers.get_all(IF_MATCH).iter();
        let (first, second) = (values.next(), values.next());
        let text = first.map(|value| value.to_str().map(str::trim));
        match (text.transpose(), second) {
            (Ok(Some("*")), None) => Ok(IfMatch(None)),
            (Ok(tag), None) => Ok(IfMatch(tag.map(str::to_owned))),
            (Err(_), _) | (_, Some(_)) => {
                Err(ApiError::bad_request("If-Match has one entity tag."))
            }
        }
    }

    /// Returns the precondition of a change of the state with this entity tag; none if it is empty.
    pub fn of_tag(tag: &str) -> IfMatch {
        IfMatch(Some(tag.to_owned()).filter(|tag| !tag.is_empty()))
    }

    /// Returns the precondition that a record has this version.
    pub(crate) fn record(version: &admin::Etag) -> IfMatch {
        IfMatch(Some(format!("\"{version}\"")))
    }

    /// Fails with `Changed` if the precondition names another state than `current`.
    pub(crate) fn check(&self, current: &impl Serialize) -> Result<(), ApiError> {
        match &self.0 {
            None => Ok(()),
            Some(tag) if *tag == of(current)? => Ok(()),
            Some(_) => Err(ApiError::changed()),
        }
    }

    /// Returns the version of a record that the request expects. Fails with `Changed` if its tag
    /// has the form of no record.
    pub(crate) fn of_record(&self) -> Result<Option<admin::Etag>, ApiError> {
        let parsed = self.0.as_ref().map(|tag| {
            let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            tag.and_then(|tag| tag.parse().ok()).ok_or_else(ApiError::changed)
        });
        parsed.transpose()
    }

    /// Returns true if the request has a precondition.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }
}
