//! MD5 of many messages at once, and the CRC of a whole from those of its pieces.
//!
//! The ETag of an object is an MD5, and one message's MD5 cannot be computed in parallel. Different
//! messages' can: up to sixteen stand side by side in the columns of vector registers, at hardly
//! more cost than one, and a few in ordinary registers, where that is quicker.
//!
//! The CRC of a whole follows from those of its pieces: [`Behind`] costs far less than reading the
//! whole once more.
//!
//! [`Md5`], [`Job`] and [`Behind`] compute and do nothing else. A [`Pool`] has threads, and
//! knows no runtime: whoever waits for it is a future like any other. What is hashed, and why, is not
//! known here.

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

pub use crc::{Behind, Crc};
pub use job::Job;
pub use md5::Md5;
pub use pool::{
    COMPANY_MAX, Gone, PROCESSORS_PER_WORKER, Patience, Pending, Pool, WAITING_BYTES_MAX,
    WAITING_JOBS_MAX,
};
pub use vectors::COLUMNS_MAX;
pub use ways::Ways;
