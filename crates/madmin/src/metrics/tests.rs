use http::Request;
use http::header::AUTHORIZATION;
use identity::{Identity, MasterKey, Secret};
use time::macros::datetime;

use super::*;

const NOW: OffsetDateTime = datetime!(2026-01-02 03:04:05 UTC);

fn access() -> Access {
    let root = Identity::root("minioadmin", Secret::new("minioadmin"));
    Access::new(root, MasterKey::new([7; MasterKey::BYTES]))
}

fn head(authorization: &str) -> Parts {
    let request = Request::builder().header(AUTHORIZATION, authorization).body(()).unwrap();
    request.into_parts().0
}

/// Returns a token with these claims, signed with `secret`.
fn token(algorithm: hmac::Algorithm, name: &str, claims: &str, secret: &str) -> String {
    let head = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{name}","typ":"JWT"}}"#));
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let key = hmac::Key::new(algorithm, secret.as_bytes());
    let signature = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn is_accepted(token: &str) -> bool {
    authenticate(&access(), &head(&format!("Bearer {token}")), NOW).is_ok()
}

/// `mc admin prometheus generate` of the version that `xtask` installs made it for the access key
/// and the secret `minioadmin`.
const OF_MC: &str = include_str!("../../tests/vectors/prometheus.jwt");

#[test]
fn token_of_mc_is_accepted() {
    let authenticated = authenticate(&access(), &head(&format!("Bearer {}", OF_MC.trim())), NOW);
    assert_eq!(authenticated.unwrap().identity.unwrap().access_key, "minioadmin");
}

#[test]
fn other_signatures_names_and_times_are_refused() {
    let (hs512, claims) = (hmac::HMAC_SHA512, r#"{"sub":"minioadmin","exp":4000000000}"#);
    assert!(is_accepted(&token(hs512, "HS512", claims, "minioadmin")));
    assert!(is_accepted(&token(hmac::HMAC_SHA256, "HS256", claims, "minioadmin")));
    assert!(!is_accepted(&token(hs512, "HS512", claims, "another")));
    assert!(!is_accepted(&token(hs512, "HS256", claims, "minioadmin")));
    assert!(!is_accepted(&token(hs512, "none", claims, "minioadmin")));
    let absent = r#"{"sub":"anna","exp":4000000000}"#;
    assert!(!is_accepted(&token(hs512, "HS512", absent, "minioadmin")));
    let expired = r#"{"sub":"minioadmin","exp":1767323044}"#;
    assert!(!is_accepted(&token(hs512, "HS512", expired, "minioadmin")));
    let unsigned = token(hs512, "none", claims, "minioadmin");
    let (unsigned, _) = unsigned.rsplit_once('.').unwrap();
    for text in ["", ".", "..", "a.b.c", "ashlar_AK_x", &format!("{unsigned}.")] {
        assert!(!is_accepted(text), "{text}");
    }
    assert!(authenticate(&access(), &head("Basic abc"), NOW).is_err());
    assert!(!is_accepted(&"a".repeat(TOKEN_BYTES_MAX + 1)));
}
