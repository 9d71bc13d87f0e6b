//! A run that is passed on as it arrives.
//!
//! The reader itself moves it on: what it has not asked for waits in the buffers of the connection
//! and holds the block store back, so that a slow reader costs no memory but the account that each
//! arriving run has. Only its request is sent ahead of the reader, by a task that ends when the
//! answer begins.

use block::Arrival;
use bytes::Bytes;
use tokio::time::timeout;

use super::reading::Reading;
use super::runs::{BlockChecksum, Run};
use crate::ContentError;
use crate::Permit;

/// Bytes that an arriving run may hold in memory: what a connection reads at once, and what waits
/// in pieces of that for the rest of its sub-block and for the client's connection.
pub const ARRIVAL_MEMORY_BYTES: u64 = 512 << 10;

/// Content bytes left of an arriving run at which the next one is asked for.
pub const OPEN_AHEAD_BYTES: u32 = 2 << 20;

/// A run that arrives.
pub(super) struct Arriving {
    run: Run,
    arrival: Arrival,
    permit: Permit,
}

impl Arriving {
    /// Nothing was asked for yet.
    pub(super) fn new(run: Run, arrival: Arrival, permit: Permit) -> Arriving {
        Arriving { run, arrival, permit }
    }

    /// Sends the request and waits until it is answered.
    pub(super) async fn opened(mut self, reading: &Reading) -> Result<Arriving, ContentError> {
        reading.traffic.gets.add(1);
        match timeout(reading.deadlines.block, reading.reader.open(&mut self.arrival)).await {
            Ok(opened) => opened.map(|()| self).map_err(ContentError::from),
            Err(late) => Err(self.late(&late)),
        }
    }

    /// Says what came right before it.
    pub(super) fn follow(&mut self, block_checksum: &mut BlockChecksum) {
        if let Some(before) = block_checksum.before(&self.run) {
            self.arrival.follow(before);
        }
    }

    /// The next piece; `None` at the end of the run.
    pub(super) async fn next(&mut self, reading: &Reading) -> Result<Option<Bytes>, ContentError> {
        loop {
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

    /// Says what came, to the run right behind it, and gives its memory back to the reader.
    pub(super) fn end(self, block_checksum: &mut BlockChecksum) -> Permit {
        block_checksum.pass(&self.run, self.arrival.joined());
        self.permit
    }

    /// Whether the next run should be asked for.
    pub(super) fn is_near_its_end(&self) -> bool {
        self.arrival.left() <= OPEN_AHEAD_BYTES
    }

    fn late(&self, late: &tokio::time::error::Elapsed) -> ContentError {
        ContentError::Unavailable(format!("reading block {}: {late}", self.run.block.id))
    }
}
