//! Signed requests of users and of sessions.

use http::{HeaderMap, HeaderValue, Method};
use record::{AccountId, User};
use s3::Code;
use s3::sts::AssumeRole;
use time::Duration;
use volume::AccessRecords;

use super::*;
use crate::access::{MasterKey, Secret};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn access() -> Access {
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let sealed_secret = master.seal("anna", &Secret::new("hers"), [1; MasterKey::NONCE_BYTES]);
    let (account, policies) = (AccountId::MAIN, Vec::new());
    let anna = User { uid: 1, gid: 1, policies, ..User::new(account, sealed_secret) };
    let access = Access::new(Identity::root("root", Secret::new("root's")), master);
    let users = vec![("anna".to_owned(), anna)];
    assert_eq!(access.replace(AccessRecords { users, ..AccessRecords::default() }), []);
    access
}

/// Returns the headers of a request that is signed with this secret, and with the token if there is
/// one.
fn signed(access_key: &str, secret: &str, token: Option<&str>) -> HeaderMap {
    let date = sigv4::format_timestamp(NOW);
    let scope = sigv4::CredentialScope::new(&date[..8], "here", "dav");
    let mut fields = vec![
        ("host", "localhost"),
        ("x-amz-content-sha256", sigv4::EMPTY_SHA256),
        ("x-amz-date", date.as_str()),
    ];
    fields.extend(token.map(|token| ("x-amz-security-token", token)));
    let mut canonical = sigv4::CanonicalRequest::builder("GET", "/", "");
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        canonical.header(name, value.as_bytes());
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let canonical = canonical.finish(sigv4::EMPTY_SHA256);
    let key = sigv4::SigningKey::derive(secret, &scope);
    let signature = key.sign(&sigv4::string_to_sign(&date, &scope, &canonical)).to_hex();
    let proof = sigv4::authorization(access_key, &scope, canonical.signed_headers(), &signature);
    headers.insert("authorization", HeaderValue::from_str(&proof).unwrap());
    headers
}

/// Returns the access key of the sender, `None` for an anonymous one, or the code of the refusal.
fn sender(
    access: &Access,
    headers: &HeaderMap,
    at: OffsetDateTime,
) -> Result<Option<String>, Code> {
    let head = RequestHead {
        method: &Method::GET,
        path: "/",
        query: "",
        headers,
        authority: None,
        host_bucket: None,
    };
    let accepted = AcceptedSignatures::sigv4("here", "dav", at);
    let credentials = Credentials::parse(&head).unwrap();
    let found = access.authenticate(&credentials, &head, &accepted).map_err(|fault| fault.code)?;
    Ok(found.identity.map(|identity| identity.access_key.clone()))
}

#[test]
fn the_owner_of_an_access_key_is_the_sender_if_it_knows_the_secret() {
    let access = access();
    assert_eq!(sender(&access, &signed("anna", "hers", None), NOW), Ok(Some("anna".to_owned())));
    assert_eq!(sender(&access, &signed("root", "root's", None), NOW), Ok(Some("root".to_owned())));
    let wrong = sender(&access, &signed("anna", "root's", None), NOW);
    assert_eq!(wrong, Err(Code::SignatureDoesNotMatch));
    let unknown = sender(&access, &signed("bert", "hers", None), NOW);
    assert_eq!(unknown, Err(Code::InvalidAccessKeyId));
    assert_eq!(sender(&access, &HeaderMap::new(), NOW), Ok(None));
}

#[test]
fn a_session_needs_its_token_and_a_permanent_key_none() {
    let access = access();
    let anna = access.lookup("anna", NOW).unwrap();
    let requested = AssumeRole { session: "nightly".to_owned(), seconds: 900, policy: None };
    let given = access.assume_role(&anna, &requested, NOW).unwrap();
    let of_session = signed(&given.access_key, &given.secret, Some(&given.token));
    assert_eq!(sender(&access, &of_session, NOW), Ok(Some("anna".to_owned())));
    assert_eq!(sender(&access, &of_session, NOW + Duration::HOUR), Err(Code::ExpiredToken));
    let without = signed(&given.access_key, &given.secret, None);
    assert_eq!(sender(&access, &without, NOW), Err(Code::InvalidAccessKeyId));
    let permanent = signed("anna", "hers", Some(&given.token));
    assert_eq!(sender(&access, &permanent, NOW), Err(Code::InvalidToken));
    // A session cannot begin another session.
    let session = access.identify(Some(&given.access_key), Some(&given.token), NOW).unwrap();
    let renewed = access.assume_role(&session.unwrap(), &requested, NOW);
    assert_eq!(renewed.err().map(|fault| fault.code), Some(Code::AccessDenied));
}
