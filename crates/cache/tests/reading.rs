//! A cache over blocks that are slow, damaged and broken: each read returns the right bytes or an
//! error, and sends no unnecessary request.

#![expect(clippy::unwrap_used, unreachable_pub, reason = "these modules are one test")]
#![expect(clippy::disallowed_methods, reason = "readers are tasks that end with their test")]

#[path = "reading/disk.rs"]
mod disk;
#[path = "reading/memory.rs"]
mod memory;
#[path = "reading/odd.rs"]
mod odd;
