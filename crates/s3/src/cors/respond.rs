//! What a browser is told: before a request, and with its response.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{CorsConfiguration, CorsMethod, CorsRule, is_token};
use crate::{Code, Fault};

/// A preflight may ask for this many headers.
const HEADERS_MAX: usize = 256;

const VARIES: HeaderValue = HeaderValue::from_static(
    "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
);

/// What a browser asks with `OPTIONS` before it sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    origin: HeaderValue,
    method: CorsMethod,
    /// Names in lower case.
    headers: Vec<String>,
}

/// What a preflight is about. S3 names it in a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorsResource {
    /// A bucket.
    Bucket,
    /// An object.
    Object,
}

/// The headers of a response to a page of another origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsHeaders(Vec<(HeaderName, HeaderValue)>);

impl CorsHeaders {
    /// The headers.
    pub fn as_slice(&self) -> &[(HeaderName, HeaderValue)] {
        &self.0
    }

    /// The headers, to be moved into a response.
    pub fn into_inner(self) -> Vec<(HeaderName, HeaderValue)> {
        self.0
    }
}

impl Preflight {
    /// Reads the headers of an `OPTIONS` request. This is done before the bucket is looked up.
    ///
    /// Fault: `BadRequest` for a missing origin, a method that no rule can allow, and names that
    /// no header can have.
    pub fn parse(headers: &HeaderMap) -> Result<Preflight, Fault> {
        let origin = headers.get(ORIGIN).filter(|origin| !origin.is_empty()).ok_or_else(|| {
            refuse("Insufficient information. Origin request header needed.".to_owned())
        })?;
        let method = headers
            .get(ACCESS_CONTROL_REQUEST_METHOD)
            .map_or("null".into(), |name| String::from_utf8_lossy(name.as_bytes()));
        let method = CorsMethod::named(&method)
            .ok_or_else(|| refuse(format!("Invalid Access-Control-Request-Method: {method}")))?;
        let headers = requested_headers(headers)?;
        Ok(Preflight { origin: origin.clone(), method, headers })
    }

    /// Answers by a bucket's configuration, if it has one.
    ///
    /// Fault: `AccessForbidden` when there is none, or no rule of it matches.
    pub fn respond(
        &self,
        configuration: Option<&CorsConfiguration>,
        resource: CorsResource,
    ) -> Result<CorsHeaders, Fault> {
        let Some(configuration) = configuration else {
            // S3 names the bucket here whatever was asked.
            let why = "CORSResponse: CORS is not enabled for this bucket.";
            return Err(forbidden(why, CorsResource::Bucket));
        };
        configuration.find(&self.origin, self.method, &self.headers).ok_or_else(|| {
            forbidden(
                "CORSResponse: This CORS request is not allowed. This is usually because the \
                 evalution of Origin, request method / Access-Control-Request-Method or \
                 Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
                resource,
            )
        })
    }
}

impl CorsConfiguration {
    /// The headers of the response to a request that is no preflight. `None` if no rule matches:
    /// the response then has none of them, and the browser keeps it from the page.
    pub fn response_headers(&self, origin: &HeaderValue, method: &Method) -> Option<CorsHeaders> {
        self.find(origin, CorsMethod::named(method.as_str())?, &[])
    }

    fn find(
        &self,
        origin: &HeaderValue,
        method: CorsMethod,
        headers: &[String],
    ) -> Option<CorsHeaders> {
        let text = std::str::from_utf8(origin.as_bytes()).ok()?;
        self.rules.iter().find_map(|rule| {
            let pattern = rule.origins.iter().find(|pattern| pattern.matches(text))?;
            let allowed = |name: &String| rule.headers.iter().any(|it| it.matches_name(name));
            (rule.methods.contains(&method) && headers.iter().all(allowed))
                .then(|| rule.headers((!pattern.is_any()).then_some(origin), headers))
        })
    }
}

impl CorsRule {
    /// `origin` is the one to repeat; without one, all are allowed.
    fn headers(&self, origin: Option<&HeaderValue>, requested: &[String]) -> CorsHeaders {
        let any = HeaderValue::from_static("*");
        let credentials = HeaderValue::from_static(if origin.is_some() { "true" } else { "false" });
        let methods: Vec<&str> = self.methods.iter().map(|method| method.as_str()).collect();
        let mut headers = vec![
            (ACCESS_CONTROL_ALLOW_ORIGIN, origin.cloned().unwrap_or(any)),
            (ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials),
        ];
        let mut add = |name, text: &str| {
            // Names and numbers only, so that every value can be that of a header.
            if let Ok(value) = HeaderValue::from_str(text)
                && !value.is_empty()
            {
                headers.push((name, value));
            }
        };
        add(ACCESS_CONTROL_ALLOW_METHODS, &methods.join(", "));
        add(ACCESS_CONTROL_ALLOW_HEADERS, &requested.join(", "));
        add(ACCESS_CONTROL_EXPOSE_HEADERS, &self.exposed_headers().join(", "));
        if let Some(seconds) = self.max_age_seconds {
            add(ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
        }
        headers.push((VARY, VARIES));
        CorsHeaders(headers)
    }

    /// The headers that a page may read. The `ETag` is always one: a multipart upload by a browser
    /// needs those of its parts, and it says nothing that the content does not.
    fn exposed_headers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.exposed.iter().map(String::as_str).collect();
        if !names.iter().any(|name| name.eq_ignore_ascii_case("etag")) {
            names.push("ETag");
        }
        names
    }
}

fn requested_headers(headers: &HeaderMap) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    let values = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).into_iter();
    for value in values.filter(|value| !value.is_empty()) {
        for name in String::from_utf8_lossy(value.as_bytes()).split(',') {
            if !is_token(name.trim()) {
                return Err(refuse(format!(
                    "Access-Control-Request-Headers \"{name}\" contains invalid character."
                )));
            }
            if names.len() == HEADERS_MAX {
                let why = "Access-Control-Request-Headers has too many names.";
                return Err(refuse(why.to_owned()));
            }
            names.push(name.trim().to_ascii_lowercase());
        }
    }
    Ok(names)
}

fn forbidden(why: &'static str, resource: CorsResource) -> Fault {
    Fault::because(Code::AccessForbidden, why).with("Method", "OPTIONS").with(
        "ResourceType",
        match resource {
            CorsResource::Bucket => "BUCKET",
            CorsResource::Object => "OBJECT",
        },
    )
}

fn refuse(why: String) -> Fault {
    Fault::because(Code::BadRequest, why)
}
