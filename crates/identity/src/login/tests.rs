use std::time::Duration;

use record::{AccountId, User};
use time::OffsetDateTime;
use volume::AccessRecords;

use super::{LOGIN_IDLE_MAX, LOGIN_MAX, LoginError};
use crate::{Access, Identity, MasterKey, Secret};

fn access() -> Access {
    let root = Identity::root("operator", Secret::new("secret-of-the-operator"));
    Access::new(root, MasterKey::new([7; MasterKey::BYTES]))
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

#[test]
fn a_login_needs_the_secret_of_its_key() {
    let access = access();
    let log_in = |key, secret| access.log_in(key, secret, now()).unwrap();
    assert!(log_in("operator", "secret-of-the-operator").is_some());
    for (key, secret) in [("operator", ""), ("operator", "secret"), ("nobody", ""), ("", "")] {
        assert!(log_in(key, secret).is_none(), "{key} {secret}");
    }
}

#[test]
fn a_ticket_opens_at_each_gateway_of_the_volume_and_nowhere_else() {
    let login = access().log_in("operator", "secret-of-the-operator", now()).unwrap().unwrap();
    let ticket = access().ticket(&login, now()).unwrap();
    let (resumed, authenticated) = access().resume(&ticket, now()).unwrap();
    assert_eq!(resumed, login);
    assert_eq!(authenticated.identity.unwrap().access_key, "operator");
    let root = Identity::root("operator", Secret::new("secret-of-the-operator"));
    let other = Access::new(root, MasterKey::new([8; MasterKey::BYTES]));
    assert_eq!(other.resume(&ticket, now()).unwrap_err(), LoginError::Invalid);
    // Each changed character is noticed.
    for at in 0..ticket.len() {
        let mut changed = ticket.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(access().resume(&changed, now()).is_err(), "{at}");
    }
    for wrong in ["", "x", &"A".repeat(10_000)] {
        assert_eq!(access().resume(wrong, now()).unwrap_err(), LoginError::Invalid);
    }
}

#[test]
fn a_login_ends_after_its_time_and_without_requests() {
    let access = access();
    let second = Duration::from_secs(1);
    let login = access.log_in("operator", "secret-of-the-operator", now()).unwrap().unwrap();
    let ticket = access.ticket(&login, now()).unwrap();
    assert!(access.resume(&ticket, now() + LOGIN_IDLE_MAX - second).is_ok());
    let idle = access.resume(&ticket, now() + LOGIN_IDLE_MAX);
    assert_eq!(idle.unwrap_err(), LoginError::Expired);
    let late = now() + LOGIN_MAX - second;
    let ticket = access.ticket(&login, late).unwrap();
    assert!(access.resume(&ticket, late).is_ok());
    assert_eq!(access.resume(&ticket, late + second).unwrap_err(), LoginError::Expired);
}

#[test]
fn a_login_ends_with_another_secret() {
    let access = access();
    let replace = |secret: &str| {
        let nonce = [1; MasterKey::NONCE_BYTES];
        let sealed_secret = access.seal("anna", &Secret::new(secret), nonce);
        let user = User::new(AccountId::MAIN, sealed_secret);
        let users = vec![("anna".to_owned(), user)];
        access.replace(AccessRecords { users, ..AccessRecords::default() });
    };
    replace("secret-1");
    let login = access.log_in("anna", "secret-1", now()).unwrap().unwrap();
    let ticket = access.ticket(&login, now()).unwrap();
    assert!(access.resume(&ticket, now()).is_ok());
    replace("secret-2");
    assert_eq!(access.resume(&ticket, now()).unwrap_err(), LoginError::Changed);
    access.replace(AccessRecords::default());
    assert_eq!(access.resume(&ticket, now()).unwrap_err(), LoginError::Changed);
}

#[test]
fn form_tokens_belong_to_one_login() {
    let access = access();
    let log_in = || access.log_in("operator", "secret-of-the-operator", now()).unwrap().unwrap();
    let (one, other) = (log_in(), log_in());
    let token = access.form_token(&one);
    assert!(access.is_form_token(&one, &token));
    assert!(!access.is_form_token(&other, &token) && !access.is_form_token(&one, ""));
}
