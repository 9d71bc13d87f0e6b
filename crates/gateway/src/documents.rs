//! Memory for the XML documents of requests and for the values parsed from them.
//!
//! A document takes memory in steps, as it arrives. A client that only announces a long document
//! therefore holds none. The first 64 KiB of a document, its beginning, have a budget of their own,
//! so that long documents do not delay short ones.
//!
//! Documents that only took steps could block each other: for example, ten long documents could
//! each hold a part of the budget and wait for the rest. So a document that gets no step waits for
//! the memory of its whole rest, from a reserve. A document with such memory needs nothing more,
//! and gives it back when its request ends.
//!
//! While others wait, a document that arrives more slowly than [`DOCUMENT_BYTES_PER_SECOND_MIN`]
//! loses its memory, and its request fails.

use std::time::Duration;

use content::{ByteBudget, MemoryHolder};
use s3::{Code, Fault};
use tokio::time::{Instant, sleep};
use volume::Permit;

use crate::place::Place;
use crate::translate;

/// Bytes of memory for each byte of a document: one for the document, one for the values parsed
/// from it.
const DOCUMENT_MEMORY: u64 = 2;

/// The size in bytes of the beginning of an XML document.
const BEGINNING_BYTES: u64 = 64 << 10;

/// The size of one step of memory for the beginning, in bytes of the document.
const STEP_BYTES: u64 = 16 << 10;

/// The size of one step of memory after the beginning, in bytes of the document.
const LONG_STEP_BYTES: u64 = 128 << 10;

/// The part of the memory for long documents that is the reserve: one of so many.
const RESERVE_PART: u64 = 4;

/// The longest wait of a document for memory. Documents of one access key wait for each other, so
/// the limit is longer than the server needs for several of them.
pub(crate) const DOCUMENT_MEMORY_WAIT: Duration = Duration::from_secs(20);

/// The interval at which a document that waits for the reserve tries to take a step instead.
const STEP_INTERVAL: Duration = Duration::from_millis(100);

/// The lowest rate of a document while others wait for memory.
pub(crate) const DOCUMENT_BYTES_PER_SECOND_MIN: u64 = 128 << 10;

/// The time over which the rate of a document is measured. A pause of this length while others wait
/// ends the request.
const RATE_WINDOW: Duration = Duration::from_secs(2);

/// The memory budgets for the XML documents of one group of senders: those that are authenticated,
/// or those that are not.
#[derive(Debug)]
pub(crate) struct DocumentBudgets {
    /// The budget for the beginnings of documents, up to 64 KiB each. A short document is only a
    /// beginning.
    beginnings: ByteBudget,
    /// The budget for longer documents, in steps.
    long: ByteBudget,
    /// The budget for the whole rests of longer documents that got no step.
    reserve: ByteBudget,
}

impl DocumentBudgets {
    /// Returns budgets of these sizes, in bytes, for beginnings and for longer documents.
    pub(crate) fn new(beginnings: u64, long: u64) -> DocumentBudgets {
        let reserve = long / RESERVE_PART;
        DocumentBudgets {
            beginnings: ByteBudget::with_fixed_shares(beginnings),
            long: ByteBudget::with_fixed_shares(long - reserve),
            reserve: ByteBudget::with_fixed_shares(reserve),
        }
    }
}

/// The memory that one XML document has taken from the budgets while it is received.
#[derive(Debug)]
pub(crate) struct DocumentMemory<'b> {
    budgets: &'b DocumentBudgets,
    holder: MemoryHolder,
    /// The place of the request, which it gives up during waits.
    place: Option<&'b Place>,
    /// The announced size of the document, or its limit, in bytes.
    all: u64,
    held: DocumentPermits,
    /// True after the document has grown beyond its beginning.
    is_long: bool,
}

/// The permits for the memory of one document.
#[derive(Debug, Default)]
pub(crate) struct DocumentPermits {
    /// The memory that was taken in steps.
    steps: Option<Permit>,
    /// The memory of the rest of the document, from the reserve.
    rest: Option<Permit>,
}

impl DocumentPermits {
    fn step_bytes(&self) -> u64 {
        self.steps.as_ref().map_or(0, Permit::bytes)
    }

    fn add_step(&mut self, more: Permit) {
        match &mut self.steps {
            Some(held) => held.merge(more),
            None => self.steps = Some(more),
        }
    }

    /// Gives back all memory but `bytes` bytes.
    fn shrink_to(&mut self, bytes: u64) {
        if let Some(steps) = &mut self.steps {
            steps.shrink_to(bytes);
        }
        let rest = bytes - self.step_bytes().min(bytes);
        if let Some(held) = &mut self.rest {
            held.shrink_to(rest);
        }
    }
}

