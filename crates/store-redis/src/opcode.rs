//! The opcodes of `commit_plans.lua`. `commit_batch.lua` shares those that change counters.

pub(crate) const PLAN: u8 = 1;
pub(crate) const EQUALS: u8 = 17;
pub(crate) const ABSENT: u8 = 18;
pub(crate) const PRESENT: u8 = 19;
pub(crate) const EMPTY: u8 = 20;
pub(crate) const PUT: u8 = 21;
pub(crate) const DELETE: u8 = 22;
pub(crate) const FEED: u8 = 23;
pub(crate) const ADD: u8 = 24;
pub(crate) const MAX: u8 = 25;
pub(crate) const SET: u8 = 26;
pub(crate) const AT_MOST: u8 = 27;
