//! Open files, while their names are removed, replaced or renamed.

use std::time::Duration;

use files::{OpenMode, SetNode};
use rustix::io::Errno;
use volume::{AttributeChange, RenameMode, SetTime};

use super::{Bench, WRITES, by, bytes};

#[tokio::test]
async fn unlinked_file_stays_usable_through_open_handles() {
    let bench = Bench::new().await;
    let files = &bench.files;
    for (name, length) in [("small", 100), ("large", 200_000)] {
        bench.write(name, &bytes(length, 3)).await;
        let handle = bench.open(name, WRITES).await;
        let ino = files.look_up(bench.bucket, name.as_bytes()).await.unwrap().ino;
        files.unlink(bench.bucket, name.as_bytes()).await.unwrap();
        assert_eq!(files.attributes(ino).await.unwrap().links, 0);
        bench.volume.upkeep().reap_now().await.unwrap();
        let read = files.read(handle, 0, u64::MAX).await.unwrap().concat();
        assert!(read == bytes(length, 3), "{name}");
        files.write(handle, 10, b"still", false, false).await.unwrap();
        files.flush(handle).await.unwrap();
        let read = files.read(handle, 10, 5).await.unwrap().concat();
        assert_eq!(read, b"still", "{name}");
        bench.close(handle).await;
        // The pinned record is deleted some time later.
        let began = std::time::Instant::now();
        while bench.volume.find_node(ino).await.is_ok() {
            assert!(began.elapsed() < Duration::from_secs(30), "{name} is left");
            bench.volume.upkeep().reap_now().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn open_file_deleted_by_s3_has_zero_links() {
    let bench = Bench::new().await;
    let files = &bench.files;
    for (name, length) in [("small", 100), ("large", 200_000)] {
        for replaced in [false, true] {
            bench.put(name, &bytes(length, 3)).await;
            let handle = bench.open(name, OpenMode::default()).await;
            let ino = files.look_up(bench.bucket, name.as_bytes()).await.unwrap().ino;
            assert_eq!(files.attributes(ino).await.unwrap().links, 1);
            if replaced {
                bench.put(name, b"another").await;
            } else {
                assert!(bench.delete(name).await);
            }
            let case = format!("{name}, replaced: {replaced}");
            assert_eq!(files.attributes(ino).await.unwrap().links, 0, "{case}");
            let read = files.read(handle, 0, u64::MAX).await.unwrap().concat();
            assert!(read == bytes(length, 3), "{case}");
            bench.close(handle).await;
        }
    }
}

#[tokio::test]
async fn open_file_with_one_of_two_names_removed_has_one_link() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("a", &bytes(100_000, 1)).await;
    let ino = files.look_up(bench.bucket, b"a").await.unwrap().ino;
    files.link(ino, bench.bucket, b"b").await.unwrap();
    let handle = bench.open("b", OpenMode::default()).await;
    assert!(bench.delete("b").await);
    assert_eq!(files.attributes(ino).await.unwrap().links, 1);
    assert!(bench.delete("a").await);
    assert_eq!(files.attributes(ino).await.unwrap().links, 0);
    bench.close(handle).await;
}

#[tokio::test]
async fn deleted_inline_object_stays_readable_through_open_handles() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("o", b"inline").await;
    let handle = bench.open("o", WRITES).await;
    assert!(bench.delete("o").await);
    assert_eq!(files.read(handle, 0, 100).await.unwrap().concat(), b"inline");
    files.write(handle, 0, b"INL", false, false).await.unwrap();
    files.flush(handle).await.unwrap();
    assert_eq!(files.read(handle, 0, 100).await.unwrap().concat(), b"INLine");
    bench.close(handle).await;
    assert!(bench.get("o").await.is_err());
}

#[tokio::test]
async fn descriptor_keeps_its_file_when_a_put_replaces_the_name() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("o", &bytes(100_000, 1)).await;
    let old = bench.open("o", OpenMode::default()).await;
    bench.put("o", &bytes(50_000, 2)).await;
    bench.volume.upkeep().reap_now().await.unwrap();
    assert!(files.read(old, 0, u64::MAX).await.unwrap().concat() == bytes(100_000, 1));
    let new = bench.open("o", OpenMode::default()).await;
    assert!(files.read(new, 0, u64::MAX).await.unwrap().concat() == bytes(50_000, 2));
    bench.close(old).await;
    bench.close(new).await;
}

#[tokio::test]
async fn open_of_a_node_whose_name_was_rebound_is_stale() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"old").await;
    bench.put("f", b"new").await;
    let opened = bench.files.open(ino, OpenMode::default()).await;
    assert_eq!(opened.unwrap_err(), Errno::STALE);
}

