//! The keys of a store in etcd.
//!
//! All keys of a store begin with its name and a slash. One byte with the kind follows: `r` for a
//! record, `c` for a cell of a counter, `t` for the change feed, `v` for the format. No key has the
//! kind `n`. After `r` come the bytes of the record's key, so etcd keeps the order of the keys.
//!
//! A counter has several *cells*, which `counters` explains. The key of a cell is `c`, the space
//! and partition of the counter's key, its suffix with each zero byte as `00 ff`, then `00`, the
//! kind of the cell, and the instance that owns it. So cells sort in the order of their counters,
//! and no counter's cells sort between those of another one.
//!
//! For example, a store with the name `ashlar` keeps the record `d…a` under `ashlar/rd…a`.

use bytes::{BufMut as _, Bytes, BytesMut};
use store::{CounterKey, Key, Space};

/// Length of the random number of one open store, in bytes.
pub(crate) const INSTANCE_BYTES: usize = 8;

/// The random number of one open store. It owns cells of counters.
pub(crate) type Instance = [u8; INSTANCE_BYTES];

/// The kind of a cell of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellKind {
    /// A number that no instance owns.
    Base,
    /// The sum of the additions of one instance.
    Sum,
    /// The largest number to which one instance has raised the counter.
    Max,
}

impl CellKind {
    const fn byte(self) -> u8 {
        match self {
            CellKind::Base => 0,
            CellKind::Sum => 1,
            CellKind::Max => 2,
        }
    }

    fn of(byte: u8) -> Option<CellKind> {
        [CellKind::Base, CellKind::Sum, CellKind::Max].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// Makes and parses the keys of one store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// The name of the store and a slash.
    prefix: Bytes,
}

impl Keys {
    pub(crate) fn new(name: &str) -> Keys {
        Keys { prefix: Bytes::from(format!("{name}/")) }
    }

