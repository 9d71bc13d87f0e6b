//! The response to a browser after an upload.

use http::{HeaderValue, StatusCode, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::form::Form;
use crate::name::{BucketName, ObjectKey};

/// The characters that stay unescaped in the query of a redirect.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The response that a form requests on success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuccessAction {
    /// The response is 303, a redirect to this HTTP or HTTPS URL.
    Redirect(Uri),
    /// The response is 200 without a body.
    Ok,
    /// The response is 201 with a document that names the object.
    Created,
    /// The response is 204 without a body. This is the default.
    NoContent,
}

impl SuccessAction {
    /// Parses `success_action_redirect`, or `redirect` as its older name, and
    /// `success_action_status`. A malformed value counts as absent, as in S3.
    pub fn parse(form: &Form) -> SuccessAction {
        // The newer name takes precedence.
        let redirect = form.get("success_action_redirect").or_else(|| form.get("redirect"));
        if let Some(page) = redirect.and_then(page) {
            return SuccessAction::Redirect(page);
        }
        match form.get("success_action_status") {
            Some("200") => SuccessAction::Ok,
            Some("201") => SuccessAction::Created,
            _ => SuccessAction::NoContent,
        }
    }

    /// Returns the status of the response.
    pub const fn status(&self) -> StatusCode {
        match self {
            SuccessAction::Redirect(_) => StatusCode::SEE_OTHER,
            SuccessAction::Ok => StatusCode::OK,
            SuccessAction::Created => StatusCode::CREATED,
            SuccessAction::NoContent => StatusCode::NO_CONTENT,
        }
    }

    /// Returns the URL of a redirect, with bucket, key and ETag in its query; `None` for other
    /// responses. `etag` has no quotes.
    pub fn redirect(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        etag: &str,
    ) -> Option<HeaderValue> {
        let SuccessAction::Redirect(page) = self else { return None };
        let mut url = page.to_string();
        // The page may already have a query, which the redirect keeps.
        let before = if page.query().is_none() { "?" } else { "&" };
        let quoted = format!("\"{etag}\"");
        for (lead, name, value) in [
            (before, "bucket", bucket.as_str()),
            ("&", "key", key.as_str()),
            ("&", "etag", quoted.as_str()),
        ] {
            url.extend([lead, name, "="]);
            url.extend(utf8_percent_encode(value, KEPT));
        }
        HeaderValue::from_str(&url).ok()
    }
}

/// Parses the URL of a redirect. Returns `None` if it is not an absolute HTTP or HTTPS URL. Its
/// fragment is removed.
fn page(text: &str) -> Option<Uri> {
    let uri: Uri = text.trim().parse().ok()?;
    let http = matches!(uri.scheme_str(), Some("http" | "https"));
    (http && uri.authority().is_some() && uri.to_string().is_ascii()).then_some(uri)
}
