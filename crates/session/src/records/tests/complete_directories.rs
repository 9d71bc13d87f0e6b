//! Names that are absent from a directory created here need no read.

use std::sync::Arc;

use bytes::Bytes;
use faulty::Faulty;
use record::{Dentry, Ino, Kind, key};
use store::{Guard, Key, MetaStore, Plan, Read, ReadResult, Write};

use super::super::{Basis, RecordCache};
use super::behind;
use super::currency::for_long;
use crate::cached_store::CachedStore;

const ROOT: Ino = Ino(1);

fn bench(bytes: u64) -> (Arc<Faulty>, Arc<RecordCache>, CachedStore) {
    let (store, cache) = (Faulty::new(), RecordCache::new(bytes, true));
    cache.extend_authority(for_long(), Basis::Alone);
    let cached = behind(&cache, store.clone());
    (store, cache, cached)
}

fn name(directory: Ino, name: &str) -> Key {
    key::dentry(directory, name.as_bytes())
}

/// Binds a name to an inode that the tests do not look at.
fn binds(slot: Key, ino: Ino, kind: Kind) -> Write {
    let dentry = Dentry::of(ino, kind).encode(&slot);
    Write::Put(slot, dentry)
}

/// Makes a directory, as every planner does, with names in it.
pub(super) fn makes(directory: Ino, names: &[&str]) -> Plan {
    let inode = key::inode(directory);
    let slot = name(ROOT, &format!("{}/", directory.0));
    let mut writes = vec![
        binds(slot, directory, Kind::Directory),
        Write::Put(inode.clone(), Bytes::from_static(b"a directory")),
    ];
    let file = |at: &&str| binds(name(directory, at), Ino(1_000), Kind::File);
    writes.extend(names.iter().map(file));
    Plan { guards: vec![Guard::Absent(inode)], writes }
}

/// Gives a file a name in a directory.
pub(super) fn adds(directory: Ino, at: &str) -> Plan {
    let guards = vec![Guard::Present(key::inode(directory))];
    Plan { guards, writes: vec![binds(name(directory, at), Ino(1_000), Kind::File)] }
}

/// Returns whether a name exists, as far as the cache knows without a read.
pub(super) fn known(cache: &RecordCache, directory: Ino, at: &str) -> Option<bool> {
    let asked = [Read::Record { key: name(directory, at), follow: None }];
    let found = cache.answer(&asked)?;
    Some(matches!(found[..], [ReadResult::Record(Some(_))]))
}

#[tokio::test]
async fn a_new_directory_answers_absent_names() {
    let (_store, cache, cached) = bench(1 << 20);
    let (made, other) = (Ino(7), Ino(8));
    cached.commit(&[makes(made, &["a"])]).await.unwrap();
    assert_eq!(known(&cache, made, "a"), Some(true));
    assert_eq!(known(&cache, made, "b"), Some(false));
    assert_eq!(known(&cache, other, "b"), None, "its maker is unknown");
    assert_eq!(known(&cache, ROOT, "b"), None);
    cached.commit(&[adds(made, "b")]).await.unwrap();
    assert_eq!(known(&cache, made, "b"), Some(true));
    assert_eq!(known(&cache, made, "c"), Some(false));
}

#[tokio::test]
async fn a_moved_directory_is_not_complete() {
    let (store, cache, cached) = bench(1 << 20);
    let old = Ino(7);
    store.commit_now(&[makes(old, &["a"])]).await;
    let slot = name(ROOT, "renamed/");
    let guards = vec![Guard::Present(key::inode(old))];
    cached
        .commit(&[Plan { guards, writes: vec![binds(slot, old, Kind::Directory)] }])
        .await
        .unwrap();
    assert_eq!(known(&cache, old, "a"), None);
}

