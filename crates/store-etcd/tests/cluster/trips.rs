//! The number of round trips of each call.

use store::{Changes, Follow, Guard, MetaStore, Read, Verdict, Write};
use store_etcd::EtcdStore;

use crate::calls::{counter, key, plan, put, write};
use crate::server;

async fn opened() -> Option<EtcdStore> {
    let url = server::fresh(&server::given()?);
    let store = server::open(&url).await;
    // The watch sends a request when it opens. After this it is open.
    let Changes::Notified { next, .. } = store.changes(None).await.expect("a position") else {
        panic!("there cannot be a gap")
    };
    write(&store, [put(key(7, "first"), "x")]).await;
    store.changes(Some(&next)).await.expect("answered");
    Some(store)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_one_round_trip() {
    let Some(store) = opened().await else { return };
    let create = |number: u64| {
        let name = number.to_string();
        let guards = [Guard::Absent(key(1, &name)), Guard::Empty(key(9, ""), key(10, ""))];
        plan(
            guards,
            [put(key(1, &name), "x"), Write::Add(counter(1), 1), Write::Max(counter(2), 7)],
        )
    };
    let place = store.changes(None).await.expect("a position");
    let store::Changes::Notified { next, .. } = place else { panic!("there cannot be a gap") };
    for round in 0..3 {
        let plans: Vec<_> = (0..20).map(|number| create(100 * round + number)).collect();
        let before = store.requests();
        let verdicts = store.commit(&plans).await.expect("decided");
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Committed));
        assert_eq!(store.requests() - before, 1, "a commit");
        let reads = [
            Read::Record { key: key(1, "1"), follow: None },
            Read::Range { start: key(1, ""), end: key(2, ""), limit: 100, follow: None },
            Read::Counter(counter(1)),
        ];
        store.read(&reads).await.expect("answered");
        assert_eq!(store.requests() - before, 2, "a read");
        store.changes(Some(&next)).await.expect("answered");
        assert_eq!(store.requests() - before, 3, "the changes");
        store.walk(store::Space(b'd'), None, 100).await.expect("a page");
        assert_eq!(store.requests() - before, 4, "a page of a walk");
    }
}

/// A batch that records refuse as a whole takes one round trip, and one that they refuse in part
/// two. A counter with a bound is read first.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_one_round_trip_and_a_partial_one_two() {
    let Some(store) = opened().await else { return };
    write(&store, [put(key(1, "a"), "here"), Write::Add(counter(1), 5)]).await;
    let absent = || plan([Guard::Absent(key(1, "a"))], [put(key(1, "a"), "other")]);
    let bounded = |most| {
        plan([Guard::AtMost(counter(1), most)], [put(key(1, "c"), "x"), Write::Add(counter(1), 0)])
    };
    let fine = |name: &str| plan([], [put(key(1, name), "x")]);
    let here = Verdict::Refused { guard: 0, found: Some("here".into()) };
    let full = Verdict::Refused { guard: 0, found: None };
    let cases = [
        (vec![absent(), absent()], vec![here.clone(), here.clone()], 1),
        (vec![absent(), fine("b")], vec![here, Verdict::Committed], 2),
        (vec![bounded(4)], vec![full], 1),
        (vec![bounded(5)], vec![Verdict::Committed], 2),
    ];
    for (plans, expected, trips) in cases {
        let before = store.requests();
        assert_eq!(store.commit(&plans).await.expect("decided"), expected);
        assert_eq!(store.requests() - before, trips, "{plans:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_lookup_is_one_round_trip() {
    let Some(store) = opened().await else { return };
    // The record `1/a` points to `2/t` at first, and then to `2/u`.
    write(&store, [put(key(1, "a"), "t"), put(key(2, "t"), "old"), put(key(2, "u"), "other")])
        .await;
    let prefix = key(2, "").as_bytes().to_vec().into();
    let follow = Follow { prefix, offset: 0, length: 1, bytes_max: None };
    let lookup = async || {
        let before = store.requests();
        let read = Read::Record { key: key(1, "a"), follow: Some(follow.clone()) };
        let found = store.read(&[read]).await.expect("answered").remove(0);
        let store::ReadResult::Record(Some(entry)) = found else { panic!("no record: {found:?}") };
        let target = entry.target.whole().cloned().expect("a target");
        (String::from_utf8(target.to_vec()).expect("text"), store.requests() - before)
    };
    assert_eq!(lookup().await, ("old".to_owned(), 2));
    assert_eq!(lookup().await, ("old".to_owned(), 1));
    write(&store, [put(key(2, "t"), "new")]).await;
    assert_eq!(lookup().await, ("new".to_owned(), 1));
    write(&store, [put(key(1, "a"), "u")]).await;
    assert_eq!(lookup().await, ("other".to_owned(), 2));
    assert_eq!(lookup().await, ("other".to_owned(), 1));
}
