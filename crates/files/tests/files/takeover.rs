//! A worker is killed at any moment, and the next one continues with the open files.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty, get};
use files::{Files, HandleId, OpenMode, SetNode};
use maintained::MaintainedVolume;
use record::{Ino, Nonce, RangeLock, RangeLockKind, key};
use rustix::io::Errno;
use store::{MetaStore, Plan, Write};
use tokio_util::task::TaskTracker;
use volume::{AttributeChange, Ledger, Note, RenameMode};

use super::{Bench, WRITES, by, bytes, files_options, options, owner};

/// The kind of a log entry that has a file's name.
const NAME: u64 = 6;

/// The ledger of a mount, and the worker that serves it now.
pub(super) struct Kept {
    ledger: File,
    pub(super) bench: Bench,
    requests: u64,
}

fn ledger_of(file: &File) -> Arc<Ledger> {
    Arc::new(Ledger::open(OwnedFd::from(file.try_clone().unwrap())).unwrap())
}

/// Opens the volume as the next worker of the ledger.
async fn open(
    store: &Arc<impl MetaStore + 'static>,
    blocks: &Arc<MemoryBlocks>,
    ledger: &Arc<Ledger>,
) -> MaintainedVolume {
    let options = options(Some(Arc::clone(ledger)));
    MaintainedVolume::open(options, None, store.clone(), blocks.clone()).await.unwrap()
}

impl Kept {
    pub(super) async fn new() -> Kept {
        let first = Bench::new().await;
        first.volume.close().await;
        let file = Ledger::make().unwrap();
        let ledger = ledger_of(&file);
        let volume = open(&first.store, &first.blocks, &ledger).await;
        let bench = Bench::over(volume, (first.store, first.blocks), Some(ledger)).await;
        Kept { ledger: file, bench, requests: 0 }
    }

    /// Checks that the next worker would inherit no handle and no log.
    pub(super) fn check_empty(&self) {
        let ledger = ledger_of(&self.ledger);
        assert!(ledger.inherited_handles().is_empty(), "a handle is left");
        assert!(ledger.inherited_logs().is_empty(), "a log is left");
    }

    /// Kills the worker, and starts the next one.
    pub(super) async fn killed(self) -> Kept {
        let Kept { ledger: file, bench, requests } = self;
        let Bench { store, blocks, volume, files, .. } = bench;
        drop((volume, files));
        let ledger = ledger_of(&file);
        let volume = open(&store, &blocks, &ledger).await;
        let bench = Bench::over(volume, (store, blocks), Some(ledger)).await;
        bench.files.take_over().await.unwrap();
        Kept { ledger: file, bench, requests }
    }

    /// Returns the files for a request with a number of its own, as the kernel assigns it.
    pub(super) fn asked(&mut self) -> files::Files {
        self.requests += 2;
        self.bench.files.for_request(self.requests, Note::none())
    }
}

#[tokio::test]
async fn next_worker_keeps_the_claim_until_the_handle_is_closed() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let opened = kept.asked().create(bucket, b"f", by()).await.unwrap();
    assert!(kept.bench.files.claim_map(opened.handle).await);
    // The worker is killed after it removed a handle from the ledger, and before it released the
    // claim.
    let other = kept.asked().create(bucket, b"g", by()).await.unwrap();
    assert!(kept.bench.files.claim_map(other.handle).await);
    kept.bench.files.end_handle(other.handle);
    let kept = kept.killed().await;
    let files = &kept.bench.files;
    let claimed = || {
        let claims = |held: &[RangeLock]| held.iter().any(|lock| lock.start == u64::MAX);
        let files: Vec<Ino> = files
            .locks()
            .export()
            .into_iter()
            .filter_map(|(ino, held)| claims(&held).then_some(ino))
            .collect();
        files
    };
    let began = std::time::Instant::now();
    while claimed() != [opened.attributes.ino] {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", claimed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    files.release(opened.handle).await;
    assert_eq!(claimed(), []);
}

