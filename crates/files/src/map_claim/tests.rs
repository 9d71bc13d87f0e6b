use std::sync::atomic::AtomicBool;

use super::{Claim, MapClaim};

#[test]
fn access_to_an_unmapped_file_is_unlimited() {
    let share = MapClaim::default();
    let access = share.access().unwrap();
    assert!(share.end(share.begin_ending()), "it is not counted");
    drop(access);
}

#[test]
fn page_access_waits_while_another_session_has_the_claim() {
    let (share, handle) = (MapClaim::default(), AtomicBool::new(false));
    share.join(&handle);
    assert!(share.access().is_none());
    assert!(share.is_claimed_elsewhere());
    share.set(Claim::Held);
    assert!(share.access().is_some());
    assert!(!share.is_claimed_elsewhere());
}

#[test]
fn page_access_during_hand_over_repeats_it() {
    let (share, handle) = (MapClaim::default(), AtomicBool::new(false));
    share.join(&handle);
    share.set(Claim::Held);
    let before = share.begin_ending();
    drop(share.access().unwrap());
    assert!(!share.end(before), "the kernel may have got a page after it gave up the others");
    let before = share.begin_ending();
    assert!(share.end(before));
    assert!(share.access().is_none());
}

#[test]
fn access_in_flight_keeps_the_claim() {
    let (share, handle) = (MapClaim::default(), AtomicBool::new(false));
    share.join(&handle);
    share.set(Claim::Held);
    let access = share.access().unwrap();
    let before = share.begin_ending();
    assert!(!share.end(before), "its answer may reach the kernel later");
    drop(access);
    assert!(share.end(before));
}

#[test]
fn last_mapped_handle_releases_the_claim() {
    let (share, one, other) = (MapClaim::default(), AtomicBool::new(false), AtomicBool::new(false));
    share.join(&one);
    share.join(&one);
    share.join(&other);
    assert!(!share.leave(&one));
    assert!(!share.leave(&one), "it has left before");
    assert!(share.leave(&other));
}
