//! What there is once, as a worker reads and writes it.

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
    /// Which worker of the mount this is; the first one is 1.
    pub fn worker(&self) -> u64 {
        self.header.worker
    }

    /// The session of the workers before.
    pub fn session(&self) -> io::Result<Option<Nonce>> {
        let mut bytes = [0; Nonce::BYTES + 1];
        read_or_zeros(&self.header.file, &mut bytes, SESSION_AT)?;
        let mut nonce = [0; Nonce::BYTES];
        nonce.copy_from_slice(&bytes[..Nonce::BYTES]);
        Ok((bytes[Nonce::BYTES] == SESSION_MARK).then_some(Nonce(nonce)))
    }

    /// Takes note of a session that is about to begin.
    pub fn set_session(&self, session: Nonce) -> io::Result<()> {
        self.header.slots.store(0, Ordering::SeqCst);
        self.header.file.write_all_at(&0_u64.to_le_bytes(), SLOTS_AT)?;
        *self.header.blocks.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        self.header.file.write_all_at(&0_u64.to_le_bytes(), BLOCKS_AT)?;
        let mut bytes = [SESSION_MARK; Nonce::BYTES + 1];
        bytes[..Nonce::BYTES].copy_from_slice(&session.0);
        self.header.file.write_all_at(&bytes, SESSION_AT)
    }

    /// How many idempotency slots of the session may have a record.
    pub fn slots(&self) -> u16 {
        u16::try_from(self.header.slots.load(Ordering::SeqCst)).unwrap_or(u16::MAX)
    }

    /// Takes note of how many there are, before one more is used.
    pub fn set_slots(&self, slots: u16) -> io::Result<()> {
        let slots = u64::from(slots);
        self.header.slots.store(slots, Ordering::SeqCst);
        self.header.file.write_all_at(&slots.to_le_bytes(), SLOTS_AT)
    }

    /// The next [`BLOCKS_RESERVED`] numbers for blocks of the session, which no worker had before:
    /// the first of them.
    pub fn reserve_blocks(&self) -> io::Result<u64> {
        let mut reserved = self.header.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, end) = (*reserved, *reserved + BLOCKS_RESERVED);
        self.header.file.write_all_at(&end.to_le_bytes(), BLOCKS_AT)?;
        *reserved = end;
        Ok(first)
    }

    /// What the first worker agreed on with the kernel.
    pub fn negotiated(&self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = [0; NEGOTIATED_BYTES_MAX + 1];
        read_or_zeros(&self.header.file, &mut bytes, NEGOTIATED_AT)?;
        let length = usize::from(bytes[0]);
        Ok((length > 0).then(|| bytes[1..=length].to_vec()))
    }

    /// Takes note of what was agreed on with the kernel.
    pub fn set_negotiated(&self, negotiated: &[u8]) -> io::Result<()> {
        let length =
            u8::try_from(negotiated.len()).ok().filter(|n| usize::from(*n) <= NEGOTIATED_BYTES_MAX);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = [&[length], negotiated].concat();
        self.header.file.write_all_at(&bytes, NEGOTIATED_AT)
    }
}
