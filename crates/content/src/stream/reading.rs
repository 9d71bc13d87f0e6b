//! What reading takes.

use std::sync::Arc;

use block::BlockReader;
use runtime::Tasks;

use crate::{ByteBudget, Deadlines, Traffic};

/// What all streams of a volume share.
#[derive(Debug)]
pub struct Reading {
    /// Where the content of blocks comes from.
    pub reader: Arc<dyn BlockReader>,
    /// What bodies on their way out may hold in memory; not the writers' budget, so that neither
    /// can starve the other.
    pub budget: ByteBudget,
    /// Where reads run.
    pub tasks: Tasks,
    /// How long to wait.
    pub deadlines: Deadlines,
    /// What happened.
    pub traffic: Arc<Traffic>,
}
