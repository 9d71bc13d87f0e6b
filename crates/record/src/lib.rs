//! The persistent records of a volume: their ids, their bytes, and the order of their keys.
//!
//! Every byte that reaches a metadata store is laid out here and described in `docs/FORMAT.md`.
//! Nothing here reads, writes, or knows the time.

mod id;

pub use id::{BlockId, IdError, Ino, Nonce};
