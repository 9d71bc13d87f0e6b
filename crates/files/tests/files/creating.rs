//! Creations that are committed together with the first content.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use files::{Files, FilesOptions, Reach, SetNode};
use maintained::MaintainedVolume;
use record::{Ino, Quota};
use rustix::io::Errno;
use volume::{
    AttributeChange, BucketChange, Creator, Ledger, NewNode, Note, SessionOptions, VolumeOptions,
    empty_file,
};

use super::{Bench, WHOLE_BYTES_MAX, by, bytes, files_options, options, until_alone};

/// A mount that is alone and may defer creations, with a ledger for its next worker.
struct Mount {
    ledger: File,
    bench: Bench,
}

fn ledger_of(file: &File) -> Arc<Ledger> {
    Arc::new(Ledger::open(OwnedFd::from(file.try_clone().unwrap())).unwrap())
}

fn deferring(ledger: &Arc<Ledger>) -> FilesOptions {
    FilesOptions { defers_creations: true, ..files_options(Some(Arc::clone(ledger))) }
}

impl Mount {
    async fn new() -> Mount {
        let first = Bench::new().await;
        first.volume.close().await;
        let file = Ledger::make().unwrap();
        Mount::serve(file, first).await
    }

    /// Serves the volume of `before` as the next worker.
    async fn serve(file: File, before: Bench) -> Mount {
        let Bench { store, blocks, bucket, volume, files, .. } = before;
        drop((volume, files));
        let ledger = ledger_of(&file);
        let volume = open(options(Some(Arc::clone(&ledger))), &store, &blocks).await;
        let files = Files::new(Arc::clone(&volume), deferring(&ledger));
        files.take_over().await.unwrap();
        until_alone(&volume).await;
        let bench = Bench { volume, files, bucket, store, blocks, ledger: Some(ledger) };
        Mount { ledger: file, bench }
    }

    /// Kills the worker, and starts the next one.
    async fn killed(self) -> Mount {
        Mount::serve(self.ledger, self.bench).await
    }

    fn commits(&self) -> u64 {
        self.bench.volume.counters().session.commits
    }

    /// Returns the files for a request of the kernel with this number.
    fn asked(&self, request: u64) -> Files {
        self.bench.files.for_request(request, Note::none())
    }
}

async fn open(
    options: VolumeOptions,
    store: &Arc<store::MemoryStore>,
    blocks: &Arc<block::MemoryBlocks>,
) -> MaintainedVolume {
    let session = SessionOptions { authoritative_reads: true, ..options.session };
    let options = VolumeOptions { session, ..options };
    MaintainedVolume::open_without_tasks(options, None, store.clone(), blocks.clone())
        .await
        .unwrap()
}

#[tokio::test]
async fn new_file_with_content_and_attributes_is_one_commit() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    // Leases inode numbers.
    bench.write("first", b"").await;
    for (name, length) in [("empty", 0), ("inline", 3_000), ("blocks", 40_000)] {
        let before = mount.commits();
        let opened = files.create(bench.bucket, name.as_bytes(), by()).await.unwrap();
        assert_eq!(mount.commits(), before, "create of {name}");
        assert_eq!(bench.get(name).await.err().map(|_| ()), Some(()), "{name} is not committed");
        let content = bytes(length, 1);
        files.write(opened.handle, 0, &content, false, false).await.unwrap();
        let attributes = AttributeChange { mode: Some(0o640), ..AttributeChange::default() };
        let set = SetNode { attributes, size: None };
        files.set(opened.attributes.ino, None, set).await.unwrap();
        let shown = files.attributes(opened.attributes.ino).await.unwrap();
        assert_eq!(
            (shown.size, shown.mode),
            (length as u64, 0o640),
            "{name} as its writer sees it"
        );
        assert_eq!(files.read(opened.handle, 0, 50_000).await.unwrap().concat(), content);
        assert_eq!(mount.commits(), before, "{name} before close");
        bench.close(opened.handle).await;
        assert_eq!(mount.commits(), before + 1, "close of {name}");
        assert_eq!(bench.get(name).await.unwrap(), content);
        assert_eq!(bench.cat(name).await.unwrap(), content);
        let found = files.look_up(bench.bucket, name.as_bytes()).await.unwrap();
        assert_eq!((found.ino, found.mode), (opened.attributes.ino, 0o640), "{name}");
        // A later change goes to the same file.
        bench.put(name, b"other").await;
        assert_eq!(bench.get(name).await.unwrap(), b"other");
    }
    bench.check("after all").await;
}

