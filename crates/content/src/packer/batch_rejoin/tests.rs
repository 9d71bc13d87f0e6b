use super::{BatchRejoin, SKIPPED_MAX};

/// Returns the number of landings, of `landings`, at which a wait was tried.
fn tries(rejoin: &mut BatchRejoin, landings: u32, all_come: bool) -> u32 {
    (0..landings)
        .filter(|_| {
            let due = rejoin.is_due();
            rejoin.ended(all_come);
            due
        })
        .fold(0, |tries, _| tries + 1)
}

#[test]
fn successful_rejoin_is_tried_at_each_landing() {
    assert_eq!(tries(&mut BatchRejoin::default(), 1_000, true), 1_000);
}

#[test]
fn failing_rejoin_is_seldom_tried() {
    let mut rejoin = BatchRejoin::default();
    // Between the first tries 1, 3, 7, … landings pass.
    assert_eq!(tries(&mut rejoin, 1 + 1 + 1 + 3 + 1, false), 3);
    tries(&mut rejoin, 1_000, false);
    assert_eq!(tries(&mut rejoin, 10 * (SKIPPED_MAX + 1), false), 10);
}

#[test]
fn one_failure_is_forgotten_after_successes() {
    let mut rejoin = BatchRejoin::default();
    assert_eq!(tries(&mut rejoin, 1, false), 1);
    assert!(rejoin.skip > 0);
    assert_eq!(tries(&mut rejoin, 100, true), 99);
    assert_eq!(rejoin.penalty, 0);
    assert_eq!(rejoin.skip, 0);
}

#[test]
fn pack_without_a_wait_does_not_change_the_prediction() {
    let mut rejoin = BatchRejoin::default();
    rejoin.ended(false);
    assert!(rejoin.is_due());
}
