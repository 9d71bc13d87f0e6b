//! Objects: a read returns the bytes that were put, and no state in between is visible.

use bytes::Bytes;
use record::{ObjectHeaders, Sum, SumAlgorithm, SumKind, Tag};
use volume::{
    CopyChanges, FileOwner, FsError, ListEntry, ListQuery, NewObject, NodeName, ObjectMode,
    TagMatch, VolumeError, VolumeOptions, WriteCondition,
};

use super::multipart::begin;
use super::{
    BLOCK_BYTES, bytes, get, md5, owner, put, put_if, read, volume, volume_of, volume_without_tasks,
};

#[tokio::test]
async fn an_object_is_read_as_it_was_put() {
    let volume = volume().await;
    let block = BLOCK_BYTES as usize;
    for length in [0, 1, 4_096, 4_097, block - 1, block, block + 1, 70 * block + 5] {
        let content = bytes(length, 3);
        put(&volume, "some/key", &content).await.unwrap();
        assert_eq!(get(&volume, "some/key").await, content, "{length} bytes");
    }
}

#[tokio::test]
async fn a_large_map_is_in_pages_and_ranges_read_theirs() {
    let volume = volume().await;
    let content = bytes(70 * BLOCK_BYTES as usize + 5, 9);
    put(&volume, "k", &content).await.unwrap();
    let object = volume.stat("bkt", b"k").await.unwrap();
    assert!(matches!(object.file().content, record::Content::Pages(_)));
    for start in [0, 1, 65_535, BLOCK_BYTES as usize * 3 - 1, content.len() - 1] {
        for length in [0, 1, 70_000, content.len()] {
            let end = content.len().min(start + length);
            let stream = volume.read(&object, start as u64..end as u64);
            let frames: Vec<bytes::Bytes> =
                futures::TryStreamExt::try_collect(stream).await.unwrap();
            assert_eq!(frames.concat(), content[start..end], "{start}..{end}");
        }
    }
}

#[tokio::test]
async fn a_reader_keeps_its_version_while_the_key_is_overwritten_and_deleted() {
    let volume = volume().await;
    let first = bytes(3 * BLOCK_BYTES as usize, 1);
    put(&volume, "k", &first).await.unwrap();
    let object = volume.stat("bkt", b"k").await.unwrap();
    put(&volume, "k", &bytes(10, 2)).await.unwrap();
    volume.delete("bkt", vec![(b"k".to_vec(), None)]).await.unwrap();
    assert_eq!(read(&volume, &object).await, first);
}

#[tokio::test]
async fn conditions_are_decided_by_the_commit() {
    let volume = volume().await;
    let refused = |result: Result<_, VolumeError>| match result {
        Err(VolumeError::Fs(error)) => error,
        other => panic!("not refused: {other:?}"),
    };
    let tag =
        |content: &[u8]| WriteCondition::IfMatch(TagMatch::OneOf(vec![Tag::Md5(md5(content))]));
    let (one, two) = (bytes(10, 1), bytes(10, 2));
    let missing = put_if(&volume, "d/k", &one, tag(&one)).await;
    assert_eq!(refused(missing), FsError::NoSuchKey);
    put_if(&volume, "d/k", &one, WriteCondition::IfAbsent).await.unwrap();
    let again = put_if(&volume, "d/k", &two, WriteCondition::IfAbsent).await;
    assert_eq!(refused(again), FsError::PreconditionFailed);
    let wrong = put_if(&volume, "d/k", &two, tag(&two)).await;
    assert_eq!(refused(wrong), FsError::PreconditionFailed);
    assert_eq!(get(&volume, "d/k").await, one, "a refused write changes nothing");
    put_if(&volume, "d/k", &two, tag(&one)).await.unwrap();
    assert_eq!(get(&volume, "d/k").await, two);
}

#[tokio::test]
async fn sixteen_racing_creators_have_one_winner() {
    let volume = volume().await;
    for round in 0..50 {
        let key = format!("race/{round}");
        let contents: Vec<_> = (0..16).map(|racer| bytes(20, racer)).collect();
        let racers =
            contents.iter().map(|content| put_if(&volume, &key, content, WriteCondition::IfAbsent));
        let outcomes = futures::future::join_all(racers).await;
        let winners: Vec<usize> = (0..16).filter(|racer| outcomes[*racer].is_ok()).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        assert_eq!(get(&volume, &key).await, contents[winners[0]]);
    }
}

