use super::{Ask, Asked, EMPTY, State, Told, check};
use crate::history::{Call as AnyCall, Deed as _, Value};

type Call = AnyCall<Asked>;

fn call(ask: Ask, told: Told, began: u64, ended: u64) -> Call {
    Call::new(ask, told, began, ended)
}

fn put(value: Value, began: u64, ended: u64) -> Call {
    call(Ask::Put(value), Told::Done, began, ended)
}

fn get(value: Option<Value>, began: u64, ended: u64) -> Call {
    call(Ask::Get, Told::Found(value), began, ended)
}

fn create(value: Value, told: Told, began: u64, ended: u64) -> Call {
    call(Ask::PutIfAbsent(value), told, began, ended)
}

fn swap(wanted: Value, value: Value, told: Told, began: u64, ended: u64) -> Call {
    call(Ask::PutIfMatch(wanted, value), told, began, ended)
}

fn delete(began: u64, ended: u64) -> Call {
    call(Ask::Delete, Told::Done, began, ended)
}

/// A call with an unknown outcome.
fn lost(ask: Ask, began: u64) -> Call {
    call(ask, Told::Nothing, began, 0)
}

#[track_caller]
fn good(calls: &[Call]) {
    assert_eq!(check(calls), Ok(()));
    assert!(brute(calls), "the other way to decide it agrees");
}

#[track_caller]
fn bad(calls: &[Call]) {
    assert!(check(calls).is_err(), "{calls:?}");
    assert!(!brute(calls), "the other way to decide it agrees");
}

#[test]
fn sequential_reads_return_the_last_write() {
    good(&[get(None, 1, 2), put(1, 3, 4), get(Some(1), 5, 6), delete(7, 8), get(None, 9, 10)]);
    bad(&[put(1, 1, 2), get(None, 3, 4)]);
    bad(&[put(1, 1, 2), put(2, 3, 4), get(Some(1), 5, 6)]);
    bad(&[put(1, 1, 2), delete(3, 4), get(Some(1), 5, 6)]);
    bad(&[get(Some(7), 1, 2)]);
}

#[test]
fn concurrent_reads_agree_on_the_order_of_writes() {
    // During a write a read may return its value; after such a read, no older value.
    good(&[put(1, 1, 2), put(2, 3, 10), get(Some(1), 4, 5), get(Some(2), 6, 7)]);
    bad(&[put(1, 1, 2), put(2, 3, 10), get(Some(2), 4, 5), get(Some(1), 6, 7)]);
    good(&[put(1, 1, 2), put(2, 3, 10), get(Some(2), 4, 8), get(Some(1), 6, 7)]);
    // Two readers cannot observe two writes in different orders.
    let writes = [put(1, 1, 20), put(2, 1, 20)];
    let one = [get(Some(1), 2, 3), get(Some(2), 4, 5)];
    let other = [get(Some(2), 2, 3), get(Some(1), 4, 5)];
    good(&[&writes[..], &one[..]].concat());
    bad(&[&writes[..], &one[..], &other[..]].concat());
}

#[test]
fn exactly_one_creation_succeeds() {
    good(&[create(1, Told::Done, 1, 9), create(2, Told::Refused, 1, 9), get(Some(1), 10, 11)]);
    bad(&[create(1, Told::Done, 1, 9), create(2, Told::Done, 1, 9)]);
    good(&[create(1, Told::Done, 1, 9), create(2, Told::Done, 1, 9), delete(1, 9)]);
    bad(&[create(1, Told::Refused, 1, 9), create(2, Told::Refused, 1, 9)]);
    bad(&[put(1, 1, 2), delete(3, 4), create(2, Told::Refused, 5, 6)]);
}

#[test]
fn conditional_puts_lose_no_update() {
    let begin = put(1, 1, 2);
    good(&[begin, swap(1, 2, Told::Done, 3, 9), swap(1, 3, Told::Refused, 3, 9)]);
    bad(&[begin, swap(1, 2, Told::Done, 3, 9), swap(1, 3, Told::Done, 3, 9)]);
    bad(&[begin, put(2, 3, 4), swap(1, 3, Told::Done, 5, 6)]);
    bad(&[begin, swap(1, 2, Told::Refused, 3, 4)]);
    good(&[begin, delete(3, 9), swap(1, 2, Told::Missing, 4, 8)]);
    bad(&[begin, swap(1, 2, Told::Missing, 3, 4)]);
    bad(&[begin, delete(3, 4), swap(1, 2, Told::Refused, 5, 6)]);
}

