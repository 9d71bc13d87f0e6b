use super::*;

#[test]
fn keys_follow_from_their_numbers() {
    let keys = Keys::below("run/");
    assert_eq!(keys.written(4096, 2, 15, 7), "run/put-4096/2/15/00000007");
    assert_eq!(keys.listed(1, 42), "run/list-1/000042");
}

#[test]
fn all_written_keys_are_listed_exactly_once() {
    let keys = Keys::below("run/");
    let written = Written { object_bytes: 1, round: 0, counts: vec![2, 0, 3] };
    let all = keys.all(&written);
    let expected =
        [(0, 0), (2, 0), (0, 1), (2, 1), (2, 2)].map(|(id, number)| keys.written(1, 0, id, number));
    assert_eq!(all, expected);
}
