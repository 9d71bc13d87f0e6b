use super::{BatchRejoin, SKIPPED_MAX};

/// Of so many landings, at how many it was tried.
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
fn what_pays_is_tried_at_each_landing() {
    assert_eq!(tries(&mut BatchRejoin::default(), 1_000, true), 1_000);
}

#[test]
fn what_never_pays_is_hardly_ever_tried() {
    let mut rejoin = BatchRejoin::default();
    // Between the first tries pass 1, 3, 7, … landings.
    assert_eq!(tries(&mut rejoin, 1 + 1 + 1 + 3 + 1, false), 3);
    tries(&mut rejoin, 1_000, false);
    assert_eq!(tries(&mut rejoin, 10 * (SKIPPED_MAX + 1), false), 10);
}

#[test]
fn one_failure_is_soon_forgotten() {
    let mut rejoin = BatchRejoin::default();
    assert_eq!(tries(&mut rejoin, 1, false), 1);
    assert!(rejoin.is_backing_off());
    assert_eq!(tries(&mut rejoin, 100, true), 99);
    assert_eq!(rejoin.penalty, 0);
    assert!(!rejoin.is_backing_off());
}

#[test]
fn a_pack_that_nobody_was_waited_for_says_nothing() {
    let mut rejoin = BatchRejoin::default();
    rejoin.ended(false);
    assert!(rejoin.is_due());
}
