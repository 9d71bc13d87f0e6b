//! `PostObject`: the upload of a form.

use http::HeaderMap;

use super::{Arguments, Fields, PutObject, Query};
use crate::Fault;
use crate::auth::VerifiedForm;
use crate::fields::invalid;
use crate::name::ObjectKey;
use crate::post::{SuccessAction, missing};
use crate::tagging::{TagSet, Tagged};

/// A `PostObject` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostObject {
    /// The key of the new object.
    pub key: ObjectKey,
    /// The upload, with the same properties as a `PutObject`.
    pub put: PutObject,
    /// The response that the form requests on success.
    pub success: SuccessAction,
    headers: HeaderMap,
}

impl PostObject {
    /// Parses a verified form. The headers of the HTTP request are ignored, because the form's
    /// signature does not cover them.
    ///
    /// Fails with `InvalidArgument` if the form has no key or has a field that is not a valid
    /// header; or with the faults of `ObjectKey`, `PutObject`, tags and XML.
    pub fn parse(verified: &VerifiedForm<'_>) -> Result<PostObject, Fault> {
        let form = verified.form();
        let anonymous = verified.verified().access_key().is_none();
        let key = form.get("key").filter(|key| !key.is_empty()).ok_or_else(|| missing("key"))?;
        let key = ObjectKey::parse(key)?;
        let headers = form.headers()?;
        // The query of the HTTP request is not signed, so it has no influence on the upload.
        let query = Query::default();
        let fields = Fields::new(&headers, &[]);
        // Locks in forms are not implemented. Ignoring them would store an object without the
        // protection that the form requests.
        if let Some(name) = fields.names("x-amz-object-lock-").first() {
            return Err(Fault::unserved_header(name));
        }
        let mut put = PutObject::parse(&Arguments { query: &query, fields, anonymous })?;
        if let Some(document) = form.get("tagging") {
            // Both fields would set the tags, so the request would be ambiguous.
            if form.has("x-amz-tagging") {
                return Err(invalid("tagging", "The tags are given in two fields."));
            }
            put.tags = TagSet::parse_xml(document.as_bytes(), Tagged::Object)?;
        }
        Ok(PostObject { key, put, success: SuccessAction::parse(form), headers })
    }

    /// Returns the form fields that count as headers, for `Expectation::parse`: `Content-MD5` and
    /// checksums.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}