    fn with(&self, kind: u8, rest: &[u8]) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.prefix.len() + 1 + rest.len());
        bytes.extend_from_slice(&self.prefix);
        bytes.put_u8(kind);
        bytes.extend_from_slice(rest);
        bytes.freeze()
    }

    pub(crate) fn format(&self) -> Bytes {
        self.with(b'v', b"")
    }

    /// Returns a key that no process writes, for conditions that do not hold.
    pub(crate) fn never(&self) -> Bytes {
        self.with(b'n', b"")
    }

    pub(crate) fn feed(&self) -> Bytes {
        self.with(b't', b"")
    }

    pub(crate) fn record(&self, key: &Key) -> Bytes {
        self.with(b'r', key.as_bytes())
    }

    /// Returns the bounds of the records of `start..end`.
    pub(crate) fn records(&self, start: &Key, end: &Key) -> (Bytes, Bytes) {
        (self.record(start), self.record(end))
    }

    /// Returns the bounds of all records.
    pub(crate) fn all_records(&self) -> (Bytes, Bytes) {
        (self.with(b'r', b""), self.with(b's', b""))
    }

    /// Returns the bounds of all cells of counters.
    pub(crate) fn all_cells(&self) -> (Bytes, Bytes) {
        (self.with(b'c', b""), self.with(b'd', b""))
    }

    /// Returns the bounds of the records of a space.
    pub(crate) fn space(&self, space: Space) -> (Bytes, Bytes) {
        (self.with(b'r', &[space.0]), self.after_space(b'r', space))
    }

    /// Returns the bounds of the cells of the counters of a space.
    pub(crate) fn cells_of_space(&self, space: Space) -> (Bytes, Bytes) {
        (self.with(b'c', &[space.0]), self.after_space(b'c', space))
    }

    fn after_space(&self, kind: u8, space: Space) -> Bytes {
        match space.0.checked_add(1) {
            Some(next) => self.with(kind, &[next]),
            None => self.with(kind + 1, b""),
        }
    }

    /// Returns the first bytes of the keys of all cells of a counter.
    fn counter(&self, counter: &CounterKey) -> BytesMut {
        let (fixed, suffix) = counter.0.as_bytes().split_at(Key::PREFIX_BYTES);
        let length = self.prefix.len() + 4 + fixed.len() + 2 * suffix.len() + INSTANCE_BYTES;
        let mut bytes = BytesMut::with_capacity(length);
        bytes.extend_from_slice(&self.prefix);
        bytes.put_u8(b'c');
        bytes.extend_from_slice(fixed);
        for &byte in suffix {
            bytes.put_u8(byte);
            if byte == 0 {
                bytes.put_u8(0xff);
            }
        }
        bytes.put_u8(0);
        bytes
    }

    /// Returns the key of the cell that no instance owns.
    pub(crate) fn base(&self, counter: &CounterKey) -> Bytes {
        let mut key = self.counter(counter);
        key.put_u8(CellKind::Base.byte());
        key.freeze()
    }

    /// Returns the key of the cell of an instance. `kind` is not `Base`.
    pub(crate) fn cell(&self, counter: &CounterKey, kind: CellKind, owner: Instance) -> Bytes {
        let mut key = self.counter(counter);
        key.put_u8(kind.byte());
        key.extend_from_slice(&owner);
        key.freeze()
    }

    /// Returns the bounds of the cells of a counter of one kind.
    pub(crate) fn cells_of_kind(&self, counter: &CounterKey, kind: CellKind) -> (Bytes, Bytes) {
        self.cells_between(counter, kind, kind)
    }

    /// Returns the bounds of all cells of a counter.
    pub(crate) fn cells(&self, counter: &CounterKey) -> (Bytes, Bytes) {
        self.cells_between(counter, CellKind::Base, CellKind::Max)
    }

    /// Returns the bounds of the cells of a counter that instances own.
    pub(crate) fn owned_cells(&self, counter: &CounterKey) -> (Bytes, Bytes) {
        self.cells_between(counter, CellKind::Sum, CellKind::Max)
    }

    fn cells_between(
        &self,
        counter: &CounterKey,
        first: CellKind,
        last: CellKind,
    ) -> (Bytes, Bytes) {
        let mut start = self.counter(counter);
        let mut end = start.clone();
        start.put_u8(first.byte());
        end.put_u8(last.byte() + 1);
        (start.freeze(), end.freeze())
    }

    /// Parses the key of a record. Returns `None` if it is not one.
    pub(crate) fn to_record(&self, key: &Bytes) -> Option<Key> {
        let rest = self.without_prefix(key, b'r')?;
        (rest.len() >= Key::PREFIX_BYTES).then(|| Key::from_bytes(rest))
    }

    /// Parses the key of a cell. Returns `None` if it is not one.
    pub(crate) fn to_cell(&self, key: &Bytes) -> Option<(CounterKey, CellKind)> {
        let rest = self.without_prefix(key, b'c')?;
        let (fixed, rest) = rest.split_at_checked(Key::PREFIX_BYTES)?;
        let mut counter = BytesMut::from(fixed);
        let mut rest = rest.iter().copied();
        let kind = loop {
            match (rest.next()?, rest.clone().next()) {
                (0, Some(0xff)) => {
                    counter.put_u8(0);
                    rest.next();
                }
                (0, Some(kind)) => break CellKind::of(kind)?,
                (0, None) => return None,
                (byte, _) => counter.put_u8(byte),
            }
        };
        let owner = rest.count() - 1;
        let expected = if kind == CellKind::Base { 0 } else { INSTANCE_BYTES };
        (owner == expected).then(|| (CounterKey(Key::from_bytes(counter.freeze())), kind))
    }

    fn without_prefix(&self, key: &Bytes, kind: u8) -> Option<Bytes> {
        let rest = key.strip_prefix(&self.prefix[..])?.strip_prefix(&[kind])?;
        Some(key.slice_ref(rest))
    }
}

/// Returns the first key after this one.
pub(crate) fn after(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.put_u8(0);
    next.freeze()
}

#[cfg(test)]
mod tests;
