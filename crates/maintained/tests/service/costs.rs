//! Round trips: what an operation costs once the directories above its key are remembered.

use std::future::Future;

use record::Tag;
use volume::{
    FsError, ListQuery, ObjectExpectation, RenameConditions, RoundTrips, Volume, VolumeError,
    count_round_trips,
};

use super::{bytes, put, read, volume};

/// Runs an operation and checks its round trips to the metadata store: reads, commits.
#[track_caller]
fn check(what: &str, trips: RoundTrips, reads: u64, commits: u64) {
    assert_eq!((trips.reads, trips.commits), (reads, commits), "round trips of {what}");
}

async fn trips<F: Future>(future: F) -> (F::Output, RoundTrips) {
    count_round_trips(future).await
}

fn page(prefix: &str, delimiter: Option<&str>) -> ListQuery {
    ListQuery {
        prefix: prefix.as_bytes().to_vec(),
        delimiter: delimiter.map(|delimiter| delimiter.as_bytes().to_vec()),
        after: None,
        limit: 1_000,
    }
}

async fn directory(volume: &Volume, files: usize) {
    for file in 0..files {
        put(volume, &format!("a/b/{file:04}"), &bytes(10, 0)).await.unwrap();
    }
}

#[tokio::test]
async fn a_put_is_one_commit() {
    let volume = volume().await;
    directory(&volume, 1).await;
    for (what, length) in [("an inline put", 100), ("a put of blocks", 600 << 10)] {
        let (put_new, cost) =
            trips(put(&volume, &format!("a/b/{length}"), &bytes(length, 1))).await;
        put_new.unwrap();
        check(what, cost, 0, 1);
        let (again, cost) = trips(put(&volume, &format!("a/b/{length}"), &bytes(length, 2))).await;
        again.unwrap();
        check("an overwrite", cost, 0, 1);
    }
    let (deeper, cost) = trips(put(&volume, "a/b/new/directories/x", &bytes(1, 1))).await;
    deeper.unwrap();
    check("a put into directories that do not exist yet", cost, 0, 1);
}

#[tokio::test]
async fn a_stat_and_a_read_are_one_read() {
    let volume = volume().await;
    let content = bytes(700 << 10, 1);
    put(&volume, "a/b/c", &content).await.unwrap();
    let (object, cost) = trips(volume.stat("bkt", b"a/b/c")).await;
    check("a stat", cost, 1, 0);
    let (got, cost) = trips(read(&volume, &object.unwrap())).await;
    check("the bytes of a small file", cost, 0, 0);
    assert_eq!(got, content);
    let (missing, cost) = trips(volume.stat("bkt", b"a/b/missing")).await;
    missing.unwrap_err();
    check("a stat of nothing", cost, 1, 0);
}

#[tokio::test]
async fn a_delete_is_one_commit() {
    let volume = volume().await;
    directory(&volume, 3).await;
    let remove = |key: &str| vec![(key.as_bytes().to_vec(), None)];
    let (deleted, cost) = trips(volume.delete("bkt", remove("a/b/0001"))).await;
    assert!(deleted.unwrap().remove(0).unwrap().existed);
    check("a delete", cost, 0, 1);
}

#[tokio::test]
async fn a_rename_is_one_commit() {
    let volume = volume().await;
    directory(&volume, 2).await;
    let free = RenameConditions::default();
    let (renamed, cost) = trips(volume.rename("bkt", b"a/b/0001", b"a/b/new", &free, None)).await;
    renamed.unwrap();
    check("a rename", cost, 0, 1);
    let (over, cost) = trips(volume.rename("bkt", b"a/b/new", b"a/b/0000", &free, None)).await;
    over.unwrap();
    check("a rename over another object", cost, 0, 1);
}

#[tokio::test]
async fn an_append_is_one_commit_at_any_size() {
    let volume = volume().await;
    for length in [100, 600 << 10, 40 << 20] {
        put(&volume, "log", &bytes(length, 1)).await.unwrap();
        for appended in [1, 70_000_usize] {
            let object = volume.stat("bkt", b"log").await.unwrap();
            let written = async {
                let mut writer =
                    volume.append_writer(&object, Some(appended as u64)).await.unwrap();
                writer.write(bytes(appended, 2)).await.unwrap();
                let (body, tag) = (writer.finish().await.unwrap(), Tag::opaque([7; 16]));
                volume.append(&object, body, appended as u64, tag, Vec::new()).await
            };
            let (written, cost) = trips(written).await;
            written.unwrap();
            // Of one that is cut into many blocks the last page of its content map is read first.
            let reads = u64::from(length > 32 << 20);
            check(&format!("an append of {appended} bytes to {length}"), cost, reads, 1);
        }
        let object = volume.stat("bkt", b"log").await.unwrap();
        let all = [bytes(length, 1), bytes(1, 2), bytes(70_000, 2)].concat();
        assert_eq!(read(&volume, &object).await, all);
    }
}

