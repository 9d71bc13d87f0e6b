//! Memory for the XML documents of requests and for the values parsed from them.
//!
//! The beginning of a document, its first 64 KiB, takes memory in steps, as it arrives. A client
//! that only announces a long document therefore holds none. A longer document waits in a queue for
//! the memory of the whole document. Long documents of one access key are therefore received one
//! after the other.
//!
//! Why not step by step: for example, ten long documents could each hold a part of the budget and
//! wait for the rest. None of them would finish.

use std::time::Duration;

use content::{ByteBudget, MemoryHolder};
use s3::Fault;
use volume::Permit;

use crate::translate;

/// Bytes of memory for each byte of a document: one for the document, one for the values parsed
/// from it.
const DOCUMENT_MEMORY: u64 = 2;

/// The size in bytes of the beginning of an XML document. Up to this size, it takes memory in steps
/// as it arrives.
const BEGINNING_BYTES: u64 = 64 << 10;

/// The size of one step of memory for the beginning, in bytes.
const STEP_BYTES: u64 = 16 << 10;

/// The longest wait of a document for memory. Documents of one access key wait for each other, so
/// the limit is longer than the server needs for several of them.
pub(crate) const DOCUMENT_MEMORY_WAIT: Duration = Duration::from_secs(20);

/// The memory budgets for the XML documents of one group of senders: those that are authenticated,
/// or those that are not.
#[derive(Debug)]
pub(crate) struct DocumentBudgets {
    /// The budget for the beginnings of documents, up to 64 KiB each. A short document is only a
    /// beginning.
    beginnings: ByteBudget,
    /// The budget for longer documents, each of which takes the memory for all of its bytes at
    /// once.
    long: ByteBudget,
}

impl DocumentBudgets {
    /// Returns budgets of these sizes, in bytes, for beginnings and for longer documents.
    pub(crate) fn new(beginnings: u64, long: u64) -> DocumentBudgets {
        DocumentBudgets {
            beginnings: ByteBudget::with_fixed_shares(beginnings),
            long: ByteBudget::with_fixed_shares(long),
        }
    }
}

/// The memory that one XML document has taken from the budgets while it is received.
#[derive(Debug)]
pub(crate) struct DocumentMemory<'b> {
    budgets: &'b DocumentBudgets,
    holder: MemoryHolder,
    /// The announced size of the document, or its limit, in bytes.
    all: u64,
    held: Option<Permit>,
    is_whole: bool,
}

impl<'b> DocumentMemory<'b> {
    /// Creates the memory of a document, which has taken no bytes from a budget yet. `holder` is
    /// the client, whose shares of the budget limit the memory. `all` is the announced size of the
    /// document in bytes, or the limit if the client announced none.
    pub(crate) fn new(
        budgets: &'b DocumentBudgets,
        holder: MemoryHolder,
        all: u64,
    ) -> DocumentMemory<'b> {
        DocumentMemory { budgets, holder, all, held: None, is_whole: false }
    }

    /// Waits until the budgets have given memory for `arrived` bytes: the number of all bytes of
    /// the document that have arrived so far.
    ///
    /// Fails with `SlowDown` if the wait is longer than [`DOCUMENT_MEMORY_WAIT`].
    pub(crate) async fn grow(&mut self, arrived: u64) -> Result<(), Fault> {
        let held = self.held.as_ref().map_or(0, Permit::bytes);
        if self.is_whole || DOCUMENT_MEMORY * arrived <= held {
            return Ok(());
        }
        // The permit for the whole document replaces the one for the beginning, which is released
        // when this assignment drops it.
        if arrived > BEGINNING_BYTES {
            let whole = DOCUMENT_MEMORY * self.all.max(arrived);
            self.held = Some(self.acquire(&self.budgets.long, whole).await?);
            self.is_whole = true;
            return Ok(());
        }
        let step = arrived.next_multiple_of(STEP_BYTES).min(self.all.max(arrived));
        let more = self.acquire(&self.budgets.beginnings, DOCUMENT_MEMORY * step - held).await?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    async fn acquire(&self, budget: &ByteBudget, bytes: u64) -> Result<Permit, Fault> {
        let permit = budget.acquire_for(&self.holder, bytes, DOCUMENT_MEMORY_WAIT).await;
        permit.map_err(translate::fault)
    }

    /// Returns the permit for the memory of a complete document of `bytes` bytes, and gives the
    /// rest of the memory back. Returns `None` if the document is empty, so that it took no memory.
    pub(crate) fn finish(self, bytes: u64) -> Option<Permit> {
        let mut held = self.held?;
        // The announced size was an upper limit. The rest goes back to the budget.
        held.shrink_to(DOCUMENT_MEMORY * bytes);
        Some(held)
    }
}

#[cfg(test)]
mod tests;
