//! A run that is passed on to the reader as it arrives.
//!
//! The reader's own polls advance it. Bytes that the reader has not requested wait in the buffers
//! of the connection, which slows the block store down. So a slow reader costs no memory beyond its
//! one permit. Only the request is sent ahead of the reader, by a task that ends when the response
//! begins.
//!
//! For example, a client that reads 10 KB/s of an 8 MiB block holds [`ARRIVAL_MEMORY_BYTES`], and
//! not 8 MiB.

use block::Arrival;
use bytes::Bytes;
use tokio::time::timeout;

use super::reading::Reading;
use super::runs::{BlockChecksum, Run};
use crate::ContentError;
use crate::Permit;

/// The most memory of a run that is passed on as it arrives, in bytes: those that a connection
/// reads at once, and the pieces that wait for the rest of their sub-block (64 KiB) and for the
/// client's connection.
pub const ARRIVAL_MEMORY_BYTES: u64 = 512 << 10;

/// When a run that is passed on as it arrives has this many content bytes left, the next run is
/// requested.
pub const OPEN_AHEAD_BYTES: u32 = 2 << 20;

/// A run (part of a block) that is passed on to the reader as it arrives.
pub(super) struct Arriving {
    run: Run,
    arrival: Arrival,
    permit: Permit,
}

impl Arriving {
    /// Creates a run that will be passed on as it arrives. Its request has not been sent.
    pub(super) fn new(run: Run, arrival: Arrival, permit: Permit) -> Arriving {
        Arriving { run, arrival, permit }
    }

    /// Sends the request and waits for the start of the response.
    pub(super) async fn opened(mut self, reading: &Reading) -> Result<Arriving, ContentError> {
        reading.traffic.gets.add(1);
        match timeout(reading.deadlines.block, reading.reader.open(&mut self.arrival)).await {
            Ok(opened) => opened.map(|()| self).map_err(ContentError::from),
            Err(late) => Err(self.late(&late)),
        }
    }

    /// Passes the checksum of the block's content right before this run to the run, so that the
    /// whole block can be verified at its end.
    pub(super) fn follow(&mut self, block_checksum: &mut BlockChecksum) {
        if let Some(before) = block_checksum.before(&self.run) {
            self.arrival.set_preceding_crc(before);
        }
    }

    /// Returns the next verified piece of the run; `None` at its end.
    pub(super) async fn next(&mut self, reading: &Reading) -> Result<Option<Bytes>, ContentError> {
        loop {
            // Verified pieces are handed out before more bytes are read from the connection.
            if let Some(piece) = self.arrival.take() {
                reading.traffic.got_bytes.add(piece.len() as u64);
                return Ok(Some(piece));
            }
            let advancing = reading.reader.advance(&mut self.arrival);
            match timeout(reading.deadlines.block, advancing).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(None),
                Ok(Err(error)) => return Err(error.into()),
                Err(late) => return Err(self.late(&late)),
            }
        }
    }

    /// Records the checksum up to the end of this run for the next run, and returns the permit.
    pub(super) fn end(self, block_checksum: &mut BlockChecksum) -> Permit {
        block_checksum.pass(&self.run, self.arrival.running_crc());
        self.permit
    }

    /// Returns true if so little of the run is left that the next one should be requested.
    pub(super) fn is_near_its_end(&self) -> bool {
        self.arrival.left() <= OPEN_AHEAD_BYTES
    }

    fn late(&self, late: &tokio::time::error::Elapsed) -> ContentError {
        ContentError::Unavailable(format!("reading block {}: {late}", self.run.block.id))
    }
}
