use bytes::Bytes;
use record::{Ino, key};
use store::Write;

use super::*;

fn plan(keys: &[Key]) -> Plan {
    let put = |key: &Key| Write::Put(key.clone(), Bytes::from_static(b"x"));
    Plan { guards: Vec::new(), writes: keys.iter().map(put).collect() }
}

#[test]
fn each_own_write_covers_one_notification() {
    let own = SelfWrites::default();
    let (mine, other) = (key::inode(Ino(1)), key::inode(Ino(2)));
    own.sent(&plan(std::slice::from_ref(&mine)));
    own.sent(&plan(std::slice::from_ref(&mine)));
    assert!(own.notified(&mine));
    assert!(!own.notified(&other), "no caller sent this one");
    assert!(own.notified(&mine));
    assert!(!own.notified(&mine), "the third change is of another session");
}

#[test]
fn a_plan_that_did_not_commit_covers_no_notification() {
    let own = SelfWrites::default();
    let at = key::inode(Ino(1));
    own.sent(&plan(std::slice::from_ref(&at)));
    own.dropped(&plan(std::slice::from_ref(&at)));
    assert!(!own.notified(&at));
}

#[test]
fn awaited_self_writes_are_bounded() {
    let own = SelfWrites::default();
    for number in 0..3 * SELF_WRITES_MAX as u64 {
        own.sent(&plan(&[key::inode(Ino(number))]));
    }
    assert!(own.counts().len() <= SELF_WRITES_MAX);
}
