//! The router: it finds the endpoint of a method and a path.
//!
//! For example, `PUT /api/v1/buckets/photos/quota` is `PutBucketQuota` with the parameter `photos`.
//! Parameters are decoded; a path that is no UTF-8, or that has an empty parameter, has no
//! endpoint.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::{ApiError, ApiServed, Endpoint};

/// The path below which all endpoints are.
pub const PREFIX: &str = "/api/v1";

/// An endpoint with the parameters of its path, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) endpoint: Endpoint,
    pub(crate) parameters: Vec<String>,
}

impl Route {
    /// Notes the endpoint and the names in the path.
    pub(crate) fn note(&self, served: &mut ApiServed) {
        served.operation = self.endpoint.name();
        served.resources.clear();
        let kinds = self.endpoint.path().split('/').filter_map(|part| part.strip_prefix('{'));
        let kinds = kinds.filter_map(|part| part.strip_suffix('}'));
        for (kind, name) in kinds.zip(&self.parameters) {
            served.set_resource(kind, name);
        }
    }
}

/// Returns the endpoint of a request. Fails with `NotFound` or `MethodNotAllowed`.
pub(crate) fn route(method: &Method, path: &str) -> Result<Route, ApiError> {
    let not_found = || {
        let message =
            format!("There is no endpoint of this path. {PREFIX}/openapi.json lists all.");
        ApiError::new(http::StatusCode::NOT_FOUND, "NoSuchEndpoint", message)
    };
    let path = path.strip_prefix(PREFIX).ok_or_else(not_found)?;
    let mut allowed = Vec::new();
    for &endpoint in Endpoint::ALL {
        if let Some(parameters) = parameters(endpoint.path(), path) {
            if endpoint.method() == *method {
                return Ok(Route { endpoint, parameters });
            }
            allowed.push(endpoint.method().to_string());
        }
    }
    if allowed.is_empty() {
        return Err(not_found());
    }
    let message = format!("This path has the methods {}.", allowed.join(", "));
    Err(ApiError::new(http::StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message))
}

/// Returns the parameters of a path if it has the form of `template`.
fn parameters(template: &str, path: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(found),
            (Some(name), Some(text)) if name.starts_with('{') => {
                let text = percent_decode_str(text).decode_utf8().ok()?;
                if text.is_empty() {
                    return None;
                }
                found.push(text.into_owned());
            }
            (Some(name), Some(text)) if name == text => {}
            (Some(_), _) | (None, Some(_)) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
