use super::{Reunions, SKIPPED_MAX};

/// Of so many landings, at how many it was tried.
fn tries(reunions: &mut Reunions, landings: u32, all_come: bool) -> u32 {
    (0..landings)
        .filter(|_| {
            let due = reunions.is_due();
            reunions.ended(all_come);
            due
        })
        .fold(0, |tries, _| tries + 1)
}

#[test]
fn what_pays_is_tried_at_each_landing() {
    assert_eq!(tries(&mut Reunions::default(), 1_000, true), 1_000);
}

#[test]
fn what_never_pays_is_hardly_ever_tried() {
    let mut reunions = Reunions::default();
    // Between the first tries pass 1, 3, 7, … landings.
    assert_eq!(tries(&mut reunions, 1 + 1 + 1 + 3 + 1, false), 3);
    tries(&mut reunions, 1_000, false);
    assert_eq!(tries(&mut reunions, 10 * (SKIPPED_MAX + 1), false), 10);
}

#[test]
fn one_failure_is_soon_forgotten() {
    let mut reunions = Reunions::default();
    assert_eq!(tries(&mut reunions, 1, false), 1);
    assert!(reunions.are_in_vain());
    assert_eq!(tries(&mut reunions, 100, true), 99);
    assert_eq!(reunions.penalty, 0);
    assert!(!reunions.are_in_vain());
}

#[test]
fn a_pack_that_nobody_was_waited_for_says_nothing() {
    let mut reunions = Reunions::default();
    reunions.ended(false);
    assert!(reunions.is_due());
}
