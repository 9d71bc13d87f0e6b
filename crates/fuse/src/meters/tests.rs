use std::time::Duration;

use super::{LATENCY_MICROS, LATENCY_SECONDS, OPCODES, OPERATIONS, OperationMeters};
use crate::abi::opcode;
use crate::errno::Errno;

#[test]
fn a_reply_is_counted_by_operation_result_and_latency() {
    let meters = OperationMeters::new();
    meters.count(opcode::LOOKUP, 0, Duration::from_micros(25));
    meters.count(opcode::LOOKUP, -Errno::ENOENT.number(), Duration::from_micros(26));
    meters.count(opcode::LOOKUP, -Errno::ENOENT.number(), Duration::from_mins(2));
    meters.count(opcode::READ, -132, Duration::ZERO);
    meters.count(opcode::READ, -133, Duration::ZERO);
    let counters = meters.snapshot();
    let [lookup, read] = &counters[..] else { panic!("two operations: {counters:?}") };
    assert_eq!((lookup.operation, read.operation), ("LOOKUP", "READ"));
    assert_eq!(lookup.results, [("OK", 1), ("ENOENT", 2)]);
    assert_eq!(lookup.latencies[..3], [1, 1, 0]);
    assert_eq!(lookup.latencies.last(), Some(&1));
    assert_eq!(lookup.total, Duration::from_micros(51) + Duration::from_mins(2));
    assert_eq!(read.results, [("OTHER", 2)], "one name occurs once");
}

#[test]
fn the_bounds_are_the_same_in_both_units_and_each_operation_has_a_place() {
    for (seconds, micros) in LATENCY_SECONDS.iter().zip(LATENCY_MICROS) {
        let of_seconds = Duration::from_secs_f64(*seconds);
        assert_eq!(of_seconds, Duration::from_micros(micros));
    }
    assert!(LATENCY_MICROS.is_sorted());
    assert!(OPERATIONS.iter().all(|(number, _)| (*number as usize) < OPCODES));
}