#[tokio::test]
async fn dirty_data_survives_a_takeover() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let opened = kept.asked().create(bucket, b"f", by()).await.unwrap();
    let (handle, ino) = (opened.handle, opened.attributes.ino);
    let content = bytes(150_000, 1);
    kept.asked().write(handle, 0, &content, false, false).await.unwrap();
    kept.asked().flush(handle).await.unwrap();
    kept.asked().write(handle, 100_000, b"over", false, false).await.unwrap();
    kept.asked().write(handle, 0, b"end", true, false).await.unwrap();
    let attributes = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
    kept.asked().set(ino, Some(handle), SetNode { attributes, size: None }).await.unwrap();
    let (last, session) = (kept.requests, session_of(&kept));
    let mut expected = content;
    expected[100_000..100_004].copy_from_slice(b"over");
    expected.extend_from_slice(b"end");

    let mut kept = kept.killed().await;
    assert_eq!(session_of(&kept), session, "the session is the mount's");
    let read = kept.bench.files.read(handle, 0, 1 << 20).await.unwrap().concat();
    assert_eq!(read, expected);
    // The kernel sends the last append again. It must not be repeated.
    let again = kept.bench.files.for_request(last - 2, Note::none());
    assert_eq!(again.write(handle, 0, b"end", true, false).await, Ok(3));
    kept.asked().write(handle, 0, b"!", true, false).await.unwrap();
    expected.push(b'!');
    // And once more, before any flush.
    let kept = kept.killed().await;
    kept.bench.close(handle).await;
    assert_eq!(kept.bench.cat("f").await.unwrap(), expected);
    assert_eq!(kept.bench.files.attributes(ino).await.unwrap().mode, 0o600);
    kept.bench.check("after two processes were killed").await;
    kept.check_empty();
}

fn session_of(kept: &Kept) -> Nonce {
    ledger_of(&kept.ledger).session().unwrap().unwrap()
}

#[tokio::test]
async fn truncations_and_holes_survive_a_takeover() {
    let mut kept = Kept::new().await;
    kept.bench.write("f", &bytes(5_000, 3)).await;
    let bucket = kept.bench.bucket;
    let ino = kept.bench.files.look_up(bucket, b"f").await.unwrap().ino;
    let handle = kept.asked().open(ino, WRITES).await.unwrap().handle;
    let size = |size| SetNode { size: Some(size), ..SetNode::default() };
    kept.asked().set(ino, Some(handle), size(1_000)).await.unwrap();
    kept.asked().write(handle, 4_000, b"far", false, false).await.unwrap();
    kept.asked().allocate(handle, 6_000, false).await.unwrap();
    let truncated = OpenMode { truncates: true, ..WRITES };
    kept.bench.write("g", b"gone").await;
    let other = kept.bench.files.look_up(bucket, b"g").await.unwrap().ino;
    let emptied = kept.asked().open(other, truncated).await.unwrap().handle;

    let kept = kept.killed().await;
    let mut expected = bytes(5_000, 3)[..1_000].to_vec();
    expected.resize(4_000, 0);
    expected.extend_from_slice(b"far");
    expected.resize(6_000, 0);
    for handle in [handle, emptied] {
        kept.bench.close(handle).await;
    }
    assert_eq!(kept.bench.cat("f").await.unwrap(), expected);
    assert_eq!(kept.bench.cat("g").await.unwrap(), b"");
    kept.bench.check("after a process was killed").await;
}

#[tokio::test]
async fn unlinked_open_file_survives_a_takeover() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let sizes = [("inline", 100), ("blocks", 200_000)];
    let mut handles = Vec::new();
    for (name, size) in sizes {
        kept.bench.write(name, &bytes(size, 5)).await;
        let ino = kept.bench.files.look_up(bucket, name.as_bytes()).await.unwrap().ino;
        handles.push(kept.asked().open(ino, WRITES).await.unwrap());
        kept.asked().unlink(bucket, name.as_bytes()).await.unwrap();
    }
    let nameless = kept.asked().create_unnamed(bucket, by()).await.unwrap();
    kept.asked().write(nameless.handle, 0, b"nameless", false, false).await.unwrap();
    for round in 0..2 {
        kept = kept.killed().await;
        // The reaper deletes unlinked files, but not open ones.
        kept.bench.volume.upkeep().reap_now().await.unwrap();
        for ((_, size), opened) in sizes.iter().zip(&handles) {
            let mut expected = bytes(*size, 5);
            if round > 0 {
                expected[..3].copy_from_slice(b"new");
            }
            let read = kept.bench.files.read(opened.handle, 0, 1 << 20).await.unwrap().concat();
            assert_eq!(read, expected, "{size} bytes, round {round}");
            kept.asked().write(opened.handle, 0, b"new", false, false).await.unwrap();
            let stat = kept.bench.files.attributes(opened.attributes.ino).await.unwrap();
            assert_eq!(stat.links, 0);
        }
    }
    let ino = nameless.attributes.ino;
    kept.asked().link(ino, bucket, b"named").await.unwrap();
    kept.bench.close(nameless.handle).await;
    assert_eq!(kept.bench.cat("named").await.unwrap(), b"nameless");
    for opened in handles {
        kept.bench.close(opened.handle).await;
    }
    kept.bench.volume.upkeep().reap_now().await.unwrap();
    kept.bench.check("when all is closed").await;
    kept.check_empty();
}

