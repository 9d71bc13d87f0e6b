//! Reading and writing the fields of the header.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use record::Nonce;

use crate::header::{
    BLOCKS_AT, BLOCKS_RESERVED, NEGOTIATED_AT, NEGOTIATED_BYTES_MAX, SESSION_AT, SESSION_MARK,
    SLOTS_AT,
};
use crate::ledger::Ledger;
use crate::table::read_or_zeros;

impl Ledger {
    /// Returns the number of this worker. The first one is 1.
    pub fn worker(&self) -> u64 {
        self.header.worker
    }

    /// Returns the session of the earlier workers, if one was recorded.
    pub fn session(&self) -> io::Result<Option<Nonce>> {
        let mut bytes = [0; Nonce::BYTES + 1];
        read_or_zeros(&self.header.file, &mut bytes, SESSION_AT)?;
        let mut nonce = [0; Nonce::BYTES];
        nonce.copy_from_slice(&bytes[..Nonce::BYTES]);
        Ok((bytes[Nonce::BYTES] == SESSION_MARK).then_some(Nonce(nonce)))
    }

    /// Records a session that is about to begin, without idempotency slots and block numbers.
    pub fn set_session(&self, session: Nonce) -> io::Result<()> {
        // Reset the counters before the nonce is written: counters of another session must never be
        // used with the new one.
        self.header.slots.store(0, Ordering::SeqCst);
        self.header.file.write_all_at(&0_u64.to_le_bytes(), SLOTS_AT)?;
        *self.header.blocks.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        self.header.file.write_all_at(&0_u64.to_le_bytes(), BLOCKS_AT)?;
        let mut bytes = [SESSION_MARK; Nonce::BYTES + 1];
        bytes[..Nonce::BYTES].copy_from_slice(&session.0);
        self.header.file.write_all_at(&bytes, SESSION_AT)
    }

    /// Returns the number of idempotency slots of the session that may have a record.
    pub fn slots(&self) -> u16 {
        u16::try_from(self.header.slots.load(Ordering::SeqCst)).unwrap_or(u16::MAX)
    }

    /// Records the number of idempotency slots, before one more is used.
    pub fn set_slots(&self, slots: u16) -> io::Result<()> {
        let slots = u64::from(slots);
        self.header.slots.store(slots, Ordering::SeqCst);
        self.header.file.write_all_at(&slots.to_le_bytes(), SLOTS_AT)
    }

    /// Reserves the next [`BLOCKS_RESERVED`] block numbers of the session, which no earlier worker
    /// used. Returns the first one.
    pub fn reserve_blocks(&self) -> io::Result<u64> {
        let mut reserved = self.header.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // Written before use: block numbers that a killed worker used are never given out again.
        let (first, end) = (*reserved, *reserved + BLOCKS_RESERVED);
        self.header.file.write_all_at(&end.to_le_bytes(), BLOCKS_AT)?;
        *reserved = end;
        Ok(first)
    }

    /// Returns the options that the first worker negotiated with the kernel; `None` before that.
    pub fn negotiated(&self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = [0; NEGOTIATED_BYTES_MAX + 1];
        read_or_zeros(&self.header.file, &mut bytes, NEGOTIATED_AT)?;
        let length = usize::from(bytes[0]);
        Ok((length > 0).then(|| bytes[1..=length].to_vec()))
    }

    /// Records the options that were negotiated with the kernel. Fails with `InvalidInput` if they
    /// are too long.
    pub fn set_negotiated(&self, negotiated: &[u8]) -> io::Result<()> {
        let length =
            u8::try_from(negotiated.len()).ok().filter(|n| usize::from(*n) <= NEGOTIATED_BYTES_MAX);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        // One write within one page: the length and the options appear together.
        let bytes = [&[length], negotiated].concat();
        self.header.file.write_all_at(&bytes, NEGOTIATED_AT)
    }
}
