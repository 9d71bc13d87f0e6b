//! Request ids: short and unique.

use std::sync::atomic::{AtomicU64, Ordering};

/// Draws ids of sixteen hexadecimal digits.
///
/// A counter with a random start goes through a bijection. So the ids of one process never repeat,
/// and those of two processes are unlikely to meet. An id is no secret.
#[derive(Debug)]
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    pub(crate) fn starting_at(random: u64) -> RequestIds {
        RequestIds(AtomicU64::new(random))
    }

    pub(crate) fn draw(&self) -> String {
        // The finalizer of splitmix64: each step can be undone, so the whole is one-to-one.
        let mut mixed = self.0.fetch_add(1, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        format!("{:016X}", mixed ^ (mixed >> 31))
    }
}