#[tokio::test]
async fn takeover_flushes_an_object_under_its_present_name() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let (_, handle) = kept.edited_object().await;
    let (from, to) = ((bucket, &b"o"[..]), (bucket, &b"p"[..]));
    kept.asked().rename(from, to, RenameMode::Replace).await.unwrap();
    kept.bench.put("later", b"object").await;
    let ino = kept.bench.files.look_up(bucket, b"later").await.unwrap().ino;
    let later = kept.asked().open(ino, WRITES).await.unwrap().handle;
    let mut kept = kept.killed().await;
    kept.bench.close(handle).await;
    assert_eq!(kept.bench.get("p").await.unwrap(), b"Object");
    // This file has no dirty data yet.
    kept.asked().write(later, 0, b"O", false, false).await.unwrap();
    kept.bench.close(later).await;
    assert_eq!(kept.bench.get("later").await.unwrap(), b"Object");
}

#[tokio::test]
async fn resent_open_truncates_exactly_once() {
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", b"content").await;
    let truncates = OpenMode { truncates: true, ..WRITES };
    // The worker is killed between the open and the truncation.
    let opened = kept.asked().open(ino, WRITES).await.unwrap();
    let request = kept.requests;
    let kept = kept.killed().await;
    let again = kept.bench.files.for_request(request, Note::none());
    assert_eq!(again.open(ino, truncates).await.unwrap().attributes.size, 0);
    again.write(opened.handle, 0, b"new", false, false).await.unwrap();
    let kept = kept.killed().await;
    // The kernel sends the request again after it was executed.
    let again = kept.bench.files.for_request(request, Note::none());
    assert_eq!(again.open(ino, truncates).await.unwrap().attributes.size, 3);
    kept.bench.close(opened.handle).await;
    assert_eq!(kept.bench.cat("f").await.unwrap(), b"new");
}

#[tokio::test]
async fn locks_survive_a_takeover() {
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", b"x").await;
    let lock = |owner, start| RangeLock {
        start,
        last: start + 9,
        kind: RangeLockKind::Exclusive,
        owner,
        pid: 7,
        flock: false,
    };
    let files = &kept.bench.files;
    files.try_lock(ino, lock(1, 0)).await.unwrap();
    files.try_lock(ino, lock(2, 10)).await.unwrap();
    files.unlock(ino, 2, false, 15..=19).await.unwrap();
    kept = kept.killed().await;
    let files = &kept.bench.files;
    assert_eq!(files.conflicting_lock(ino, &lock(3, 0)).await, Ok(Some(lock(1, 0))));
    assert_eq!(files.try_lock(ino, lock(3, 10)).await, Err(Errno::AGAIN));
    assert_eq!(files.try_lock(ino, lock(3, 15)).await, Ok(()));
    files.unlock(ino, 1, false, 0..=u64::MAX).await.unwrap();
    kept = kept.killed().await;
    assert_eq!(kept.bench.files.try_lock(ino, lock(4, 0)).await, Ok(()));
}

#[tokio::test]
async fn append_after_takeover_lands_behind_other_mounts_appends() {
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", &vec![1; 100_000]).await;
    let handle = kept.asked().open(ino, WRITES).await.unwrap().handle;
    kept.asked().write(handle, 0, b"mine", true, false).await.unwrap();
    let (store, blocks) = (kept.bench.store.clone(), kept.bench.blocks.clone());
    let opening = MaintainedVolume::open(options(None), None, store.clone(), blocks.clone());
    let other = Bench::over(opening.await.unwrap(), (store, blocks), None).await;
    let theirs = other.open("f", WRITES).await;
    other.files.write(theirs, 0, b"theirs", true, false).await.unwrap();
    other.close(theirs).await;
    kept = kept.killed().await;
    kept.asked().write(handle, 0, b"more", true, false).await.unwrap();
    kept.bench.close(handle).await;
    assert_eq!(kept.bench.cat("f").await.unwrap()[100_000..], *b"theirsminemore");
}

