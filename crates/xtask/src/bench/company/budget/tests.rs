use super::*;

/// Returns the number of rounds if each takes `seconds`.
fn rounds(seconds: u64, rounds_max: u32) -> u32 {
    let mut now = Instant::now();
    let mut budget = Budget::begin(now, Duration::from_secs(330), rounds_max);
    while let Some(round) = budget.next(now) {
        assert_eq!(round + 1, budget.rounds());
        now += Duration::from_secs(seconds);
    }
    budget.rounds()
}

#[test]
fn rounds_end_within_the_limit() {
    assert_eq!(rounds(100, 99), 3);
    assert_eq!(rounds(110, 99), 3, "exactly at the limit");
    assert_eq!(rounds(111, 99), 2);
    assert_eq!(rounds(1_000, 99), 1, "the first round has no condition");
}

#[test]
fn there_are_no_more_rounds_than_wanted() {
    assert_eq!(rounds(1, 3), 3);
}

#[test]
fn no_work_begins_after_the_limit() {
    let now = Instant::now();
    let budget = Budget::begin(now, Duration::from_secs(10), 1);
    assert!(!budget.is_over(now + Duration::from_secs(9)));
    assert!(budget.is_over(now + Duration::from_secs(10)));
}
