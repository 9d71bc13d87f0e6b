//! Errors in the form of MinIO's administration protocol: the codes that its clients compare, in
//! JSON.
//!
//! For example, `NoSuchUser` of the API becomes `XMinioAdminNoSuchUser`. An error without a
//! counterpart keeps its code.

use adminapi::ApiError;
use gateway::HttpBody;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde::Serialize;

/// Returns the error of an argument that is not valid. `why` is a sentence.
pub(crate) fn invalid(why: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "XMinioAdminInvalidArgument", why)
}

/// Returns the error of a body that cannot be decrypted or parsed.
pub(crate) fn bad_json(why: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "XMinioAdminConfigBadJSON", why)
}

/// Returns the error of a call or an option that Ashlar does not have. `why` is a sentence.
pub(crate) fn missing(why: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", why)
}

/// Returns the error of a further key that does not exist, or that the sender may not see.
pub(crate) fn no_such_key(error: ApiError) -> ApiError {
    if error.code == "NoSuchUser" {
        let why = "The specified service account is not found.";
        return ApiError::new(StatusCode::NOT_FOUND, "XMinioInvalidIAMCredentials", why);
    }
    error
}

/// The document of an error.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorDocument<'a> {
    code: &'a str,
    message: String,
    resource: &'a str,
    request_id: &'a str,
    host_id: &'a str,
}

/// Returns the code and the status that MinIO's clients expect for an error of the API.
fn translated(error: &ApiError) -> (&str, StatusCode) {
    match &*error.code {
        "NoSuchUser" | "NoSuchMember" => ("XMinioAdminNoSuchUser", error.status),
        "NoSuchGroup" => ("XMinioAdminNoSuchGroup", error.status),
        "NoSuchPolicy" => ("XMinioAdminNoSuchPolicy", error.status),
        "InvalidName" | "BadRequest" | "TooMany" | "IsUser" | "NotUser" | "BuiltIn" => {
            ("XMinioAdminInvalidArgument", StatusCode::BAD_REQUEST)
        }
        "InvalidPolicy" => ("MalformedPolicy", StatusCode::BAD_REQUEST),
        // MinIO's clients know no 401.
        "Unauthenticated" => ("AccessDenied", StatusCode::FORBIDDEN),
        "TooLarge" => ("XMinioAdminConfigTooLarge", StatusCode::BAD_REQUEST),
        code => (code, error.status),
    }
}

/// Returns the response of an error, and its code for the access log.
pub(crate) fn refusal(error: &ApiError, path: &str, request_id: &str) -> Response<HttpBody> {
    let (code, status) = translated(error);
    let (message, host_id) = (error.to_string(), request_id);
    let document = ErrorDocument { code, message, resource: path, request_id, host_id };
    let body = serde_json::to_vec(&document).unwrap_or_default();
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the code of an error as the access log shows it. Codes of stores and of parsers have no
/// fixed text, so they are one.
pub(crate) fn logged(error: &ApiError) -> &'static str {
    match &error.code {
        std::borrow::Cow::Borrowed(code) => code,
        std::borrow::Cow::Owned(_) => "AdminError",
    }
}

#[cfg(test)]
mod tests;
