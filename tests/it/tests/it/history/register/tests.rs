use super::{EMPTY, Invocation, Operation, Response, State, check};
use crate::history::{Call as AnyCall, SequentialSpec as _, Value};

type Call = AnyCall<Operation>;

fn call(invocation: Invocation, response: Response, began: u64, ended: u64) -> Call {
    Call::new(invocation, response, began, ended)
}

fn put(value: Value, began: u64, ended: u64) -> Call {
    call(Invocation::Put(value), Response::Done, began, ended)
}

fn get(value: Option<Value>, began: u64, ended: u64) -> Call {
    call(Invocation::Get, Response::Found(value), began, ended)
}

fn create(value: Value, response: Response, began: u64, ended: u64) -> Call {
    call(Invocation::PutIfAbsent(value), response, began, ended)
}

fn swap(wanted: Value, value: Value, response: Response, began: u64, ended: u64) -> Call {
    call(Invocation::PutIfMatch(wanted, value), response, began, ended)
}

fn delete(began: u64, ended: u64) -> Call {
    call(Invocation::Delete, Response::Done, began, ended)
}

/// A call with an unknown outcome.
fn lost(invocation: Invocation, began: u64) -> Call {
    call(invocation, Response::Unknown, began, 0)
}

#[track_caller]
fn is_linearizable(calls: &[Call]) {
    assert_eq!(check(calls), Ok(()));
    assert!(brute(calls), "brute force agrees");
}

#[track_caller]
fn is_not_linearizable(calls: &[Call]) {
    assert!(check(calls).is_err(), "{calls:?}");
    assert!(!brute(calls), "brute force agrees");
}

#[test]
fn sequential_reads_return_the_last_write() {
    is_linearizable(&[
        get(None, 1, 2),
        put(1, 3, 4),
        get(Some(1), 5, 6),
        delete(7, 8),
        get(None, 9, 10),
    ]);
    is_not_linearizable(&[put(1, 1, 2), get(None, 3, 4)]);
    is_not_linearizable(&[put(1, 1, 2), put(2, 3, 4), get(Some(1), 5, 6)]);
    is_not_linearizable(&[put(1, 1, 2), delete(3, 4), get(Some(1), 5, 6)]);
    is_not_linearizable(&[get(Some(7), 1, 2)]);
}

#[test]
fn concurrent_reads_agree_on_the_order_of_writes() {
    // During a write a read may return its value; after such a read, no older value.
    is_linearizable(&[put(1, 1, 2), put(2, 3, 10), get(Some(1), 4, 5), get(Some(2), 6, 7)]);
    is_not_linearizable(&[put(1, 1, 2), put(2, 3, 10), get(Some(2), 4, 5), get(Some(1), 6, 7)]);
    is_linearizable(&[put(1, 1, 2), put(2, 3, 10), get(Some(2), 4, 8), get(Some(1), 6, 7)]);
    // Two readers cannot observe two writes in different orders.
    let writes = [put(1, 1, 20), put(2, 1, 20)];
    let one = [get(Some(1), 2, 3), get(Some(2), 4, 5)];
    let other = [get(Some(2), 2, 3), get(Some(1), 4, 5)];
    is_linearizable(&[&writes[..], &one[..]].concat());
    is_not_linearizable(&[&writes[..], &one[..], &other[..]].concat());
}

#[test]
fn exactly_one_creation_succeeds() {
    is_linearizable(&[
        create(1, Response::Done, 1, 9),
        create(2, Response::Refused, 1, 9),
        get(Some(1), 10, 11),
    ]);
    is_not_linearizable(&[create(1, Response::Done, 1, 9), create(2, Response::Done, 1, 9)]);
    is_linearizable(&[
        create(1, Response::Done, 1, 9),
        create(2, Response::Done, 1, 9),
        delete(1, 9),
    ]);
    is_not_linearizable(&[create(1, Response::Refused, 1, 9), create(2, Response::Refused, 1, 9)]);
    is_not_linearizable(&[put(1, 1, 2), delete(3, 4), create(2, Response::Refused, 5, 6)]);
}

#[test]
fn conditional_puts_lose_no_update() {
    let begin = put(1, 1, 2);
    is_linearizable(&[
        begin,
        swap(1, 2, Response::Done, 3, 9),
        swap(1, 3, Response::Refused, 3, 9),
    ]);
    is_not_linearizable(&[
        begin,
        swap(1, 2, Response::Done, 3, 9),
        swap(1, 3, Response::Done, 3, 9),
    ]);
    is_not_linearizable(&[begin, put(2, 3, 4), swap(1, 3, Response::Done, 5, 6)]);
    is_not_linearizable(&[begin, swap(1, 2, Response::Refused, 3, 4)]);
    is_linearizable(&[begin, delete(3, 9), swap(1, 2, Response::Missing, 4, 8)]);
    is_not_linearizable(&[begin, swap(1, 2, Response::Missing, 3, 4)]);
    is_not_linearizable(&[begin, delete(3, 4), swap(1, 2, Response::Refused, 5, 6)]);
}

