//! Writers of one key take turns, and none of them is refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Faulty, Rival, get};
use namespace::Path;
use record::{Dentry, Ino, Versioning, key};
use session::CONTENTION_DEADLINE;
use tokio::time::Instant;

use super::{MaintainedVolume, lookup, make_bucket, open, publish};
use crate::{BucketChange, FsError, Volume, VolumeError};

/// The maximum time until a gateway knows of another one.
const PEERS_KNOWN: Duration = Duration::from_secs(3);

async fn world() -> (Arc<Faulty>, MaintainedVolume, MaintainedVolume, Ino) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let one = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&one).await;
    let other = open(store.clone(), blocks).await;
    tokio::time::sleep(PEERS_KNOWN).await;
    (store, one, other, bucket)
}

/// The dentry of a key in the bucket itself.
fn dentry(bucket: Ino, name: &str) -> store::Key {
    key::dentry(bucket, Path::new(b"b", name.as_bytes()).sort_key().as_bytes())
}

/// Adds another writer, which changes `name` before each commit that depends on it. Each change
/// binds `name` to the inode of one of two other objects, in turn. Both must exist.
async fn rival(store: &Faulty, bucket: Ino, name: &str, [a, b]: [&str; 2]) {
    let key = dentry(bucket, name);
    let as_of = async |name: &str| {
        let other = dentry(bucket, name);
        let value = get(store, &other).await.unwrap();
        Dentry::decode(&other, &value).unwrap().encode(&key)
    };
    let values = [as_of(a).await, as_of(b).await];
    *store.rival.lock().unwrap() = Some(Rival { key, values });
}

async fn write_and_delete(volume: &Volume, rounds: usize) {
    for round in 0..rounds {
        if round % 3 == 2 {
            let removed = volume.delete("b", vec![(b"d/k".to_vec(), None)]).await.unwrap();
            assert!(removed[0].is_ok(), "{removed:?}");
        } else {
            publish(volume, b"d/k", 1).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_writers_of_one_key_on_two_gateways_succeed() {
    for versioning in [Versioning::Off, Versioning::Enabled] {
        let (store, one, other, _) = world().await;
        one.set_bucket("b", BucketChange::Versioning(versioning)).await.unwrap();
        let began = Instant::now();
        let writers = (0..32).map(|n| write_and_delete(if n % 2 == 0 { &one } else { &other }, 8));
        futures::future::join_all(writers).await;
        let refused = [&one, &other].map(|volume| volume.session.meters().refused.get());
        assert!(refused.iter().all(|refused| *refused > 8), "they contended: {refused:?}");
        assert!(began.elapsed() < CONTENTION_DEADLINE, "{:?}", began.elapsed());
        assert!(store.commits.load(Ordering::SeqCst) > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_writer_waits_for_each_other_writer_once() {
    const WRITERS: u64 = 50;
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    publish(&volume, b"k", 1).await.unwrap();
    let before = store.commits.load(Ordering::SeqCst);
    // Writers that come back at once do not overtake one that waits.
    let busy = async {
        loop {
            publish(&volume, b"k", 1).await.unwrap();
        }
    };
    let crowd = futures::future::join_all((0..WRITERS).map(|_| publish(&volume, b"k", 1)));
    let crowd = async { crowd.await.into_iter().for_each(|published| drop(published.unwrap())) };
    tokio::select! {
        () = crowd => {}
        () = busy => {}
    }
    let commits = store.commits.load(Ordering::SeqCst) - before;
    assert!(commits >= WRITERS, "each of them is a commit of its own: {commits}");
    assert!(commits <= WRITERS + WRITERS / 5, "none waits much longer than all others: {commits}");
}

#[tokio::test(start_paused = true)]
async fn writers_of_other_keys_do_not_wait() {
    let (store, one, _, bucket) = world().await;
    for name in ["x", "y", "k"] {
        publish(&one, name.as_bytes(), 1).await.unwrap();
    }
    rival(&store, bucket, "k", ["x", "y"]).await;
    let stuck = publish(&one, b"k", 1);
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        publish(&one, b"free", 1).await.unwrap();
        publish(&one, b"x", 1).await.unwrap();
        began.elapsed()
    };
    let (stuck, took) = futures::join!(stuck, free);
    assert!(matches!(stuck, Err(VolumeError::Fs(FsError::Contended))), "{stuck:?}");
    assert!(took < Duration::from_millis(50), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_never_wins_fails_at_the_deadline() {
    let (store, one, _, bucket) = world().await;
    for name in ["x", "y", "k"] {
        publish(&one, name.as_bytes(), 1).await.unwrap();
    }
    rival(&store, bucket, "k", ["x", "y"]).await;
    let began = Instant::now();
    let published = publish(&one, b"k", 1).await;
    assert!(matches!(published, Err(VolumeError::Fs(FsError::Contended))), "{published:?}");
    let took = began.elapsed();
    assert!(took >= CONTENTION_DEADLINE && took < CONTENTION_DEADLINE * 11 / 10, "{took:?}");
    let tries = store.fired();
    assert!(tries > 100, "it was tried again and again: {tries}");
    *store.rival.lock().unwrap() = None;
    publish(&one, b"k", 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_deleted_does_not_delay_others() {
    let (store, one, _, bucket) = world().await;
    let names = ["x", "y", "k", "d/1", "d/2", "e"];
    for name in names {
        publish(&one, name.as_bytes(), 1).await.unwrap();
    }
    rival(&store, bucket, "k", ["x", "y"]).await;
    let keys = ["d/1", "k", "e", "d/2", "k"].map(|name| (name.as_bytes().to_vec(), None));
    let removed = one.delete("b", keys.to_vec()).await.unwrap();
    assert!(store.fired() > 0, "others were faster");
    for (place, removed) in removed.iter().enumerate() {
        match (place, removed) {
            (1 | 4, Err(VolumeError::Fs(FsError::Contended))) => {}
            (0 | 2 | 3, Ok(removed)) => assert!(removed.existed, "{place}"),
            _ => panic!("{place}: {removed:?}"),
        }
    }
    for name in ["d/1", "d/2", "e"] {
        assert!(lookup(&one, name.as_bytes()).await.is_err(), "{name} is deleted");
    }
    let all = one.delete("b", vec![(b"k".to_vec(), None)]).await;
    assert!(matches!(all, Err(VolumeError::Fs(FsError::Contended))), "{all:?}");
}
