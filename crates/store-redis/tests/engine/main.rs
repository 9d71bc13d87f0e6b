//! The engine with real servers.
//!
//! Most tests need a Redis or Valkey server, named by `ASHLAR_TEST_REDIS`
//! (`redis://127.0.0.1:PORT/`). The others start a `redis-server` of their own. Without them these
//! tests print a message and pass, unless `ASHLAR_TEST_REQUIRE_SERVICES=1`.

mod append_log;
mod asked;
mod conformance;
mod dice;
mod feed;
mod full;
mod group;
mod long_records;
mod members;
mod merged;
mod overflow;
mod sentinel;
mod server;
mod settings;
mod snapshots;
mod together;
mod trouble;

use store::{
    CounterKey, Guard, Key, MetaStore, Plan, Read, ReadResult, Space, StoreError, Value, Verdict,
    Write,
};

fn key(partition: u64, suffix: &str) -> Key {
    Key::new(Space(b'd'), partition, suffix.as_bytes())
}

/// Returns keys of a point space, four of which share a chunk.
fn point(number: u64) -> Key {
    Key::new(Space(b'I'), number << 14, b"")
}

fn counter(number: u64) -> CounterKey {
    CounterKey(Key::new(Space(b'n'), number, b""))
}

fn put(key: Key, value: &str) -> Write {
    Write::Put(key, Value::copy_from_slice(value.as_bytes()))
}

fn equals(key: Key, value: &str) -> Guard {
    Guard::Equals(key, Value::copy_from_slice(value.as_bytes()))
}

fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

/// Commits one plan. Returns true if it was not refused.
async fn commit(store: &dyn MetaStore, plan: Plan) -> Result<bool, StoreError> {
    Ok(store.commit(&[plan]).await?.remove(0) == Verdict::Committed)
}

async fn write(store: &dyn MetaStore, writes: impl Into<Vec<Write>>) {
    assert!(commit(store, plan([], writes)).await.expect("a commit"));
}

async fn record(store: &dyn MetaStore, key: Key) -> Option<Value> {
    let found = store.read(&[Read::Record { key, follow: None }]).await.expect("a read").remove(0);
    let ReadResult::Record(found) = found else { panic!("a record was asked for, not {found:?}") };
    found.map(|entry| entry.value)
}

async fn number(store: &dyn MetaStore, counter: CounterKey) -> i64 {
    let found = store.read(&[Read::Counter(counter)]).await.expect("a read").remove(0);
    let ReadResult::Counter(number) = found else {
        panic!("a counter was asked for, not {found:?}")
    };
    number
}
