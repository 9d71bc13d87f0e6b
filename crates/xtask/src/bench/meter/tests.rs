use super::*;

#[test]
fn cpu_time_is_behind_a_name_with_spaces() {
    let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 30 12 7 1 20 0 4 0 100 1000 50";
    assert_eq!(cpu_ticks(stat), Some(42));
    assert_eq!(ended_ticks(stat), Some(8));
}

#[test]
fn this_process_has_a_peak_and_a_cost() {
    let pid = std::process::id();
    assert!(peak_memory(pid).expect("we run") > 0.5);
    cpu_time(pid).expect("we run");
}

#[test]
fn processes_that_have_ended_cost_nothing_more() {
    assert_eq!(cpu_time_with_ended(&[u32::MAX]), Duration::ZERO);
    assert!(cpu_time_with_ended(&[std::process::id()]) < Duration::from_hours(1));
}
