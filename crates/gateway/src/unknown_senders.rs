//! Memory for what a sender sends before the gateway knows who it is.
//!
//! The bodies of STS requests and the fields of forms name their sender, so they arrive without a
//! place among the requests in flight. The memory of those that are longer than
//! [`FREE_BYTES`] comes from one budget, of which each host has a share. For example, a thousand
//! connections that each send 60 KiB and then pause get no memory beyond the budget.

use std::time::Duration;

use content::{ByteBudget, MemoryHolder};
use s3::Fault;
use volume::Permit;

use crate::translate;

/// The bytes that each sender may send without memory of the budget. Usual STS requests and forms
/// have fewer before the sender is known.
const FREE_BYTES: u64 = 4 << 10;

/// The size of one step of memory.
const STEP_BYTES: u64 = 16 << 10;

/// The memory for all unknown senders.
const BUDGET_BYTES: u64 = 16 << 20;

/// The longest wait for memory, which is shorter than the time in which the sender must have sent
/// everything.
const MEMORY_WAIT: Duration = Duration::from_secs(3);

/// The budget of the memory for all unknown senders.
#[derive(Debug)]
pub(crate) struct UnknownSenders {
    budget: ByteBudget,
}

impl UnknownSenders {
    pub(crate) fn new() -> UnknownSenders {
        UnknownSenders { budget: ByteBudget::with_fixed_shares(BUDGET_BYTES) }
    }

    /// Returns the memory of one request, which has taken nothing from the budget yet. `holder` is
    /// the client's host, whose share of the budget limits it.
    pub(crate) fn memory(&self, holder: MemoryHolder) -> SenderMemory<'_> {
        SenderMemory { budget: &self.budget, holder, held: None }
    }
}

/// The memory that one request has taken from the budget. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct SenderMemory<'b> {
    budget: &'b ByteBudget,
    holder: MemoryHolder,
    held: Option<Permit>,
}

impl SenderMemory<'_> {
    /// Waits until there is memory for `arrived` bytes: the number of all bytes that have arrived
    /// so far.
    ///
    /// Fault: `SlowDown` if the wait is longer than [`MEMORY_WAIT`], or if too many requests of the
    /// host wait.
    pub(crate) async fn grow(&mut self, arrived: u64) -> Result<(), Fault> {
        let held = self.held.as_ref().map_or(0, Permit::bytes);
        if arrived <= FREE_BYTES.max(held) {
            return Ok(());
        }
        let wanted = arrived.next_multiple_of(STEP_BYTES) - held;
        let more = self.budget.acquire_for(&self.holder, wanted, MEMORY_WAIT).await;
        let more = more.map_err(translate::fault)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
