//! Commands other than `serve`.

pub(crate) mod bench;
mod beside;
pub(crate) mod bucket;
pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod policy;
mod refusal;
pub(crate) mod upkeep;
pub(crate) mod user;
