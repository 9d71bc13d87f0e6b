//! Multipart uploads: no data moves when one is completed, and it ends once.

use std::sync::Arc;

use block::MemoryBlocks;
use bytes::Bytes;
use maintained::MaintainedVolume;
use record::{ObjectHeaders, PartTag, Sum, Tag, Timestamp};
use store::MemoryStore;
use upkeep::{NoProgress, fsck};
use volume::{
    CompletePart, CompleteUpload, Completed, FsError, NewUpload, ObjectDigests, ObjectMode,
    PART_BYTES_MIN, PartStat, SessionOptions, SetClock, UploadId, Volume, VolumeError,
    VolumeOptions, WriteCondition,
};

use super::{bytes, get, md5, owner, put, volume};

pub(super) async fn begin(volume: &Volume, key: &str) -> UploadId {
    let (headers, asked) = (ObjectHeaders::default(), Vec::new());
    let new = NewUpload { owner: owner(), headers, checksum: None, asked, encryption: None };
    volume.create_upload("bkt", key.as_bytes(), new).await.unwrap()
}

pub(super) async fn send(
    volume: &Volume,
    key: &str,
    id: UploadId,
    number: u16,
    content: &Bytes,
) -> PartStat {
    let mut writer = volume.block_writer(None, Some(content.len() as u64));
    writer.write(content.clone()).await.unwrap();
    let body = writer.finish().await.unwrap();
    let sums: Vec<Sum> = Vec::new();
    volume
        .put_part("bkt", key.as_bytes(), id, number, body, PartTag::Md5(md5(content)), sums)
        .await
        .unwrap()
}

pub(super) fn listed(part: &PartStat) -> CompletePart {
    CompletePart { number: part.number, tag: part.part.tag.tag(), sums: Vec::new() }
}

pub(super) async fn complete(
    volume: &Arc<Volume>,
    key: &str,
    id: UploadId,
    parts: &[CompletePart],
) -> Result<Completed, VolumeError> {
    let wanted = CompleteUpload { parts, object_size: None, condition: WriteCondition::None };
    let count = u16::try_from(parts.len()).unwrap();
    let finished = ObjectDigests {
        tag: Tag::Multipart([1; 16], count),
        sums: Vec::new(),
        part_sums: Vec::new(),
    };
    volume.complete("bkt", key.as_bytes(), id, wanted, |_, _| Ok(finished)).await
}

fn part_bytes(seed: u8) -> Bytes {
    bytes(usize::try_from(PART_BYTES_MIN).unwrap(), seed)
}

#[tokio::test]
async fn completing_moves_no_data_and_repeats_its_answer() {
    let volume = volume().await;
    let id = begin(&volume, "d/k").await;
    let first = send(&volume, "d/k", id, 1, &part_bytes(1)).await;
    let unused = send(&volume, "d/k", id, 2, &part_bytes(2)).await;
    let second = send(&volume, "d/k", id, 2, &part_bytes(3)).await;
    let last = send(&volume, "d/k", id, 9, &bytes(5, 4)).await;
    assert_ne!(unused.part.tag, second.part.tag);
    let before = volume.counters();
    let parts = [listed(&first), listed(&second), listed(&last)];
    let done = complete(&volume, "d/k", id, &parts).await.unwrap();
    let after = volume.counters();
    assert_eq!(
        (after.traffic.puts, after.traffic.gets),
        (before.traffic.puts, before.traffic.gets)
    );
    assert_eq!(complete(&volume, "d/k", id, &parts).await.unwrap().tag, done.tag);
    let whole = [part_bytes(1), part_bytes(3), bytes(5, 4)].concat();
    assert_eq!(get(&volume, "d/k").await, whole);

    volume.upkeep().reap_now().await.unwrap();
    let reaped = volume.upkeep().meters().blocks_reaped.get();
    assert_eq!(reaped, unused.part.slices.len() as u64, "the part that was sent twice");
    assert_eq!(get(&volume, "d/k").await, whole, "the blocks of the object stay");
    volume.delete("bkt", vec![(b"d/k".to_vec(), None)]).await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    let counters = volume.counters();
    assert_eq!(
        volume.upkeep().meters().blocks_reaped.get(),
        counters.traffic.puts,
        "nothing is left"
    );
}

#[tokio::test]
async fn an_aborted_upload_leaves_nothing() {
    let volume = volume().await;
    let id = begin(&volume, "k").await;
    send(&volume, "k", id, 1, &part_bytes(1)).await;
    volume.abort("bkt", b"k", id).await.unwrap();
    let again = volume.abort("bkt", b"k", id).await;
    assert!(matches!(again, Err(VolumeError::Fs(FsError::NoSuchUpload))));
    let late = complete(&volume, "k", id, &[]).await;
    assert!(matches!(late, Err(VolumeError::Fs(FsError::NoSuchUpload))));
    volume.upkeep().reap_now().await.unwrap();
    let counters = volume.counters();
    assert_eq!(volume.upkeep().meters().blocks_reaped.get(), counters.traffic.puts);
}

