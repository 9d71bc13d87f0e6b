use super::{available, cache_default, cache_of};
use crate::config::Size;

const GIB: u64 = 1 << 30;

#[test]
fn the_cache_takes_a_sixteenth_within_limits() {
    assert_eq!(cache_of(0), Size::mebibytes(128));
    assert_eq!(cache_of(GIB), Size::mebibytes(128));
    assert_eq!(cache_of(8 * GIB), Size::mebibytes(512));
    assert_eq!(cache_of(8 * GIB - 1), Size::mebibytes(511), "whole MiB");
    assert_eq!(cache_of(24 * GIB), Size::mebibytes(1024));
}

#[test]
fn the_system_reports_its_memory() {
    assert!(available() > 64 << 20, "no machine runs this in less: {}", available());
    assert_eq!(cache_default(), cache_default());
}