impl<'b> DocumentMemory<'b> {
    /// Creates the memory of a document, which has taken no bytes from a budget yet. `holder` is
    /// the client, whose shares of the budget limit the memory. `all` is the announced size of the
    /// document in bytes, or the limit if the client announced none.
    pub(crate) fn new(
        budgets: &'b DocumentBudgets,
        holder: MemoryHolder,
        place: Option<&'b Place>,
        all: u64,
    ) -> DocumentMemory<'b> {
        let held = DocumentPermits::default();
        DocumentMemory { budgets, holder, place, all, held, is_long: false }
    }

    /// Waits until the budgets have given memory for `arrived` bytes: the number of all bytes of
    /// the document that have arrived so far.
    ///
    /// Fails with `SlowDown` if the wait is longer than [`DOCUMENT_MEMORY_WAIT`], or if too many
    /// documents of the client wait.
    pub(crate) async fn grow(&mut self, arrived: u64) -> Result<(), Fault> {
        let held = self.held.step_bytes();
        if self.held.rest.is_some() || DOCUMENT_MEMORY * arrived <= held {
            return Ok(());
        }
        if arrived > BEGINNING_BYTES {
            return self.grow_long(arrived).await;
        }
        let step = arrived.next_multiple_of(STEP_BYTES).min(self.all.max(arrived));
        let wanted = DOCUMENT_MEMORY * step - held;
        let (budget, holder) = (&self.budgets.beginnings, &self.holder);
        let more = match budget.try_acquire_for(holder, wanted) {
            Some(more) => more,
            None => {
                let waits = budget.acquire_for(holder, wanted, DOCUMENT_MEMORY_WAIT);
                Place::without(self.place, waits).await?.map_err(translate::fault)?
            }
        };
        self.held.add_step(more);
        Ok(())
    }

    /// As [`DocumentMemory::grow`], beyond the beginning.
    async fn grow_long(&mut self, arrived: u64) -> Result<(), Fault> {
        let all = self.all.max(arrived);
        // The memory of the beginning is given back when the first step replaces it.
        let held = if self.is_long { self.held.step_bytes() } else { 0 };
        let step = DOCUMENT_MEMORY * arrived.next_multiple_of(LONG_STEP_BYTES).min(all) - held;
        if let Some(more) = self.budgets.long.try_acquire_for(&self.holder, step) {
            self.add_long_step(more);
            return Ok(());
        }
        let (budgets, holder) = (self.budgets, &self.holder);
        let rest = DOCUMENT_MEMORY * all - held;
        let waits = async {
            let reserve = budgets.reserve.acquire_for(holder, rest, DOCUMENT_MEMORY_WAIT);
            let mut reserve = std::pin::pin!(reserve);
            loop {
                tokio::select! {
                    biased;
                    rest = &mut reserve => return rest.map(Granted::Rest),
                    () = sleep(STEP_INTERVAL) => {}
                }
                if let Some(more) = budgets.long.try_acquire_for(holder, step) {
                    return Ok(Granted::Step(more));
                }
            }
        };
        match Place::without(self.place, waits).await?.map_err(translate::fault)? {
            Granted::Step(more) => self.add_long_step(more),
            Granted::Rest(rest) => {
                if !self.is_long {
                    self.held.steps = None;
                }
                self.is_long = true;
                self.held.rest = Some(rest);
            }
        }
        Ok(())
    }

    fn add_long_step(&mut self, more: Permit) {
        if !self.is_long {
            self.held.steps = None;
        }
        self.is_long = true;
        self.held.add_step(more);
    }

    /// Returns true if other documents wait for memory of the kind that this one holds.
    fn is_wanted(&self) -> bool {
        let holds = self.held.steps.is_some() || self.held.rest.is_some();
        let budget = if self.is_long { &self.budgets.reserve } else { &self.budgets.beginnings };
        holds && budget.is_wanted()
    }

    /// Returns the permits for the memory of a complete document of `bytes` bytes, and gives the
    /// rest of the memory back.
    pub(crate) fn finish(self, bytes: u64) -> DocumentPermits {
        let mut held = self.held;
        held.shrink_to(DOCUMENT_MEMORY * bytes);
        held
    }
}

/// The memory that a long document got after a wait.
enum Granted {
    /// Memory for the next step.
    Step(Permit),
    /// Memory for the whole rest of the document.
    Rest(Permit),
}

/// The rate at which a document arrives, measured in windows of [`RATE_WINDOW`].
#[derive(Debug)]
pub(crate) struct ArrivalRate {
    began: Instant,
    bytes: u64,
}

impl ArrivalRate {
    pub(crate) fn new() -> ArrivalRate {
        ArrivalRate { began: Instant::now(), bytes: 0 }
    }

    /// Returns the end of the window.
    pub(crate) fn check_at(&self) -> Instant {
        self.began + RATE_WINDOW
    }

    /// Counts bytes that have arrived.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Excludes a time in which the gateway did not read from the client.
    pub(crate) fn exclude(&mut self, time: Duration) {
        self.began += time;
    }

    /// Ends a window and starts the next one. Fails with `RequestTimeout` if the document was too
    /// slow in it and others wait for its memory.
    pub(crate) fn check(&mut self, memory: &DocumentMemory<'_>) -> Result<(), Fault> {
        let arrived = std::mem::replace(self, ArrivalRate::new()).bytes;
        let is_slow = arrived < DOCUMENT_BYTES_PER_SECOND_MIN * RATE_WINDOW.as_secs();
        if is_slow && memory.is_wanted() { Err(Code::RequestTimeout.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