#[tokio::test]
async fn lists_of_parts_are_checked() {
    let volume = volume().await;
    let id = begin(&volume, "k").await;
    let small = send(&volume, "k", id, 1, &bytes(10, 1)).await;
    let large = send(&volume, "k", id, 2, &part_bytes(2)).await;
    let wrong = CompletePart { tag: Tag::Md5([0; 16]), ..listed(&large) };
    let unknown = CompletePart { number: 3, ..listed(&large) };
    for (parts, error) in [
        (vec![listed(&small), listed(&large)], FsError::PartTooSmall { number: 1, bytes: 10 }),
        (vec![listed(&large), listed(&small)], FsError::InvalidPartOrder),
        (vec![wrong], FsError::InvalidPart(2)),
        (vec![unknown], FsError::InvalidPart(3)),
        (vec![], FsError::InvalidPart(0)),
    ] {
        match complete(&volume, "k", id, &parts).await {
            Err(VolumeError::Fs(found)) => assert_eq!(found, error),
            other => panic!("{other:?} instead of {error}"),
        }
    }
    complete(&volume, "k", id, &[listed(&large)]).await.unwrap();
}

#[tokio::test]
async fn a_part_copied_by_reference_outlives_its_source_and_its_upload() {
    let volume = volume().await;
    let content = bytes(3 * usize::try_from(PART_BYTES_MIN).unwrap(), 5);
    put(&volume, "from", &content).await.unwrap();
    let source = volume.stat("bkt", b"from").await.unwrap();
    let before = volume.counters();
    let id = begin(&volume, "to").await;
    let range = 3..PART_BYTES_MIN + 3;
    let first = volume
        .copy_part("bkt", b"to", id, 1, &ObjectMode::default(), &source, range.clone(), None)
        .await
        .unwrap();
    let second = volume
        .copy_part("bkt", b"to", id, 2, &ObjectMode::default(), &source, 0..source.size(), None)
        .await
        .unwrap();
    assert_eq!(second.part.tag, PartTag::Md5(md5(&content)));
    complete(&volume, "to", id, &[listed(&first), listed(&second)]).await.unwrap();
    let after = volume.counters();
    assert_eq!(
        (after.traffic.puts, after.traffic.gets),
        (before.traffic.puts, before.traffic.gets)
    );
    drop(source);
    volume.delete("bkt", vec![(b"from".to_vec(), None)]).await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    let cut = &content[3..usize::try_from(range.end).unwrap()];
    assert_eq!(get(&volume, "to").await, [cut, &content].concat());
    volume.delete("bkt", vec![(b"to".to_vec(), None)]).await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    let counters = volume.counters();
    assert_eq!(
        volume.upkeep().meters().blocks_reaped.get(),
        counters.traffic.puts,
        "the last owner takes the blocks along"
    );
}

#[tokio::test]
async fn a_deleted_bucket_takes_its_uploads_along() {
    let volume = volume().await;
    let id = begin(&volume, "k").await;
    send(&volume, "k", id, 1, &part_bytes(1)).await;
    volume.delete_bucket("bkt").await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    let counters = volume.counters();
    assert_eq!(volume.upkeep().meters().blocks_reaped.get(), counters.traffic.puts);
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let late = volume.upload("bkt", b"k", id).await;
    assert!(matches!(late, Err(VolumeError::Fs(FsError::NoSuchUpload))));
}

#[tokio::test]
async fn the_listed_tag_chooses_the_transmission_at_any_clock() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let gateway = |behind: i64| {
        let clock = SetClock::new(Timestamp(1_800_000_000_000_000_000 - behind * 1_000_000_000));
        let options = VolumeOptions {
            session: SessionOptions { clock: Arc::new(clock), ..SessionOptions::default() },
            ..VolumeOptions::default()
        };
        MaintainedVolume::open_without_tasks(options, None, store.clone(), blocks.clone())
    };
    let (fast, slow) = (gateway(0).await.unwrap(), gateway(20).await.unwrap());
    fast.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    for (key, which) in [("older", 0), ("newer", 1), ("newest", 2)] {
        let id = begin(&fast, key).await;
        let contents = [part_bytes(1), part_bytes(2), part_bytes(3)];
        let sent = [
            send(&fast, key, id, 1, &contents[0]).await,
            send(&slow, key, id, 1, &contents[1]).await,
            send(&fast, key, id, 1, &contents[2]).await,
        ];
        let listed_now = slow.parts("bkt", key.as_bytes(), id, 0, 10).await.unwrap().parts;
        assert_eq!(listed_now, [sent[2].clone()], "a listing shows the last one");
        let gateway = if which == 1 { &fast } else { &slow };
        complete(gateway, key, id, &[listed(&sent[which])]).await.unwrap();
        assert_eq!(get(&fast, key).await, contents[which], "{key}");
    }
    // Only transmissions that were not chosen are deleted.
    fast.upkeep().reap_now().await.unwrap();
    for (key, seed) in [("older", 1), ("newer", 2), ("newest", 3)] {
        assert_eq!(get(&slow, key).await, part_bytes(seed), "{key}");
    }
    assert_eq!(fsck(store, blocks, &NoProgress).await.unwrap().findings, []);
}
