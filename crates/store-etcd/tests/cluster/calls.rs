//! Keys, plans and calls for the tests of this crate.

use store::{
    CounterKey, Guard, Key, MetaStore, Plan, Read, ReadResult, Space, StoreError, Value, Verdict,
    Write,
};

pub(crate) fn key(partition: u64, suffix: &str) -> Key {
    Key::new(Space(b'd'), partition, suffix.as_bytes())
}

pub(crate) fn counter(number: u64) -> CounterKey {
    CounterKey(Key::new(Space(b'n'), number, b""))
}

pub(crate) fn put(key: Key, value: &str) -> Write {
    Write::Put(key, Value::copy_from_slice(value.as_bytes()))
}

pub(crate) fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

/// Commits one plan. Returns true if it was not refused.
pub(crate) async fn commit(store: &dyn MetaStore, plan: Plan) -> Result<bool, StoreError> {
    Ok(store.commit(&[plan]).await?.remove(0) == Verdict::Committed)
}

pub(crate) async fn write(store: &dyn MetaStore, writes: impl Into<Vec<Write>>) {
    assert!(commit(store, plan([], writes)).await.expect("a commit"));
}

pub(crate) async fn record(store: &dyn MetaStore, key: Key) -> Option<Value> {
    let found = store.read(&[Read::Record { key, follow: None }]).await.expect("a read").remove(0);
    let ReadResult::Record(found) = found else { panic!("a record was asked for, not {found:?}") };
    found.map(|entry| entry.value)
}

pub(crate) async fn number(store: &dyn MetaStore, counter: CounterKey) -> i64 {
    let found = store.read(&[Read::Counter(counter)]).await.expect("a read").remove(0);
    let ReadResult::Counter(number) = found else {
        panic!("a counter was asked for, not {found:?}")
    };
    number
}
