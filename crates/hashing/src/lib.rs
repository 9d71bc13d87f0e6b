//! MD5 of many messages in parallel, and the CRC of a message from the CRCs of its pieces.
//!
//! The ETag of an object is an MD5, and the MD5 of one message cannot be computed in parallel. The
//! MD5s of different messages can: up to sixteen in the columns of vector registers, at hardly more
//! cost than one message. For example, sixteen clients that upload at the same time share one
//! worker thread.
//!
//! [`CrcCombiner`] computes the CRC of a message from the CRCs of its pieces, which costs far less
//! than another read of the message. For example, the CRC of a multipart object follows from its
//! parts.
//!
//! [`Md5`], [`Job`] and [`CrcCombiner`] only compute. [`HashingPool`] has threads and needs no
//! async runtime, because its results are plain futures. The crate does not know the content or the
//! purpose of the messages.

mod compress;
mod crc;
mod job;
mod md5;
mod pool;
#[cfg(test)]
mod tests;
mod vectors;

pub use crc::{Crc, CrcCombiner};
pub use job::Job;
pub use md5::Md5;
pub use pool::{
    AWAITED_JOBS_MAX, Gone, HashingPool, PROCESSORS_PER_WORKER, Patience, Pending,
    QUEUED_BYTES_MAX, QUEUED_JOBS_MAX,
};
pub use vectors::COLUMNS_MAX;
