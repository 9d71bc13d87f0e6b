//! Memory for the XML documents of requests, and for the values parsed from them.
//!
//! The beginning of a document takes memory in steps, as it arrives, so a client that only announces a
//! long document holds none. A longer document then waits, in turn, for memory for all of it. Long
//! documents of one access key are therefore received one after the other. If each of them took memory
//! step by step, all of them could hold a part and wait for the rest, and none would be served.

use std::time::Duration;

use content::{ByteBudget, MemoryHolder};
use s3::Fault;
use volume::Permit;

use crate::translate;

/// Bytes of memory for each byte of a document: one for itself, one for the values parsed from it.
const DOCUMENT_MEMORY: u64 = 2;

/// The beginning of a document, in bytes.
const BEGINNING_BYTES: u64 = 64 << 10;

/// Bytes of the beginning that memory is taken for in one step.
const STEP_BYTES: u64 = 16 << 10;

/// How long a document waits for memory. Documents of one access key wait for each other, so this is
/// longer than a server takes for several of them.
pub(crate) const DOCUMENT_MEMORY_WAIT: Duration = Duration::from_secs(20);

/// Memory for the documents of some senders.
#[derive(Debug)]
pub(crate) struct DocumentBudgets {
    /// For the beginnings of documents. Short documents are nothing else.
    beginnings: ByteBudget,
    /// For whole documents that are longer.
    wholes: ByteBudget,
}

impl DocumentBudgets {
    /// So many bytes for the beginnings of documents, and for long documents.
    pub(crate) fn new(beginnings: u64, wholes: u64) -> DocumentBudgets {
        DocumentBudgets {
            beginnings: ByteBudget::with_fixed_shares(beginnings),
            wholes: ByteBudget::with_fixed_shares(wholes),
        }
    }
}

/// The memory of one document.
#[derive(Debug)]
pub(crate) struct DocumentMemory<'b> {
    budgets: &'b DocumentBudgets,
    holder: MemoryHolder,
    /// The bytes that the document may have.
    all: u64,
    held: Option<Permit>,
    is_whole: bool,
}

impl<'b> DocumentMemory<'b> {
    /// Takes no memory yet. `all` are the bytes that the document has, or may have.
    pub(crate) fn new(
        budgets: &'b DocumentBudgets,
        holder: MemoryHolder,
        all: u64,
    ) -> DocumentMemory<'b> {
        DocumentMemory { budgets, holder, all, held: None, is_whole: false }
    }

    /// Waits until there is memory for the `here` bytes that have arrived.
    ///
    /// Fault: `SlowDown` if there is none in time.
    pub(crate) async fn grow(&mut self, here: u64) -> Result<(), Fault> {
        let held = self.held.as_ref().map_or(0, Permit::bytes);
        if self.is_whole || DOCUMENT_MEMORY * here <= held {
            return Ok(());
        }
        if here > BEGINNING_BYTES {
            let whole = DOCUMENT_MEMORY * self.all.max(here);
            self.held = Some(self.acquire(&self.budgets.wholes, whole).await?);
            self.is_whole = true;
            return Ok(());
        }
        let step = here.next_multiple_of(STEP_BYTES).min(self.all.max(here));
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

    /// Returns the permit for a document of `bytes`, all of which have arrived.
    pub(crate) fn finish(self, bytes: u64) -> Option<Permit> {
        let mut held = self.held?;
        held.shrink_to(DOCUMENT_MEMORY * bytes);
        Some(held)
    }
}

#[cfg(test)]
mod tests;
