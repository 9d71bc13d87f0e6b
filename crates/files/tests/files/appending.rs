//! Appends to one file from several mounts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use files::{Files, HandleId};
use record::Ino;
use tokio::task::JoinSet;

use super::fleet::{Fleet, LONG};
use super::{WHOLE_BYTES_MAX, WRITES, by, bytes, owner};

/// Two mounts with the same empty file open.
struct Two {
    fleet: Fleet,
    files: [Arc<Files>; 2],
    handles: [HandleId; 2],
    bucket: Ino,
    ino: Ino,
}

impl Two {
    async fn new() -> Two {
        let fleet = Fleet::new();
        let ((one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
        one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
        let bucket = ours.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
        let mine = ours.create(bucket, b"log", by()).await.unwrap();
        let ino = mine.attributes.ino;
        let other = theirs.open_by_name(bucket, b"log", WRITES).await.unwrap();
        let handles = [mine.handle, other.handle];
        Two { fleet, files: [ours, theirs], handles, bucket, ino }
    }

    async fn append(&self, mount: usize, bytes: &[u8]) {
        self.files[mount].write(self.handles[mount], 0, bytes, true, false).await.unwrap();
    }

    async fn write(&self, mount: usize, at: u64, bytes: &[u8]) {
        self.files[mount].write(self.handles[mount], at, bytes, false, false).await.unwrap();
    }

    async fn flush(&self, mount: usize) {
        self.files[mount].flush(self.handles[mount]).await.unwrap();
    }

    async fn read(&self, mount: usize) -> String {
        let read = self.files[mount].read(self.handles[mount], 0, 1 << 20).await.unwrap().concat();
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Returns the content that a new open of the file finds.
    async fn found(&self) -> Vec<u8> {
        let (_third, files) = self.fleet.open().await;
        let opened = files.open_by_name(self.bucket, b"log", WRITES).await.unwrap();
        files.read(opened.handle, 0, opened.attributes.size).await.unwrap().concat()
    }
}

#[tokio::test]
async fn append_commits_behind_appends_of_other_mounts() {
    let two = Two::new().await;
    two.append(0, b"one ").await;
    two.append(1, b"two ").await;
    assert_eq!((two.read(0).await, two.read(1).await), ("one ".to_owned(), "two ".to_owned()));
    two.flush(0).await;
    two.append(1, b"three ").await;
    two.flush(1).await;
    assert_eq!(two.read(1).await, "one two three ");
    two.append(0, b"four ").await;
    two.flush(0).await;
    assert_eq!(two.found().await, b"one two three four ");
    two.fleet.check().await;
}

#[tokio::test]
async fn positioned_write_stays_and_append_of_same_flush_moves() {
    let two = Two::new().await;
    two.write(0, 0, b"0123456789").await;
    two.flush(0).await;
    two.files[1].look_up(Ino::ROOT, b"bkt").await.unwrap();
    two.write(1, 4, b"__").await;
    two.append(0, b"abc").await;
    two.flush(0).await;
    // The other mount has not opened the file since, and appends at the end that it knows.
    two.append(1, b"xyz").await;
    two.write(1, 5, b"!").await;
    two.flush(1).await;
    assert_eq!(two.found().await, b"0123_!6789abcxyz");
    // Written behind a hole, the tail is not at the end any more: it stays at its position.
    two.append(0, b"left").await;
    two.write(0, 40, b"right").await;
    two.flush(0).await;
    let found = two.found().await;
    assert_eq!((found.len(), &found[40..]), (45, &b"right"[..]));
    two.fleet.check().await;
}

#[tokio::test]
async fn append_after_truncation_by_another_mount_is_at_the_end() {
    let two = Two::new().await;
    two.write(0, 0, &bytes(200_000, 1)).await;
    two.flush(0).await;
    let handle = two.files[1].open_by_name(two.bucket, b"log", WRITES).await.unwrap().handle;
    two.files[1].write(handle, 0, b"tail", true, false).await.unwrap();
    let cut = files::SetNode { size: Some(1_000), ..files::SetNode::default() };
    two.files[0].set(two.ino, Some(two.handles[0]), cut).await.unwrap();
    two.flush(0).await;
    two.files[1].flush(handle).await.unwrap();
    let expected = [&bytes(200_000, 1)[..1_000], b"tail"].concat();
    assert!(two.found().await == expected);
    two.fleet.check().await;
}

/// Appends lines, and flushes from time to time.
async fn append_lines(files: Arc<Files>, handle: HandleId, writer: usize, lines: usize) {
    for line in 0..lines {
        // Some lines are longer than an inline file, so that the file takes each form of content.
        let length = if line % 40 == 39 { 9_000 } else { 20 + (line * 7 + writer) % 60 };
        let text = format!("{writer} {line} {}\n", "x".repeat(length));
        files.write(handle, 0, text.as_bytes(), true, false).await.unwrap();
        if (line + writer).is_multiple_of(5) {
            files.flush(handle).await.unwrap();
        }
        if line % 11 == writer {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    files.flush(handle).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_of_two_mounts_lose_and_tear_no_line() {
    const LINES: usize = 250;
    let two = Two::new().await;
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let mount = writer % 2;
        let files = Arc::clone(&two.files[mount]);
        let handle = files.open_by_name(two.bucket, b"log", WRITES).await.unwrap().handle;
        writers.spawn(append_lines(files, handle, writer, LINES));
    }
    let all = async { while writers.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(LONG * 3, all).await.unwrap();
    let found = two.found().await;
    assert!(found.len() as u64 > 2 * WHOLE_BYTES_MAX);
    let mut next: BTreeMap<usize, usize> = BTreeMap::new();
    for line in String::from_utf8(found).unwrap().lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        let (writer, line) = (number().expect(line), number().expect(line));
        let expected = next.entry(writer).or_default();
        assert_eq!(line, *expected, "lines of writer {writer} are in order, each once");
        *expected += 1;
        assert!(
            words.next().is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b == b'x'))
        );
    }
    assert_eq!(next.into_values().collect::<Vec<_>>(), [LINES; 4]);
    two.fleet.check().await;
}

#[tokio::test]
async fn truncate_and_write_are_one_commit() {
    let fleet = Fleet::new();
    let (volume, files) = fleet.open().await;
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = files.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let opened = files.create(bucket, b"f", by()).await.unwrap();
    let (ino, handle) = (opened.attributes.ino, opened.handle);
    files.write(handle, 0, &bytes(400_000, 1), false, false).await.unwrap();
    files.flush(handle).await.unwrap();
    let resize = async |size| {
        let cut = files::SetNode { size: Some(size), ..files::SetNode::default() };
        files.set(ino, Some(handle), cut).await.unwrap();
    };
    let mut expected = bytes(400_000, 1);
    for (cut, at, size) in
        [(300_000, 100, 300_000), (200_000, 250_000, 260_000), (90_000, 80_000, 90_500)]
    {
        let before = volume.counters().session.plans;
        resize(cut).await;
        files.write(handle, at, b"written", false, false).await.unwrap();
        resize(size).await;
        files.flush(handle).await.unwrap();
        assert_eq!(volume.counters().session.plans - before, 1);
        let length = |size: u64| usize::try_from(size).unwrap();
        expected.truncate(length(cut));
        expected.resize(length(size), 0);
        expected[length(at)..length(at) + 7].copy_from_slice(b"written");
        let found = files.read(handle, 0, 1 << 20).await.unwrap().concat();
        assert!(found == expected);
    }
    let before = volume.counters().session.plans;
    resize(1_000).await;
    resize(70_000).await;
    files.flush(handle).await.unwrap();
    assert_eq!(volume.counters().session.plans - before, 1);
    expected.truncate(1_000);
    expected.resize(70_000, 0);
    assert!(files.read(handle, 0, 1 << 20).await.unwrap().concat() == expected);
    fleet.check().await;
}
