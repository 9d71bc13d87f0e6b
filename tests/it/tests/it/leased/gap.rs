//! A session with leases that is stopped while the change feed drops entries that the session has
//! not read. Then it knows nothing of the records, and begins a new generation.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;

use super::{given, remembered, take_lease};
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_engine};

on_the_drawn_engine!(a_gap_in_the_feed_begins_a_new_generation);

const KEYS: u64 = 40;

/// The length of the feed that is left, in entries.
const LEFT: usize = 1;

/// Drops the oldest entries of a volume's change feed in Redis, as if many batches had followed.
/// Returns the number of dropped entries.
fn drop_feed(fleet: &Fleet) -> u64 {
    let mut redis = TcpStream::connect(fleet.address()).expect("Redis listens");
    let command = format!("XTRIM {{volume}}:f MAXLEN = {LEFT}\r\n");
    redis.write_all(command.as_bytes()).expect("a command is sent");
    let mut answer = [0; 64];
    let length = redis.read(&mut answer).expect("an answer");
    let text = String::from_utf8_lossy(&answer[..length]);
    let number = text.strip_prefix(':').and_then(|text| text.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no number of entries: {text}"))
}

/// Only on Redis, whose feed a client can shorten; the answer to a gap is the same on each engine.
fn a_gap_in_the_feed_begins_a_new_generation(_: Engine) {
    let Some(fleet) = Fleet::new(Engine::Redis, BlockKind::Folder) else { return };
    let [reader, writer] = [fleet.first.start(), fleet.second().start()];
    reader.client.put("/box", b"").expect(200);
    let path = |key: u64| format!("/box/a/{key}");
    for key in 0..KEYS {
        reader.client.put(&path(key), b"old").expect(200);
    }
    take_lease(&reader, &path(0));
    for key in 0..KEYS {
        assert_eq!(reader.client.get(&path(key)).expect(200).text(), "old");
    }
    let gaps = || reader.counter("ashlar_metadata_feed_gaps_total ");
    assert_eq!(gaps(), 0);
    reader.child.signal(Signal::STOP);
    for key in 0..KEYS {
        writer.client.put(&path(key), b"new").expect(200);
    }
    assert_eq!(given(&writer), 0, "the promise to the stopped gateway has ended");
    let dropped = drop_feed(&fleet);
    assert!(dropped >= KEYS, "only {dropped} entries were dropped");
    reader.child.signal(Signal::CONT);
    for key in 0..KEYS {
        assert_eq!(reader.client.get(&path(key)).expect(200).text(), "new", "key {key}");
    }
    take_lease(&reader, &path(0));
    assert!(gaps() > 0, "the feed had no gap");
    // The first round makes the records current again.
    let mut from_cache = 0;
    for _ in 0..2 {
        let before = remembered(&reader);
        for key in 0..KEYS {
            assert_eq!(reader.client.get(&path(key)).expect(200).text(), "new", "key {key}");
        }
        from_cache = remembered(&reader) - before;
    }
    assert!(from_cache > KEYS / 2, "only {from_cache} reads were answered by leases again");
    fleet.stop_and_check(vec![reader, writer]);
}