#[tokio::test]
async fn long_and_sparse_new_files_have_their_content() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    let opened = files.create(bench.bucket, b"long", by()).await.unwrap();
    let content = bytes(200_000, 2);
    files.write(opened.handle, 0, &content, false, false).await.unwrap();
    bench.close(opened.handle).await;
    assert_eq!(bench.get("long").await.unwrap(), content);
    let opened = files.create(bench.bucket, b"sparse", by()).await.unwrap();
    files.write(opened.handle, WHOLE_BYTES_MAX << 20, b"end", false, false).await.unwrap();
    bench.close(opened.handle).await;
    let shown = files.look_up(bench.bucket, b"sparse").await.unwrap();
    assert_eq!(shown.size, (WHOLE_BYTES_MAX << 20) + 3);
    bench.check("after long files").await;
}

#[tokio::test]
async fn requests_that_reach_a_creation_commit_it_first() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    let reaches = [
        Reach::Name(bench.bucket, b"f0"),
        Reach::Directory(bench.bucket),
        Reach::Node(bench.bucket),
        Reach::All,
    ];
    for (at, reach) in reaches.into_iter().enumerate() {
        let name = format!("f{at}");
        let opened = files.create(bench.bucket, name.as_bytes(), by()).await.unwrap();
        files.write(opened.handle, 0, b"abc", false, false).await.unwrap();
        drop(files.enter(Reach::Name(bench.bucket, b"other")).await);
        assert!(bench.get(&name).await.is_err(), "{name} before {reach:?}");
        drop(files.enter(reach).await);
        assert_eq!(bench.get(&name).await.unwrap(), b"abc", "{name} after {reach:?}");
        bench.close(opened.handle).await;
    }
    // While another request may change names, a creation is committed at once.
    let changing = files.enter(Reach::All).await;
    let opened = files.create(bench.bucket, b"g", by()).await.unwrap();
    assert_eq!(bench.get("g").await.unwrap(), b"");
    drop(changing);
    bench.close(opened.handle).await;
}

#[tokio::test]
async fn creation_decides_about_existing_names() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    bench.put("f", b"old").await;
    assert_eq!(files.create(bench.bucket, b"f", by()).await.err(), Some(Errno::EXIST));
    files.make_directory(bench.bucket, b"d", by()).await.unwrap();
    assert_eq!(files.create(bench.bucket, b"d", by()).await.err(), Some(Errno::EXIST));
    assert_eq!(files.create(Ino::ROOT, b"x", by()).await.err(), Some(Errno::PERM));
    let gone = files.make_directory(bench.bucket, b"gone", by()).await.unwrap().ino;
    files.remove_directory(bench.bucket, b"gone").await.unwrap();
    assert_eq!(files.create(gone, b"x", by()).await.err(), Some(Errno::STALE));
    // The place of a refused name is free again.
    bench.delete("f").await;
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    bench.close(opened.handle).await;
    assert_eq!(bench.get("f").await.unwrap(), b"");
}

#[tokio::test]
async fn creation_in_a_bucket_with_a_quota_is_committed_at_once() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    let quota = Quota { bytes: Some(100), objects: Some(1) };
    bench.volume.set_bucket("bkt", BucketChange::Quota(quota)).await.unwrap();
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    assert_eq!(bench.get("f").await.unwrap(), b"");
    assert_eq!(files.create(bench.bucket, b"g", by()).await.err(), Some(Errno::DQUOT));
    bench.close(opened.handle).await;
}

#[tokio::test]
async fn session_that_joins_sees_every_created_name() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    let end = tokio_util::sync::CancellationToken::new();
    let tasks = tokio_util::task::TaskTracker::new();
    let flusher = tasks.spawn(Arc::clone(files).flush_until(end.clone()));
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    files.write(opened.handle, 0, b"abc", false, false).await.unwrap();
    let joined = open(options(None), &bench.store, &bench.blocks).await;
    let object = joined.stat("bkt", b"f").await.unwrap();
    assert_eq!(object.size(), 3);
    // Beside a peer each creation is visible at once.
    let other = files.create(bench.bucket, b"g", by()).await.unwrap();
    assert_eq!(joined.stat("bkt", b"g").await.unwrap().size(), 0);
    for handle in [opened.handle, other.handle] {
        bench.close(handle).await;
    }
    joined.close().await;
    end.cancel();
    flusher.await.unwrap();
}

