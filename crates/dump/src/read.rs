//! The reader of dumps, which verifies each piece.
//!
//! A piece is used only after its CRC is verified, and the dump is complete only after its trailer
//! is verified. For example, a dump that was cut between two records has intact pieces and no
//! trailer, so it fails with `Cut`.

use std::io::{self, ErrorKind, Read};

use bytes::{Buf, Bytes};
use sha2::{Digest, Sha256};
use store::{CounterKey, Key, Value};

use crate::format::{CRC_BYTES, FORMAT, MAGIC, SUM_BYTES, VALUE_BYTES_MAX, kind};
use crate::{DumpError, DumpSize, Phase, Summary, Watcher};

/// The number of pieces (records and counters) between two reports of progress.
const REPORT_EVERY: u64 = 1_000;

/// Reads and verifies a complete dump. Returns its summary.
///
/// # Errors
/// [`DumpError::NotADump`], [`DumpError::Format`], [`DumpError::Cut`] and [`DumpError::Damaged`] if
/// it is not a complete dump, [`DumpError::Read`] if it cannot be read.
pub fn verify(input: &mut (dyn Read + Send), progress: &dyn Watcher) -> Result<Summary, DumpError> {
    let mut pieces = Reader::begin(input)?;
    while pieces.next()?.is_some() {
        pieces.report(Phase::Verify, progress);
    }
    pieces.end(Phase::Verify, progress)
}

/// A record or counter of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Record(Key, Value),
    Counter(CounterKey, i64),
}

/// Reads the pieces of a dump (records and counters) in order, and verifies them.
pub(crate) struct Reader<'a> {
    input: io::BufReader<&'a mut (dyn Read + Send)>,
    sum: Sha256,
    label: Bytes,
    counts: DumpSize,
    /// The last piece that was read, whose key the next one must exceed.
    last: Option<Piece>,
    /// The SHA-256 of the trailer, after the trailer was verified.
    whole: Option<[u8; SUM_BYTES]>,
}

/// The size of the read buffer in bytes.
const READ_BYTES: usize = 256 << 10;

/// The number of bytes at the start of a piece that give its length: its kind and the lengths of
/// its parts.
const RECORD_HEAD: usize = 7;
const COUNTER_HEAD: usize = 3;

impl<'a> Reader<'a> {
    pub(crate) fn begin(input: &'a mut (dyn Read + Send)) -> Result<Reader<'a>, DumpError> {
        let mut reader = Reader {
            input: io::BufReader::with_capacity(READ_BYTES, input),
            sum: Sha256::new(),
            label: Bytes::new(),
            counts: DumpSize::default(),
            last: None,
            whole: None,
        };
        let mut header = Vec::new();
        // An input that is shorter than the magic is another file, not a truncated dump.
        match reader.take(&mut header, MAGIC.len()) {
            Ok(()) if header == MAGIC => {}
            Ok(()) | Err(DumpError::Cut(_)) => return Err(DumpError::NotADump),
            Err(error) => return Err(error),
        }
        reader.take(&mut header, 2)?;
        let [format, length] = last_chunk(&header);
        reader.take(&mut header, usize::from(length) + CRC_BYTES)?;
        // The CRC comes first, so that a flipped bit in the format is reported as damage. All
        // formats have this header.
        let header = checked(header, 0)?;
        if format != FORMAT {
            return Err(DumpError::Format(format));
        }
        reader.label = header.slice(MAGIC.len() + 2..);
        Ok(reader)
    }

    /// Returns the next record or counter. `None` after the trailer: the dump is then complete and
    /// verified.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, DumpError> {
        if self.whole.is_some() {
            return Ok(None);
        }
        let at = self.counts.bytes;
        let mut bytes = Vec::new();
        self.take(&mut bytes, 1)?;
        let piece = match last_chunk(&bytes) {
            [kind::RECORD] => self.record(bytes, at)?,
            [kind::COUNTER] => self.counter(bytes, at)?,
            [kind::TRAILER] => {
                self.trailer(bytes, at)?;
                return Ok(None);
            }
            _ => return Err(DumpError::Damaged { at, what: "the kind of a piece is unknown" }),
        };
        self.follows(&piece, at)?;
        match piece {
            Piece::Record(..) => self.counts.records += 1,
            Piece::Counter(..) => self.counts.counters += 1,
        }
        self.last = Some(piece.clone());
        Ok(Some(piece))
    }

    fn record(&mut self, mut bytes: Vec<u8>, at: u64) -> Result<Piece, DumpError> {
        self.take(&mut bytes, RECORD_HEAD - 1)?;
        let [key_0, key_1, value @ ..]: [u8; 6] = last_chunk(&bytes);
        let key_length = usize::from(u16::from_be_bytes([key_0, key_1]));
        let value_length = usize::try_from(u32::from_be_bytes(value)).unwrap_or(usize::MAX);
        // The length is not verified yet. Without a limit, damage could ask for 4 GiB of memory.
        if value_length > VALUE_BYTES_MAX {
            return Err(DumpError::Damaged { at, what: "a value is longer than the limit" });
        }
        self.take(&mut bytes, key_length + value_length + CRC_BYTES)?;
        let mut rest = checked(bytes, at)?;
        rest.advance(RECORD_HEAD);
        let key = key(rest.split_to(key_length), at)?;
        Ok(Piece::Record(key, rest))
    }

