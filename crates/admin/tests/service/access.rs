//! Access keys and policies.

use std::sync::Arc;

use admin::{AccessKey, Admin, AdminError, BUILT_IN_POLICIES, NewUser, SECRET_CHARS, Surroundings};
use record::{AccountId, User};
use runtime::SystemClock;
use store::MemoryStore;

use crate::{DOCUMENT, Drained, Open, add, names, over, record, with_volume};

/// Checks the fields of a user that `add` sets.
#[track_caller]
fn check_shown(key: &AccessKey, access_key: &str, policies: &[&str]) {
    assert_eq!((&*key.access_key, &key.policies), (access_key, &names(policies)));
    assert_eq!((key.account, key.uid, key.gid, key.umask), (AccountId::MAIN, 1, 2, 0o022));
    assert!(key.enabled && key.is_user() && key.expires.is_none(), "{key:?}");
    assert_eq!((key.made, key.last_used), (crate::NOW, None));
}

#[tokio::test]
async fn a_new_access_key_returns_its_secret_once() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    assert_eq!(admin.users().await.unwrap(), []);
    let anna = add(&admin, "anna", &["readonly"]).await;
    check_shown(&anna.key, "anna", &["readonly"]);
    let alphabet = |char: char| char.is_ascii_alphanumeric();
    assert!(anna.secret.len() == SECRET_CHARS && anna.secret.chars().all(alphabet));
    assert!(!format!("{anna:?}").contains(&anna.secret));
    let kept = record(&*store, "anna").await.unwrap();
    let sealed = format!("anna {} ", anna.secret);
    assert!(kept.sealed_secret.starts_with(sealed.as_bytes()), "sealed for its access key");
    let bert = add(&admin, "bert", &[]).await;
    assert_ne!(anna.secret, bert.secret);
    assert_eq!(admin.users().await.unwrap(), [anna.key, bert.key]);
    check_shown(&admin.user("bert").await.unwrap(), "bert", &[]);
}

#[tokio::test]
async fn a_given_secret_is_used() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    let given = Some("secret-of-my-own");
    let new = NewUser {
        access_key: "anna",
        account: AccountId::MAIN,
        secret: given,
        uid: 1,
        gid: 2,
        umask: 0o022,
        policies: &[],
    };
    assert!(!format!("{new:?}").contains("secret-of-my-own"));
    assert_eq!(admin.add_user(&new, &Open).await.unwrap().secret, "secret-of-my-own");
    let weak =
        NewUser { access_key: "bert", account: AccountId::MAIN, secret: Some("short"), ..new };
    assert!(matches!(admin.add_user(&weak, &Open).await, Err(AdminError::Name(_))));
    assert!(record(&*store, "bert").await.is_none());
}

#[tokio::test]
async fn the_check_of_a_new_access_key_returns_the_error_of_the_addition() {
    let admin = over(with_volume(MemoryStore::new()).await);
    let (unknown, readonly) = (names(&["readonly", "phtos"]), names(&["readonly"]));
    let new = NewUser {
        access_key: "anna",
        account: AccountId::MAIN,
        secret: None,
        uid: 1,
        gid: 2,
        umask: 0o022,
        policies: &unknown,
    };
    let missing = |error: AdminError| match error {
        AdminError::NoSuchPolicy(name) => name,
        error => panic!("{error}"),
    };
    assert_eq!(missing(admin.check_new_user(&new).await.unwrap_err()), "phtos");
    assert_eq!(missing(admin.add_user(&new, &Open).await.unwrap_err()), "phtos");
    let new = NewUser { policies: &readonly, ..new };
    admin.check_new_user(&new).await.unwrap();
    assert_eq!(admin.users().await.unwrap(), [], "a look changes nothing");
    admin.add_user(&new, &Open).await.unwrap();
    assert!(matches!(admin.check_new_user(&new).await, Err(AdminError::UserExists)));
    assert!(matches!(admin.add_user(&new, &Open).await, Err(AdminError::UserExists)));
    let absurd = NewUser { access_key: "a/b", ..new };
    assert!(matches!(admin.check_new_user(&absurd).await, Err(AdminError::Name(_))));
    assert!(matches!(admin.add_user(&absurd, &Open).await, Err(AdminError::Name(_))));
}