#[tokio::test]
async fn name_that_another_client_has_taken_is_not_replaced() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    files.write(opened.handle, 0, b"mine", false, false).await.unwrap();
    // As a session that this one does not know of would do.
    let new = NewNode::File(Box::new(empty_file()));
    let creator = Creator { mode: 0o644, umask: 0, uid: 0, gid: 0 };
    let note = Note::none();
    let taken = bench.volume.journaled(&note).make_node(bench.bucket, Some(b"f"), &new, creator);
    let taken = taken.await.unwrap().ino;
    assert_eq!(files.flush(opened.handle).await, Err(Errno::EXIST));
    files.release(opened.handle).await;
    drop(files.enter(Reach::All).await);
    assert_eq!(files.look_up(bench.bucket, b"f").await.unwrap().ino, taken);
    assert_eq!(bench.get("f").await.unwrap(), b"");
    let opened = files.create(bench.bucket, b"g", by()).await.unwrap();
    bench.close(opened.handle).await;
    bench.check("after the conflict").await;
}

#[tokio::test]
async fn creation_in_a_directory_that_was_removed_fails_at_close() {
    let mount = Mount::new().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    let directory = files.make_directory(bench.bucket, b"d", by()).await.unwrap().ino;
    let opened = files.create(directory, b"f", by()).await.unwrap();
    files.remove_directory(bench.bucket, b"d").await.unwrap();
    assert_eq!(files.flush(opened.handle).await, Err(Errno::STALE));
    files.release(opened.handle).await;
    bench.check("after the removal").await;
}

#[tokio::test]
async fn next_worker_commits_creations_that_were_answered() {
    let mount = Mount::new().await;
    let bucket = mount.bench.bucket;
    let empty = mount.asked(2).create(bucket, b"empty", by()).await.unwrap();
    let opened = mount.asked(4).create(bucket, b"f", by()).await.unwrap();
    let attributes = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
    let set = SetNode { attributes, size: None };
    mount.asked(6).set(opened.attributes.ino, None, set).await.unwrap();
    mount.asked(8).write(opened.handle, 0, b"abc", false, false).await.unwrap();
    assert!(mount.bench.get("f").await.is_err());
    let mount = mount.killed().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    assert_eq!(bench.get("empty").await.unwrap(), b"");
    assert_eq!(bench.get("f").await.unwrap(), b"abc");
    let found = files.look_up(bucket, b"f").await.unwrap();
    assert_eq!((found.ino, found.mode), (opened.attributes.ino, 0o600));
    // The kernel sends a request again that was not answered.
    let again = mount.asked(2).create(bucket, b"empty", by()).await.unwrap();
    assert_eq!((again.handle, again.attributes.ino), (empty.handle, empty.attributes.ino));
    files.write(opened.handle, 3, b"def", false, false).await.unwrap();
    for handle in [empty.handle, opened.handle] {
        bench.close(handle).await;
    }
    assert_eq!(bench.get("f").await.unwrap(), b"abcdef");
    bench.check("after the takeover").await;
    let ledger = ledger_of(&mount.ledger);
    assert!(ledger.inherited_handles().is_empty(), "a handle is left");
    assert!(ledger.inherited_logs().is_empty(), "a log is left");
}

#[tokio::test]
async fn next_worker_does_not_repeat_a_creation_that_is_committed() {
    let mount = Mount::new().await;
    let bucket = mount.bench.bucket;
    let opened = mount.asked(2).create(bucket, b"f", by()).await.unwrap();
    mount.asked(4).write(opened.handle, 0, b"abc", false, false).await.unwrap();
    mount.bench.files.flush(opened.handle).await.unwrap();
    mount.asked(6).unlink(bucket, b"f").await.unwrap();
    mount.asked(8).write(opened.handle, 0, b"x", false, false).await.unwrap();
    let mount = mount.killed().await;
    let (bench, files) = (&mount.bench, &mount.bench.files);
    assert_eq!(files.look_up(bucket, b"f").await.err(), Some(Errno::NOENT));
    assert_eq!(files.read(opened.handle, 0, 10).await.unwrap().concat(), b"xbc");
    files.release(opened.handle).await;
    bench.check("after the takeover").await;
}
