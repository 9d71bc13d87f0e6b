//! Request ids: 16 hexadecimal digits, unique within a process. For example, `8F2C41E09B3D7A65`.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of request ids.
///
/// A counter with a random start passes through a bijection, so the ids of one process never
/// repeat, and ids of two processes are unlikely to be equal. An id is not a secret.
#[derive(Debug)]
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    /// Returns a source with this random start.
    pub(crate) fn starting_at(random: u64) -> RequestIds {
        RequestIds(AtomicU64::new(random))
    }

    /// Returns the next id.
    pub(crate) fn next(&self) -> String {
        // The finalizer of splitmix64. Each step is invertible, so different counters have
        // different ids.
        let mut mixed = self.0.fetch_add(1, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        format!("{:016X}", mixed ^ (mixed >> 31))
    }
}
