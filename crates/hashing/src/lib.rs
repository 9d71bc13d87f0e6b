//! MD5 of many messages at once, and the CRC of a whole from those of its pieces.
//!
//! The ETag of an object is an MD5, and the MD5 of one message cannot be computed in parallel. Those of
//! different messages can: up to sixteen in the columns of vector registers, which costs hardly more than
//! one, or a few interleaved in ordinary registers, where that is faster.
//!
//! The CRC of a whole follows from those of its pieces. [`CrcCombiner`] costs far less than reading
//! the whole once more.
//!
//! [`Md5`], [`Job`] and [`CrcCombiner`] only compute. A [`HashingPool`] has threads, and needs no
//! runtime: its results are futures. This crate does not know what is hashed, or why.

mod compress;
mod crc;
mod interleaved;
mod job;
mod md5;
mod pool;
#[cfg(test)]
mod tests;
mod vectors;
mod ways;

pub use crc::{Crc, CrcCombiner};
pub use job::Job;
pub use md5::Md5;
pub use pool::{
    Gone, HashingPool, JOBS_WAITING_MAX, PROCESSORS_PER_WORKER, Patience, Pending,
    WAITING_BYTES_MAX, WAITING_JOBS_MAX,
};
pub use vectors::COLUMNS_MAX;
pub use ways::Ways;