#[test]
fn unknown_outcomes_take_effect_late_or_never_but_not_twice() {
    let doubt = lost(Invocation::Put(2), 3);
    is_linearizable(&[put(1, 1, 2), doubt, get(Some(1), 5, 6), get(Some(1), 7, 8)]);
    is_linearizable(&[put(1, 1, 2), doubt, get(Some(1), 5, 6), get(Some(2), 700, 800)]);
    is_not_linearizable(&[put(1, 1, 2), doubt, get(Some(2), 5, 6), get(Some(1), 7, 8)]);
    is_not_linearizable(&[
        put(1, 1, 2),
        doubt,
        get(Some(2), 5, 6),
        put(3, 7, 8),
        get(Some(2), 9, 10),
    ]);
    is_not_linearizable(&[get(Some(2), 1, 2), doubt]);
    // A write with an unknown outcome that no client read explains a refusal. Two refusals, with a
    // delete between them, need two such writes.
    let refused = |began| create(9, Response::Refused, began, began + 1);
    is_linearizable(&[lost(Invocation::Put(1), 1), refused(2), delete(4, 5), get(None, 6, 7)]);
    is_not_linearizable(&[lost(Invocation::Put(1), 1), refused(2), delete(4, 5), refused(6)]);
    let two = [lost(Invocation::Put(1), 1), lost(Invocation::Put(2), 1)];
    is_linearizable(&[&two[..], &[refused(2), delete(4, 5), refused(6)]].concat());
    // The condition of an operation with an unknown outcome must hold, too.
    is_not_linearizable(&[lost(Invocation::PutIfMatch(1, 2), 1), get(Some(2), 3, 4)]);
    is_linearizable(&[put(1, 1, 2), lost(Invocation::PutIfMatch(1, 2), 1), get(Some(2), 3, 4)]);
    is_linearizable(&[
        put(1, 1, 2),
        lost(Invocation::Delete, 1),
        get(None, 3, 4),
        create(3, Response::Done, 5, 6),
    ]);
    is_not_linearizable(&[
        put(1, 1, 2),
        lost(Invocation::Delete, 1),
        get(None, 3, 4),
        get(Some(1), 5, 6),
    ]);
}

/// An existing file is opened, perhaps truncated, and written, all in this period.
fn overwrite(value: Value, began: u64, ended: u64) -> [Call; 3] {
    let step = |invocation, ended| call(invocation, Response::Done, began, ended);
    [
        step(Invocation::Open(value), began + 1),
        step(Invocation::Truncate(value), ended),
        step(Invocation::Write(value), ended),
    ]
}

#[test]
fn an_overwritten_file_may_be_empty_before_it_is_complete() {
    let empty = |began, ended| get(Some(EMPTY), began, ended);
    let over = [&[put(1, 1, 2)][..], &overwrite(2, 3, 9)].concat();
    let with = |more: &[Call]| [&over[..], more].concat();
    is_linearizable(&with(&[get(Some(1), 4, 5), get(Some(2), 10, 11)]));
    is_linearizable(&with(&[
        get(Some(1), 4, 5),
        empty(5, 6),
        get(Some(2), 7, 8),
        get(Some(2), 10, 11),
    ]));
    is_not_linearizable(&with(&[get(Some(2), 4, 5), empty(6, 7)]));
    is_not_linearizable(&with(&[get(Some(1), 10, 11)]));
    is_not_linearizable(&with(&[empty(10, 11)]));
    is_not_linearizable(&with(&[empty(4, 5), get(Some(1), 6, 7)]));
    // Two at a time: the second one may truncate after the first one has written.
    let two = with(&overwrite(3, 4, 8));
    let seen = [get(Some(2), 5, 5), empty(6, 6), get(Some(3), 7, 7)];
    is_linearizable(&[&two[..], &seen[..]].concat());
    is_not_linearizable(&[&two[..], &seen[..], &[empty(8, 8)]].concat());
}

#[test]
fn writes_to_a_replaced_file_disappear_with_it() {
    let over = [&[put(1, 1, 2)][..], &overwrite(2, 3, 9)].concat();
    let with = |more: &[Call]| [&over[..], more].concat();
    // It was opened before it was replaced, and written after that.
    let swap = swap(1, 3, Response::Done, 5, 6);
    is_linearizable(&with(&[swap, get(Some(3), 10, 11)]));
    is_not_linearizable(&with(&[swap, get(Some(2), 10, 11)]));
    let remove = |response| call(Invocation::Remove, response, 5, 6);
    is_linearizable(&with(&[remove(Response::Done), get(None, 10, 11)]));
    is_not_linearizable(&with(&[remove(Response::Missing)]));
    is_not_linearizable(&with(&[remove(Response::Done), remove(Response::Done)]));
}