#[tokio::test]
async fn append_after_takeover_is_not_repeated() {
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", b"before ").await;
    let handle = kept.asked().open(ino, WRITES).await.unwrap().handle;
    // One append was answered and one was not; a flush commits both.
    let answered = kept.asked();
    answered.write(handle, 0, b"one ", true, false).await.unwrap();
    let first = kept.asked();
    let first_request = kept.requests;
    let _taken = first.accept_write(handle, 0, b"two ", true, false).await.unwrap();
    kept.asked().flush(handle).await.unwrap();
    let second = kept.asked();
    let second_request = kept.requests;
    let _taken = second.accept_write(handle, 0, b"three ", true, false).await.unwrap();
    drop((answered, first, second));
    for _ in 0..2 {
        kept = kept.killed().await;
        for (request, text) in [(first_request, &b"two "[..]), (second_request, b"three ")] {
            let again = kept.bench.files.for_request(request, Note::none());
            let written = again.write(handle, 0, text, true, false).await.unwrap();
            assert_eq!(written as usize, text.len());
        }
    }
    kept.asked().write(handle, 0, b"four", true, false).await.unwrap();
    kept.bench.close(handle).await;
    let content = kept.bench.cat("f").await.unwrap();
    assert_eq!(String::from_utf8(content).unwrap(), "before one two three four");
}

#[tokio::test]
async fn committed_flush_is_not_replayed_after_takeover() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let file = Ledger::make().unwrap();
    let begin = async || {
        let ledger = ledger_of(&file);
        let volume = open(&store, &blocks, &ledger).await;
        (Files::new(Arc::clone(&volume), files_options(Some(ledger))), volume)
    };
    let (files, volume) = begin().await;
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = files.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let opened = files.for_request(2, Note::none()).create(bucket, b"f", by()).await.unwrap();
    let (handle, ino) = (opened.handle, opened.attributes.ino);
    let asked = files.for_request(4, Note::none());
    asked.write(handle, 0, b"appended", true, false).await.unwrap();
    // The flush is committed, and the worker is killed before it learns it.
    let record = async || get(&*store, &key::inode(ino)).await;
    let before = record().await;
    store.inject(Some(key::space::INODE), Fault::Hang);
    let tasks = TaskTracker::new();
    let flushing = tasks.spawn(async move { asked.flush(handle).await });
    while record().await == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(store.fired() == 1 && !flushing.is_finished());
    flushing.abort();
    std::mem::forget((files, volume));

    let (files, volume) = begin().await;
    files.take_over().await.unwrap();
    let whole = files.read(handle, 0, 100).await.unwrap().concat();
    assert_eq!(whole, b"appended", "once");
    files.for_request(6, Note::none()).write(handle, 0, b" twice", true, false).await.unwrap();
    files.flush(handle).await.unwrap();
    // Changes trimmed from the log are not there for a third worker either.
    std::mem::forget((files, volume));
    let (files, _volume) = begin().await;
    files.take_over().await.unwrap();
    let whole = files.read(handle, 0, 100).await.unwrap().concat();
    assert_eq!(whole, b"appended twice");
}

#[tokio::test]
async fn write_with_only_its_name_logged_is_executed() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let opened = kept.asked().create(bucket, b"f", by()).await.unwrap();
    let (handle, ino) = (opened.handle, opened.attributes.ino);
    // A log begins with the name of its file, under the request that begins the log.
    let ledger = kept.bench.ledger.clone().unwrap();
    let mut log = ledger.begin_log(ino).unwrap();
    let (kind, words) = (NAME, [bucket.0, 0, 0, 0, 0, 0, 0, 0]);
    ledger.log(&mut log, kind, 42, words, b"f").unwrap();
    kept = kept.killed().await;
    let again = kept.bench.files.for_request(42, Note::none());
    again.write(handle, 0, b"written", false, false).await.unwrap();
    kept.bench.close(handle).await;
    assert_eq!(kept.bench.cat("f").await.unwrap(), b"written");
}

#[tokio::test]
async fn directory_reading_continues_after_takeover() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    for at in 0..20 {
        kept.bench.write(&format!("f{at:02}"), b"").await;
    }
    let handle = kept.asked().open_directory(bucket).await.unwrap();
    let first = listed(&kept, handle, 0).await;
    let (position, rest) = (first[9].1, &first[10..]);
    let kept = kept.killed().await;
    assert_eq!(listed(&kept, handle, position).await, rest);
    kept.bench.files.release_directory(handle);
    let unknown = kept.bench.files.read_directory(handle, 0, true, |_| true).await;
    assert_eq!(unknown, Err(Errno::BADF));
}

