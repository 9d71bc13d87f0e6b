//! The responses to browsers: to a preflight request, and to an actual request.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{CorsConfiguration, CorsMethod, CorsRule, is_token};
use crate::{Code, Fault};

/// The maximum number of header names in a preflight request.
const HEADERS_MAX: usize = 256;

/// The value of `Vary`: the request headers on which the response depends.
const VARIES: HeaderValue = HeaderValue::from_static(
    "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
);

/// A preflight: the `OPTIONS` request that a browser sends before the actual request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    origin: HeaderValue,
    method: CorsMethod,
    /// The names of the headers that the actual request will have, in lower case.
    headers: Vec<String>,
}

/// The kind of resource of a preflight request, which S3 names if it refuses the preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorsResource {
    /// The preflight is about a bucket.
    Bucket,
    /// The preflight is about an object.
    Object,
}

/// The CORS headers of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsHeaders(Vec<(HeaderName, HeaderValue)>);

impl CorsHeaders {
    /// Returns the CORS headers: names and values.
    pub fn as_slice(&self) -> &[(HeaderName, HeaderValue)] {
        &self.0
    }

    /// Returns the CORS headers, which the caller moves into a response.
    pub fn into_inner(self) -> Vec<(HeaderName, HeaderValue)> {
        self.0
    }
}

impl Preflight {
    /// Parses the headers of an `OPTIONS` request, before the bucket is looked up.
    ///
    /// Fails with `BadRequest` for a missing origin, a method that no rule can allow, and invalid
    /// header names.
    pub fn parse(headers: &HeaderMap) -> Result<Preflight, Fault> {
        let origin = headers.get(ORIGIN).filter(|origin| !origin.is_empty()).ok_or_else(|| {
            refuse("Insufficient information. Origin request header needed.".to_owned())
        })?;
        let method = headers
            .get(ACCESS_CONTROL_REQUEST_METHOD)
            // S3's message has `null` for a missing method.
            .map_or("null".into(), |name| String::from_utf8_lossy(name.as_bytes()));
        let method = CorsMethod::named(&method)
            .ok_or_else(|| refuse(format!("Invalid Access-Control-Request-Method: {method}")))?;
        let headers = requested_headers(headers)?;
        Ok(Preflight { origin: origin.clone(), method, headers })
    }

    /// Returns the response headers that a bucket's configuration allows.
    ///
    /// Fails with `AccessForbidden` if the bucket has no configuration or no rule matches.
    pub fn respond(
        &self,
        configuration: Option<&CorsConfiguration>,
        resource: CorsResource,
    ) -> Result<CorsHeaders, Fault> {
        let Some(configuration) = configuration else {
            // S3 names the bucket as the resource here, even for an object.
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
    /// Returns the headers of the response to an actual request. `None` if no rule matches: the
    /// response then has no CORS headers, and the browser hides it from the page.
    pub fn response_headers(&self, origin: &HeaderValue, method: &Method) -> Option<CorsHeaders> {
        self.find(origin, CorsMethod::named(method.as_str())?, &[])
    }

    /// Returns the response headers of the first CORS rule that allows the origin, the method and
    /// all header names; `None` if no rule does.
    fn find(
        &self,
        origin: &HeaderValue,
        method: CorsMethod,
        headers: &[String],
    ) -> Option<CorsHeaders> {
        let text = std::str::from_utf8(origin.as_bytes()).ok()?;
        self.rules.iter().find_map(|rule| {
            // The first matching origin pattern decides whether the response repeats the origin or
            // has `*`.
            let pattern = rule.origins.iter().find(|pattern| pattern.matches(text))?;
            let allowed = |name: &String| rule.headers.iter().any(|it| it.matches_name(name));
            (rule.methods.contains(&method) && headers.iter().all(allowed))
                .then(|| rule.headers((!pattern.is_any()).then_some(origin), headers))
        })
    }
}

impl CorsRule {
    /// Returns the response headers by which this rule allows a request. `origin` is the request's
    /// origin, which the response repeats; `None` if the rule allows all origins.
    fn headers(&self, origin: Option<&HeaderValue>, requested: &[String]) -> CorsHeaders {
        let any = HeaderValue::from_static("*");
        // Browsers refuse credentials with the origin `*`, so they are only allowed for a repeated
        // origin.
        let credentials = HeaderValue::from_static(if origin.is_some() { "true" } else { "false" });
        let methods: Vec<&str> = self.methods.iter().map(|method| method.as_str()).collect();
        let mut headers = vec![
            (ACCESS_CONTROL_ALLOW_ORIGIN, origin.cloned().unwrap_or(any)),
            (ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials),
        ];
        let mut add = |name, text: &str| {
            // The values are only names and numbers, so each is a valid header value.
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
        // The response depends on these request headers, so a shared cache must distinguish them.
        headers.push((VARY, VARIES));
        CorsHeaders(headers)
    }

    /// Returns the names of the response headers that a page may read by this rule. `ETag` is
    /// always one: a multipart upload by a browser needs the tags of its parts, and they reveal no
    /// more than the content does.
    fn exposed_headers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.exposed.iter().map(String::as_str).collect();
        if !names.iter().any(|name| name.eq_ignore_ascii_case("etag")) {
            names.push("ETag");
        }
        names
    }
}

/// Returns the header names that the actual request will have, in lower case.
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
            // Each name is compared with each pattern of each rule, so their number is limited.
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
