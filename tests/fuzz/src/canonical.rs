//! Paths, queries, scopes and times in the canonical form over which signatures are computed.

use sigv4::uri::{
    canonical_path, canonical_query, canonical_query_part, escape_path, escape_query,
};
use sigv4::{CanonicalRequest, CredentialScope, format_timestamp, parse_timestamp};

use crate::naive_signer;

/// The input is a path, a query, a header value, a scope and a time at once.
pub(crate) fn check(input: &[u8]) {
    header(input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    path(text);
    query(text);
    scope(text);
    time(text);
}

fn path(text: &str) {
    let canonical = canonical_path(text);
    let naive = naive_signer::canonical_path(text);
    if text.is_empty() {
        assert_eq!(canonical.as_deref(), Ok("/"));
        return;
    }
    assert_eq!(canonical.as_ref().ok(), naive.as_ref(), "two ways to spell a path");
    if let Ok(canonical) = canonical {
        assert_eq!(canonical_path(&canonical).as_ref(), Ok(&canonical), "there is one spelling");
        assert!(canonical.len() <= 3 * text.len(), "an escape is three bytes");
    }
    // Text without escapes is escaped and decoded to itself.
    assert_eq!(canonical_path(&escape_path(text)), Ok(escape_path(text)));
    let spelt = escape_query(text);
    assert_eq!(canonical_query_part(&spelt), Ok(spelt));
}

fn query(text: &str) {
    let mut parts = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Ok(name), Ok(value)) = (canonical_query_part(name), canonical_query_part(value))
        else {
            assert_eq!(naive_signer::canonical_query(text), None);
            return;
        };
        parts.push((name, value));
    }
    parts.retain(|(name, _)| name != "X-Amz-Signature");
    let ours = canonical_query(parts.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    assert_eq!(Some(&ours), naive_signer::canonical_query(text).as_ref());
    let mut reversed: Vec<_> = parts.iter().map(|(name, value)| (&**name, &**value)).collect();
    reversed.reverse();
    assert_eq!(canonical_query(reversed.into_iter()), ours, "the order in which it came is gone");
}

/// A canonical request has six lines more than headers. No header value can add a line, because
/// HTTP allows no line end in a value.
fn header(input: &[u8]) {
    let Ok(value) = http::HeaderValue::from_bytes(input) else { return };
    let mut request = CanonicalRequest::builder("GET", "/", "");
    request.header_values("a", [value.as_bytes(), b"b"]);
    let request = request.finish("hash");
    assert_eq!(request.as_bytes().split(|byte| *byte == b'\n').count(), 7);
    assert_eq!(request.signed_headers(), "a");
    let shown = request.as_bytes().windows(2).any(|two| two == b"  ");
    assert!(!shown, "of several spaces one is left");
}

fn scope(text: &str) {
    let Some(scope) = CredentialScope::parse(text) else {
        assert_ne!(text.matches('/').count(), 3);
        return;
    };
    let parts = [scope.date(), scope.region(), scope.service(), scope.terminator()];
    assert_eq!(parts.join("/"), text);
    assert_eq!(scope.as_str(), text);
    if scope.is_terminated() {
        assert_eq!(CredentialScope::new(parts[0], parts[1], parts[2]), scope);
    }
}

fn time(text: &str) {
    if let Some(time) = parse_timestamp(text) {
        assert_eq!(format_timestamp(time), text, "an instant has one spelling");
    }
}