#[tokio::test]
async fn without_random_bytes_no_access_key_is_made() {
    let surroundings = Surroundings {
        place: String::new(),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(Drained),
    };
    let admin = Admin::over(with_volume(MemoryStore::new()).await, surroundings);
    let given = Some("secret-of-my-own");
    for secret in [None, given] {
        let new = NewUser {
            access_key: "anna",
            account: AccountId::MAIN,
            secret,
            uid: 1,
            gid: 2,
            umask: 0o022,
            policies: &[],
        };
        assert!(matches!(admin.add_user(&new, &Open).await, Err(AdminError::Random(_))));
    }
    assert_eq!(admin.users().await.unwrap(), []);
}

#[tokio::test]
async fn policies_of_an_access_key_change_and_nothing_else_does() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    add(&admin, "anna", &["readonly"]).await;
    let before = record(&*store, "anna").await.unwrap();
    admin.put_policy("photos", DOCUMENT, None).await.unwrap();
    admin.set_user_policies("anna", &names(&["photos", "readwrite"]), None).await.unwrap();
    let after = record(&*store, "anna").await.unwrap();
    assert!(after == User { policies: names(&["photos", "readwrite"]), ..before });
    let set = admin.set_user_policies("anna", &names(&["gone"]), None).await;
    assert!(matches!(set, Err(AdminError::NoSuchPolicy(name)) if name == "gone"));
    let absurd = "x".repeat(2_000);
    let set = admin.set_user_policies("anna", std::slice::from_ref(&absurd), None).await;
    assert!(matches!(set, Err(AdminError::NoSuchPolicy(name)) if name == absurd));
    for nobody in ["bert", "a/b", &absurd] {
        let set = admin.set_user_policies(nobody, &names(&["gone", "no policy"]), None).await;
        assert!(matches!(set, Err(AdminError::NoSuchUser)), "{nobody}");
        assert!(matches!(admin.user(nobody).await, Err(AdminError::NoSuchUser)), "{nobody}");
        assert!(matches!(admin.remove_user(nobody, None).await, Err(AdminError::NoSuchUser)));
    }
    admin.set_user_owner("anna", (None, Some(7), Some(0o077)), None).await.unwrap();
    let owned = record(&*store, "anna").await.unwrap();
    assert!(owned == User { gid: 7, umask: 0o077, ..after });
    let set = admin.set_user_owner("bert", (Some(1), None, None), None).await;
    assert!(matches!(set, Err(AdminError::NoSuchUser)));
    admin.remove_user("anna", None).await.unwrap();
    assert!(matches!(admin.user("anna").await, Err(AdminError::NoSuchUser)));
}

#[tokio::test]
async fn a_policy_in_use_is_kept_unchanged() {
    let admin = over(with_volume(MemoryStore::new()).await);
    let set = admin.put_policy("photos", DOCUMENT, None).await.unwrap();
    assert!(!set.existed && set.half_denied.is_empty());
    let half = DOCUMENT.replace("Allow", "Deny");
    let set = admin.put_policy("photos", &half, None).await.unwrap();
    assert!(set.existed);
    assert_eq!(set.half_denied, [("s3:GetObject", "s3:GetObjectVersion")]);
    assert_eq!(admin.policy("photos").await.unwrap().document, half);
    let listed = admin.policies().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.built_in)).collect();
    let built_in = BUILT_IN_POLICIES.map(|name| (name, true));
    assert_eq!(listed, [&built_in[..], &[("photos", false)]].concat());
    for name in ["bert", "anna"] {
        add(&admin, name, &["photos"]).await;
    }
    match admin.remove_policy("photos", None).await {
        Err(AdminError::PolicyInUse(users)) => assert_eq!(users, ["anna", "bert"]),
        other => panic!("{other:?}"),
    }
    admin.remove_user("anna", None).await.unwrap();
    admin.set_user_policies("bert", &[], None).await.unwrap();
    admin.remove_policy("photos", None).await.unwrap();
    assert!(matches!(admin.policy("photos").await, Err(AdminError::NoSuchPolicy(_))));
    assert!(matches!(admin.remove_policy("photos", None).await, Err(AdminError::NoSuchPolicy(_))));
}

#[tokio::test]
async fn a_policy_that_is_built_in_stays_as_it_is() {
    let admin = over(with_volume(MemoryStore::new()).await);
    for name in BUILT_IN_POLICIES {
        let put = admin.put_policy(name, DOCUMENT, None).await;
        assert!(matches!(put, Err(AdminError::NameIsBuiltIn)), "{name}");
        let shown = admin.policy(name).await.unwrap();
        assert!(shown.document.contains("Action") && shown.etag.is_none(), "{name}");
        let removed = admin.remove_policy(name, None).await;
        assert!(matches!(removed, Err(AdminError::PolicyIsBuiltIn)), "{name}");
    }
    let put = admin.put_policy("no/name", DOCUMENT, None).await;
    assert!(matches!(put, Err(AdminError::Name(_))));
    let put = admin.put_policy("broken", "{", None).await;
    assert!(matches!(put, Err(AdminError::Document(_))));
    assert_eq!(admin.policies().await.unwrap().len(), BUILT_IN_POLICIES.len());
}

