//! Blocks in memory keep the contract.

use std::future::{Ready, ready};

use block::MemoryBlocks;

fn fresh() -> Ready<Option<((), MemoryBlocks)>> {
    ready(Some(((), MemoryBlocks::new())))
}

block::conformance!(fresh);