#[tokio::test]
async fn only_the_retrying_thread_opens_the_replaced_node() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let ino = bench.write("f", b"old").await;
    let before = bench.open("f", OpenMode::default()).await;
    bench.put("f", b"new").await;
    // A kernel with a cached name opens the node to which it led.
    let (one, other) = (files.for_thread(1), files.for_thread(2));
    assert_eq!(one.open(ino, OpenMode::default()).await.unwrap_err(), Errno::STALE);
    let found = files.look_up(bench.bucket, b"f").await.unwrap();
    assert_ne!(found.ino, ino);
    // The same holds for each thread that has used the cached name before it is invalidated.
    assert_eq!(other.open(ino, OpenMode::default()).await.unwrap_err(), Errno::STALE);
    // A thread that comes by a descriptor asks for the same node again.
    let again = one.open(ino, OpenMode::default()).await.unwrap().handle;
    assert_eq!(files.read(again, 0, 100).await.unwrap().concat(), b"old");
    files.release(again).await;
    files.release(before).await;
}

#[tokio::test]
async fn volatile_name_opens_a_node_that_it_led_to() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let large = vec![7; 30_000];
    for (name, content) in [("f", &b"inline"[..]), ("g", &large)] {
        bench.put(name, content).await;
        let first = files.look_up(bench.bucket, name.as_bytes()).await.unwrap();
        bench.put(name, b"another").await;
        assert_eq!(files.open(first.ino, OpenMode::default()).await.unwrap_err(), Errno::STALE);
        // The kernel looks up the name again. The program has no third try.
        bench.put(name, content).await;
        let second = files.look_up(bench.bucket, name.as_bytes()).await.unwrap();
        bench.put(name, b"the last").await;
        assert!(second.volatile_name, "the name must not be cached");
        assert_eq!(files.attributes(second.ino).await.unwrap().size, content.len() as u64);
        let opened = files.open(second.ino, OpenMode::default()).await.unwrap();
        assert_eq!(files.read(opened.handle, 0, 100_000).await.unwrap().concat(), content);
        files.release(opened.handle).await;
        // A new lookup finds the present node.
        let third = files.look_up(bench.bucket, name.as_bytes()).await.unwrap();
        let opened = files.open(third.ino, OpenMode::default()).await.unwrap();
        assert_eq!(files.read(opened.handle, 0, 100).await.unwrap().concat(), b"the last");
        files.release(opened.handle).await;
    }
}

/// A kernel that verifies a remembered name after ESTALE looks it up twice if the name leads
/// elsewhere. The first lookup may find nothing, although the second one finds a file.
#[tokio::test]
async fn retried_open_finds_the_file_though_the_name_was_missing_for_a_moment() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("f", b"first").await;
    let first = files.look_up(bench.bucket, b"f").await.unwrap();
    bench.put("f", b"second").await;
    assert_eq!(files.open(first.ino, OpenMode::default()).await.unwrap_err(), Errno::STALE);
    assert!(bench.delete("f").await);
    assert_eq!(files.look_up(bench.bucket, b"f").await.unwrap_err(), Errno::NOENT);
    bench.put("f", b"third").await;
    let third = files.look_up(bench.bucket, b"f").await.unwrap();
    bench.put("f", b"fourth").await;
    let opened = files.open(third.ino, OpenMode::default()).await.unwrap();
    assert_eq!(files.read(opened.handle, 0, 100).await.unwrap().concat(), b"third");
    files.release(opened.handle).await;
}

/// A call that began after the name was gone must not get the earlier file: the kernel may still
/// remember the name, and then it sends no lookup in this call.
#[tokio::test]
async fn open_in_a_later_call_does_not_find_a_file_that_was_replaced_before_it() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("f", b"first").await;
    let first = files.look_up(bench.bucket, b"f").await.unwrap();
    bench.put("f", b"second").await;
    assert_eq!(files.open(first.ino, OpenMode::default()).await.unwrap_err(), Errno::STALE);
    let second = files.for_thread(2).look_up(bench.bucket, b"f").await.unwrap();
    assert!(bench.delete("f").await);
    // The call ends here: the program gets ENOENT.
    assert_eq!(files.look_up(bench.bucket, b"f").await.unwrap_err(), Errno::NOENT);
    assert_eq!(files.open(second.ino, OpenMode::default()).await.unwrap_err(), Errno::STALE);
}

#[tokio::test]
async fn other_views_do_not_see_dirty_data_before_the_close() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.write("f", b"old content").await;
    let handle =
        bench.open("f", OpenMode { writes: true, truncates: true, ..OpenMode::default() }).await;
    files.write(handle, 0, b"new", false, false).await.unwrap();
    assert_eq!(bench.get("f").await.unwrap(), b"old content");
    let here = bench.open("f", OpenMode::default()).await;
    assert_eq!(files.read(here, 0, 100).await.unwrap().concat(), b"new");
    bench.close(handle).await;
    assert_eq!(bench.get("f").await.unwrap(), b"new");
    bench.close(here).await;
}

