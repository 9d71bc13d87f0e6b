//! The shared resources of all streams of a volume.

use std::sync::Arc;

use block::BlockReader;
use runtime::Tasks;

use crate::{ByteBudget, Deadlines, Traffic};

/// The resources that all streams of a volume share.
#[derive(Debug)]
pub struct Reading {
    /// The reader of blocks.
    pub reader: Arc<dyn BlockReader>,
    /// The memory budget of outgoing bodies. It is separate from the writers' budget, so that
    /// neither starves the other.
    pub budget: ByteBudget,
    /// The task group that runs reads.
    pub tasks: Tasks,
    /// Timeouts for memory and for calls to the block store.
    pub deadlines: Deadlines,
    /// Counters of reads and writes.
    pub traffic: Arc<Traffic>,
}
