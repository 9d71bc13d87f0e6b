//! Buckets, and the volume as a whole.

use record::AccountId;
use std::future::{pending, ready};
use std::sync::Arc;

use admin::{
    AdminError, BucketChange, BucketFork, Collection, Finding, NoProgress, OpenSession,
    SweepOptions,
};
use block::{BlockStore, MemoryBlocks, Sealer};
use faulty::Faulty;
use record::key;
use record::{BlockId, Nonce, SessionFacts, SessionRecord, SocketSecret, Timestamp};
use store::{Durability, MemoryStore, MetaStore, Plan, Write};

use crate::{PLACE, make_volume, open, over};

fn memory() -> Arc<dyn MetaStore> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn a_bucket_is_shown_and_changed() {
    let store = memory();
    make_volume(&store).await;
    let admin = over(store);
    let found = admin.bucket("box").await.unwrap();
    assert_eq!((found.name, found.settings.owner), (b"box".to_vec(), AccountId::MAIN));
    assert!(!found.settings.opaque_tags);
    admin.set_bucket("box", BucketChange::OpaqueTags(true)).await.unwrap();
    assert!(admin.bucket("box").await.unwrap().settings.opaque_tags);
    assert_eq!(admin.status().await.unwrap().sessions, [], "the session of the change has ended");
    assert!(matches!(admin.bucket("none").await, Err(AdminError::NoSuchBucket)));
    let change = BucketChange::OpaqueTags(true);
    assert!(matches!(admin.set_bucket("none", change).await, Err(AdminError::NoSuchBucket)));
    assert_eq!(admin.status().await.unwrap().sessions, [], "nor stays one that changed nothing");
    assert!(matches!(admin.bucket("NO").await, Err(AdminError::BucketName(_))));
    assert!(matches!(admin.set_bucket("NO", change).await, Err(AdminError::BucketName(_))));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_bucket_waits_for_open_gateways() {
    let store = memory();
    let blocks = make_volume(&store).await;
    let gateway = open(&store, &blocks).await;
    let admin = over(store);
    let began = tokio::time::Instant::now();
    admin.set_bucket("box", BucketChange::OpaqueTags(true)).await.unwrap();
    assert!(began.elapsed() >= session::JOIN_PATIENCE, "one of them may answer from its mirror");
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_forked_in_a_session_that_ends() {
    let store = memory();
    let blocks = make_volume(&store).await;
    let admin = over(store);
    let fork = |source, target| BucketFork { source, source_ino: None, target, sole: false };
    let forked = admin.fork_bucket(blocks.clone(), fork("box", "copy"), &(), pending()).await;
    assert_eq!(forked.unwrap(), admin::Forked::default());
    assert_eq!(admin.bucket("copy").await.unwrap().settings.owner, AccountId::MAIN);
    let refused = admin.fork_bucket(blocks.clone(), fork("box", "copy"), &(), pending()).await;
    assert!(matches!(refused, Err(AdminError::BucketExists)), "{refused:?}");
    let refused = admin.fork_bucket(blocks.clone(), fork("none", "new"), &(), pending()).await;
    assert!(matches!(refused, Err(AdminError::NoSuchBucket)), "{refused:?}");
    let refused = admin.fork_bucket(blocks.clone(), fork("box", "NO"), &(), pending()).await;
    assert!(matches!(refused, Err(AdminError::BucketName(_))), "{refused:?}");
    let stopped = admin.fork_bucket(blocks, fork("box", "new"), &(), ready(())).await;
    assert!(matches!(stopped, Err(AdminError::Interrupted)), "{stopped:?}");
    assert_eq!(admin.status().await.unwrap().sessions, []);
}

/// A short session commits nothing after it was fenced.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_fenced_session_does_not_commit() {
    let store = Faulty::new();
    let shared: Arc<dyn MetaStore> = store.clone();
    let blocks = make_volume(&shared).await;
    let gateway = open(&shared, &blocks).await;
    let admin = over(shared.clone());
    let end = async {
        // While the visit waits for the gateway.
        tokio::time::sleep(session::JOIN_PATIENCE / 2).await;
        let visit = admin.status().await.unwrap().sessions.into_iter();
        let visit = visit.filter(|session| session.place == PLACE);
        let writes = visit.map(|session| Write::Delete(key::session(session.nonce))).collect();
        store.commit_now(&[Plan { guards: Vec::new(), writes }]).await;
    };
    let (set, ()) = tokio::join!(admin.set_bucket("box", BucketChange::OpaqueTags(true)), end);
    assert!(matches!(set, Err(AdminError::Late)), "{set:?}");
    assert!(!admin.bucket("box").await.unwrap().settings.opaque_tags);
    gateway.close().await;
}

#[tokio::test]
async fn the_status_lists_the_open_sessions() {
    let store = memory();
    let admin = over(Arc::clone(&store));
    assert!(!admin.has_volume().await.unwrap());
    assert!(matches!(admin.status().await, Err(AdminError::NoVolume)));
    let blocks = make_volume(&store).await;
    assert!(admin.has_volume().await.unwrap());
    let gateway = open(&store, &blocks).await;
    let (nonce, place) = (Nonce([7; Nonce::BYTES]), "elsewhere:9".to_owned());
    let at = key::session(nonce);
    let session = SessionRecord {
        began: Timestamp(5),
        place: place.clone(),
        reach: Vec::new(),
        socket_secret: SocketSecret::NONE,
        facts: SessionFacts::default(),
    };
    let writes = vec![Write::Put(at.clone(), session.encode(&at))];
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
    let status = admin.status().await.unwrap();
    assert_eq!((&status.volume, status.durability), (gateway.record(), Durability::None));
    assert_eq!(status.sessions.len(), 2);
    assert!(status.sessions.contains(&OpenSession {
        nonce,
        place,
        began: Timestamp(5),
        reads: String::new(),
        reach: Vec::new(),
        facts: SessionFacts::default(),
    }));
    gateway.close().await;
}

/// A block of a session that has ended, which no record names.
async fn leave_block(blocks: &Arc<dyn BlockStore>) -> BlockId {
    let mut sealer = Sealer::new(BlockId::new(Nonce([3; Nonce::BYTES]), 1), 10);
    sealer.push_copy(b"left alone");
    blocks.put(&sealer.finish()).await.unwrap();
    BlockId::new(Nonce([3; Nonce::BYTES]), 1)
}

#[tokio::test(start_paused = true)]
async fn unreferenced_blocks_are_counted_and_then_collected() {
    let store = memory();
    let blocks = make_volume(&store).await;
    let left = leave_block(&blocks).await;
    let admin = over(Arc::clone(&store));
    let how = |dry_run| Collection {
        sole: true,
        sweep: SweepOptions { dry_run, ..SweepOptions::default() },
        ..Collection::default()
    };
    let counted = admin.collect(Arc::clone(&blocks), how(true)).await.unwrap().swept;
    assert_eq!((counted.unreferenced, counted.deleted), (1, 0));
    assert!(blocks.size(left).await.unwrap().is_some());
    let collected = admin.collect(Arc::clone(&blocks), how(false)).await.unwrap().swept;
    assert_eq!((collected.unreferenced, collected.deleted), (1, 1));
    assert_eq!(blocks.size(left).await.unwrap(), None);
    assert_eq!(admin.status().await.unwrap().sessions, [], "its session has ended");
}

#[tokio::test(start_paused = true)]
async fn a_check_reports_findings_and_changes_nothing() {
    let store = memory();
    let blocks = make_volume(&store).await;
    let admin = over(Arc::clone(&store));
    let well = admin.check(Arc::clone(&blocks), &NoProgress).await.unwrap();
    assert_eq!((well.findings, well.counts.directories), (vec![], 2));
    let left = leave_block(&blocks).await;
    let report = admin.check(Arc::clone(&blocks), &NoProgress).await.unwrap();
    assert_eq!(report.findings, [Finding::Leaked(left)]);
    assert!(blocks.size(left).await.unwrap().is_some());
}

#[tokio::test]
async fn a_check_of_a_missing_volume_fails_and_creates_none() {
    let store = memory();
    let blocks: Arc<dyn BlockStore> = Arc::new(MemoryBlocks::new());
    let admin = over(store);
    let collected = admin.collect(Arc::clone(&blocks), Collection::default()).await;
    assert!(matches!(collected, Err(AdminError::NoVolume)), "{collected:?}");
    let checked = admin.check(blocks, &NoProgress).await;
    assert!(matches!(checked, Err(AdminError::NoVolume)), "{checked:?}");
    assert!(!admin.has_volume().await.unwrap());
    let set = admin.set_bucket("box", BucketChange::OpaqueTags(true)).await;
    assert!(matches!(set, Err(AdminError::Volume(_))), "{set:?}");
}