#[tokio::test]
async fn names_in_flight_are_not_answered_as_absent() {
    let (_store, cache, cached) = bench(1 << 20);
    let made = Ino(7);
    let making = [makes(made, &[])];
    let sending = cache.begin_batch(&making);
    assert_eq!(known(&cache, made, "a"), None, "it is not made yet");
    drop(sending);
    assert_eq!(known(&cache, made, "a"), None, "its outcome is unknown");
    let other = Ino(8);
    cached.commit(&[makes(other, &[])]).await.unwrap();
    let adding = [adds(other, "a")];
    let sending = cache.begin_batch(&adding);
    assert_eq!(known(&cache, other, "a"), None, "it may be there by now");
    assert_eq!(known(&cache, other, "b"), Some(false));
    drop(sending);
    assert_eq!(known(&cache, other, "a"), None, "it may come at any time");
    assert_eq!(known(&cache, other, "b"), Some(false));
}

/// A batch that was sent before the creation may commit after it.
#[tokio::test]
async fn names_sent_before_the_creation_are_not_answered_as_absent() {
    let (_store, cache, cached) = bench(1 << 20);
    let made = Ino(7);
    let adding = [adds(made, "a")];
    let sending = cache.begin_batch(&adding);
    cached.commit(&[makes(made, &[])]).await.unwrap();
    assert_eq!(known(&cache, made, "a"), None);
    assert_eq!(known(&cache, made, "b"), Some(false));
    drop(sending);
    assert_eq!(known(&cache, made, "a"), None, "its outcome is unknown");
}

#[tokio::test]
async fn a_directory_whose_creation_failed_is_not_complete() {
    let (store, cache, cached) = bench(1 << 20);
    let taken = Ino(7);
    store.commit_now(&[makes(taken, &["a"])]).await;
    // The guard does not hold.
    cached.commit(&[makes(taken, &[])]).await.unwrap();
    assert_eq!(known(&cache, taken, "a"), None);
    cache.begin_batch(&[makes(taken, &[])]).not_committed();
    assert_eq!(known(&cache, taken, "a"), None);
}

#[tokio::test]
async fn directories_are_not_complete_with_peers() {
    let (_store, cache, cached) = bench(1 << 20);
    let (made, later) = (Ino(7), Ino(8));
    cached.commit(&[makes(made, &[])]).await.unwrap();
    let plans = [makes(later, &[])];
    let sending = cache.begin_batch(&plans);
    cache.end_authority();
    assert_eq!(known(&cache, made, "a"), None);
    cache.extend_authority(for_long(), Basis::Alone);
    sending.decided(&plans, &[store::Verdict::Committed]);
    assert_eq!(known(&cache, made, "a"), None, "another session existed in between");
    assert_eq!(known(&cache, later, "a"), None, "another session existed when it was created");
    cache.forget(&name(made, "b"));
    assert_eq!(known(&cache, made, "a"), None);
}

#[tokio::test]
async fn oldest_complete_directories_are_evicted_first() {
    let (_store, cache, cached) = bench(64 << 10);
    for number in 0..200 {
        let names: Vec<String> = (0..10).map(|at| format!("n{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        cached.commit(&[makes(Ino(10 + number), &names)]).await.unwrap();
        assert!(cache.complete_directories.weight() <= 8 << 10);
    }
    assert_eq!(known(&cache, Ino(10), "a"), None);
    assert_eq!(known(&cache, Ino(209), "a"), Some(false));
    let inode = key::inode(Ino(209));
    cached
        .commit(&[Plan { guards: Vec::new(), writes: vec![Write::Delete(inode)] }])
        .await
        .unwrap();
    assert_eq!(known(&cache, Ino(209), "a"), None, "it is gone");
    // More names than there is memory for.
    cached.commit(&[makes(Ino(300), &[])]).await.unwrap();
    for number in 0..400 {
        cached.commit(&[adds(Ino(300), &number.to_string())]).await.unwrap();
    }
    assert_eq!(known(&cache, Ino(300), "a"), None);
    assert_eq!(cache.complete_directories.weight(), 0);
}
