//! Reading and writing the fields of the ledger's header. For example, a worker (the process that
//! serves the mount) reads the session of the worker before it, and continues it.

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
    /// Returns the number of this worker, the process that serves the mount. The first worker of a
    /// mount has number 1, the one that replaces it 2, and so on.
    pub fn worker(&self) -> u64 {
        self.header.worker
    }

    /// Returns the nonce (the name) of the session with the store that the earlier workers used, so
    /// that this one can continue it. `None` if no session was recorded yet.
    pub fn session(&self) -> io::Result<Option<Nonce>> {
        let mut bytes = [0; Nonce::BYTES + 1];
        read_or_zeros(&self.header.file, &mut bytes, SESSION_AT)?;
        let mut nonce = [0; Nonce::BYTES];
        nonce.copy_from_slice(&bytes[..Nonce::BYTES]);
        Ok((bytes[Nonce::BYTES] == SESSION_MARK).then_some(Nonce(nonce)))
    }

    /// Records the nonce (the name) of a session with the store that is about to begin. Sets the
    /// counts of idempotency slots and of reserved block numbers to 0, because both belong to the
    /// session.
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

    /// Returns the number of idempotency slots of the session that may have a record in the store.
    /// Such a record proves whether a plan (one conditional commit) happened.
    pub fn slots(&self) -> u16 {
        u16::try_from(self.header.slots.load(Ordering::SeqCst)).unwrap_or(u16::MAX)
    }

    /// Records the number of idempotency slots (records in the store that prove whether a plan
    /// happened). Call this before one more slot is used, so that the next worker knows about all
    /// of them.
    pub fn set_slots(&self, slots: u16) -> io::Result<()> {
        let slots = u64::from(slots);
        self.header.slots.store(slots, Ordering::SeqCst);
        self.header.file.write_all_at(&slots.to_le_bytes(), SLOTS_AT)
    }

    /// Reserves the next [`BLOCKS_RESERVED`] block numbers of the session, by which the blocks of
    /// data that it writes are named. No earlier worker has used them. Returns the first one.
    pub fn reserve_blocks(&self) -> io::Result<u64> {
        let mut reserved = self.header.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // Written before use: block numbers that a killed worker used are never given out again.
        let (first, end) = (*reserved, *reserved + BLOCKS_RESERVED);
        self.header.file.write_all_at(&end.to_le_bytes(), BLOCKS_AT)?;
        *reserved = end;
        Ok(first)
    }

    /// Returns the encoded options that the first worker negotiated with the kernel, which does so
    /// only once in the life of a mount. `None` before the negotiation.
    pub fn negotiated(&self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = [0; NEGOTIATED_BYTES_MAX + 1];
        read_or_zeros(&self.header.file, &mut bytes, NEGOTIATED_AT)?;
        let length = usize::from(bytes[0]);
        Ok((length > 0).then(|| bytes[1..=length].to_vec()))
    }

    /// Records the encoded options that were negotiated with the kernel, for the workers that
    /// follow. Fails with `InvalidInput` if they have more than 191 bytes.
    pub fn set_negotiated(&self, negotiated: &[u8]) -> io::Result<()> {
        let length =
            u8::try_from(negotiated.len()).ok().filter(|n| usize::from(*n) <= NEGOTIATED_BYTES_MAX);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        // One write within one page: the length and the options appear together.
        let bytes = [&[length], negotiated].concat();
        self.header.file.write_all_at(&bytes, NEGOTIATED_AT)
    }
}
