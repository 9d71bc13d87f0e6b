use std::collections::BTreeMap;
use std::sync::Arc;

use openid::{CodeClient, Issuer, IssuerSettings};
use record::AccountId;
use runtime::Tasks;

use super::*;
use crate::access::{Identity, WebLogin};
use crate::login::LoginError;

const ROLE: &str = "arn:aws:iam::000000000001:role/staff";

fn role(login: bool) -> WebRole {
    // Nothing listens at this port.
    let url = "http://127.0.0.1:1/realm".to_owned();
    let settings = IssuerSettings { url, authorities: None, allow_http: false };
    let client = CodeClient {
        id: "console".to_owned(),
        secret: None,
        redirect_url: "https://ashlar.example.com/login/callback".to_owned(),
        scopes: Vec::new(),
    };
    let session = Duration::from_hours(1);
    let login = login.then(|| WebLogin { client, label: "Keycloak".to_owned(), session });
    WebRole {
        name: "staff".to_owned(),
        account: AccountId::MAIN,
        issuer: Arc::new(Issuer::new(settings, Tasks::new()).expect("an issuer")),
        audiences: vec!["console".to_owned()],
        require: BTreeMap::new(),
        policies: Vec::new(),
        policy_claim: Some("policy".to_owned()),
        claims: Vec::new(),
        uid: 1,
        gid: 1,
        umask: 0,
        login,
    }
}

fn access(roles: Vec<WebRole>, master: u8) -> Access {
    let root = Identity::root("operator", Secret::new("secret-of-the-operator"));
    Access::new(root, MasterKey::new([master; MasterKey::BYTES])).with_web_roles(roles)
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

fn attempt() -> WebLoginAttempt {
    WebLoginAttempt {
        role: ROLE.to_owned(),
        state: "the-state".to_owned(),
        nonce: "the-nonce".to_owned(),
        verifier: "the-verifier".to_owned(),
        next: "/buckets".to_owned(),
        began: now().unix_timestamp(),
    }
}

fn cookie(access: &Access, attempt: &WebLoginAttempt) -> String {
    let text = Secret::new(serde_json::to_string(attempt).unwrap());
    URL_SAFE_NO_PAD.encode(access.attempt_key().seal(SEAL_NAME, &text, [3; 12]))
}

#[test]
fn an_attempt_opens_at_each_gateway_of_the_volume_and_nowhere_else() {
    let cookie = cookie(&access(Vec::new(), 7), &attempt());
    let opened = access(Vec::new(), 7).open_web_login(&cookie, now()).unwrap();
    assert_eq!((opened.state(), opened.next()), ("the-state", "/buckets"));
    let refused = |access: &Access, cookie: &str| access.open_web_login(cookie, now()).err();
    assert_eq!(refused(&access(Vec::new(), 8), &cookie), Some(WebLoginError::NotBegun));
    let ours = access(Vec::new(), 7);
    // Each changed character is noticed.
    for at in 0..cookie.len() {
        let mut changed = cookie.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(refused(&ours, &changed), Some(WebLoginError::NotBegun), "{at}");
    }
    for wrong in ["", "x", &"A".repeat(10_000)] {
        assert_eq!(refused(&ours, wrong), Some(WebLoginError::NotBegun));
    }
    // The cookies of a login and of an attempt are not interchangeable.
    let login = ours.log_in("operator", "secret-of-the-operator", now()).unwrap().unwrap();
    let ticket = ours.ticket(&login, now()).unwrap();
    assert_eq!(refused(&ours, &ticket), Some(WebLoginError::NotBegun));
    assert_eq!(ours.resume(&cookie, now()).err(), Some(LoginError::Invalid));
    assert!(!format!("{opened:?}").contains("the-"));
}

#[test]
fn an_attempt_ends_after_ten_minutes() {
    let access = access(Vec::new(), 7);
    let cookie = cookie(&access, &attempt());
    let second = Duration::from_secs(1);
    assert!(access.open_web_login(&cookie, now() + WEB_LOGIN_WAIT - second).is_ok());
    let late = access.open_web_login(&cookie, now() + WEB_LOGIN_WAIT).err();
    assert_eq!(late, Some(WebLoginError::Late));
    assert!(access.open_web_login(&cookie, now() - second).is_ok(), "another gateway's clock");
}

#[test]
fn an_attempt_has_one_state() {
    let attempt = attempt();
    assert!(attempt.has_state("the-state"));
    for other in ["", "the-stat", "the-state2", "THE-STATE"] {
        assert!(!attempt.has_state(other), "{other}");
    }
}

#[tokio::test]
async fn a_login_needs_a_role_with_one_and_an_issuer_that_answers() {
    let ours = access(vec![role(true)], 7);
    let offered = WebLoginOffer { role: ROLE.to_owned(), label: "Keycloak".to_owned() };
    assert_eq!(ours.web_logins(), [offered]);
    let begun = ours.begin_web_login(ROLE, "/", now()).await.err();
    assert!(matches!(begun, Some(WebLoginError::Issuer(CodeError::Unreachable(_)))), "{begun:?}");
    let finished = ours.finish_web_login(&attempt(), "a", None, now()).await.err();
    assert!(matches!(finished, Some(WebLoginError::Issuer(CodeError::Unreachable(_)))));
    for code in ["", &"a".repeat(CODE_BYTES_MAX + 1)] {
        let finished = ours.finish_web_login(&attempt(), code, None, now()).await.err();
        assert_eq!(finished, Some(WebLoginError::Code));
    }
    let other = ours.finish_web_login(&attempt(), "a", Some("https://other"), now()).await.err();
    assert_eq!(other, Some(WebLoginError::OtherIssuer));
    let other = ours.begin_web_login("arn:aws:iam::000000000001:role/other", "/", now()).await;
    assert_eq!(other.err(), Some(WebLoginError::NoLogin));

    let without = access(vec![role(false)], 7);
    assert_eq!(without.web_logins(), []);
    let begun = without.begin_web_login(ROLE, "/", now()).await.err();
    assert_eq!(begun, Some(WebLoginError::NoLogin));
    // The operator removed the login while a person was at the issuer.
    let finished = without.finish_web_login(&attempt(), "a", None, now()).await.err();
    assert_eq!(finished, Some(WebLoginError::NoLogin));
}

#[test]
fn a_subject_is_the_name_of_the_session_if_it_may_be_one() {
    assert_eq!(session_name("anna-7@example.com"), "anna-7@example.com");
    for subject in ["a", "auth0|123", "anna b", "ä-1", &"a".repeat(65)] {
        assert_eq!(session_name(subject), SESSION_NAME, "{subject}");
    }
}
