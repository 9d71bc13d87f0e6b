//! The costs of operations in round trips to the metadata store, with a cached directory.

use std::sync::Arc;

use files::{OpenMode, SetNode, XattrWrite};
use futures::FutureExt;
use maintained::MaintainedVolume;
use record::{Ino, Timestamp};
use rustix::io::Errno;
use tokio::sync::oneshot;
use volume::{
    AttributeChange, Coherence, NodeChanges, NodeWatch, RenameMode, SessionOptions, SetTime,
    VolumeOptions,
};

use super::{BLOCK_BYTES, Bench, by, until_alone};

/// A receiver of invalidations that ignores them, because it caches nothing.
#[derive(Debug)]
struct Unheeding;

impl NodeWatch for Unheeding {
    fn changed(&self, _changes: &NodeChanges, done: Option<oneshot::Sender<()>>) {
        let _gone = done.map(|done| done.send(()));
    }

    fn peer_changes(&self, _changes: &volume::NodeChanges, done: volume::Acknowledge) {
        done();
    }

    fn all_changed(&self) {}
}

/// Returns the reads and commits since the last call.
struct Meter<'a> {
    bench: &'a Bench,
    seen: (u64, u64),
}

impl Meter<'_> {
    fn new(bench: &Bench) -> Meter<'_> {
        let mut meter = Meter { bench, seen: (0, 0) };
        meter.trips();
        meter
    }

    fn trips(&mut self) -> (u64, u64) {
        let counters = self.bench.volume.counters();
        let (reads, commits) = (counters.session.reads, counters.session.commits);
        let before = std::mem::replace(&mut self.seen, (reads, commits));
        (reads - before.0, commits - before.1)
    }
}

async fn bench(authoritative_reads: bool) -> Bench {
    let session = SessionOptions { authoritative_reads, ..SessionOptions::default() };
    // No background upkeep, which would be counted.
    let options = VolumeOptions { block_bytes: BLOCK_BYTES, session, ..VolumeOptions::default() };
    let bench = Bench::without_tasks(options).await;
    if authoritative_reads {
        // From then on it answers from what it has read.
        until_alone(&bench.volume).await;
    }
    bench
}

/// Runs through the life of a small file. `look` is the cost of one lookup, in round trips.
async fn life_of_a_file(bench: &Bench, look: u64) {
    let files = &bench.files;
    // The session has made the parent, so it also knows which names the parent does not have.
    let parent = files.make_directory(bench.bucket, b"parent", by()).await.unwrap().ino;
    let directory = files.make_directory(parent, b"d", by()).await.unwrap().ino;
    // The first name fills the cache of the directory.
    files.make_file(directory, b"first", by()).await.unwrap();
    files.attributes(directory).await.unwrap();
    let mut meter = Meter::new(bench);

    files.make_directory(bench.bucket, b"e", by()).await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "mkdir");
    assert!(files.look_up(directory, b"f").await.is_err());
    assert_eq!(meter.trips(), (look, 0), "a first look at a missing name");
    assert!(files.look_up(directory, b"f").await.is_err());
    assert_eq!(meter.trips(), (look, 0), "another one");
    let opened = files.create(directory, b"f", by()).await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "create");
    files.attributes(directory).await.unwrap();
    assert_eq!(meter.trips(), (look, 0), "stat of the directory");
    files.write(opened.handle, 0, &[7; 3_000], false, false).await.unwrap();
    files.attributes(opened.attributes.ino).await.unwrap();
    assert_eq!(meter.trips(), (look, 0), "stat of a file that is being written");
    files.flush(opened.handle).await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "close of a small file");
    files.release(opened.handle).await;
    assert_eq!(meter.trips(), (0, 0), "release");
    let ino = files.look_up(directory, b"f").await.unwrap().ino;
    assert_eq!(meter.trips(), (look, 0), "a look at a name");
    let opened = files.open(ino, OpenMode::default()).await.unwrap();
    assert_eq!(meter.trips(), (look, 0), "open");
    files.read(opened.handle, 0, 3_000).await.unwrap();
    files.flush(opened.handle).await.unwrap();
    files.release(opened.handle).await;
    assert_eq!(meter.trips(), (0, 0), "read and close of a small file");
    files.rename((directory, b"f"), (directory, b"g"), RenameMode::Replace).await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "rename");
    files.unlink(directory, b"g").await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "unlink");
    files.unlink(directory, b"first").await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "unlink of the last name");
    files.remove_directory(parent, b"d").await.unwrap();
    assert_eq!(meter.trips(), (look, 1), "rmdir of a directory that this session has made");
}

#[tokio::test]
async fn each_change_costs_one_commit_and_each_lookup_one_read() {
    life_of_a_file(&bench(false).await, 1).await;
}

#[tokio::test]
async fn lookup_in_a_sole_session_costs_no_round_trip() {
    life_of_a_file(&bench(true).await, 0).await;
}

