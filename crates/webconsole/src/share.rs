//! Links that let each person with the link read one object for a while.
//!
//! A link is a presigned URL of the S3 endpoint, signed with the key of the person. It ends at its
//! time, and earlier if the key is disabled or loses its permission.

use adminapi::ApiError;
use maud::{Markup, html};

use crate::forms::Form;
use crate::layout::{self, Section};
use crate::origin;
use crate::paths::{escape, escape_key};
use crate::reply::Reply;
use crate::visit::Visit;

/// The lifetimes that the form offers, in seconds.
const LIFETIMES: [(u64, &str); 4] =
    [(3_600, "1 hour"), (86_400, "1 day"), (259_200, "3 days"), (604_800, "7 days")];

/// Returns the form that makes a link.
pub(crate) fn form(visit: &Visit<'_>, path: &str, key: &str, version: Option<&str>) -> Markup {
    html! {
        details.make {
            summary { "Share" }
            form.stack method="post" action={ (path) "/share" } {
                (layout::token(visit))
                input type="hidden" name="key" value=(key);
                input type="hidden" name="version" value=[version];
                label for="seconds" { "The link is valid for" }
                select #seconds name="seconds" {
                    @for (seconds, name) in LIFETIMES { option value=(seconds) { (name) } }
                }
                button type="submit" { "Make a link" }
            }
        }
    }
}

/// Shows a new link.
pub(crate) fn show(visit: &Visit<'_>, bucket: &str, form: &Form) -> Result<Reply, ApiError> {
    let (key, version) = (form.exact("key"), form.text("version"));
    let seconds = form.number("seconds")?.unwrap_or_default();
    if !LIFETIMES.iter().any(|(known, _)| *known == seconds) {
        return Err(ApiError::bad_request("Choose the time of the link."));
    }
    let version = Some(version).filter(|version| !version.is_empty());
    let url = presigned(visit, bucket, key, version, seconds)?;
    let content = html! {
        p { "Each person with this link can read the object until it ends, as long as your access key may." }
        p { input.link readonly value=(url) aria-label="Link" data-copy; }
        p { a href={ "/buckets/" (escape(bucket)) "/object?key=" (escape(key)) } { "Back to the object" } }
    };
    Ok(layout::show(visit, "Share", Section::Buckets, &content))
}

/// Returns the URL of the S3 endpoint as the person's browser reaches it.
fn endpoint(visit: &Visit<'_>) -> (String, String) {
    let settings = &visit.state.settings;
    if let Some(url) = &settings.s3_url {
        let (scheme, host) = url.trim_end_matches('/').split_once("://").unwrap_or(("https", url));
        return (scheme.to_owned(), host.to_owned());
    }
    let host = origin::host(visit.head).unwrap_or("localhost");
    // The port of the console is replaced; an IPv6 address has colons within its brackets.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let scheme = if origin::is_secure(visit.head) { "https" } else { "http" };
    (scheme.to_owned(), format!("{name}:{}", settings.s3_port))
}

fn presigned(
    visit: &Visit<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    seconds: u64,
) -> Result<String, ApiError> {
    let identity = visit.actor.identity();
    if identity.is_temporary() {
        let why = "A login with OpenID has temporary credentials, with which no link can be made.";
        return Err(ApiError::bad_request(why));
    }
    let (scheme, host) = endpoint(visit);
    let date = sigv4::format_timestamp(visit.state.now());
    let day = date.get(..8).unwrap_or_default();
    let scope = sigv4::CredentialScope::new(day, &visit.state.settings.region, "s3");
    let credential = escape(&format!("{}/{}", identity.signing_key, scope.as_str()));
    let path = format!("/{}/{}", escape(bucket), escape_key(key));
    // The parameters are in the order of their names, as the canonical form requires.
    let mut query = format!(
        "X-Amz-Algorithm={}&X-Amz-Credential={credential}&X-Amz-Date={date}\
         &X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host",
        sigv4::ALGORITHM
    );
    if let Some(version) = version {
        query.push_str("&versionId=");
        query.push_str(&escape(version));
    }
    let mut canonical = sigv4::CanonicalRequest::builder("GET", &path, &query);
    canonical.header("host", host.as_bytes());
    let canonical = canonical.finish(sigv4::UNSIGNED_PAYLOAD);
    let signing = sigv4::SigningKey::derive(identity.secret.expose(), &scope);
    let signature = signing.sign(&sigv4::string_to_sign(&date, &scope, &canonical)).to_hex();
    Ok(format!("{scheme}://{host}{path}?{query}&X-Amz-Signature={signature}"))
}
