//! The contract of block stores, for blocks in memory.

use std::future::{Ready, ready};

use block::MemoryBlocks;

fn fresh() -> Ready<Option<((), MemoryBlocks)>> {
    ready(Some(((), MemoryBlocks::new())))
}

block::conformance!(fresh);
