use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openid::{Issuer, IssuerSettings};
use record::AccountId;
use runtime::Tasks;

use super::*;

fn role(name: &str, issuer: &str, audience: &str) -> WebRole {
    let settings = IssuerSettings { url: issuer.to_owned(), authorities: None, allow_http: false };
    WebRole {
        name: name.to_owned(),
        account: AccountId::MAIN,
        issuer: Arc::new(Issuer::new(settings, Tasks::new()).expect("an issuer")),
        audiences: vec![audience.to_owned()],
        require: BTreeMap::new(),
        policies: Vec::new(),
        policy_claim: Some("policy".to_owned()),
        claims: Vec::new(),
        uid: 1,
        gid: 1,
        umask: 0,
        login: None,
    }
}

/// An unsigned token.
fn token(claims: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(r#"{"alg":"ES256","kid":"k"}"#), part(claims), part("signature"))
}

#[tokio::test]
async fn the_named_role_or_the_first_matching_role_is_chosen() {
    let (here, there) = ("https://here.example.com", "https://there.example.com");
    let roles = [role("one", here, "a"), role("two", here, "b"), role("three", there, "b")];
    let choose = |arn: Option<&str>, claims: &str| {
        let token = token(claims);
        let token = UnverifiedToken::parse(&token).expect("a token");
        let chosen = choose(&roles, arn, &token);
        chosen.map(|role| role.name.clone()).map_err(|fault| (fault.code, fault.message))
    };
    let of = |issuer: &str, audience: &str| format!(r#"{{"iss":"{issuer}","aud":"{audience}"}}"#);
    assert_eq!(choose(None, &of(here, "a")).as_deref(), Ok("one"));
    assert_eq!(choose(None, &of(here, "b")).as_deref(), Ok("two"));
    assert_eq!(choose(None, &of(there, "b")).as_deref(), Ok("three"));
    let two = Some("arn:aws:iam::000000000001:role/two");
    assert_eq!(choose(two, &of(here, "b")).as_deref(), Ok("two"));
    // `choose` does not check the audience of a named role; the issuer's verification does.
    assert_eq!(choose(two, &of(here, "a")).as_deref(), Ok("two"));

    let invalid = Code::InvalidIdentityToken;
    let audience = (invalid, "Incorrect token audience".into());
    assert_eq!(choose(None, &of(here, "c")), Err(audience));
    let unknown_text = "No OpenIDConnect provider found in your account for ";
    let unknown = |issuer: &str| Err((invalid, format!("{unknown_text}{issuer}").into()));
    assert_eq!(choose(two, &of(there, "b")), unknown(there));
    assert_eq!(choose(None, &of("https://x", "b")), unknown("https://x"));
    assert_eq!(choose(None, "{}"), unknown(""));
    assert_eq!(choose(None, &of(&"x".repeat(5_000), "b")), unknown(&"x".repeat(SHOWN_CHARS_MAX)));
    let denied = Err((Code::AccessDenied, NOT_AUTHORIZED.into()));
    for arn in ["arn:aws:iam::000000000002:role/two", "arn:aws:iam::000000000001:role/four", "two"]
    {
        assert_eq!(choose(Some(arn), &of(here, "b")), denied, "{arn}");
    }
}

#[test]
fn an_invalid_token_gets_the_sts_error() {
    for (error, code, message) in [
        (TokenError::Malformed, Code::InvalidIdentityToken, "not a valid JWT"),
        (TokenError::Algorithm, Code::InvalidIdentityToken, "could not be validated"),
        (TokenError::Claim("sub"), Code::InvalidIdentityToken, "claim in the token: sub"),
        (TokenError::Signature, Code::InvalidIdentityToken, "signature"),
        (TokenError::UnknownKey, Code::InvalidIdentityToken, "verification key"),
        (TokenError::NotYet, Code::InvalidIdentityToken, "not valid yet"),
        (TokenError::Expired { now: 5, expired: 4 }, Code::ExpiredTokenException, "date/time 5"),
        (TokenError::Unreachable, Code::IDPCommunicationError, "communicating"),
        (TokenError::Busy, Code::IDPCommunicationError, "communicating"),
    ] {
        let fault = refused(error);
        assert_eq!(fault.code, code, "{error}");
        assert!(fault.message.contains(message), "{error}: {}", fault.message);
    }
}