/// Returns the names from a position on, each with the position after it.
async fn listed(kept: &Kept, handle: HandleId, position: u64) -> Vec<(Vec<u8>, u64)> {
    let mut entries = Vec::new();
    let take = |entry: &files::DirectoryEntry| {
        entries.push((entry.name.clone(), entry.next));
        true
    };
    kept.bench.files.read_directory(handle, position, true, take).await.unwrap();
    entries
}

#[tokio::test]
async fn resent_open_gets_the_same_handle() {
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", b"x").await;
    let opened = kept.asked().open(ino, WRITES).await.unwrap();
    let request = kept.requests;
    let kept = kept.killed().await;
    let again = kept.bench.files.for_request(request, Note::none());
    assert_eq!(again.open(ino, WRITES).await.unwrap().handle, opened.handle);
    kept.bench.close(opened.handle).await;
    assert!(ledger_of(&kept.ledger).inherited_handles().is_empty());
}

#[tokio::test]
async fn committed_unanswered_change_is_in_the_journal() {
    let kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let ledger = kept.bench.ledger.clone().unwrap();
    let note = ledger.note(42).await.unwrap();
    let files = kept.bench.files.for_request(42, note.clone());
    let made = files.make_directory(bucket, b"d", by()).await.unwrap();
    // Killed before the reply: nothing is dropped in order.
    std::mem::forget((note, files));
    let kept = kept.killed().await;
    let ledger = kept.bench.ledger.clone().unwrap();
    let (ino, note) = ledger.take_executed(42).expect("it is in the journal");
    assert_eq!(ino, made.ino);
    let files = kept.bench.files.for_request(42, note);
    assert_eq!(files.created_node(ino, bucket, b"d").await.unwrap().ino, made.ino);
    let exists = kept.bench.files.make_directory(bucket, b"d", by()).await;
    assert_eq!(exists.unwrap_err(), Errno::EXIST, "a repeated request fails");
    assert!(ledger.take_executed(42).is_none(), "once");
    let note = ledger.note(44).await.unwrap();
    let files = kept.bench.files.for_request(44, note.clone());
    files.remove_directory(bucket, b"d").await.unwrap();
    std::mem::forget((note, files));
    let kept = kept.killed().await;
    let ledger = kept.bench.ledger.clone().unwrap();
    assert!(ledger.take_executed(44).is_some(), "it has gone");
    let gone = kept.bench.files.remove_directory(bucket, b"d").await;
    assert_eq!(gone, Err(Errno::NOENT));
}

/// Ends a session from outside, as another session does that considers it dead.
async fn end_session(kept: &Kept) -> Nonce {
    let nonce = session_of(kept);
    let (session, beat) = (key::session(nonce), key::heartbeat(nonce));
    let plan =
        Plan { guards: Vec::new(), writes: vec![Write::Delete(session), Write::Delete(beat)] };
    kept.bench.store.commit(&[plan]).await.unwrap();
    nonce
}

#[tokio::test]
async fn takeover_begins_a_new_session_if_the_old_one_ended() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let opened = kept.asked().create(bucket, b"f", by()).await.unwrap();
    kept.asked().write(opened.handle, 0, b"written", false, false).await.unwrap();
    let before = end_session(&kept).await;
    let kept = kept.killed().await;
    assert_ne!(session_of(&kept), before);
    kept.bench.close(opened.handle).await;
    assert_eq!(kept.bench.cat("f").await.unwrap(), b"written");
}

/// A file that a worker has claimed, with content.
async fn claimed(kept: &mut Kept) -> (HandleId, Ino) {
    let bucket = kept.bench.bucket;
    let opened = kept.asked().create(bucket, b"f", by()).await.unwrap();
    let handle = opened.handle;
    assert!(kept.bench.files.claim_map(handle).await);
    kept.asked().write(handle, 0, b"first", false, false).await.unwrap();
    kept.asked().flush(handle).await.unwrap();
    (handle, opened.attributes.ino)
}

