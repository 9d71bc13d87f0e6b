use bytes::Bytes;

use super::extract_range;
use super::pattern::Pattern;

/// Compares the detected run length at each of these reads.
#[track_caller]
fn check(reads: &[(u64, u64)], in_a_row: &[Option<u64>]) {
    let mut pattern = Pattern::default();
    let noted = reads.iter().map(|(start, length)| pattern.note(&(*start..start + length)));
    assert_eq!(noted.collect::<Vec<_>>(), in_a_row);
}

#[test]
fn third_sequential_read_starts_read_ahead() {
    check(&[(5, 10), (15, 10), (25, 5), (30, 5)], &[None, None, Some(25), Some(30)]);
}

#[test]
fn random_and_backward_reads_are_not_sequential() {
    check(&[(40, 10), (0, 10), (90, 10), (11, 10), (95, 1), (60, 2), (7, 1)], &[None; 7]);
    check(&[(40, 10), (30, 10), (20, 10), (10, 10), (0, 10)], &[None; 5]);
}

#[test]
fn read_elsewhere_begins_a_new_run() {
    let reads = [(100, 10), (110, 10), (120, 10), (70, 10), (80, 10), (90, 10)];
    check(&reads, &[None, None, Some(30), None, None, Some(30)]);
    // Larger steps take more reads, until no read can have overtaken another.
    let reads = [(5, 1), (70, 9), (79, 9), (88, 9), (97, 9), (106, 9), (115, 9), (124, 9)];
    check(&reads, &[None, None, None, None, None, None, None, Some(27)]);
}

#[test]
fn slightly_reordered_reads_are_sequential() {
    check(&[(5, 10), (25, 10), (15, 10), (35, 10)], &[None, None, Some(30), Some(40)]);
    let reads = [(15, 10), (5, 10), (35, 10), (25, 10), (55, 10), (45, 10)];
    check(&reads, &[None, None, None, Some(40), None, Some(60)]);
}

#[test]
fn extracting_a_range_keeps_the_bytes_around_it() {
    let piece = |position: u64, text: &'static str| (position, Bytes::from_static(text.as_bytes()));
    let mut pieces = vec![piece(0, "abc"), piece(3, "def"), piece(6, "ghi")];
    assert_eq!(extract_range(&mut pieces, &(2..7)), ["c", "def", "g"]);
    assert_eq!(pieces, [piece(0, "ab"), piece(7, "hi")]);
    assert_eq!(extract_range(&mut pieces, &(1..8)), ["b", "h"]);
    assert_eq!(pieces, [piece(0, "a"), piece(8, "i")]);
    assert_eq!(extract_range(&mut pieces, &(2..8)), [""; 0]);
}