#[test]
fn a_new_file_is_empty_until_it_is_written() {
    let empty = |began, ended| get(Some(EMPTY), began, ended);
    let create = |response| call(Invocation::Create(4), response, 1, 3);
    let fill = call(Invocation::Write(4), Response::Done, 1, 9);
    is_linearizable(&[create(Response::Done), fill, empty(4, 5), get(Some(4), 10, 11)]);
    is_linearizable(&[create(Response::Done), fill, delete(4, 5), get(None, 10, 11)]);
    is_not_linearizable(&[create(Response::Done), fill, get(None, 4, 5)]);
    is_not_linearizable(&[create(Response::Done), fill, empty(10, 11)]);
    is_not_linearizable(&[create(Response::Refused)]);
}

/// Tries every order. This is slow, but too simple to have the same errors as the search.
fn brute(calls: &[Call]) -> bool {
    fn go(calls: &[Call], state: &State) -> bool {
        if calls.iter().all(|call| call.operation.is_unknown()) {
            return true;
        }
        let is_known = |call: &Call| !call.operation.is_unknown();
        let first_end = calls.iter().filter(|call| is_known(call)).map(|call| call.ended).min();
        (0..calls.len()).any(|index| {
            let call = calls[index];
            if first_end.is_some_and(|end| call.began > end) {
                return false;
            }
            let mut rest = calls.to_vec();
            rest.remove(index);
            if call.operation.is_optional() && go(&rest, state) {
                return true;
            }
            let is_early = |other: &Call| other.operation.must_precede(&call.operation);
            if rest.iter().any(is_early) {
                return false;
            }
            call.operation.apply(state).is_some_and(|state| go(&rest, &state))
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
fn random_history(numbers: &mut Numbers) -> Vec<Call> {
    let length = 3 + numbers.below(5);
    let any = |numbers: &mut Numbers| 1 + numbers.below(length);
    let mut free = [0; 3];
    let mut calls = Vec::new();
    for value in 1..=length {
        let client = usize::try_from(numbers.below(3)).expect("a small number");
        let began = free[client] + 1 + numbers.below(4);
        let ended = began + 1 + numbers.below(6);
        free[client] = ended;
        let invocation = match numbers.below(9) {
            0 | 1 => Invocation::Get,
            2 => Invocation::Put(value),
            3 => Invocation::PutIfAbsent(value),
            4 => Invocation::PutIfMatch(any(numbers), value),
            5 => Invocation::Delete,
            6 => Invocation::Remove,
            7 => Invocation::Create(value),
            _ => Invocation::Write(value),
        };
        let turn = numbers.below(8);
        let response = match invocation {
            Invocation::Get if turn < 3 => Response::Found(None),
            Invocation::Get if turn == 3 => Response::Found(Some(EMPTY)),
            Invocation::Get => Response::Found(Some(any(numbers))),
            Invocation::PutIfAbsent(_) | Invocation::PutIfMatch(..) | Invocation::Create(_)
                if turn < 3 =>
            {
                Response::Refused
            }
            Invocation::PutIfMatch(..) | Invocation::Remove if turn == 3 => Response::Missing,
            Invocation::Write(_) | Invocation::Create(_) => Response::Done,
            _ if turn == 7 => Response::Unknown,
            _ => Response::Done,
        };
        match (invocation, response) {
            (Invocation::Write(value), _) => calls.extend(overwrite(value, began, ended)),
            (Invocation::Create(value), Response::Done) => {
                calls.push(call(invocation, response, began, began + 1));
                calls.push(call(Invocation::Write(value), response, began, ended));
            }
            _ => calls.push(call(invocation, response, began, ended)),
        }
    }
    calls
}

#[test]
fn search_agrees_with_brute_force() {
    let (mut numbers, mut linearizable) = (Numbers(0x5EED), 0);
    for _ in 0..20_000 {
        let calls = random_history(&mut numbers);
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
        calls.push(lost(Invocation::Put(10 * turn + 3), at + 2));
        calls.push(if turn % 2 == 0 { lost(Invocation::Delete, at) } else { delete(at, at + 9) });
        calls.push(create(10 * turn + 4, Response::Refused, at, at + 9));
        calls.push(get(Some(10 * turn + 1 + turn % 3), at + 3, at + 9));
    }
    assert_eq!(check(&calls), Ok(()));
    calls.push(get(Some(1), 40_000, 40_001));
    assert!(check(&calls).is_err());
}