/// Another session claims the file, writes to it, and ends.
async fn written_elsewhere(kept: &Kept, ino: Ino) {
    let ledger = ledger_of(&Ledger::make().unwrap());
    let (store, blocks) = (kept.bench.store.clone(), kept.bench.blocks.clone());
    let other = MaintainedVolume::open(options(None), None, store, blocks).await.unwrap();
    let files = Files::new(Arc::clone(&other), files_options(Some(ledger)));
    files.look_up(kept.bench.bucket, b"f").await.unwrap();
    let handle = files.open(ino, WRITES).await.unwrap().handle;
    assert!(files.claim_map(handle).await);
    files.write(handle, 0, b"other", false, false).await.unwrap();
    files.flush(handle).await.unwrap();
    files.release(handle).await;
    other.close().await;
}

#[tokio::test]
async fn data_written_before_a_lost_claim_is_dropped() {
    let mut kept = Kept::new().await;
    let (handle, ino) = claimed(&mut kept).await;
    kept.asked().write(handle, 0, b"stale", false, false).await.unwrap();
    end_session(&kept).await;
    written_elsewhere(&kept, ino).await;
    let mut kept = kept.killed().await;
    assert_eq!(kept.asked().flush(handle).await, Err(Errno::IO));
    assert_eq!(kept.asked().write(handle, 0, b"late", false, false).await, Err(Errno::IO));
    assert_eq!(kept.asked().read(handle, 0, 5).await, Err(Errno::IO));
    kept.bench.files.release(handle).await;
    assert_eq!(kept.bench.cat("f").await.unwrap(), b"other");
    let again = kept.asked().open(ino, WRITES).await.unwrap().handle;
    kept.asked().write(again, 0, b"again", false, false).await.unwrap();
    kept.asked().flush(again).await.unwrap();
    assert_eq!(kept.bench.cat("f").await.unwrap(), b"again");
}

#[tokio::test]
async fn lost_claim_is_retaken_if_the_file_is_unchanged() {
    let mut kept = Kept::new().await;
    let (handle, _) = claimed(&mut kept).await;
    kept.asked().write(handle, 0, b"later", false, false).await.unwrap();
    end_session(&kept).await;
    let mut kept = kept.killed().await;
    kept.bench.files.check_written_back(handle).unwrap();
    kept.asked().flush(handle).await.unwrap();
    assert_eq!(kept.bench.cat("f").await.unwrap(), b"later");
}

#[tokio::test]
async fn page_from_before_a_lost_claim_is_refused() {
    for has_changed_page in [false, true] {
        let mut kept = Kept::new().await;
        let (handle, ino) = claimed(&mut kept).await;
        end_session(&kept).await;
        written_elsewhere(&kept, ino).await;
        let mut kept = kept.killed().await;
        if has_changed_page {
            assert_eq!(kept.bench.files.check_written_back(handle), Err(Errno::IO));
        }
        let end = tokio_util::sync::CancellationToken::new();
        let files = Arc::new(kept.asked());
        let handing = TaskTracker::new().spawn(Arc::clone(&files).hand_over_until(end.clone()));
        let page = async {
            let _access = files.access_pages(handle, true).await?;
            files.read(handle, 0, 5).await
        };
        let page = tokio::time::timeout(Duration::from_secs(20), page).await.unwrap();
        match page {
            Ok(found) => assert!(!has_changed_page && found.concat() == b"other"),
            Err(error) => assert!(has_changed_page && error == Errno::IO),
        }
        end.cancel();
        handing.await.unwrap();
    }
}

#[tokio::test]
async fn lock_taken_by_another_session_fails_the_handles() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    let opened = kept.asked().create(bucket, b"f", by()).await.unwrap();
    let kind = RangeLockKind::Exclusive;
    let lock = RangeLock { start: 0, last: 9, kind, owner: 1, pid: 1, flock: false };
    kept.asked().try_lock(opened.attributes.ino, lock).await.unwrap();
    kept.asked().write(opened.handle, 0, b"stale", false, false).await.unwrap();
    end_session(&kept).await;
    let (store, blocks) = (kept.bench.store.clone(), kept.bench.blocks.clone());
    let other = MaintainedVolume::open(options(None), None, store, blocks).await.unwrap();
    let files = Files::new(Arc::clone(&other), files_options(None));
    files.try_lock(opened.attributes.ino, lock).await.unwrap();
    let mut kept = kept.killed().await;
    assert_eq!(kept.asked().flush(opened.handle).await, Err(Errno::IO));
    let asked = RangeLock { owner: 2, ..lock };
    let found = files.conflicting_lock(opened.attributes.ino, &asked).await.unwrap();
    assert_eq!(found.map(|found| found.pid), Some(1), "only this session holds it");
    other.close().await;
}
