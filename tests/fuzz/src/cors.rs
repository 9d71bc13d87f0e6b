//! Cross-origin requests. The first matching rule decides, as in a naive evaluation of the same
//! document, and the response allows no more than was requested.

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN, VARY};
use s3::cors::{CorsConfiguration, CorsMethod, CorsResource, Preflight};
use s3::xml::{Element, XmlLimits};

use crate::message::Message;
use crate::{faults, glob};

/// The input: a preflight request as text, whose body is the bucket's configuration.
pub(crate) fn check(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    let configuration = CorsConfiguration::parse(message.body);
    let configuration = match configuration {
        Ok(configuration) => configuration,
        Err(fault) => return faults::are_told(&fault, message.body.len()),
    };
    let preflight = match Preflight::parse(&message.headers) {
        Ok(preflight) => preflight,
        Err(fault) => return faults::are_told(&fault, input.len()),
    };
    assert!(preflight.respond(None, CorsResource::Bucket).is_err());
    let origin = message.headers.get(ORIGIN).expect("a preflight has an origin");
    let answer = preflight.respond(Some(&configuration), CorsResource::Object);
    let naive = naive(&message, origin.to_str().ok());
    // An origin that is not ASCII is compared as UTF-8, which the naive evaluation does not do.
    if origin.to_str().is_ok() {
        assert_eq!(answer.is_ok(), naive.is_some(), "whether a rule matches");
    }
    let answer = match answer {
        Ok(answer) => answer.into_inner(),
        Err(fault) => return faults::are_told(&fault, input.len()),
    };
    let told = |name| answer.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
    let allowed = told(ACCESS_CONTROL_ALLOW_ORIGIN).expect("an answer names an origin");
    assert!(allowed == origin || allowed == "*", "no other origin is let in");
    assert!(told(VARY).is_some(), "an answer is for this request alone");
    let bytes: usize = answer.iter().map(|(_, value)| value.len()).sum();
    assert!(bytes <= 1024 + 2 * input.len());
    if let Some(naive) = naive {
        assert_eq!(allowed == "*", naive == "*");
    }
}

/// Returns the origin pattern of the first matching rule.
fn naive(message: &Message<'_>, origin: Option<&str>) -> Option<String> {
    let limits = XmlLimits { bytes: CorsConfiguration::BYTES_MAX, ..XmlLimits::SMALL };
    let root = Element::parse(message.body, "CORSConfiguration", limits).ok()?;
    let header = |name: &str| message.headers.get(name).and_then(|value| value.to_str().ok());
    let method = header("access-control-request-method")?;
    CorsMethod::named(method)?;
    let asked = message.headers.get_all("access-control-request-headers");
    let asked: Vec<String> = asked
        .iter()
        .filter(|value| !value.is_empty())
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    root.children().iter().find_map(|rule| {
        let texts = |name: &'static str| {
            let children = rule.children().iter().filter(move |child| child.name() == name);
            children.map(|child| child.text().trim())
        };
        let lower = |pattern: &str| pattern.to_ascii_lowercase();
        // In CORS rules only `*` is a wildcard.
        let covers = |pattern: &str, text: &str| {
            glob::covers(&pattern.replace('?', "\u{e000}"), &text.replace('?', "\u{e000}"))
        };
        let pattern =
            texts("AllowedOrigin").find(|pattern| covers(pattern, origin.unwrap_or("")))?;
        let fits = texts("AllowedMethod").any(|one| one == method)
            && asked.iter().all(|name| texts("AllowedHeader").any(|it| covers(&lower(it), name)));
        fits.then(|| pattern.to_owned())
    })
}