/// Most files that programs close have nothing to flush. Then close and release end at once, and
/// need no task.
#[tokio::test]
async fn close_of_a_clean_file_waits_for_nothing() {
    let bench = bench(true).await;
    let files = &bench.files;
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    assert!(!files.needs_flush(opened.handle), "an empty new file");
    assert_eq!(files.flush(opened.handle).now_or_never(), Some(Ok(())), "of an empty new file");
    files.write(opened.handle, 0, b"abc", false, false).await.unwrap();
    assert!(files.needs_flush(opened.handle), "a written file");
    assert_eq!(files.flush(opened.handle).now_or_never(), None, "a commit takes time");
    assert!(files.needs_flush(opened.handle), "a file that is being flushed");
    files.flush(opened.handle).await.unwrap();
    assert_eq!(files.flush(opened.handle).now_or_never(), Some(Ok(())), "of a flushed file");
    assert_eq!(files.release(opened.handle).now_or_never(), Some(()), "of a flushed file");
    assert_eq!(bench.cat("f").await.unwrap(), b"abc");
}

/// `tar` and `cp -p` set times, owner and mode before they close a file. These go with its content,
/// in one commit.
#[tokio::test]
async fn attributes_that_are_set_before_close_cost_no_commit() {
    let bench = bench(true).await;
    let files = &bench.files;
    let directory = files.make_directory(bench.bucket, b"d", by()).await.unwrap().ino;
    let mut meter = Meter::new(&bench);
    let opened = files.create(directory, b"f", by()).await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "create");
    let ino = opened.attributes.ino;
    files.write(opened.handle, 0, &[7; 3_000], false, false).await.unwrap();
    let time = SetTime::At(Timestamp(1_700_000_000_000_000_000));
    let times = AttributeChange {
        modified: Some(time),
        accessed: Some(time),
        ..AttributeChange::default()
    };
    let owner = AttributeChange { uid: Some(7), gid: Some(8), ..AttributeChange::default() };
    let mode = AttributeChange { mode: Some(0o640), ..AttributeChange::default() };
    for attributes in [times, owner, mode] {
        files.set(ino, None, SetNode { attributes, size: None }).await.unwrap();
    }
    assert_eq!(meter.trips(), (0, 0), "times, owner and mode");
    files.flush(opened.handle).await.unwrap();
    assert_eq!(meter.trips(), (0, 1), "close");
    files.release(opened.handle).await;
    let shown = files.look_up(directory, b"f").await.unwrap();
    assert_eq!((shown.uid, shown.gid, shown.mode & 0o777, shown.size), (7, 8, 0o640, 3_000));
    assert_eq!(SetTime::At(shown.modified), time);
    assert_eq!(meter.trips(), (0, 0), "nothing is committed later");
}

/// A session with peers commits a change of the mode at once, or others would go on granting the
/// old permissions. A file that was just created may wait for its close.
#[tokio::test]
async fn mode_of_a_dirty_file_is_committed_at_once_beside_peers() {
    let bench = bench(false).await;
    let files = &bench.files;
    let mode = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
    let set = SetNode { attributes: mode, size: None };
    let committed = async |ino| bench.volume.find_node(ino).await.unwrap().inode.attributes.mode;
    let old = bench.write("old", b"abc").await;
    let handle = bench.open("old", super::WRITES).await;
    files.write(handle, 0, b"x", false, false).await.unwrap();
    assert_eq!(files.set(old, None, set).await.unwrap().mode, 0o600);
    assert_eq!(committed(old).await, 0o600);
    let new = files.create(bench.bucket, b"new", by()).await.unwrap();
    files.write(new.handle, 0, b"x", false, false).await.unwrap();
    assert_eq!(files.set(new.attributes.ino, None, set).await.unwrap().mode, 0o600);
    assert_eq!(committed(new.attributes.ino).await, 0o644);
    for handle in [handle, new.handle] {
        bench.close(handle).await;
    }
    assert_eq!(committed(new.attributes.ino).await, 0o600);
}

#[tokio::test]
async fn a_thousand_names_are_listed_with_their_attributes_in_one_read() {
    let bench = bench(false).await;
    for at in 0..1_000 {
        bench.files.make_file(bench.bucket, format!("{at}").as_bytes(), by()).await.unwrap();
    }
    let handle = bench.files.open_directory(bench.bucket).await.unwrap();
    let mut meter = Meter::new(&bench);
    let (mut position, mut seen) = (0, 0);
    loop {
        let before = seen;
        let mut next = position;
        let take = |entry: &files::DirectoryEntry| {
            let room = seen - before < 200;
            if room {
                (next, seen) = (entry.next, seen + usize::from(entry.attributes.is_some()));
            }
            room
        };
        bench.files.read_directory(handle, position, true, take).await.unwrap();
        position = next;
        if seen == before {
            break;
        }
    }
    assert_eq!(seen, 1_000);
    let (reads, _) = meter.trips();
    assert!(reads <= 3, "{reads}: the page, its last name, and that there is nothing behind it");
}

