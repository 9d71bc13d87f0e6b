//! Histories of versions with a known verdict.

use super::{Operation, Version, check, newest};
use crate::history::Call;

fn call(operation: Operation, began: u64, ended: u64) -> Call<Operation> {
    Call { operation, began, ended }
}

fn list(values: &[u64]) -> Operation {
    Operation::List(newest(values.iter().copied()))
}

#[test]
fn removing_a_version_restores_the_previous_one() {
    let calls = [
        call(Operation::Put(1), 0, 1),
        call(Operation::Put(2), 2, 3),
        call(Operation::Delete(3), 4, 5),
        call(Operation::Get(Some(Version::Marker(3))), 6, 7),
        call(list(&[3, 2, 1]), 6, 7),
        call(Operation::Remove(3), 8, 9),
        call(Operation::Get(Some(Version::Object(2))), 10, 11),
        call(Operation::Remove(2), 12, 13),
        call(Operation::GetVersion(2, false), 14, 15),
        call(Operation::Get(Some(Version::Object(1))), 14, 15),
        call(list(&[1]), 16, 17),
    ];
    check(&calls).expect("one after the other");
}

#[test]
fn concurrent_calls_take_effect_in_one_order() {
    let puts = [call(Operation::Put(1), 0, 10), call(Operation::Put(2), 0, 10)];
    for order in [[1, 2], [2, 1]] {
        let calls = [&puts[..], &[call(list(&order), 11, 12)]].concat();
        check(&calls).expect("either order");
    }
    let both = [call(list(&[1, 2]), 11, 12), call(list(&[2, 1]), 13, 14)];
    check(&[&puts[..], &both].concat()).expect_err("two orders");
}

#[test]
fn lost_and_returned_versions_are_found() {
    let lost =
        [call(Operation::Put(1), 0, 1), call(Operation::Put(2), 2, 3), call(list(&[2]), 4, 5)];
    check(&lost).expect_err("the first version is lost");
    let back = [
        call(Operation::Put(1), 0, 1),
        call(Operation::Remove(1), 2, 3),
        call(Operation::GetVersion(1, true), 4, 5),
    ];
    check(&back).expect_err("it was removed");
    let stale = [
        call(Operation::Put(1), 0, 1),
        call(Operation::Delete(2), 2, 3),
        call(Operation::Get(Some(Version::Object(1))), 4, 5),
    ];
    check(&stale).expect_err("it was deleted");
}
