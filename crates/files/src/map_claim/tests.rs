use std::sync::atomic::AtomicBool;

use super::{Claim, MapClaim};

#[test]
fn a_file_that_no_handle_maps_limits_no_access() {
    let share = MapClaim::default();
    let access = share.access().unwrap();
    assert!(share.end(share.begin_ending()), "it is not counted");
    drop(access);
}

#[test]
fn pages_wait_while_another_session_has_the_claim() {
    let (share, handle) = (MapClaim::default(), AtomicBool::new(false));
    share.join(&handle);
    assert!(share.access().is_none());
    assert!(share.is_claimed_elsewhere());
    share.set(Claim::Held);
    assert!(share.access().is_some());
    assert!(!share.is_claimed_elsewhere());
}

#[test]
fn a_page_that_comes_while_pages_are_taken_back_has_them_taken_back_again() {
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
fn an_access_under_way_keeps_the_claim() {
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
fn the_last_handle_ends_the_share() {
    let (share, one, other) = (MapClaim::default(), AtomicBool::new(false), AtomicBool::new(false));
    share.join(&one);
    share.join(&one);
    share.join(&other);
    assert!(!share.leave(&one));
    assert!(!share.leave(&one), "it has left before");
    assert!(share.leave(&other));
}
