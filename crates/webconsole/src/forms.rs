//! Forms: their fields, with limits.

use adminapi::{ApiError, ApiServed, IfMatch};
use bytes::Bytes;
use gateway::HttpBody;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use std::time::Duration;

/// The field of each form that has the form token of the login.
pub(crate) const TOKEN_FIELD: &str = "form_token";

/// The field of a form that has the entity tag of the state that its page showed.
pub(crate) const SEEN_FIELD: &str = "seen";

/// The fields of texts that people write, in which the page of a refused change shows them again.
pub(crate) const TEXT_FIELDS: [&str; 6] =
    ["document", "policy", "cors", "lifecycle", "tags", "policies"];

/// The header in which a script sends the form token.
pub(crate) const TOKEN_HEADER: &str = "x-form-token";

/// The limit of a form in bytes. A policy document has at most 20 KiB, which can triple when it is
/// escaped; a form that deletes 200 keys has at most 600 KiB.
const FORM_BYTES_MAX: usize = 1 << 20;

/// The limit of fields.
const FIELDS_MAX: usize = 1_000;

/// The limit of time for the arrival of a form.
const FORM_WAIT: Duration = Duration::from_secs(30);

/// The fields of a form, in order.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Returns a field without spaces around it; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// Returns a field as it was sent; empty if there is none.
    pub(crate) fn exact(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    /// Notes the action and the resources of the form for the access log.
    pub(crate) fn note(&self, served: &mut ApiServed) {
        let text = |name| Some(self.text(name)).filter(|text| !text.is_empty());
        served.action = text("action").map(str::to_owned);
        match text("key") {
            // Only the pages of a bucket have keys of objects.
            Some(_) if served.bucket.is_some() => served.key = Some(self.exact("key").to_owned()),
            Some(key) => served.set_resource("access_key", key),
            None => {}
        }
        if let Some(name) = text("name") {
            served.set_resource("name", name);
        }
    }

    /// Returns all values of a field, which several checkboxes have.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(field, value)| field == name && !value.is_empty());
        found.map(|(_, value)| value.clone()).collect()
    }

    /// Returns the precondition of the change: the state is the one that the page of the form
    /// showed.
    pub(crate) fn seen(&self) -> IfMatch {
        IfMatch::of_tag(self.text(SEEN_FIELD))
    }

    /// Returns true if a checkbox is checked.
    pub(crate) fn is_checked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }

    /// Returns a field as a number, `None` if it is empty. Fails with `BadRequest` for other text.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse();
        number.map(Some).map_err(|_| ApiError::bad_request(format!("{text:?} is not a number.")))
    }
}

/// Reads the fields of a form. Fails with `BadRequest` for another type of body.
pub(crate) async fn read(headers: &HeaderMap, body: HttpBody) -> Result<Form, ApiError> {
    read_within(headers, body, FORM_BYTES_MAX).await
}

/// As [`read`], for a form of at most `bytes_max` bytes.
pub(crate) async fn read_within(
    headers: &HeaderMap,
    body: HttpBody,
    bytes_max: usize,
) -> Result<Form, ApiError> {
    let is_form = headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if !is_form {
        return Err(ApiError::bad_request("The body is not a form."));
    }
    let bytes = read_bytes(body, bytes_max).await?;
    // Counted before they are parsed, which takes memory for each.
    if bytes.split(|byte| *byte == b'&').count() > FIELDS_MAX {
        return Err(ApiError::bad_request("The form has too many fields."));
    }
    let fields: Vec<(String, String)> = serde_urlencoded::from_bytes(&bytes)
        .map_err(|_| ApiError::bad_request("The form is malformed."))?;
    Ok(Form(fields))
}

/// Reads a small body into memory.
pub(crate) async fn read_bytes(mut body: HttpBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    let too_large = || {
        let message = format!("The body has more than {bytes_max} bytes.");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", message)
    };
    // The length that the client declares, if it does. Nothing is read of a body that is too long.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let reading = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ApiError::bad_request("The body ended early."))?;
            let Ok(data) = frame.into_data() else { continue };
            // The limit is checked before the copy.
            if bytes.len() + data.len() > bytes_max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Bytes::from(bytes))
    };
    let arrived = tokio::time::timeout(FORM_WAIT, reading).await;
    arrived.map_err(|_late| ApiError::bad_request("The body took too long."))?
}
