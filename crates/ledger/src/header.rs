//! The header of the ledger: its format, the number of workers (processes that have served the
//! mount, one after the other), their session with the store, and the options that were negotiated
//! with the kernel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crate::error::LedgerError;
use crate::table::read_word;

/// The format that this release writes. As bytes, it is "ashlar", the format's number and a zero.
pub(crate) const FORMAT: u64 = u64::from_le_bytes(*b"ashlar\x01\x00");

/// The offset of the format in the ledger.
pub(crate) const FORMAT_AT: u64 = 0;
/// The offset of the number of workers (processes that have served the mount) so far.
pub(crate) const WORKERS_AT: u64 = 8;
/// The offset of the nonce, the name of the session with the store.
pub(crate) const SESSION_AT: u64 = 16;
/// The offset of the first block number that is not reserved.
pub(crate) const BLOCKS_AT: u64 = 32;
/// The offset of the number of idempotency slots, records in the store that prove whether a plan
/// happened.
pub(crate) const SLOTS_AT: u64 = 40;
/// The offset of the options that were negotiated with the kernel, after a byte with their length.
pub(crate) const NEGOTIATED_AT: u64 = 64;

/// The byte after the nonce (the name of the session). Only with this byte is the nonce valid: a
/// new ledger has zeros there.
pub(crate) const SESSION_MARK: u8 = 1;

/// The maximum length of the options that were negotiated with the kernel, in bytes. One more byte
/// has the length.
pub(crate) const NEGOTIATED_BYTES_MAX: usize = 191;

/// The number of block numbers that one reservation takes. A block number names a block of data
/// that this session writes, and must never be given twice.
pub const BLOCKS_RESERVED: u64 = 1 << 20;

/// The header of the ledger, with the values that change during the life of a worker (the process
/// that serves the mount).
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) file: Arc<File>,
    /// The number of this worker, the process that serves the mount; the first one has 1.
    pub(crate) worker: u64,
    /// The first block number that is not reserved. Numbers below it may have been used, also by
    /// earlier workers.
    pub(crate) blocks: Mutex<u64>,
    /// The number of idempotency slots of the session that may have a record in the store.
    pub(crate) slots: AtomicU64,
}

impl Header {
    /// Opens the header as the next worker (process of the mount), and counts this worker. Writes
    /// the format if the ledger is new.
    pub(crate) fn open(file: &Arc<File>) -> Result<Header, LedgerError> {
        match read_word(file, FORMAT_AT)? {
            FORMAT => {}
            // A new ledger is all zeros.
            0 => file.write_all_at(&FORMAT.to_le_bytes(), FORMAT_AT)?,
            found => return Err(LedgerError::Format { found, known: FORMAT }),
        }
        // Counted before the first entry: handles and generations of two workers must differ.
        let worker = read_word(file, WORKERS_AT)? + 1;
        file.write_all_at(&worker.to_le_bytes(), WORKERS_AT)?;
        let blocks = Mutex::new(read_word(file, BLOCKS_AT)?);
        let slots = AtomicU64::new(read_word(file, SLOTS_AT)?);
        Ok(Header { file: Arc::clone(file), worker, blocks, slots })
    }
}
