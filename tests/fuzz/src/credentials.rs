//! Credentials of a request. No unsigned request is accepted, and each request that is signed as
//! AWS specifies is accepted, with the signature in a header or in a URL.

use s3::Code;
use s3::auth::{AuthKind, Credentials, PRESIGN_SECONDS_MAX};

use crate::framing::terms;
use crate::message::Message;
use crate::naive_signer::{self, ACCESS_KEY, Head, SCOPE, SECRET, TIME};

/// The input: a request as text.
pub(crate) fn check(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    as_it_came(&message);
    signed_in_a_header(message.clone());
    signed_in_the_query(message);
}

/// No input knows the secret, so none can be accepted as signed.
fn as_it_came(message: &Message<'_>) {
    let head = message.head();
    let Ok(credentials) = Credentials::parse(&head) else { return };
    assert_eq!(credentials.access_key().is_none(), credentials.kind() == AuthKind::Anonymous);
    let _ = credentials.session_token(&head);
    for secret in [Some(SECRET), None] {
        for accepts_aws_chunked in [true, false] {
            let Ok(verified) = credentials.verify(secret, &head, &terms(accepts_aws_chunked))
            else {
                continue;
            };
            assert_eq!(credentials.kind(), AuthKind::Anonymous, "a signature was guessed");
            assert_eq!(verified.access_key(), None);
            assert!(accepts_aws_chunked || !verified.payload().is_chunked());
        }
    }
}

/// Error codes that are allowed for a request with a correct signature and another fault.
const BESIDES: [Code; 5] = [
    Code::InvalidArgument,
    Code::InvalidRequest,
    Code::InvalidToken,
    Code::NotImplemented,
    Code::XAmzContentSHA256Mismatch,
];

fn signed_in_a_header(mut message: Message<'_>) {
    message.headers.remove("authorization");
    if !message.headers.contains_key("host") {
        message.set("host", "localhost");
    }
    message.set("x-amz-date", TIME);
    let payload = match message.headers.get("x-amz-content-sha256").map(|it| it.to_str()) {
        Some(Ok(payload)) => payload.trim().to_owned(),
        _ => "UNSIGNED-PAYLOAD".to_owned(),
    };
    message.set("x-amz-content-sha256", &payload);
    // The signature covers the method and the whole target.
    let target = message.target.clone();
    let head = naive_head(&message, target.query().unwrap_or_default());
    let Some(signature) = naive_signer::signature(&head, &payload) else { return };
    let names = naive_signer::signed_headers(&message.headers);
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{SCOPE}, SignedHeaders={names}, \
         Signature={signature}"
    );
    message.set("authorization", &value);
    if is_believed(&message, AuthKind::Header) {
        refuses_another(&message);
    }
}

fn signed_in_the_query(mut message: Message<'_>) {
    message.headers.remove("authorization");
    if !message.headers.contains_key("host") {
        message.set("host", "localhost");
    }
    let payload = match message.headers.get("x-amz-content-sha256").map(|it| it.to_str()) {
        Some(Ok(payload)) => payload.trim().to_owned(),
        _ => {
            message.headers.remove("x-amz-content-sha256");
            "UNSIGNED-PAYLOAD".to_owned()
        }
    };
    let names = naive_signer::signed_headers(&message.headers);
    // Names of headers may contain separators of parameters.
    let names: String = names.bytes().map(|byte| naive_signer::escaped(byte, false)).collect();
    let query = format!(
        "{}&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={ACCESS_KEY}%2F{}&X-Amz-Date={TIME}\
         &X-Amz-Expires={PRESIGN_SECONDS_MAX}&X-Amz-SignedHeaders={names}",
        message.query(),
        SCOPE.replace('/', "%2F")
    );
    let head = naive_head(&message, &query);
    let Some(signature) = naive_signer::signature(&head, &payload) else { return };
    let target = format!("{}?{query}&X-Amz-Signature={signature}", message.target.path());
    let Ok(target) = target.parse() else { return };
    message.target = target;
    if is_believed(&message, AuthKind::Query) {
        refuses_another(&message);
    }
}

fn naive_head<'m>(message: &'m Message<'_>, query: &'m str) -> Head<'m> {
    let (method, path) = (message.method.as_str(), message.target.path());
    Head { method, path, query, headers: &message.headers }
}

/// Returns true if a signed request is accepted. A refusal must have a cause other than the
/// signature.
fn is_believed(message: &Message<'_>, kind: AuthKind) -> bool {
    let head = message.head();
    // Two signatures, repeated headers, or too many parameters.
    let Ok(credentials) = Credentials::parse(&head) else { return false };
    assert_eq!((credentials.kind(), credentials.access_key()), (kind, Some(ACCESS_KEY)));
    match credentials.verify(Some(SECRET), &head, &terms(true)) {
        Ok(verified) => {
            assert_eq!(verified.access_key(), Some(ACCESS_KEY));
            let unknown = credentials.verify(None, &head, &terms(true)).map(|_| ());
            assert_eq!(unknown.map_err(|fault| fault.code), Err(Code::InvalidAccessKeyId));
            true
        }
        Err(fault) => {
            assert!(BESIDES.contains(&fault.code), "{fault:?}");
            false
        }
    }
}

/// The same signature is invalid for another path, query or header.
fn refuses_another(message: &Message<'_>) {
    let (path, query) = (message.target.path(), message.query());
    let mut others = vec![message.clone(), message.clone(), message.clone()];
    let Ok(longer) = format!("{path}x?{query}").parse() else { return };
    others[0].target = longer;
    let Ok(longer) = format!("{path}?{query}&x").parse() else { return };
    others[1].target = longer;
    others[2].set("x-amz-meta-more", "1");
    for other in &others {
        let head = other.head();
        let Ok(credentials) = Credentials::parse(&head) else { continue };
        let verdict = credentials.verify(Some(SECRET), &head, &terms(true));
        assert!(verdict.is_err(), "a signature of another request: {:?}", other.target);
    }
}
