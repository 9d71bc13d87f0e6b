//! The content of stores in tests, and its comparison.

use std::io::Cursor;

use dump::{DumpError, Keystone, Summary};
use store::{CounterKey, Key, MetaStore, Plan, Space, Value, Verdict, Write};

/// The record that comes last, as a volume's does: between others by its bytes.
pub(crate) fn keystone_key() -> Key {
    Key::new(Space(b'V'), 0, b"")
}

pub(crate) fn keystone(name: u8) -> Keystone {
    Keystone::new(keystone_key(), [name; 16])
}

pub(crate) fn put(key: Key, value: impl AsRef<[u8]>) -> Write {
    Write::Put(key, Value::copy_from_slice(value.as_ref()))
}

/// Commits writes without a condition, in batches that every engine takes.
pub(crate) async fn write(store: &dyn MetaStore, writes: Vec<Write>) {
    for writes in writes.chunks(1_000) {
        let plan = Plan { guards: Vec::new(), writes: writes.to_vec() };
        let verdicts = store.commit(&[plan]).await.expect("a batch within limits");
        assert_eq!(verdicts, [Verdict::Committed]);
    }
}

/// A store like that of a small volume: keys that differ where engines may err, values that are
/// empty, large and of every byte, and counters on both sides of 0.
pub(crate) fn volume() -> Vec<Write> {
    let mut writes = vec![
        put(keystone_key(), "the volume"),
        put(Key::new(Space(b'I'), 7, b"every byte"), (0..=255).collect::<Vec<u8>>()),
        put(Key::new(Space(b'I'), 7, b"large"), vec![0xa5; 700_000]),
        put(Key::new(Space(b'I'), 7, b"nothing"), ""),
    ];
    for space in [b'A', b'I', b'a', b'd', b'n', b'z'].map(Space) {
        for partition in [0, 1, 0x7f, 0x80, 0xff, 1 << 32, i64::MAX.unsigned_abs(), u64::MAX] {
            for suffix in [&b""[..], b"\0", b"A", b"a", b"a ", b"a\0", b"\xc3\xa9", b"\xff\xff"] {
                let key = Key::new(space, partition, suffix);
                let value = [key.as_bytes(), b"\0\xff'\"\\%"].concat();
                writes.push(put(key, value));
            }
        }
    }
    for (number, counter) in
        [1, -1, 2, 1 << 40, -(1 << 40), 1 << 53, -(1 << 53), 0].into_iter().enumerate()
    {
        for suffix in [&b""[..], b"\0", b"\xff"] {
            let key = Key::new(Space(b'n'), number as u64 * 0x1111_1111_1111, suffix);
            writes.push(Write::Set(CounterKey(key), counter));
        }
    }
    writes
}

pub(crate) const LABEL: &[u8] = b"a label";

pub(crate) async fn dumped(store: &dyn MetaStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    let summary = dump::dump(store, LABEL, &mut bytes, &()).await.expect("a dump");
    assert_eq!(summary.counts.bytes, bytes.len() as u64);
    bytes
}

pub(crate) async fn loaded(store: &dyn MetaStore, bytes: &[u8]) -> Result<Summary, DumpError> {
    dump::load(store, &mut Cursor::new(bytes), &keystone(1), &()).await
}
