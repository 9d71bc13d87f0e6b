//! What there is once: format, how many workers there were, the session, what the kernel agreed on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crate::error::LedgerError;
use crate::table::read_word;

/// The format that this release writes. Its first bytes say what the file is.
pub(crate) const FORMAT: u64 = u64::from_le_bytes(*b"ashlar\x01\x00");

pub(crate) const FORMAT_AT: u64 = 0;
pub(crate) const WORKERS_AT: u64 = 8;
pub(crate) const SESSION_AT: u64 = 16;
pub(crate) const BLOCKS_AT: u64 = 32;
pub(crate) const SLOTS_AT: u64 = 40;
pub(crate) const NEGOTIATED_AT: u64 = 64;

/// What a session is followed by.
pub(crate) const SESSION_MARK: u8 = 1;

/// Bytes of what the kernel agreed on.
pub(crate) const NEGOTIATED_BYTES_MAX: usize = 191;

/// How many numbers of blocks are reserved at a time.
pub const BLOCKS_RESERVED: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) file: Arc<File>,
    pub(crate) worker: u64,
    /// Up to where numbers of blocks are reserved.
    pub(crate) blocks: Mutex<u64>,
    pub(crate) slots: AtomicU64,
}

impl Header {
    pub(crate) fn open(file: &Arc<File>) -> Result<Header, LedgerError> {
        match read_word(file, FORMAT_AT)? {
            FORMAT => {}
            0 => file.write_all_at(&FORMAT.to_le_bytes(), FORMAT_AT)?,
            found => return Err(LedgerError::Format { found, known: FORMAT }),
        }
        let worker = read_word(file, WORKERS_AT)? + 1;
        file.write_all_at(&worker.to_le_bytes(), WORKERS_AT)?;
        let blocks = Mutex::new(read_word(file, BLOCKS_AT)?);
        let slots = AtomicU64::new(read_word(file, SLOTS_AT)?);
        Ok(Header { file: Arc::clone(file), worker, blocks, slots })
    }
}