/// Two consoles at once: what one of them did the other one meets, and no policy is lost that a key
/// has.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_additions_of_an_access_key_one_fails() {
    for _ in 0..50 {
        let store = with_volume(faulty::Faulty::default()).await;
        let (one, other) = (over(store.clone()), over(store.clone()));
        one.put_policy("photos", DOCUMENT, None).await.unwrap();
        let policies = &names(&["photos"]);
        let new = NewUser {
            access_key: "anna",
            account: AccountId::MAIN,
            secret: None,
            uid: 1,
            gid: 2,
            umask: 0o022,
            policies,
        };
        let twin = NewUser { uid: 9, ..new };
        let (made, also, removed) = tokio::join!(
            one.add_user(&new, &Open),
            other.add_user(&twin, &Open),
            other.remove_policy("photos", None),
        );
        let kept = record(&*store, "anna").await;
        match removed {
            Ok(()) => {
                assert!(kept.is_none(), "the policy is gone");
                for refused in [made, also] {
                    assert!(matches!(refused, Err(AdminError::NoSuchPolicy(_))), "{refused:?}");
                }
            }
            Err(AdminError::PolicyInUse(users)) => {
                assert_eq!(users, ["anna"]);
                let (winner, loser) = if made.is_ok() { (made, also) } else { (also, made) };
                assert_eq!(winner.unwrap().key.uid, kept.unwrap().uid);
                assert!(matches!(loser, Err(AdminError::UserExists)), "{loser:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_secret_is_written_only_if_it_is_another_one() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    let anna = add(&admin, "anna", &["readonly"]).await;
    let sealed = async || record(&*store, "anna").await.unwrap().sealed_secret;
    let before = sealed().await;
    assert!(!admin.set_user_secret("anna", &anna.secret, &Open).await.unwrap());
    assert_eq!(sealed().await, before, "the same secret is not sealed again");
    assert!(admin.set_user_secret("anna", "another-secret", &Open).await.unwrap());
    assert!(sealed().await.starts_with(b"anna another-secret "));
    assert_eq!(admin.user("anna").await.unwrap().policies, names(&["readonly"]), "the rest stays");
    let weak = admin.set_user_secret("anna", "short", &Open).await;
    assert!(matches!(weak, Err(AdminError::Name(_))), "{weak:?}");
    let missing = admin.set_user_secret("bert", "another-secret", &Open).await;
    assert!(matches!(missing, Err(AdminError::NoSuchUser)), "{missing:?}");
}

#[tokio::test]
async fn a_policy_that_was_replaced_since_it_was_read_is_not_given() {
    let admin = over(with_volume(MemoryStore::new()).await);
    admin.put_policy("p", DOCUMENT, None).await.unwrap();
    add(&admin, "anna", &[]).await;
    let seen = [("p".to_owned(), admin.policy("p").await.unwrap().etag.unwrap())];
    admin.put_policy("p", &DOCUMENT.replace("photos", "films"), None).await.unwrap();
    let (giver, p) = (admin.giver(seen.clone()), names(&["p"]));
    let changed = |error| matches!(error, AdminError::PolicyChanged(name) if name == "p");
    assert!(changed(giver.set_user_policies("anna", &p, None).await.unwrap_err()));
    assert!(changed(giver.put_group("lab", None, Some(&p), None).await.unwrap_err()));
    let bert = NewUser {
        access_key: "bert",
        account: AccountId::MAIN,
        secret: None,
        uid: 1,
        gid: 2,
        umask: 0,
        policies: &p,
    };
    assert!(changed(giver.add_user(&bert, true, &Open).await.unwrap_err()));
    // The same document again is the same version.
    admin.put_policy("p", DOCUMENT, None).await.unwrap();
    giver.set_user_policies("anna", &p, None).await.unwrap();
    giver.put_group("lab", None, Some(&p), None).await.unwrap();
    giver.add_user(&bert, false, &Open).await.unwrap();
    assert!(!admin.user("bert").await.unwrap().enabled, "from the beginning");
}
