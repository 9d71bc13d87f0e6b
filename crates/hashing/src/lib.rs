//! MD5 and SHA-256 of many messages at once, and CRCs of many pieces strung together.
//!
//! The ETag of an object is an MD5, and one message's MD5 cannot be computed in parallel. Different
//! messages' can: up to sixteen stand side by side in the columns of vector registers, at hardly
//! more cost than one, and a few in ordinary registers, where that is quicker.
//!
//! Where the SHA-256 of the same bytes is wanted too, as for a signature, it is computed beside the
//! MD5: the two fill each other's pauses.
//!
//! The CRC of a whole follows from those of its pieces: [`Behind`] costs far less than reading the
//! whole once more.
//!
//! [`Md5`], [`Sums`], [`Job`] and [`Behind`] compute and do nothing else. A [`Pool`] has threads, and
//! knows no runtime: whoever waits for it is a future like any other. What is hashed, and why, is not
//! known here.

mod abreast;
#[cfg(target_arch = "x86_64")]
mod beside;
mod columns;
mod compress;
mod md5;
mod pool;
mod running;
mod sha256;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
mod strung;
mod sums;
#[cfg(test)]
mod tests;
mod vectors;
mod woven;

pub use abreast::Ways;
pub use columns::{Job, Piece};
pub use md5::Md5;
pub use pool::{
    COMPANY_MAX, Gone, PROCESSORS_PER_WORKER, Patience, Pending, Pool, WAITING_BYTES_MAX,
    WAITING_JOBS_MAX,
};
pub use strung::{Behind, Crc};
pub use sums::Sums;
pub use vectors::COLUMNS_MAX;