#[tokio::test]
async fn a_counter_by_if_match_loses_no_increment() {
    let volume = volume().await;
    put(&volume, "counter", &bytes::Bytes::from_static(b"0")).await.unwrap();
    let (volume, rounds) = (&volume, 20);
    let increments = (0..8).map(|_| async move {
        for _ in 0..rounds {
            loop {
                let object = volume.stat("bkt", b"counter").await.unwrap();
                let count: u32 =
                    String::from_utf8(read(volume, &object).await).unwrap().parse().unwrap();
                let next = bytes::Bytes::from((count + 1).to_string());
                let seen = WriteCondition::IfMatch(TagMatch::OneOf(vec![*object.tag()]));
                match put_if(volume, "counter", &next, seen).await {
                    Ok(_) => break,
                    Err(VolumeError::Fs(FsError::PreconditionFailed | FsError::Contended)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    futures::future::join_all(increments).await;
    assert_eq!(get(volume, "counter").await, (8 * rounds).to_string().into_bytes());
}

#[tokio::test]
async fn a_copy_moves_no_data_and_outlives_its_source() {
    let volume = volume().await;
    let content = bytes(5 * BLOCK_BYTES as usize + 1, 4);
    put(&volume, "from", &content).await.unwrap();
    let before = volume.counters();
    let source = volume.stat("bkt", b"from").await.unwrap();
    let headers =
        ObjectHeaders { user: vec![("a".to_owned(), "b".to_owned())], ..Default::default() };
    let changes = CopyChanges { headers: Some(headers), ..CopyChanges::default() };
    volume.copy(&source, "bkt", b"to/copy", changes, WriteCondition::None, &owner()).await.unwrap();
    let after = volume.counters();
    assert_eq!(
        (after.traffic.puts, after.traffic.gets),
        (before.traffic.puts, before.traffic.gets)
    );
    drop(source);
    volume.delete("bkt", vec![(b"from".to_vec(), None)]).await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    assert_eq!(get(&volume, "to/copy").await, content);
    let copy = volume.stat("bkt", b"to/copy").await.unwrap();
    assert_eq!(copy.file().object.user, [("a".to_owned(), "b".to_owned())]);
}

#[tokio::test]
async fn a_copy_has_the_given_checksums_or_those_of_its_source() {
    let volume = volume().await;
    let sum = |algorithm: SumAlgorithm| Sum {
        algorithm,
        kind: SumKind::FullObject,
        bytes: vec![7; algorithm.length()],
    };
    put(&volume, "from", &bytes(10, 1)).await.unwrap();
    let given = vec![sum(SumAlgorithm::Xxhash128), sum(SumAlgorithm::Crc64Nvme)];
    for (from, to, sums) in [("from", "to", Some(given.clone())), ("to", "third", None)] {
        let source = volume.stat("bkt", from.as_bytes()).await.unwrap();
        let changes = CopyChanges { sums, ..CopyChanges::default() };
        let none = WriteCondition::None;
        let owner = owner();
        let copy = volume.copy(&source, "bkt", to.as_bytes(), changes, none, &owner);
        assert_eq!(copy.await.unwrap().sums, given, "of {to}");
        assert_eq!(volume.stat("bkt", to.as_bytes()).await.unwrap().file().sums, given);
    }
    let source = volume.stat("bkt", b"third").await.unwrap();
    let (id, plain) = (begin(&volume, "k").await, ObjectMode::default());
    for (range, computed, kept) in [
        (0..10, None, given.clone()),
        (0..9, None, Vec::new()),
        (0..9, Some(sum(SumAlgorithm::Md5)), vec![sum(SumAlgorithm::Md5)]),
    ] {
        let part =
            volume.copy_part("bkt", b"k", id, 1, &plain, &source, range, computed).await.unwrap();
        assert_eq!(part.part.sums, kept);
    }
    let other = Sum { bytes: vec![8; 8], ..sum(SumAlgorithm::Crc64Nvme) };
    let part =
        volume.copy_part("bkt", b"k", id, 1, &plain, &source, 0..10, Some(other.clone())).await;
    assert_eq!(part.unwrap().part.sums, [sum(SumAlgorithm::Xxhash128), other], "one of each");
}

#[tokio::test]
async fn an_overwritten_source_is_noticed() {
    // Inline, staged inline, in blocks.
    for length in [100, 64 << 10, 5 * BLOCK_BYTES as usize] {
        for change in ["put", "put the same", "delete", "tag"] {
            for to in ["from", "to", "beside/it"] {
                let what = format!("{length} bytes, {change}, to {to}");
                let volume = volume_without_tasks(VolumeOptions {
                    staged_inline_bytes_max: 1 << 20,
                    ..VolumeOptions::default()
                });
                let volume = volume.await;
                let old = bytes(length, 4);
                put(&volume, "from", &old).await.unwrap();
                put(&volume, "beside/another", &bytes(10, 1)).await.unwrap();
                let source = volume.stat("bkt", b"from").await.unwrap();
                let upload = begin(&volume, "upload").await;
                let new = bytes(length, 5);
                let left = match change {
                    "put" => put(&volume, "from", &new).await.map(|_| Some(new.clone())),
                    "put the same" => put(&volume, "from", &old).await.map(|_| Some(old.clone())),
                    "delete" => {
                        volume.delete("bkt", vec![(b"from".to_vec(), None)]).await.map(|_| None)
                    }
                    _ => {
                        let tags = vec![("t".to_owned(), "v".to_owned())];
                        {
                            let change = volume::ObjectChange::Tags(&tags);
                            let set = volume.change_object("bkt", b"from", None, None, change);
                            set.await.map(|_| Some(old.clone()))
                        }
                    }
                };
                let (left, owner) = (left.unwrap(), owner());
                let none = WriteCondition::None;
                let copied = volume.copy(
                    &source,
                    "bkt",
                    to.as_bytes(),
                    CopyChanges::default(),
                    none,
                    &owner,
                );
                let copied = copied.await.map(|_| ());
                assert!(is_source_changed(&copied), "{what}: {copied:?}");
                let (range, plain) = (0..length as u64, ObjectMode::default());
                let part =
                    volume.copy_part("bkt", b"upload", upload, 1, &plain, &source, range, None);
                let part = part.await.map(|_| ());
                assert!(is_source_changed(&part), "{what}: {part:?}");
                let found = volume.stat("bkt", b"from").await;
                match (left, found) {
                    (Some(bytes), Ok(found)) => assert_eq!(read(&volume, &found).await, bytes),
                    (None, Err(VolumeError::Fs(FsError::NoSuchKey))) => {}
                    (_, found) => panic!("{what}: {found:?}"),
                }
                if to != "from" {
                    let copy = volume.stat("bkt", to.as_bytes()).await;
                    assert!(matches!(copy, Err(VolumeError::Fs(FsError::NoSuchKey))), "{what}");
                }
            }
        }
    }
}

fn is_source_changed(copied: &Result<(), VolumeError>) -> bool {
    matches!(copied, Err(VolumeError::Fs(FsError::SourceChanged)))
}

#[tokio::test]
async fn a_source_that_stays_is_copied_onto_itself_and_elsewhere() {
    for length in [100, 64 << 10, 5 * BLOCK_BYTES as usize] {
        let options =
            VolumeOptions { staged_inline_bytes_max: 1 << 20, ..VolumeOptions::default() };
        let volume = volume_of(options).await;
        let content = bytes(length, 4);
        put(&volume, "a/from", &content).await.unwrap();
        for to in ["a/from", "a/to", "b/to", "a/from"] {
            let source = volume.stat("bkt", b"a/from").await.unwrap();
            let (none, owner) = (WriteCondition::None, owner());
            let as_it_is = CopyChanges::default();
            let copy = volume.copy(&source, "bkt", to.as_bytes(), as_it_is, none, &owner);
            copy.await.unwrap();
            assert_eq!(get(&volume, to).await, content, "{length} bytes to {to}");
        }
    }
}

#[tokio::test]
async fn a_deleted_object_is_gone_with_its_blocks() {
    let volume = volume().await;
    for key in ["a", "a/b", "a/b/c", "a//", "/"] {
        put(&volume, key, &bytes(2 * BLOCK_BYTES as usize, 1)).await.unwrap();
    }
    let query = ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 10 };
    let listing = volume.list("bkt", query).await.unwrap();
    let keys: Vec<&[u8]> = listing.entries.iter().map(ListEntry::key).collect();
    assert_eq!(keys, [&b"/"[..], b"a", b"a//", b"a/b", b"a/b/c"]);
    let keys = keys.into_iter().map(|key| (key.to_vec(), None)).collect();
    for deleted in volume.delete("bkt", keys).await.unwrap() {
        assert!(deleted.unwrap().existed);
    }
    volume.delete_bucket("bkt").await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    let counters = volume.counters();
    assert_eq!(volume.upkeep().meters().blocks_reaped.get(), counters.traffic.puts);
}

#[tokio::test]
async fn new_objects_respect_the_umask_of_their_access_key() {
    let volume = volume().await;
    let owner = FileOwner { umask: 0o027, ..owner() };
    let mut writer = volume.writer(None, Some(1));
    writer.write(Bytes::from_static(b"x")).await.unwrap();
    let body = writer.finish().await.unwrap();
    let headers = ObjectHeaders::default();
    let new = NewObject {
        owner: owner.clone(),
        headers,
        tag: Tag::Md5([1; 16]),
        sums: Vec::new(),
        encryption: None,
    };
    volume.put("bkt", b"d/x", body, new, WriteCondition::None).await.unwrap();
    volume.create_bucket("theirs", &volume::NewBucket::owned_by(&owner)).await.unwrap();
    let file = volume.stat("bkt", b"d/x").await.unwrap();
    let bucket = volume.bucket("theirs").await.unwrap().ino;
    let directory =
        NodeName { directory: volume.bucket("bkt").await.unwrap().ino, name: b"d".to_vec() };
    let directory = volume.find_name(&directory).await.unwrap();
    let bucket = volume.find_node(bucket).await.unwrap();
    let modes = [&file.inode, &directory.inode, &bucket.inode].map(|inode| inode.attributes.mode);
    assert_eq!(modes, [0o640, 0o750, 0o750]);
}
