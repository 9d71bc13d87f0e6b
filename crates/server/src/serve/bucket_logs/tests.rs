use s3::BucketName;
use s3::bucket_logging::{LogKeyFormat, PartitionDate};
use time::macros::datetime;

use super::*;

fn bucket(name: &str, target: &str, key_format: Option<LogKeyFormat>) -> LoggedBucket {
    let target = BucketName::parse(target).unwrap();
    let destination = Arc::new(LoggingEnabled { target, prefix: "a/".to_owned(), key_format });
    LoggedBucket { name: name.to_owned(), account: AccountId::MAIN, destination }
}

/// An entry with a key of this length.
fn entry(key_bytes: usize) -> AuditEntry {
    let key = Some("k".repeat(key_bytes));
    let time = datetime!(2026-03-01 12:00 UTC);
    AuditEntry { operation: "GetObject", resource: "OBJECT", time, key, ..AuditEntry::default() }
}

fn dropped(logs: &BucketLogs) -> u64 {
    logs.meters.dropped.get()
}

#[test]
fn an_object_has_lines_of_one_destination_and_of_one_day() {
    let logs = BucketLogs::default();
    let by_event = Some(LogKeyFormat::Partitioned(PartitionDate::Event));
    let (first, second) = (bucket("src", "logs", None), bucket("src", "other", by_event));
    let next_day = AuditEntry { time: datetime!(2026-03-02 00:00 UTC), ..entry(1) };
    logs.push(&first, &entry(1));
    logs.push(&first, &next_day);
    // An equal destination that was parsed again shares the object.
    logs.push(&bucket("src", "logs", None), &entry(1));
    logs.push(&second, &entry(1));
    logs.push(&second, &next_day);
    let mut taken = logs.take(true);
    taken.sort_by_key(|buffer| (buffer.bucket.destination.target.as_str().to_owned(), buffer.day));
    let lines: Vec<u64> = taken.iter().map(|buffer| buffer.lines).collect();
    assert_eq!(lines, [3, 1, 1]);
    assert_eq!(taken[0].text.lines().count(), 3);
    assert_eq!(taken[0].day, None);
    assert!(taken[1].day < taken[2].day);
}

#[test]
fn a_full_buffer_is_taken_before_the_interval() {
    let logs = BucketLogs::default();
    let source = bucket("src", "logs", None);
    logs.push(&source, &entry(1));
    assert!(logs.take(false).is_empty());
    while dropped(&logs) == 0 && logs.lock().full.is_empty() {
        logs.push(&source, &entry(1_000));
    }
    let taken = logs.take(false);
    let [full] = &taken[..] else { panic!("{} buffers", taken.len()) };
    assert!((BUFFER_BYTES..BUFFER_BYTES + 2_000).contains(&full.text.len()));
    assert!(logs.take(true).is_empty(), "nothing is left");
}

#[test]
fn a_bucket_holds_bounded_memory_and_leaves_none_behind() {
    let logs = BucketLogs::default();
    let (source, other) = (bucket("src", "logs", None), bucket("other", "logs", None));
    // No delivery: the lines of a full bucket are dropped, and other buckets go on.
    for _ in 0..3 * SOURCE_BYTES_MAX / 1_000 {
        logs.push(&source, &entry(1_000));
    }
    assert!(logs.lock().bytes <= SOURCE_BYTES_MAX);
    let lost = dropped(&logs);
    assert!(lost > 0);
    logs.push(&other, &entry(1));
    assert_eq!(dropped(&logs), lost);
    // A buffer that is being delivered counts until its end.
    let taken = logs.take(true);
    logs.push(&source, &entry(1_000));
    assert_eq!(dropped(&logs), lost + 1);
    for buffer in &taken {
        logs.end(buffer, None);
    }
    let lines: u64 = taken.iter().map(|buffer| buffer.lines).sum();
    assert_eq!(logs.meters.delivered.get(), lines);
    let buffers = logs.lock();
    assert_eq!((buffers.bytes, buffers.sources.len()), (0, 0));
}

#[test]
fn all_buckets_together_hold_bounded_memory() {
    let logs = BucketLogs::default();
    for number in 0..2 * TOTAL_BYTES_MAX / SOURCE_BYTES_MAX {
        let source = bucket(&format!("src{number}"), "logs", None);
        for _ in 0..SOURCE_BYTES_MAX / 2_000 {
            logs.push(&source, &entry(2_000));
        }
    }
    assert!(logs.lock().bytes <= TOTAL_BYTES_MAX);
    assert!(dropped(&logs) > 0);
    // A bucket without a line in the buffers has no entry in the map.
    logs.push(&bucket("new", "logs", None), &entry(2_000));
    assert!(logs.lock().sources.values().all(|source| source.bytes > 0));
}

#[test]
fn a_buffer_whose_delivery_failed_waits_for_the_interval() {
    let logs = BucketLogs::default();
    logs.push(&bucket("src", "logs", None), &entry(1));
    let buffer = logs.take(true).pop().unwrap();
    logs.keep(buffer);
    assert!(logs.take(false).is_empty());
    let buffer = logs.take(true).pop().unwrap();
    logs.end(&buffer, Some(&"the target refuses it"));
    assert_eq!((dropped(&logs), logs.lock().bytes), (1, 0));
}