#[tokio::test]
async fn attributes_set_on_a_dirty_file_survive_the_close() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    files.write(opened.handle, 0, b"bytes", false, false).await.unwrap();
    let past = record::Timestamp(1_000_000_007);
    let attributes = AttributeChange {
        mode: Some(0o4755),
        uid: Some(5),
        modified: Some(SetTime::At(past)),
        ..AttributeChange::default()
    };
    let change = SetNode { attributes, size: None };
    let before = files.set(opened.attributes.ino, Some(opened.handle), change).await.unwrap();
    bench.close(opened.handle).await;
    let after = files.attributes(opened.attributes.ino).await.unwrap();
    for seen in [before, after] {
        assert_eq!((seen.mode, seen.uid, seen.modified, seen.size), (0o4755, 5, past, 5));
    }
    // A write by a program without privilege clears the set-user-ID bit.
    let handle = bench.open("f", WRITES).await;
    files.write(handle, 0, b"B", false, true).await.unwrap();
    assert_eq!(files.attributes(opened.attributes.ino).await.unwrap().mode, 0o755);
    bench.close(handle).await;
    assert_eq!(files.attributes(opened.attributes.ino).await.unwrap().mode, 0o755);
}

#[tokio::test]
async fn unnamed_file_is_linked_or_deleted_at_close() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let kept = files.create_unnamed(bench.bucket, by()).await.unwrap();
    let lost = files.create_unnamed(bench.bucket, by()).await.unwrap();
    assert_eq!(kept.attributes.links, 0);
    files.write(kept.handle, 0, b"kept", false, false).await.unwrap();
    files.link(kept.attributes.ino, bench.bucket, b"now").await.unwrap();
    bench.close(kept.handle).await;
    bench.close(lost.handle).await;
    bench.volume.upkeep().reap_now().await.unwrap();
    assert_eq!(bench.get("now").await.unwrap(), b"kept");
    assert_eq!(files.look_up(bench.bucket, b"now").await.unwrap().links, 1);
    assert!(bench.volume.find_node(lost.attributes.ino).await.is_err());
}

#[tokio::test]
async fn file_renamed_while_dirty_commits_under_its_new_name() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("o", b"told by its name").await;
    let handle = bench.open("o", WRITES).await;
    files.write(handle, 0, b"TOLD", false, false).await.unwrap();
    let (from, to) = ((bench.bucket, &b"o"[..]), (bench.bucket, &b"p"[..]));
    files.rename(from, to, RenameMode::Replace).await.unwrap();
    bench.close(handle).await;
    assert_eq!(bench.get("p").await.unwrap(), b"TOLD by its name");
    assert!(bench.delete("p").await);
}

#[tokio::test]
async fn deleted_file_takes_no_memory_of_other_files() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let mut gone = Vec::new();
    for n in 0..6 {
        let name = format!("gone{n}");
        bench.put(&name, b"small").await;
        let handle = bench.open(&name, WRITES).await;
        files.write(handle, 0, &bytes(3 << 20, n), false, false).await.unwrap();
        assert!(bench.delete(&name).await);
        files.flush(handle).await.unwrap();
        gone.push(handle);
    }
    // As many bytes as the memory limit, twice.
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    for (at, seed) in [(0, 1), (15 << 20, 2)] {
        files.write(opened.handle, at, &bytes(15 << 20, seed), false, false).await.unwrap();
        files.flush(opened.handle).await.unwrap();
    }
    bench.close(opened.handle).await;
    for (n, handle) in (0..).zip(gone) {
        assert!(files.read(handle, 0, 4 << 20).await.unwrap().concat() == bytes(3 << 20, n));
        files.write(handle, 0, b"more", false, false).await.unwrap();
        let beyond = files.write(handle, 3 << 20, &bytes(2 << 20, 9), false, false).await;
        assert_eq!(beyond, Err(Errno::IO));
        files.release(handle).await;
    }
}

#[tokio::test]
async fn deleted_file_beyond_the_limit_reports_eio_once() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("f", b"small").await;
    let handle = bench.open("f", WRITES).await;
    files.write(handle, 0, &bytes(5 << 20, 1), false, false).await.unwrap();
    assert!(bench.delete("f").await);
    assert_eq!(files.flush(handle).await, Err(Errno::IO));
    assert_eq!(files.flush(handle).await, Ok(()));
    assert_eq!(files.read(handle, 0, 100).await.unwrap().concat(), b"small");
    files.release(handle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_waiting_for_memory_blocks_no_other_write() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let other = bench.write("other", b"read meanwhile").await;
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    let piece = 1_u64 << 20;
    let mut taken = Vec::new();
    for at in 0..40 {
        let bytes = bytes(1 << 20, at);
        let at = u64::from(at) * piece;
        // No write waits here, although the memory limit allows only 16 of them.
        let take = files.accept_write(opened.handle, at, &bytes, false, false);
        taken.push(tokio::time::timeout(Duration::from_secs(5), take).await.unwrap().unwrap());
    }
    let handle = files.open(other, OpenMode::default()).await.unwrap().handle;
    assert_eq!(files.read(handle, 0, 100).await.unwrap().concat(), b"read meanwhile");
    files.release(handle).await;
    files.flush(opened.handle).await.unwrap();
    for taken in taken {
        assert_eq!(files.wait_for_write_memory(&taken).await, Ok(1 << 20));
    }
    bench.close(opened.handle).await;
    let expected: Vec<u8> = (0..40).flat_map(|seed| bytes(1 << 20, seed)).collect();
    assert!(bench.cat("f").await.unwrap() == expected);
}
