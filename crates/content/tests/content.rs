//! Tests of writing and reading content over an in-memory block store, with and without faults.

#![expect(clippy::unwrap_used, unreachable_pub, reason = "these modules are one test")]

#[path = "content/arriving.rs"]
mod arriving;
#[path = "content/bench.rs"]
mod bench;
#[path = "content/block_store_md5.rs"]
mod block_store_md5;
#[path = "content/caching.rs"]
mod caching;
#[path = "content/faulty.rs"]
mod faulty;
#[path = "content/object_keys.rs"]
mod object_keys;
#[path = "content/packing.rs"]
mod packing;
#[path = "content/reading.rs"]
mod reading;
#[path = "content/slow_clients.rs"]
mod slow_clients;
#[path = "content/writing.rs"]
mod writing;
