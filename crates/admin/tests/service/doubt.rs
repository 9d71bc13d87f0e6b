//! Commits whose answer is lost, and the results that the caller gets.

use std::sync::Arc;

use admin::{Admin, AdminError, BucketChange, NewUser};
use faulty::{Fault, Faulty};
use record::key::{self, space};
use record::{PolicyRecord, User};
use store::{MetaStore, Plan, StoreErrorKind, Write};

use crate::{DOCUMENT, Open, add, make_volume, names, open, over, record};

async fn begin() -> (Arc<Faulty>, Admin) {
    let store = Faulty::new();
    let shared: Arc<dyn MetaStore> = store.clone();
    make_volume(&shared).await;
    (store, over(shared))
}

/// No session and no idempotency slot is left in the store.
async fn check_nothing_is_left(store: &Faulty) {
    for space in [space::SESSION, space::HEARTBEAT, space::IDEMPOTENCY_SLOT, space::FENCED] {
        let left = store.walk(space, None, 1).await.unwrap().records;
        assert_eq!(left, [], "{space:?}");
    }
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
    let (store, admin) = begin().await;
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
    admin.set_user_policies("anna", &names(&["readonly"]), None).await.unwrap();
    assert_eq!(admin.user("anna").await.unwrap().policies, ["readonly"]);
    store.inject(Some(space::POLICY), fault);
    assert!(admin.put_policy("p", DOCUMENT, None).await.unwrap().existed);
    store.inject(Some(space::POLICY), fault);
    assert!(!admin.put_policy("q", DOCUMENT, None).await.unwrap().existed);
    store.inject(Some(space::POLICY), fault);
    admin.remove_policy("p", None).await.unwrap();
    store.inject(Some(space::USER), fault);
    admin.remove_user("anna", None).await.unwrap();
    assert_eq!(store.fired(), 6);
    check_nothing_is_left(&store).await;
    // The late commit fails by its guards.
    store.deliver().await;
    check_nothing_is_left(&store).await;
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

#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unknown_is_reported_and_is_final() {
    let (store, admin) = begin().await;
    add(&admin, "anna", &[]).await;
    let readonly = names(&["readonly"]);
    for (fault, policies) in [(Fault::LostAnswer, &readonly[..]), (Fault::Delayed, &[])] {
        admin.set_user_policies("anna", &[], None).await.unwrap();
        store.inject(Some(space::USER), fault);
        // The store does not answer the question for the outcome either.
        store.inject(Some(space::IDEMPOTENCY_SLOT), Fault::Stuck);
        let set = admin.set_user_policies("anna", &readonly, None).await;
        assert!(matches!(set, Err(AdminError::Unknown(_))), "{fault:?}: {set:?}");
        check_nothing_is_left(&store).await;
        assert_eq!(admin.user("anna").await.unwrap().policies, policies, "{fault:?}");
        // A plan that arrives after the end of its session commits nothing.
        store.deliver().await;
        assert_eq!(admin.user("anna").await.unwrap().policies, policies, "{fault:?}");
    }
    assert_eq!(store.fired(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_failed_change_is_reported_as_not_made() {
    let (store, admin) = begin().await;
    // Each of the three tries sends its plan twice.
    for _ in 0..6 {
        store.inject(Some(space::POLICY), Fault::Unavailable);
    }
    let put = admin.put_policy("p", DOCUMENT, None).await;
    assert!(matches!(put, Err(AdminError::Unchanged(_))), "{put:?}");
    assert!(matches!(admin.policy("p").await, Err(AdminError::NoSuchPolicy(_))));
    check_nothing_is_left(&store).await;
    store.reading.lock().unwrap().fails = Some(StoreErrorKind::Unavailable);
    assert!(matches!(admin.users().await, Err(AdminError::Unread(_))));
    assert!(matches!(admin.put_policy("p", DOCUMENT, None).await, Err(AdminError::Unchanged(_))));
}

/// The plan that adds the access key is lost, and then another operator adds a key of this name.
/// The slot of the plan proves that it was not committed, so the operator learns that the key
/// belongs to the other one.
#[tokio::test]
async fn an_access_key_that_another_operator_adds_meanwhile_exists() {
    let (store, admin) = begin().await;
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
        uid: 9,
        gid: 9,
        umask: 0,
        policies: Vec::new(),
        ..User::new(record::AccountId::MAIN, sealed_secret)
    };
    let meanwhile = async {
        // The first try is lost. The question for its outcome takes a moment.
        while store.fired() == 0 {
            tokio::task::yield_now().await;
        }
        put_user_behind(&store, "anna", &other).await;
    };
    let (made, ()) = tokio::join!(admin.add_user(&new, &Open), meanwhile);
    assert!(matches!(made, Err(AdminError::UserExists)), "{made:?}");
    store.deliver().await;
    assert!(record(&*store, "anna").await.unwrap() == other);
    check_nothing_is_left(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_begin_and_end_are_not_answered_leaves_nothing() {
    let (store, admin) = begin().await;
    for fault in [Fault::LostAnswer, Fault::LostRequest] {
        // The two commits that write the heartbeat are the first and the last of a session.
        store.inject(Some(space::HEARTBEAT), fault);
        store.inject(Some(space::HEARTBEAT), fault);
        admin.put_policy("p", DOCUMENT, None).await.unwrap();
        check_nothing_is_left(&store).await;
    }
    assert_eq!(store.fired(), 4);
}

/// A gateway ends the session of a command that was killed while its change was in flight.
#[tokio::test(start_paused = true)]
async fn the_session_of_a_killed_command_is_ended_by_a_gateway() {
    let store = Faulty::new();
    let shared: Arc<dyn MetaStore> = store.clone();
    let blocks = make_volume(&shared).await;
    let gateway = open(&shared, &blocks).await;
    let admin = over(shared);
    store.inject(Some(space::POLICY), Fault::Hang);
    let killed =
        tokio::time::timeout(session::JOIN_PATIENCE, admin.put_policy("p", DOCUMENT, None));
    assert!(killed.await.is_err(), "the answer never comes");
    assert_eq!(admin.status().await.unwrap().sessions.len(), 2);
    tokio::time::sleep(2 * session::SESSION_SILENCE).await;
    let left = admin.status().await.unwrap().sessions;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_ne!(left[0].place, crate::PLACE);
    // The sweeper deletes its slots: it finds them by the mark of its end.
    assert_eq!(store.walk(space::FENCED, None, 9).await.unwrap().records.len(), 1);
    store.release();
    gateway.close().await;
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
