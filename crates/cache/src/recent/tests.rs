//! The capacity of the table of recent hashes.

use super::*;

/// Hashes that differ in their high and low bits, as those of a hash function do.
fn hash(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[test]
fn hash_is_known_from_the_second_time() {
    let seen = RecentHashes::new(1_000);
    assert!(!seen.note(hash(1)));
    assert!(seen.note(hash(1)));
    assert!(!seen.note(hash(2)));
}

#[test]
fn newer_hashes_replace_older_ones() {
    let seen = RecentHashes::new(1_000);
    for n in 0..100_000 {
        seen.note(hash(n));
    }
    let known = (0..50_000).filter(|n| seen.note(hash(*n))).count();
    assert!(known < 100, "{known} of 50,000 old ones are known");
}
