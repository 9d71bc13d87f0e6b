use std::time::Duration;

use super::{Sample, json_of, row};

/// Returns the text of metrics in which a mount has done this many reads, of which some failed.
fn text(reads: u32, failed: u32) -> String {
    format!(
        "# TYPE ashlar_fuse_operations counter\n\
         ashlar_fuse_operations_total{{operation=\"READ\",errno=\"OK\"}} {}\n\
         ashlar_fuse_operations_total{{operation=\"READ\",errno=\"EIO\"}} {failed}\n\
         ashlar_fuse_operation_seconds_sum{{operation=\"READ\"}} {}\n\
         ashlar_fuse_operation_seconds_bucket{{operation=\"READ\",le=\"0.001\"}} {}\n\
         ashlar_fuse_operation_seconds_bucket{{operation=\"READ\",le=\"0.01\"}} {reads}\n\
         ashlar_fuse_operation_seconds_bucket{{operation=\"READ\",le=\"+Inf\"}} {reads}\n\
         ashlar_fuse_read_bytes_total {}\n\
         ashlar_files_dirty_bytes 1048576\n\
         ashlar_files_dirty_limit_bytes 134217728\n\
         ashlar_cache_page_lookups_total{{result=\"memory_hit\"}} {}\n\
         ashlar_cache_page_lookups_total{{result=\"miss\"}} {reads}\n",
        reads - failed,
        f64::from(reads) * 0.002,
        reads / 2,
        reads * 4096,
        reads * 3,
    )
}

#[test]
fn the_difference_of_two_samples_is_the_activity_between_them() {
    let (before, now) = (Sample::parse(&text(100, 1)), Sample::parse(&text(300, 5)));
    let change = now.expect("a mount").since(&before.expect("a mount"));
    let read = &change.operations["READ"];
    assert_eq!((read.count, read.errors), (200, 4));
    assert!((read.seconds - 0.4).abs() < 1e-9, "{}", read.seconds);
    assert!((read.quantile(0.5) - 0.001).abs() < 1e-9, "half are within a millisecond");
    assert!((read.quantile(0.99) - 0.01).abs() < 1e-9);
    assert_eq!((change.read_bytes, change.dirty_bytes), (200 * 4096, 1 << 20));
    assert_eq!(change.hit_ratio(), Some(0.75));
    let json = json_of(&change, Duration::from_secs(1));
    assert_eq!((&json["operations"]["READ"], &json["errors"]), (&200.into(), &4.into()));
    let line = row(&change, Duration::from_secs(2));
    assert!(line.contains(" 100 ") && line.ends_with(" 75%"), "{line}");
}

#[test]
fn a_new_worker_begins_its_counters_again() {
    let (before, now) = (Sample::parse(&text(300, 0)), Sample::parse(&text(20, 0)));
    let change = now.expect("a mount").since(&before.expect("a mount"));
    assert_eq!(change.operations["READ"].count, 20);
    assert_eq!(change.read_bytes, 20 * 4096);
}

#[test]
fn a_text_without_counters_of_a_mount_is_no_sample() {
    assert_eq!(Sample::parse("ashlar_s3_requests_total{operation=\"PutObject\"} 1\n"), None);
}