#[test]
fn unknown_outcomes_take_effect_late_or_never_but_not_twice() {
    let doubt = lost(Ask::Put(2), 3);
    good(&[put(1, 1, 2), doubt, get(Some(1), 5, 6), get(Some(1), 7, 8)]);
    good(&[put(1, 1, 2), doubt, get(Some(1), 5, 6), get(Some(2), 700, 800)]);
    bad(&[put(1, 1, 2), doubt, get(Some(2), 5, 6), get(Some(1), 7, 8)]);
    bad(&[put(1, 1, 2), doubt, get(Some(2), 5, 6), put(3, 7, 8), get(Some(2), 9, 10)]);
    bad(&[get(Some(2), 1, 2), doubt]);
    // A write with an unknown outcome that no client read explains a refusal. Two refusals, with a
    // delete between them, need two such writes.
    let refused = |began| create(9, Told::Refused, began, began + 1);
    good(&[lost(Ask::Put(1), 1), refused(2), delete(4, 5), get(None, 6, 7)]);
    bad(&[lost(Ask::Put(1), 1), refused(2), delete(4, 5), refused(6)]);
    let two = [lost(Ask::Put(1), 1), lost(Ask::Put(2), 1)];
    good(&[&two[..], &[refused(2), delete(4, 5), refused(6)]].concat());
    // The condition of an operation with an unknown outcome must hold, too.
    bad(&[lost(Ask::PutIfMatch(1, 2), 1), get(Some(2), 3, 4)]);
    good(&[put(1, 1, 2), lost(Ask::PutIfMatch(1, 2), 1), get(Some(2), 3, 4)]);
    good(&[put(1, 1, 2), lost(Ask::Delete, 1), get(None, 3, 4), create(3, Told::Done, 5, 6)]);
    bad(&[put(1, 1, 2), lost(Ask::Delete, 1), get(None, 3, 4), get(Some(1), 5, 6)]);
}

/// An existing file is opened, perhaps truncated, and written, all in this period.
fn overwrite(value: Value, began: u64, ended: u64) -> [Call; 3] {
    let step = |ask, ended| call(ask, Told::Done, began, ended);
    [step(Ask::Open(value), began + 1), step(Ask::Cut(value), ended), step(Ask::Fill(value), ended)]
}

#[test]
fn an_overwritten_file_may_be_empty_before_it_is_complete() {
    let empty = |began, ended| get(Some(EMPTY), began, ended);
    let over = [&[put(1, 1, 2)][..], &overwrite(2, 3, 9)].concat();
    let with = |more: &[Call]| [&over[..], more].concat();
    good(&with(&[get(Some(1), 4, 5), get(Some(2), 10, 11)]));
    good(&with(&[get(Some(1), 4, 5), empty(5, 6), get(Some(2), 7, 8), get(Some(2), 10, 11)]));
    bad(&with(&[get(Some(2), 4, 5), empty(6, 7)]));
    bad(&with(&[get(Some(1), 10, 11)]));
    bad(&with(&[empty(10, 11)]));
    bad(&with(&[empty(4, 5), get(Some(1), 6, 7)]));
    // Two at a time: the second one may truncate after the first one has written.
    let two = with(&overwrite(3, 4, 8));
    let seen = [get(Some(2), 5, 5), empty(6, 6), get(Some(3), 7, 7)];
    good(&[&two[..], &seen[..]].concat());
    bad(&[&two[..], &seen[..], &[empty(8, 8)]].concat());
}

#[test]
fn writes_to_a_replaced_file_disappear_with_it() {
    let over = [&[put(1, 1, 2)][..], &overwrite(2, 3, 9)].concat();
    let with = |more: &[Call]| [&over[..], more].concat();
    // It was opened before it was replaced, and written after that.
    let swap = swap(1, 3, Told::Done, 5, 6);
    good(&with(&[swap, get(Some(3), 10, 11)]));
    bad(&with(&[swap, get(Some(2), 10, 11)]));
    let remove = |told| call(Ask::Remove, told, 5, 6);
    good(&with(&[remove(Told::Done), get(None, 10, 11)]));
    bad(&with(&[remove(Told::Missing)]));
    bad(&with(&[remove(Told::Done), remove(Told::Done)]));
}

#[test]
fn a_new_file_is_empty_until_it_is_written() {
    let empty = |began, ended| get(Some(EMPTY), began, ended);
    let create = |told| call(Ask::Create(4), told, 1, 3);
    let fill = call(Ask::Fill(4), Told::Done, 1, 9);
    good(&[create(Told::Done), fill, empty(4, 5), get(Some(4), 10, 11)]);
    good(&[create(Told::Done), fill, delete(4, 5), get(None, 10, 11)]);
    bad(&[create(Told::Done), fill, get(None, 4, 5)]);
    bad(&[create(Told::Done), fill, empty(10, 11)]);
    bad(&[create(Told::Refused)]);
}

