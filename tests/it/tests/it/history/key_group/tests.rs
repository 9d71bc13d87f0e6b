use super::{Condition, Content, Copying, Invocation, Object, Operation, Response, check};
use crate::history::{Call as AnyCall, SequentialSpec as _, Value};

type Call = AnyCall<Operation>;

fn call(invocation: Invocation, response: Response, began: u64, ended: u64) -> Call {
    Call { operation: Operation { invocation, response }, began, ended }
}

/// The object that a write of this value makes. Its `ETag` follows from the value.
fn object(value: Value, tags: Option<Value>) -> Object {
    Object { content: Content { value, tag: 100 + value }, note: value, tags }
}

fn put(key: usize, value: Value, began: u64, ended: u64) -> Call {
    call(Invocation::Put(key, object(value, None), Condition::Always), Response::Done, began, ended)
}

fn get(key: usize, found: Option<Object>, began: u64, ended: u64) -> Call {
    let found = found.map(|object| (object.content, object.note, object.tags.is_some()));
    call(Invocation::Get(key), Response::Found(found), began, ended)
}

fn tags(key: usize, found: Option<Option<Value>>, began: u64, ended: u64) -> Call {
    call(Invocation::GetTags(key), Response::Tags(found), began, ended)
}

fn delete(key: usize, began: u64, ended: u64) -> Call {
    call(Invocation::Delete(key, Condition::Always), Response::Done, began, ended)
}

const fn onto(from: usize, to: usize) -> Copying {
    Copying { from, to, when: None, note: None, tags: None }
}

