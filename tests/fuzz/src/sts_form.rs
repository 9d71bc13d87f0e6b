//! Requests to STS: a form within its limits, or an error that clients can parse.

use s3::request::Query;
use s3::sts::{
    AssumeRole, SESSION_POLICY_BYTES_MAX, SESSION_SECONDS_MAX, SESSION_SECONDS_MIN, StsRequest,
    refusal,
};
use s3::xml::{Element, XmlLimits};

/// The input: the body of a request.
pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let parsed = Query::parse(text).and_then(|form| StsRequest::parse(&form));
    match parsed {
        Ok(StsRequest::AssumeRole(role)) => is_within_limits(&role),
        Ok(StsRequest::AssumeRoleWithWebIdentity(identity)) => is_within_limits(&identity.session),
        Ok(StsRequest::GetCallerIdentity) => assert!(text.contains("GetCallerIdentity")),
        Err(fault) => {
            let document = refusal(&fault, "id");
            assert!(document.len() <= 8192, "a refusal repeats little: {} bytes", document.len());
            let root = Element::parse(document.as_bytes(), "ErrorResponse", XmlLimits::SMALL);
            let root = root.expect("a refusal that parses");
            assert!(root.child("Error").is_ok_and(|error| error.is_some()));
        }
    }
}

fn is_within_limits(role: &AssumeRole) {
    assert!((SESSION_SECONDS_MIN..=SESSION_SECONDS_MAX).contains(&role.seconds));
    assert!((2..=64).contains(&role.session.len()) && role.session.is_ascii());
    assert!(role.policy.as_ref().map_or(0, String::len) <= SESSION_POLICY_BYTES_MAX);
    assert!(!role.session.contains(['/', ':', '*']), "it is a part of an ARN");
}