/// Tries every order. This is slow, but too simple to have the same errors as the search.
fn brute(calls: &[Call]) -> bool {
    fn go(calls: &[Call], state: &State) -> bool {
        if calls.iter().all(|call| call.deed.is_in_doubt()) {
            return true;
        }
        let is_over = |call: &Call| !call.deed.is_in_doubt();
        let first_end = calls.iter().filter(|call| is_over(call)).map(|call| call.ended).min();
        (0..calls.len()).any(|index| {
            let call = calls[index];
            if first_end.is_some_and(|end| call.began > end) {
                return false;
            }
            let mut rest = calls.to_vec();
            rest.remove(index);
            if call.deed.may_be_left_out() && go(&rest, state) {
                return true;
            }
            let is_early = |other: &Call| other.deed.comes_before(&call.deed);
            if rest.iter().any(is_early) {
                return false;
            }
            call.deed.apply(state).is_some_and(|state| go(&rest, &state))
        })
    }
    go(calls, &State::default())
}

/// Pseudo-random numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Invents the calls of three clients of a register, sometimes with a wrong outcome.
fn invent(numbers: &mut Numbers) -> Vec<Call> {
    let length = 3 + numbers.below(5);
    let any = |numbers: &mut Numbers| 1 + numbers.below(length);
    let mut free = [0; 3];
    let mut calls = Vec::new();
    for value in 1..=length {
        let client = usize::try_from(numbers.below(3)).expect("a small number");
        let began = free[client] + 1 + numbers.below(4);
        let ended = began + 1 + numbers.below(6);
        free[client] = ended;
        let ask = match numbers.below(9) {
            0 | 1 => Ask::Get,
            2 => Ask::Put(value),
            3 => Ask::PutIfAbsent(value),
            4 => Ask::PutIfMatch(any(numbers), value),
            5 => Ask::Delete,
            6 => Ask::Remove,
            7 => Ask::Create(value),
            _ => Ask::Fill(value),
        };
        let turn = numbers.below(8);
        let told = match ask {
            Ask::Get if turn < 3 => Told::Found(None),
            Ask::Get if turn == 3 => Told::Found(Some(EMPTY)),
            Ask::Get => Told::Found(Some(any(numbers))),
            Ask::PutIfAbsent(_) | Ask::PutIfMatch(..) | Ask::Create(_) if turn < 3 => Told::Refused,
            Ask::PutIfMatch(..) | Ask::Remove if turn == 3 => Told::Missing,
            Ask::Fill(_) | Ask::Create(_) => Told::Done,
            _ if turn == 7 => Told::Nothing,
            _ => Told::Done,
        };
        match (ask, told) {
            (Ask::Fill(value), _) => calls.extend(overwrite(value, began, ended)),
            (Ask::Create(value), Told::Done) => {
                calls.push(call(ask, told, began, began + 1));
                calls.push(call(Ask::Fill(value), told, began, ended));
            }
            _ => calls.push(call(ask, told, began, ended)),
        }
    }
    calls
}

#[test]
fn search_agrees_with_brute_force() {
    let (mut numbers, mut linearizable) = (Numbers(0x5EED), 0);
    for _ in 0..20_000 {
        let calls = invent(&mut numbers);
        let is = brute(&calls);
        linearizable += usize::from(is);
        assert_eq!(check(&calls).is_ok(), is, "{calls:#?}");
    }
    assert!((2_000..18_000).contains(&linearizable), "{linearizable} of 20000 are linearizable");
}

#[test]
fn many_unknown_outcomes_are_decided_quickly() {
    let mut calls = Vec::new();
    for turn in 0..200 {
        let at = turn * 10;
        calls.push(put(10 * turn + 1, at, at + 6));
        calls.push(put(10 * turn + 2, at + 1, at + 7));
        calls.push(lost(Ask::Put(10 * turn + 3), at + 2));
        calls.push(if turn % 2 == 0 { lost(Ask::Delete, at) } else { delete(at, at + 9) });
        calls.push(create(10 * turn + 4, Told::Refused, at, at + 9));
        calls.push(get(Some(10 * turn + 1 + turn % 3), at + 3, at + 9));
    }
    assert_eq!(check(&calls), Ok(()));
    calls.push(get(Some(1), 40_000, 40_001));
    assert!(check(&calls).is_err());
}
