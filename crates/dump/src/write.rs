//! The writer of dumps.
//!
//! For example, `ashlar dump` writes the snapshot of a store to a file while gateways use the
//! store.

use std::io::Write;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use store::{CounterKey, Key, MetaStore};

use crate::format::Pieces;
use crate::{DumpError, DumpSize, Phase, Summary, Watcher};

/// The number of records or counters that one read of the snapshot returns.
const PAGE: u32 = 1_000;

/// The number of bytes that are collected before a write.
const WRITE_BYTES: usize = 256 << 10;

/// Writes all records and counters of the store, as they are at one instant, to `out`. Other
/// processes can use the store meanwhile. The label, of at most [`crate::LABEL_BYTES_MAX`] bytes,
/// is written to the header; this crate does not interpret it.
///
/// After `Ok` the output is a complete dump. It is flushed, but the caller must sync it.
///
/// # Errors
/// [`DumpError::Store`] if the store fails, [`DumpError::Write`] if the writer fails or the label
/// is too long, and [`DumpError::Undumpable`]. The output is then not a dump.
pub async fn dump(
    store: &dyn MetaStore,
    label: &[u8],
    out: &mut (dyn Write + Send),
    progress: &dyn Watcher,
) -> Result<Summary, DumpError> {
    let mut snapshot = store.snapshot().await?;
    let mut stream = Stream::begin(label, out)?;
    let mut last: Option<Key> = None;
    loop {
        let page = snapshot.records(PAGE).await?;
        if page.is_empty() {
            break;
        }
        for (key, value) in page {
            stream.add(&mut last, key, |pieces, key| pieces.record(key, &value))?;
            stream.counts.records += 1;
        }
        progress.passed(Phase::Dump, stream.counts);
    }
    let mut last = None;
    loop {
        let page = snapshot.counters(PAGE).await?;
        if page.is_empty() {
            break;
        }
        for (CounterKey(key), number) in page {
            stream.add(&mut last, key, |pieces, key| pieces.counter(key, number))?;
            stream.counts.counters += 1;
        }
        progress.passed(Phase::Dump, stream.counts);
    }
    let summary = stream.end(label)?;
    progress.passed(Phase::Dump, summary.counts);
    Ok(summary)
}

/// The output of a dump in progress.
struct Stream<'a> {
    out: &'a mut (dyn Write + Send),
    pieces: Pieces,
    sum: Sha256,
    counts: DumpSize,
}

impl<'a> Stream<'a> {
    fn begin(label: &[u8], out: &'a mut (dyn Write + Send)) -> Result<Stream<'a>, DumpError> {
        let mut pieces = Pieces::default();
        let invalid = |what| DumpError::Write(std::io::Error::other(what));
        pieces.header(label).map_err(invalid)?;
        let counts = DumpSize { bytes: pieces.bytes.len() as u64, ..DumpSize::default() };
        Ok(Stream { out, pieces, sum: Sha256::new(), counts })
    }

    /// Appends a record or counter, which `lay` writes. Fails with `Undumpable` if its key is not
    /// greater than `last`, the key before it.
    fn add(
        &mut self,
        last: &mut Option<Key>,
        key: Key,
        lay: impl FnOnce(&mut Pieces, &Key) -> Result<(), &'static str>,
    ) -> Result<(), DumpError> {
        // An engine that returns keys out of order has a defect, and no reader would accept the
        // dump.
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(DumpError::Undumpable { what: "keys out of order", key });
        }
        let before = self.pieces.bytes.len();
        match lay(&mut self.pieces, &key) {
            Ok(()) => *last = Some(key),
            Err(what) => return Err(DumpError::Undumpable { what, key }),
        }
        self.counts.bytes += (self.pieces.bytes.len() - before) as u64;
        if self.pieces.bytes.len() >= WRITE_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), DumpError> {
        self.sum.update(&self.pieces.bytes);
        self.out.write_all(&self.pieces.bytes).map_err(DumpError::Write)?;
        self.pieces.bytes.clear();
        Ok(())
    }

    fn end(mut self, label: &[u8]) -> Result<Summary, DumpError> {
        let before = self.pieces.bytes.len();
        self.pieces.trailer(self.counts.records, self.counts.counters);
        self.counts.bytes += (self.pieces.bytes.len() - before) as u64;
        self.send()?;
        // The sum covers all bytes before itself, so it is written separately.
        let sum: [u8; 32] = self.sum.finalize().into();
        self.counts.bytes += sum.len() as u64;
        self.out.write_all(&sum).and_then(|()| self.out.flush()).map_err(DumpError::Write)?;
        Ok(Summary { label: Bytes::copy_from_slice(label), counts: self.counts, sum })
    }
}
