//! Sessions: beginning, being ended, ending.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty, get};
use record::{VolumeRecord, key};
use session::{HEARTBEAT_INTERVAL, SESSION_SILENCE, SessionOptions, other_sessions};
use store::{MemoryStore, MetaStore, Plan, Write};
use upkeep::{NoProgress, fsck};

use super::{MaintainedVolume, lookup, make_bucket, open, publish};
use crate::{VolumeError, VolumeOptions};

#[tokio::test(start_paused = true)]
async fn a_volume_is_created_once_and_then_opened() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let first = open(store.clone(), blocks.clone()).await;
    let second = open(store.clone(), blocks.clone()).await;
    assert_eq!(first.record(), second.record());
    assert_ne!(first.session.nonce(), second.session.nonce());
    let inos = [
        first.session.allocate_inodes(2).await.unwrap(),
        second.session.allocate_inodes(2).await.unwrap(),
    ]
    .concat();
    let distinct: std::collections::HashSet<_> = inos.iter().collect();
    assert_eq!(distinct.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_volume_format_is_refused_with_a_reason() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    volume.close().await;
    let at = key::volume();
    let ours = VolumeRecord::CURRENT;
    for (format, advice) in [(ours - 1, "the one that made it"), (ours + 1, "a newer one")] {
        let other = VolumeRecord { format, ..volume.record().clone() };
        let writes = vec![Write::Put(at.clone(), other.encode(&at))];
        store.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
        let opening =
            MaintainedVolume::open(VolumeOptions::default(), store.clone(), blocks.clone());
        let opening = opening.await.unwrap_err().to_string();
        let checking = fsck(store.clone(), blocks.clone(), &NoProgress).await.unwrap_err();
        for error in [opening, checking.to_string()] {
            let said = error.contains(&format!("format {format},")) && error.contains(advice);
            assert!(said, "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_leaves_no_record() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    publish(&volume, b"one", 3).await.unwrap();
    let nonce = volume.session.nonce();
    assert!(get(&*store, &key::idempotency_slot(nonce, 0)).await.is_some());
    volume.close().await;
    for key in [
        key::session(nonce),
        key::heartbeat(nonce),
        key::idempotency_slot(nonce, 0),
        key::fenced(nonce),
    ] {
        assert_eq!(get(&*store, &key).await, None, "{key:?}");
    }
    assert!(matches!(publish(&volume, b"two", 3).await, Err(VolumeError::Unavailable(_))));
}

#[tokio::test(start_paused = true)]
async fn a_fenced_session_commits_nothing_and_reports_it() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let zombie = open(store.clone(), blocks.clone()).await;
    make_bucket(&zombie).await;
    let other = open(store.clone(), blocks.clone()).await;
    let seen = other_sessions(&*store, other.session.nonce()).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert!(other.session.fence(&seen[0]).await.unwrap());
    assert!(matches!(publish(&zombie, b"one", 3).await, Err(VolumeError::Fenced)));
    assert!(!zombie.check().await.is_ready());
    assert!(matches!(lookup(&zombie, b"one").await, Err(VolumeError::Fenced)));
    assert!(lookup(&other, b"one").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_beat_in_between_keeps_a_session_from_being_fenced() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let alive = open(store.clone(), blocks.clone()).await;
    let other = open(store.clone(), blocks.clone()).await;
    let seen = other_sessions(&*store, other.session.nonce()).await.unwrap();
    tokio::time::sleep(HEARTBEAT_INTERVAL * 2).await;
    assert!(!other.session.fence(&seen[0]).await.unwrap());
    assert!(alive.check().await.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_is_ended_by_the_others() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let killed = open(store.clone(), blocks.clone()).await;
    let nonce = killed.session.nonce();
    drop(killed);
    let other = open(store.clone(), blocks.clone()).await;
    tokio::time::sleep(SESSION_SILENCE / 2).await;
    assert!(get(&*store, &key::session(nonce)).await.is_some(), "not yet");
    tokio::time::sleep(SESSION_SILENCE).await;
    assert_eq!(get(&*store, &key::session(nonce)).await, None);
    assert!(get(&*store, &key::fenced(nonce)).await.is_some());
    assert!(other.check().await.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_sole_process_ends_leftover_sessions_at_once() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let killed = open(store.clone(), blocks.clone()).await;
    let nonce = killed.session.nonce();
    let options = VolumeOptions {
        session: SessionOptions { sole: true, ..SessionOptions::default() },
        ..VolumeOptions::default()
    };
    let sole = MaintainedVolume::open_without_tasks(options, store.clone(), blocks).await.unwrap();
    assert_eq!(get(&*store, &key::session(nonce)).await, None);
    make_bucket(&sole).await;
    assert!(matches!(publish(&killed, b"one", 3).await, Err(VolumeError::Fenced)));
}

#[tokio::test(start_paused = true)]
async fn a_beat_whose_answer_was_lost_is_recognized() {
    for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable, Fault::Delayed] {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let volume = open(store.clone(), blocks).await;
        store.inject(Some(key::space::HEARTBEAT), fault);
        tokio::time::sleep(HEARTBEAT_INTERVAL + Duration::from_millis(100)).await;
        assert_eq!(store.fired(), 1);
        store.deliver().await;
        tokio::time::sleep(HEARTBEAT_INTERVAL * 3).await;
        assert!(volume.check().await.is_ready(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_beat_that_is_never_answered_does_not_end_the_session() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let slow = open(store.clone(), blocks.clone()).await;
    let peer = open(store.clone(), blocks).await;
    // The next beat of one of the two; the other one would end a session that does not beat.
    store.inject(Some(key::space::HEARTBEAT), Fault::Stuck);
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    assert_eq!(store.fired(), 1);
    for volume in [slow, peer] {
        let at = key::session(volume.session.nonce());
        assert!(get(&*store, &at).await.is_some(), "the other session has ended this one");
    }
}

#[tokio::test(start_paused = true)]
async fn ending_a_silent_session_never_delays_the_own_beat_too_long() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let killed =
        [open(store.clone(), blocks.clone()).await, open(store.clone(), blocks.clone()).await];
    let nonces = killed.each_ref().map(|volume| volume.session.nonce());
    drop(killed);
    let first = open(store.clone(), blocks.clone()).await;
    let second = open(store.clone(), blocks).await;
    // The plan that ends a killed session is never answered, and happens never.
    store.inject(Some(key::space::FENCED), Fault::Stuck);
    tokio::time::sleep(SESSION_SILENCE * 3).await;
    assert_eq!(store.fired(), 1);
    for nonce in nonces {
        assert!(get(&*store, &key::fenced(nonce)).await.is_some(), "a later call ends it");
    }
    for volume in [first, second] {
        let at = key::session(volume.session.nonce());
        assert!(get(&*store, &at).await.is_some(), "the other session has ended this one");
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_beat_ends_the_session() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    let at = key::heartbeat(volume.session.nonce());
    let foreign =
        record::HeartbeatRecord { count: 99, passed: 0, reads: String::new() }.encode(&at);
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(at, foreign)] };
    store.commit(&[plan]).await.unwrap();
    tokio::time::sleep(HEARTBEAT_INTERVAL * 2).await;
    assert!(!volume.check().await.is_ready(), "the store does not have the written value");
}