fn copy(copying: Copying, value: Value, began: u64, ended: u64) -> Call {
    call(Invocation::Copy(copying), Response::Copied(100 + value), began, ended)
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

/// A copy of a key onto itself that replaces the note.
fn touch(note: Value) -> Copying {
    Copying { note: Some(note), ..onto(0, 0) }
}

fn noted(value: Value, note: Value) -> Object {
    Object { note, ..object(value, None) }
}

#[test]
fn a_copy_onto_itself_does_not_undo_a_put() {
    let begin = [put(0, 1, 1, 2), put(0, 2, 3, 8), copy(touch(9), 1, 3, 9)];
    // The copy took effect before the put.
    is_linearizable(&[&begin[..], &[get(0, Some(object(2, None)), 10, 11)]].concat());
    is_not_linearizable(&[&begin[..], &[get(0, Some(noted(2, 9)), 10, 11)]].concat());
    // The copy took effect after the put but wrote the content that it had read before: the put is
    // lost.
    is_not_linearizable(&[&begin[..], &[get(0, Some(noted(1, 9)), 10, 11)]].concat());
    let after = [put(0, 1, 1, 2), put(0, 2, 3, 8), copy(touch(9), 2, 3, 9)];
    is_linearizable(&[&after[..], &[get(0, Some(noted(2, 9)), 10, 11)]].concat());
}

#[test]
fn a_copy_does_not_undo_a_delete() {
    let begin = [put(0, 1, 1, 2), delete(0, 3, 6), copy(touch(9), 1, 3, 9)];
    is_linearizable(&[&begin[..], &[get(0, None, 10, 11)]].concat());
    is_not_linearizable(&[&begin[..], &[get(0, Some(noted(1, 9)), 10, 11)]].concat());
    let missing = call(Invocation::Copy(touch(9)), Response::Missing, 4, 9);
    is_linearizable(&[put(0, 1, 1, 2), delete(0, 3, 6), missing, get(0, None, 10, 11)]);
    is_not_linearizable(&[put(0, 1, 1, 2), missing]);
    let when = |tag| Invocation::Copy(Copying { when: Some(tag), ..touch(9) });
    is_linearizable(&[put(0, 1, 1, 2), call(when(102), Response::Refused, 3, 4)]);
    is_not_linearizable(&[put(0, 1, 1, 2), call(when(101), Response::Refused, 3, 4)]);
    is_not_linearizable(&[
        put(0, 1, 1, 2),
        put(0, 2, 3, 4),
        call(when(101), Response::Copied(101), 5, 6),
    ]);
    is_not_linearizable(&[call(when(101), Response::Refused, 3, 4)]);
}

#[test]
fn copies_between_keys_read_and_write_at_one_instant() {
    let begin = [put(0, 1, 1, 2), put(0, 2, 3, 4)];
    is_not_linearizable(&[&begin[..], &[copy(onto(0, 1), 1, 5, 6)]].concat());
    is_linearizable(
        &[&begin[..], &[copy(onto(0, 1), 2, 5, 6), get(1, Some(object(2, None)), 7, 8)]].concat(),
    );
    // Two crossing copies, one after the other, leave the same content in both keys.
    let cross = [put(0, 1, 1, 2), put(1, 2, 1, 2)];
    let same = [copy(onto(0, 1), 1, 3, 9), copy(onto(1, 0), 1, 3, 9)];
    is_linearizable(&[&cross[..], &same[..], &[get(0, Some(object(1, None)), 10, 11)]].concat());
    is_not_linearizable(
        &[&cross[..], &[copy(onto(0, 1), 1, 3, 9), copy(onto(1, 0), 2, 3, 9)]].concat(),
    );
}

#[test]
fn tags_belong_to_their_object() {
    let tagged = call(Invocation::PutTags(0, 7), Response::Done, 3, 4);
    is_linearizable(&[put(0, 1, 1, 2), tagged, tags(0, Some(Some(7)), 5, 6)]);
    is_linearizable(&[put(0, 1, 1, 2), tagged, put(0, 2, 5, 6), tags(0, Some(None), 7, 8)]);
    is_not_linearizable(&[put(0, 1, 1, 2), tagged, put(0, 2, 5, 6), tags(0, Some(Some(7)), 7, 8)]);
    is_not_linearizable(&[put(0, 1, 1, 2), tagged, get(0, Some(object(1, None)), 5, 6)]);
    let begin = [put(0, 1, 1, 2), tagged, copy(onto(0, 1), 1, 5, 6)];
    is_linearizable(&[&begin[..], &[tags(1, Some(Some(7)), 7, 8)]].concat());
    is_not_linearizable(&[&begin[..], &[tags(1, Some(None), 7, 8)]].concat());
    let others = Copying { tags: Some(8), ..onto(0, 1) };
    is_linearizable(&[
        put(0, 1, 1, 2),
        tagged,
        copy(others, 1, 5, 6),
        tags(1, Some(Some(8)), 7, 8),
    ]);
    is_not_linearizable(&[call(Invocation::PutTags(0, 7), Response::Done, 3, 4)]);
    is_linearizable(&[
        call(Invocation::PutTags(0, 7), Response::Missing, 3, 4),
        tags(0, None, 5, 6),
    ]);
}

#[test]
fn parts_are_copied_from_the_present_object() {
    let part = |response, began| call(Invocation::CopyPart(0, 101), response, began, began + 1);
    is_linearizable(&[put(0, 1, 1, 2), part(Response::Done, 3)]);
    is_not_linearizable(&[put(0, 1, 1, 2), put(0, 2, 3, 4), part(Response::Done, 5)]);
    is_linearizable(&[put(0, 1, 1, 2), put(0, 2, 3, 4), part(Response::Refused, 5)]);
    is_linearizable(&[put(0, 1, 1, 2), delete(0, 3, 4), part(Response::Missing, 5)]);
}

#[test]
fn unknown_outcomes_take_effect_late_or_never() {
    let doubt = call(Invocation::Copy(onto(0, 1)), Response::Unknown, 3, 0);
    is_linearizable(&[put(0, 1, 1, 2), doubt, get(1, None, 4, 5)]);
    is_linearizable(&[
        put(0, 1, 1, 2),
        doubt,
        get(1, None, 4, 5),
        get(1, Some(object(1, None)), 6, 7),
    ]);
    is_not_linearizable(&[
        put(0, 1, 1, 2),
        doubt,
        delete(0, 4, 5),
        get(1, None, 6, 7),
        get(1, Some(object(1, None)), 8, 9),
    ]);
}

/// Tries every order. This is slow, but too simple to have the same errors as the search.
fn brute(calls: &[Call]) -> bool {
    fn go(calls: &[Call], state: [Option<Object>; super::KEYS]) -> bool {
        let is_known = |call: &&Call| !call.operation.is_unknown();
        let Some(first_end) = calls.iter().filter(is_known).map(|call| call.ended).min() else {
            return true;
        };
        (0..calls.len()).any(|index| {
            if calls[index].began > first_end {
                return false;
            }
            let mut rest = calls.to_vec();
            let call = rest.remove(index);
            call.operation.apply(&state).is_some_and(|state| go(&rest, state))
        })
    }
    go(calls, Default::default())
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

    fn key(&mut self) -> usize {
        usize::try_from(self.below(2)).expect("a small number")
    }
}

/// Invents the calls of three clients, sometimes with a wrong outcome.
fn random_history(numbers: &mut Numbers) -> Vec<Call> {
    let mut free = [0; 3];
    let mut calls = Vec::new();
    for value in 1..=3 + numbers.below(4) {
        let client = usize::try_from(numbers.below(3)).expect("a small number");
        let began = free[client] + 1 + numbers.below(4);
        let ended = began + 1 + numbers.below(6);
        free[client] = ended;
        let (key, any) = (numbers.key(), 1 + numbers.below(value));
        let turn = numbers.below(8);
        let invocation = match numbers.below(8) {
            0 | 1 => Invocation::Get(key),
            2 | 3 => Invocation::Put(key, object(value, None), Condition::Always),
            4 => Invocation::Delete(key, Condition::Always),
            5 => Invocation::PutTags(key, value),
            6 => Invocation::Copy(touch(value)),
            _ => Invocation::Copy(onto(key, numbers.key())),
        };
        let response = match invocation {
            Invocation::Get(_) if turn < 3 => Response::Found(None),
            Invocation::Get(_) => {
                let found = object(any, None);
                Response::Found(Some((found.content, found.note, turn == 3)))
            }
            _ if turn == 7 => Response::Unknown,
            Invocation::Copy(_) if turn < 2 => Response::Missing,
            Invocation::Copy(_) => Response::Copied(100 + any),
            _ => Response::Done,
        };
        calls.push(call(invocation, response, began, ended));
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
