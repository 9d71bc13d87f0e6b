//! Exact numbers of moved bytes and of calls to the block store, on any machine.

use std::ops::Range;

use futures::future::join_all;
use volume::{
    CompletePart, CopyChanges, Counters, ObjectMode, PART_BYTES_MIN, UploadId, Volume,
    WriteCondition, count_round_trips,
};

use super::multipart::{begin, complete, listed, send};
use super::{bytes, get, owner, put, volume};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The calls to the block store, and the bytes in both directions.
fn moved(counters: &Counters) -> [u64; 4] {
    [
        counters.traffic.puts,
        counters.traffic.put_bytes,
        counters.traffic.gets,
        counters.traffic.got_bytes,
    ]
}

/// Parts that are copies of the same bytes of a source.
async fn copy_parts(
    volume: &Volume,
    key: &str,
    id: UploadId,
    numbers: Range<u16>,
) -> Vec<CompletePart> {
    let source = volume.stat("bkt", b"source").await.unwrap();
    let (mut parts, plain) = (Vec::new(), ObjectMode::default());
    for number in numbers {
        let range = 0..PART_BYTES_MIN;
        let copy =
            volume.copy_part("bkt", key.as_bytes(), id, number, &plain, &source, range, None);
        parts.push(listed(&copy.await.unwrap()));
    }
    parts
}

#[tokio::test]
async fn small_objects_of_many_clients_do_not_reach_the_block_store() {
    let volume = volume().await;
    let before = moved(&volume.counters());
    let clients = (0..16).map(|client| {
        let volume = &volume;
        async move {
            for file in 0..20 {
                let key = format!("client-{client}/{file}");
                put(volume, &key, &bytes(4 * KIB, file)).await.unwrap();
                assert_eq!(get(volume, &key).await, bytes(4 * KIB, file));
            }
        }
    });
    join_all(clients).await;
    assert_eq!(moved(&volume.counters()), before);
}

#[tokio::test]
async fn an_upload_in_parts_is_written_once_and_reading_it_writes_nothing() {
    let volume = volume().await;
    let id = begin(&volume, "large").await;
    let mut parts = Vec::new();
    let mut whole = Vec::new();
    for number in 1..=3 {
        let content = bytes(8 * MIB, u8::try_from(number).unwrap());
        whole.extend_from_slice(&content);
        parts.push(listed(&send(&volume, "large", id, number, &content).await));
    }
    complete(&volume, "large", id, &parts).await.unwrap();
    for _ in 0..2 {
        assert!(get(&volume, "large").await == whole, "other bytes came back than were sent");
    }
    volume.upkeep().reap_now().await.unwrap();
    let counters = volume.counters();
    assert_eq!(counters.traffic.put_bytes, whole.len() as u64, "each byte is written once");
    assert_eq!(
        volume.upkeep().meters().blocks_reaped.get(),
        0,
        "nothing was written that is not needed"
    );
}

#[tokio::test]
async fn a_gibibyte_is_copied_in_one_commit_that_moves_no_data() {
    let volume = volume().await;
    put(&volume, "source", &bytes(5 * MIB, 1)).await.unwrap();
    let id = begin(&volume, "large").await;
    let parts = copy_parts(&volume, "large", id, 1..206).await;
    complete(&volume, "large", id, &parts).await.unwrap();
    let large = volume.stat("bkt", b"large").await.unwrap();
    assert!(large.size() >= 1 << 30);

    let before = moved(&volume.counters());
    let owner = owner();
    let copy =
        volume.copy(&large, "bkt", b"copy", CopyChanges::default(), WriteCondition::None, &owner);
    let (copied, cost) = count_round_trips(copy).await;
    copied.unwrap();
    assert_eq!(cost.commits, 1, "of a copy");
    let (id, plain) = (begin(&volume, "parts").await, ObjectMode::default());
    let copy = volume.copy_part("bkt", b"parts", id, 1, &plain, &large, 0..large.size(), None);
    let (copied, cost) = count_round_trips(copy).await;
    copied.unwrap();
    assert_eq!(cost.commits, 1, "of a part that is a copy");
    assert_eq!(moved(&volume.counters()), before);
    assert_eq!(volume.stat("bkt", b"copy").await.unwrap().size(), large.size());
}

#[tokio::test]
async fn ten_thousand_parts_are_completed_in_few_round_trips() {
    let volume = volume().await;
    put(&volume, "source", &bytes(5 * MIB, 1)).await.unwrap();
    let id = begin(&volume, "large").await;
    let parts = copy_parts(&volume, "large", id, 1..10_001).await;
    let before = moved(&volume.counters());
    let (done, cost) = count_round_trips(complete(&volume, "large", id, &parts)).await;
    done.unwrap();
    // A thousand parts are read, and their slices written, at a time.
    assert!(cost.reads <= 11 && cost.commits <= 14, "{cost:?}");
    assert_eq!(moved(&volume.counters()), before);
    assert_eq!(volume.stat("bkt", b"large").await.unwrap().size(), 10_000 * PART_BYTES_MIN);
}
