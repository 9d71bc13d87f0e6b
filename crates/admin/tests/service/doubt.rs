//! Commits whose answer is lost, and the results that the caller gets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use admin::{Admin, AdminError, BucketChange, NewUser};
use faulty::{Fault, Faulty};
use record::key::{self, space};
use record::{PolicyRecord, User};
use store::{MetaStore, Plan, StoreErrorKind, Write};

use crate::{DOCUMENT, Open, add, make_volume, names, over, record};

fn begin() -> (Arc<Faulty>, Admin) {
    let store = Faulty::new();
    (store.clone(), over(store))
}

async fn put_policy_behind(store: &Faulty, name: &str) {
    let at = key::policy(name);
    let value = PolicyRecord(DOCUMENT.to_owned()).encode(&at);
    store.commit_now(&[Plan { guards: Vec::new(), writes: vec![Write::Put(at, value)] }]).await;
}

/// Another operator's change, past all planners.
async fn put_user_behind(store: &Faulty, access_key: &str, user: &User) {
    let at = key::user(access_key);
    let value = user.encode(&at);
    store.commit_now(&[Plan { guards: Vec::new(), writes: vec![Write::Put(at, value)] }]).await;
}

/// Each change, made where its first commit meets this fault.
async fn each_change(fault: Fault) {
    let (store, admin) = begin();
    put_policy_behind(&store, "p").await;
    let policies = &names(&["p"]);
    let new = NewUser {
        access_key: "anna",
        account: record::AccountId::MAIN,
        secret: None,
        uid: 1,
        gid: 2,
        umask: 0o022,
        policies,
    };
    store.inject(Some(space::USER), fault);
    let issued = admin.add_user(&new, &Open).await.unwrap();
    let kept = record(&*store, "anna").await.unwrap();
    let told = format!("anna {} ", issued.secret);
    assert!(kept.sealed_secret.starts_with(told.as_bytes()), "the secret that was told opens it");

    store.inject(Some(space::USER), fault);
    admin.set_user_policies("anna", &names(&["readonly"])).await.unwrap();
    assert_eq!(admin.user("anna").await.unwrap().policies, ["readonly"]);
    store.inject(Some(space::POLICY), fault);
    assert!(admin.put_policy("p", DOCUMENT).await.unwrap().existed);
    store.inject(Some(space::POLICY), fault);
    assert!(!admin.put_policy("q", DOCUMENT).await.unwrap().existed);
    store.inject(Some(space::POLICY), fault);
    admin.remove_policy("p").await.unwrap();
    store.inject(Some(space::USER), fault);
    admin.remove_user("anna").await.unwrap();
    assert_eq!(store.fired(), 6);
    // The late commit fails by its guards.
    store.deliver().await;
    assert!(record(&*store, "anna").await.is_none());
    let listed = admin.policies().await.unwrap();
    let stored: Vec<_> = listed.iter().filter(|it| !it.built_in).map(|it| &*it.name).collect();
    assert_eq!(stored, ["q"]);
}

#[tokio::test]
async fn a_change_with_a_lost_answer_is_reported_as_done() {
    each_change(Fault::LostAnswer).await;
}

#[tokio::test]
async fn a_change_whose_request_is_lost_is_sent_again() {
    each_change(Fault::LostRequest).await;
}

#[tokio::test]
async fn a_change_that_arrives_late_commits_once() {
    each_change(Fault::Delayed).await;
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_reported_as_unknown() {
    let (store, admin) = begin();
    add(&admin, "anna", &[]).await;
    for second in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable] {
        // The first attempt may still commit after any result of the second.
        store.inject(Some(space::USER), Fault::Delayed);
        store.inject(Some(space::USER), second);
        let set = admin.set_user_policies("anna", &names(&["readonly"])).await;
        assert!(matches!(set, Err(AdminError::Unknown(_))), "{second:?}: {set:?}");
        store.deliver().await;
        assert_eq!(admin.user("anna").await.unwrap().policies, ["readonly"]);
        admin.set_user_policies("anna", &[]).await.unwrap();
    }
}

#[tokio::test]
async fn a_failed_change_is_reported_as_not_made() {
    let (store, admin) = begin();
    store.inject(Some(space::POLICY), Fault::Unavailable);
    let put = admin.put_policy("p", DOCUMENT).await;
    assert!(matches!(put, Err(AdminError::Unchanged(_))), "{put:?}");
    assert!(matches!(admin.policy("p").await, Err(AdminError::NoSuchPolicy(_))));
    store.reading.lock().unwrap().fails = Some(StoreErrorKind::Unavailable);
    assert!(matches!(admin.users().await, Err(AdminError::Unread(_))));
    assert!(matches!(admin.put_policy("p", DOCUMENT).await, Err(AdminError::Unread(_))));
}

/// The store cannot show if the access key was added and then changed by another operator, or never
/// added. The error is `Unknown` and not `UserExists`, because the operator who added it would lose
/// its secret.
#[tokio::test]
async fn an_access_key_that_another_operator_changed_meanwhile_stays_unknown() {
    let (store, admin) = begin();
    store.inject(Some(space::USER), Fault::Delayed);
    let new = NewUser {
        access_key: "anna",
        account: record::AccountId::MAIN,
        secret: None,
        uid: 1,
        gid: 2,
        umask: 0o022,
        policies: &[],
    };
    let sealed_secret = b"another's".to_vec();
    let other = User {
        account: record::AccountId::MAIN,
        sealed_secret,
        enabled: true,
        uid: 9,
        gid: 9,
        umask: 0,
        policies: Vec::new(),
    };
    let meanwhile = async {
        // The first try is on its way, and takes a moment.
        while store.commits.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        put_user_behind(&store, "anna", &other).await;
    };
    let (made, ()) = tokio::join!(admin.add_user(&new, &Open), meanwhile);
    assert!(matches!(made, Err(AdminError::Unknown(_))), "{made:?}");
    store.deliver().await;
    assert!(record(&*store, "anna").await.unwrap() == other);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_bucket_survives_a_lost_answer() {
    let store = Faulty::new();
    let shared: Arc<dyn MetaStore> = store.clone();
    make_volume(&shared).await;
    let admin = over(shared);
    for (opaque, fault) in [(true, Fault::LostAnswer), (false, Fault::LostRequest)] {
        store.inject(Some(space::BUCKET), fault);
        admin.set_bucket("box", BucketChange::OpaqueTags(opaque)).await.unwrap();
        assert_eq!(admin.bucket("box").await.unwrap().settings.opaque_tags, opaque);
    }
    assert_eq!(store.fired(), 2);
}
