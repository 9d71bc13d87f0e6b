use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::broadcast::error::RecvError;

use super::{AuditLog, LogSink, QUEUE_ENTRIES_MAX, SUBSCRIBER_ENTRIES_MAX};
use crate::entry::AuditEntry;
use crate::line::LineFormat;
use crate::writer::Output;

fn entry(number: usize) -> AuditEntry {
    AuditEntry { request_id: format!("id-{number}"), ..AuditEntry::default() }
}

fn ids(text: &str) -> Vec<String> {
    let id = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        value["request_id"].as_str().expect("an id").to_owned()
    };
    text.lines().map(id).collect()
}

/// A device whose writes wait until the test lets them continue.
struct Stalled(Receiver<()>);

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An error means that the test has ended, so later writes do not wait.
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stalled() -> (AuditLog, SyncSender<()>) {
    let (go, wait) = sync_channel(1);
    (AuditLog::over(Output::over(Stalled(wait)), LineFormat::Json).unwrap(), go)
}

#[tokio::test]
async fn rotation_by_rename_and_reopen_loses_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let (path, rotated) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let log = AuditLog::start(&LogSink::File(path.clone()), LineFormat::Json).unwrap();
    (0..500).for_each(|number| log.record(entry(number)));
    std::fs::rename(&path, &rotated).unwrap();
    (500..600).for_each(|number| log.record(entry(number)));
    assert!(log.reopen().await.unwrap());
    (600..1000).for_each(|number| log.record(entry(number)));
    log.close().await.unwrap();

    let old = ids(&std::fs::read_to_string(&rotated).unwrap());
    let new = ids(&std::fs::read_to_string(&path).unwrap());
    assert_eq!((old.len(), new.len()), (600, 400), "entries before the reopen are in the old file");
    let expected: Vec<String> = (0..1000).map(|number| format!("id-{number}")).collect();
    assert_eq!([old, new].concat(), expected);
    assert_eq!(log.drops.meters.written.get(), 1000);
}

#[tokio::test]
async fn a_reopen_that_fails_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    std::fs::create_dir(&inner).unwrap();
    let path = inner.join("access.log");
    let log = AuditLog::start(&LogSink::File(path), LineFormat::Json).unwrap();
    std::fs::rename(&inner, &moved).unwrap();
    assert!(log.reopen().await.is_err());
    log.record(entry(1));
    log.close().await.unwrap();
    assert_eq!(ids(&std::fs::read_to_string(moved.join("access.log")).unwrap()), ["id-1"]);
}

#[test]
fn a_stalled_device_delays_no_request_and_its_entries_are_counted() {
    let (log, go) = stalled();
    let begun = Instant::now();
    let recorded = 3 * QUEUE_ENTRIES_MAX;
    (0..recorded).for_each(|number| log.record(entry(number)));
    assert!(begun.elapsed() < Duration::from_secs(10), "recording took {:?}", begun.elapsed());
    let dropped = usize::try_from(log.drops.meters.dropped.get()).unwrap();
    // The writer has taken a batch before the device stalled, and the queue is full.
    assert!(dropped > QUEUE_ENTRIES_MAX && dropped < recorded, "{dropped} entries dropped");
    drop(go);
}

#[test]
fn long_entries_fill_the_queue_by_their_bytes() {
    let (log, go) = stalled();
    let target = "/".repeat(1 << 20);
    (0..200).for_each(|_| log.record(AuditEntry { target: target.clone(), ..entry(0) }));
    assert!(log.drops.meters.dropped.get() > 100, "200 MiB are beyond the limit of bytes");
    drop(go);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_device_does_not_delay_the_stop_beyond_the_deadline() {
    let (log, go) = stalled();
    log.record(entry(0));
    let error = log.close().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(go);
}

#[tokio::test]
async fn a_subscriber_sees_entries_without_a_file_and_a_late_one_misses_the_oldest() {
    let log = AuditLog::start(&LogSink::Off, LineFormat::Json).unwrap();
    assert!(!log.is_active(), "without a subscriber no entry is needed");
    log.record(entry(0));
    let mut live = log.subscribe();
    assert!(log.is_active());
    log.record(entry(1));
    assert_eq!(live.recv().await.unwrap().request_id, "id-1", "entries before it are not sent");
    (0..SUBSCRIBER_ENTRIES_MAX + 10).for_each(|number| log.record(entry(number)));
    assert!(matches!(live.recv().await, Err(RecvError::Lagged(10))));
    drop(live);
    assert!(!log.is_active());
    assert!(!log.reopen().await.unwrap());
}

#[test]
fn sinks_have_the_text_of_the_option() {
    for (text, sink) in [
        ("off", LogSink::Off),
        ("-", LogSink::Stdout),
        ("/var/log/x", LogSink::File("/var/log/x".into())),
    ] {
        assert_eq!(LogSink::parse(text), sink);
        assert_eq!(sink.to_string(), text);
    }
    assert_eq!(LogSink::parse(""), LogSink::Off);
}