    fn counter(&mut self, mut bytes: Vec<u8>, at: u64) -> Result<Piece, DumpError> {
        self.take(&mut bytes, COUNTER_HEAD - 1)?;
        let key_length = usize::from(u16::from_be_bytes(last_chunk(&bytes)));
        self.take(&mut bytes, key_length + size_of::<i64>() + CRC_BYTES)?;
        let mut rest = checked(bytes, at)?;
        rest.advance(COUNTER_HEAD);
        let key = key(rest.split_to(key_length), at)?;
        match i64::from_be_bytes(last_chunk(&rest)) {
            0 => Err(DumpError::Damaged { at, what: "a counter of 0" }),
            number => Ok(Piece::Counter(CounterKey(key), number)),
        }
    }

    /// Fails if the piece may not follow the last one. Keys must ascend, and counters come behind
    /// records. So no key occurs twice, and equal stores have equal dumps.
    fn follows(&self, piece: &Piece, at: u64) -> Result<(), DumpError> {
        let follows = match (&self.last, piece) {
            (None, _) | (Some(Piece::Record(..)), Piece::Counter(..)) => true,
            (Some(Piece::Record(last, _)), Piece::Record(key, _)) => last < key,
            (Some(Piece::Counter(last, _)), Piece::Counter(key, _)) => last < key,
            (Some(Piece::Counter(..)), Piece::Record(..)) => false,
        };
        let damaged = DumpError::Damaged { at, what: "keys are out of order" };
        if follows { Ok(()) } else { Err(damaged) }
    }

    fn trailer(&mut self, mut bytes: Vec<u8>, at: u64) -> Result<(), DumpError> {
        self.take(&mut bytes, 2 * size_of::<u64>())?;
        // `take` also hashes the bytes that it reads, so the sum is computed before the stated one
        // is read.
        let sum: [u8; SUM_BYTES] = self.sum.clone().finalize().into();
        let mut counts = bytes.get(1..).unwrap_or_default();
        let (records, counters) = (counts.get_u64(), counts.get_u64());
        let mut stated = Vec::new();
        self.take(&mut stated, SUM_BYTES)?;
        if last_chunk(&stated) != sum {
            return Err(DumpError::Damaged { at, what: "the SHA-256 of the dump differs" });
        }
        if (records, counters) != (self.counts.records, self.counts.counters) {
            return Err(DumpError::Damaged { at, what: "the counts differ" });
        }
        let end = self.counts.bytes;
        // The input must end here: a load would silently ignore bytes behind the trailer.
        match self.input.read_exact(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(DumpError::Read(error)),
            Ok(()) => {
                return Err(DumpError::Damaged { at: end, what: "bytes follow the trailer" });
            }
        }
        self.whole = Some(sum);
        Ok(())
    }

    /// Reads to the end of the dump and returns its summary.
    pub(crate) fn end(mut self, step: Phase, progress: &dyn Watcher) -> Result<Summary, DumpError> {
        loop {
            if let Some(sum) = self.whole {
                progress.passed(step, self.counts);
                return Ok(Summary { label: self.label, counts: self.counts, sum });
            }
            self.next()?;
        }
    }

    /// Reports progress after each 1,000 pieces.
    pub(crate) fn report(&self, step: Phase, progress: &dyn Watcher) {
        if (self.counts.records + self.counts.counters).is_multiple_of(REPORT_EVERY) {
            progress.passed(step, self.counts);
        }
    }

    /// Appends the next `count` bytes to `bytes`. Fails with `Cut` at the end of the input.
    fn take(&mut self, bytes: &mut Vec<u8>, count: usize) -> Result<(), DumpError> {
        let begin = bytes.len();
        bytes.resize(begin + count, 0);
        let fresh = bytes.get_mut(begin..).unwrap_or_default();
        self.input.read_exact(fresh).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => DumpError::Cut(self.counts.bytes),
            _ => DumpError::Read(error),
        })?;
        self.sum.update(&*fresh);
        self.counts.bytes += count as u64;
        Ok(())
    }
}

/// Returns the last `N` bytes, which the caller has just read.
fn last_chunk<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.last_chunk().expect("as many bytes were read just before")
}

/// Returns a piece without its CRC. Fails with `Damaged` if the CRC differs.
fn checked(bytes: Vec<u8>, at: u64) -> Result<Bytes, DumpError> {
    let mut piece = Bytes::from(bytes);
    let crc = u32::from_be_bytes(last_chunk(&piece));
    piece.truncate(piece.len() - CRC_BYTES);
    let damaged = DumpError::Damaged { at, what: "a checksum differs" };
    if crc32c::crc32c(&piece) == crc { Ok(piece) } else { Err(damaged) }
}

fn key(bytes: Bytes, at: u64) -> Result<Key, DumpError> {
    if bytes.len() < Key::PREFIX_BYTES {
        return Err(DumpError::Damaged { at, what: "a key is too short" });
    }
    Ok(Key::from_bytes(bytes))
}
