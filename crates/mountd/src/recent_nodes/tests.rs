use std::thread::sleep;

use super::*;

#[test]
fn only_nodes_that_were_asked_for_may_be_cached() {
    let nodes = RecentNodes::new();
    assert!(!nodes.may_be_cached(Ino(7)), "the kernel has not asked");
    assert!(nodes.asked(Ino(7), false));
    assert!(nodes.may_be_cached(Ino(7)));
    assert!(!nodes.may_be_cached(Ino(8)));
    assert!(nodes.may_be_cached(Ino(7 + SLOTS as u64)), "a collision costs a notification");
}

#[test]
fn an_answer_is_forgotten_after_its_time() {
    let nodes = RecentNodes::new();
    nodes.asked(Ino(7), false);
    sleep(ANSWERED_FOR / 2);
    assert!(nodes.may_be_cached(Ino(7)));
    sleep(ANSWERED_FOR / 2 + Duration::from_millis(10));
    assert!(!nodes.may_be_cached(Ino(7)));
}

#[test]
fn a_directory_that_two_sessions_change_is_contested() {
    let nodes = RecentNodes::new();
    assert!(nodes.asked(Ino(7), true), "no peer changes it");
    nodes.peer_changes_names(Ino(7));
    assert!(!nodes.asked(Ino(7), false));
    assert!(nodes.asked(Ino(8), false));
    nodes.peer_changes_names(Ino(8));
    assert!(nodes.asked(Ino(8), false), "only the peer changes it");
    nodes.renames(Ino(8));
    assert!(!nodes.asked(Ino(8), false));
    assert!(nodes.may_be_cached(Ino(8)), "the renamed name keeps its validity");
    sleep(CHANGED_FOR + Duration::from_millis(10));
    assert!(nodes.asked(Ino(7), true));
    assert!(nodes.asked(Ino(8), false));
}