/// Opens the volume in a new session, which is alone and has read nothing.
async fn reopened(made: Bench) -> Bench {
    made.volume.close().await;
    let (store, blocks) = (made.store.clone(), made.blocks.clone());
    let session = SessionOptions { authoritative_reads: true, ..SessionOptions::default() };
    let options = VolumeOptions { session, ..super::options(None) };
    let volume = MaintainedVolume::open_without_tasks(options, None, store.clone(), blocks.clone())
        .await
        .unwrap();
    let bench = Bench::over(volume, (store, blocks), None).await;
    bench.files.watch(Arc::new(Unheeding), Coherence::Strict);
    until_alone(&bench.volume).await;
    bench
}

/// Lists the bucket, as `ls -l` does. Returns the names and inodes.
async fn list(bench: &Bench) -> Vec<(Vec<u8>, Ino)> {
    let handle = bench.files.open_directory(bench.bucket).await.unwrap();
    let (mut position, mut seen) = (0, Vec::new());
    loop {
        let before = position;
        let take = |entry: &files::DirectoryEntry| {
            position = entry.next;
            seen.extend(entry.attributes.map(|stat| (entry.name.clone(), stat.ino)));
            true
        };
        bench.files.read_directory(handle, before, true, take).await.unwrap();
        if position == before {
            bench.files.release_directory(handle);
            return seen;
        }
    }
}

/// Tries of a cost that holds while the session stays authoritative. On a busy machine the feed may
/// be late, and then all is read once more.
const TRIES: usize = 20;

/// A program that lists a directory looks up each name, and a later program lists it again.
#[tokio::test]
async fn names_of_a_listed_directory_cost_no_round_trip() {
    let made = bench(true).await;
    for at in 0..1_200 {
        made.files.make_file(made.bucket, format!("{at:04}").as_bytes(), by()).await.unwrap();
    }
    made.write("small", &[1; 4_000]).await;
    let bench = reopened(made).await;
    let files = &bench.files;
    let mut meter = Meter::new(&bench);
    let listed = list(&bench).await;
    assert_eq!(listed.len(), 1_201);
    let (reads, _) = meter.trips();
    assert!(reads <= 4, "{reads}: the directory with its counters, and two pages");
    let mut trips = None;
    for _ in 0..TRIES {
        // On a busy machine the session may have lost its authority during the last try.
        until_alone(&bench.volume).await;
        meter.trips();
        // A part of the names, so that a try is short: the feed is late more often in a long one.
        for (name, ino) in listed.iter().step_by(10) {
            assert_eq!(files.look_up(bench.bucket, name).await.unwrap().ino, *ino);
            assert_eq!(files.attributes(*ino).await.unwrap().ino, *ino);
        }
        assert_eq!(files.look_up(bench.bucket, b"missing").await, Err(Errno::NOENT));
        assert_eq!(list(&bench).await, listed);
        trips = Some(meter.trips());
        if trips == Some((0, 0)) {
            break;
        }
    }
    assert_eq!(trips, Some((0, 0)), "all names are known");
    files.make_file(bench.bucket, b"new", by()).await.unwrap();
    files.unlink(bench.bucket, b"0007").await.unwrap();
    meter.trips();
    let changed: Vec<_> = list(&bench).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(meter.trips(), (0, 0), "this session's changes are known, too");
    assert_eq!(changed.len(), 1_201);
    assert!(changed.contains(&b"new".to_vec()) && !changed.contains(&b"0007".to_vec()));
}

/// A program that lists a directory asks for labels and access control lists of each file.
#[tokio::test]
async fn missing_attributes_of_listed_files_are_known_from_the_listing() {
    let made = bench(true).await;
    for at in 0..100 {
        made.write(&format!("{at}"), &[1; 1_000]).await;
    }
    let with = made.write("with", b"").await;
    made.files.set_xattr(with, b"user.a", b"v", XattrWrite::Set, false).await.unwrap();
    let bench = reopened(made).await;
    let files = &bench.files;
    let (handle, mut inodes) = (files.open_directory(bench.bucket).await.unwrap(), Vec::new());
    let take = |entry: &files::DirectoryEntry| {
        inodes.extend(entry.attributes.map(|stat| stat.ino));
        true
    };
    files.read_directory(handle, 0, true, take).await.unwrap();
    assert_eq!(inodes.len(), 101);
    let mut meter = Meter::new(&bench);
    for ino in inodes {
        for name in [&b"security.selinux"[..], b"system.posix_acl_access", b"user.a"] {
            let told = files.xattr(ino, name).await.map(|value| value.to_vec());
            let has = ino == with && name == b"user.a";
            let expected = if has { Ok(b"v".to_vec()) } else { Err(Errno::NODATA) };
            assert_eq!(told, expected);
        }
    }
    let (reads, _) = meter.trips();
    assert!(reads <= 1, "{reads}: of the one that has some");
}