#[tokio::test]
async fn single_deletes_are_one_commit_each() {
    let volume = volume().await;
    directory(&volume, 200).await;
    // The cache has the newest names of the directory, which are deleted first. The others follow
    // in order.
    let order = [199, 198, 197].into_iter().chain(0..197);
    let mut reads = 0;
    for file in order {
        let key = vec![(format!("a/b/{file:04}").into_bytes(), None)];
        let (deleted, cost) = trips(volume.delete("bkt", key)).await;
        assert!(deleted.unwrap().remove(0).unwrap().existed);
        assert_eq!(cost.commits, 1, "of {file}");
        reads += cost.reads;
    }
    assert!(reads <= 8, "others of the directory were asked for {reads} times");
    assert_eq!(volume.list("bkt", page("", None)).await.unwrap().entries, []);
}

#[tokio::test]
async fn a_page_is_one_read() {
    let volume = volume().await;
    directory(&volume, 50).await;
    let (listing, cost) = trips(volume.list("bkt", page("a/b/", Some("/")))).await;
    assert_eq!(listing.unwrap().entries.len(), 50);
    check("a page of a directory", cost, 1, 0);
    let (listing, cost) = trips(volume.list("bkt", page("", Some("/")))).await;
    assert_eq!(listing.unwrap().entries.len(), 1);
    check("a page of the bucket", cost, 1, 0);
}

#[tokio::test]
async fn many_deletes_in_one_directory_are_few_round_trips() {
    let volume = volume().await;
    directory(&volume, 500).await;
    let keys = (0..500).map(|file| (format!("a/b/{file:04}").into_bytes(), None)).collect();
    let (deleted, cost) = trips(volume.delete("bkt", keys)).await;
    assert!(deleted.unwrap().into_iter().all(|deleted| deleted.unwrap().existed));
    assert!(cost.commits <= 2 && cost.reads <= 4, "{cost:?}");
    let listing = volume.list("bkt", page("", None)).await.unwrap();
    assert_eq!(listing.entries, [], "the directories went with their last names");
    volume.delete_bucket("bkt").await.unwrap();
}

#[tokio::test]
async fn a_page_of_a_thousand_keys_is_one_read() {
    let volume = volume().await;
    directory(&volume, 1_200).await;
    for delimiter in [None, Some("/")] {
        let (listing, cost) = trips(volume.list("bkt", page("a/b/", delimiter))).await;
        assert_eq!(listing.unwrap().entries.len(), 1_000);
        check("a page of 1,000 keys", cost, 1, 0);
    }
}

#[tokio::test]
async fn deletes_of_deep_keys_are_few_round_trips() {
    let volume = volume().await;
    let deep = |key: usize| format!("{key:02}/{}x", "d/".repeat(40));
    for key in 0..50 {
        put(&volume, &deep(key), &bytes(10, 0)).await.unwrap();
    }
    let keys = (0..50).map(|key| (deep(key).into_bytes(), None)).collect();
    let (deleted, cost) = trips(volume.delete("bkt", keys)).await;
    assert!(deleted.unwrap().into_iter().all(|deleted| deleted.unwrap().existed));
    assert!(cost.commits <= 8 && cost.reads <= 64, "50 keys below 41 directories each: {cost:?}");
    assert_eq!(volume.list("bkt", page("", None)).await.unwrap().entries, []);
}

#[tokio::test]
async fn a_delete_of_an_expected_object_is_one_commit() {
    let volume = volume().await;
    directory(&volume, 3).await;
    let object = volume.stat("bkt", b"a/b/0001").await.unwrap();
    let judged = ObjectExpectation::Object(&object);
    let (deleted, cost) = trips(volume.delete_expected("bkt", b"a/b/0001", judged, None)).await;
    assert!(deleted.unwrap().existed);
    check("a delete of a judged object", cost, 0, 1);
    let again = volume.delete_expected("bkt", b"a/b/0001", judged, None).await;
    assert!(matches!(again, Err(VolumeError::Fs(FsError::OtherObject))), "{again:?}");
    let absent = volume.delete_expected("bkt", b"a/b/0001", ObjectExpectation::Absent, None).await;
    assert!(!absent.unwrap().existed);
    let replaced =
        volume.delete_expected("bkt", b"a/b/0002", ObjectExpectation::Absent, None).await;
    assert!(matches!(replaced, Err(VolumeError::Fs(FsError::OtherObject))), "{replaced:?}");
}
