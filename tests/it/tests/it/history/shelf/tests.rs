use super::{Ask, Asked, Content, Copying, Object, Told, When, check};
use crate::history::{Call as AnyCall, Deed as _, Value};

type Call = AnyCall<Asked>;

fn call(ask: Ask, told: Told, began: u64, ended: u64) -> Call {
    Call { deed: Asked { ask, told }, began, ended }
}

/// The object that a write of this value makes. Its `ETag` follows from the value.
fn object(value: Value, tags: Option<Value>) -> Object {
    Object { content: Content { value, tag: 100 + value }, note: value, tags }
}

fn put(key: usize, value: Value, began: u64, ended: u64) -> Call {
    call(Ask::Put(key, object(value, None), When::Always), Told::Done, began, ended)
}

fn get(key: usize, found: Option<Object>, began: u64, ended: u64) -> Call {
    let found = found.map(|object| (object.content, object.note, object.tags.is_some()));
    call(Ask::Get(key), Told::Found(found), began, ended)
}

fn tags(key: usize, found: Option<Option<Value>>, began: u64, ended: u64) -> Call {
    call(Ask::GetTags(key), Told::Tags(found), began, ended)
}

fn delete(key: usize, began: u64, ended: u64) -> Call {
    call(Ask::Delete(key, When::Always), Told::Done, began, ended)
}

const fn onto(from: usize, to: usize) -> Copying {
    Copying { from, to, when: None, note: None, tags: None }
}

fn copy(copying: Copying, value: Value, began: u64, ended: u64) -> Call {
    call(Ask::Copy(copying), Told::Copied(100 + value), began, ended)
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
    good(&[&begin[..], &[get(0, Some(object(2, None)), 10, 11)]].concat());
    bad(&[&begin[..], &[get(0, Some(noted(2, 9)), 10, 11)]].concat());
    // The copy took effect after the put but wrote the content that it had read before: the put is
    // lost.
    bad(&[&begin[..], &[get(0, Some(noted(1, 9)), 10, 11)]].concat());
    let after = [put(0, 1, 1, 2), put(0, 2, 3, 8), copy(touch(9), 2, 3, 9)];
    good(&[&after[..], &[get(0, Some(noted(2, 9)), 10, 11)]].concat());
}

#[test]
fn a_copy_does_not_undo_a_delete() {
    let begin = [put(0, 1, 1, 2), delete(0, 3, 6), copy(touch(9), 1, 3, 9)];
    good(&[&begin[..], &[get(0, None, 10, 11)]].concat());
    bad(&[&begin[..], &[get(0, Some(noted(1, 9)), 10, 11)]].concat());
    let missing = call(Ask::Copy(touch(9)), Told::Missing, 4, 9);
    good(&[put(0, 1, 1, 2), delete(0, 3, 6), missing, get(0, None, 10, 11)]);
    bad(&[put(0, 1, 1, 2), missing]);
    let when = |tag| Ask::Copy(Copying { when: Some(tag), ..touch(9) });
    good(&[put(0, 1, 1, 2), call(when(102), Told::Refused, 3, 4)]);
    bad(&[put(0, 1, 1, 2), call(when(101), Told::Refused, 3, 4)]);
    bad(&[put(0, 1, 1, 2), put(0, 2, 3, 4), call(when(101), Told::Copied(101), 5, 6)]);
    bad(&[call(when(101), Told::Refused, 3, 4)]);
}

#[test]
fn copies_between_keys_read_and_write_at_one_instant() {
    let begin = [put(0, 1, 1, 2), put(0, 2, 3, 4)];
    bad(&[&begin[..], &[copy(onto(0, 1), 1, 5, 6)]].concat());
    good(&[&begin[..], &[copy(onto(0, 1), 2, 5, 6), get(1, Some(object(2, None)), 7, 8)]].concat());
    // Two crossing copies, one after the other, leave the same content in both keys.
    let cross = [put(0, 1, 1, 2), put(1, 2, 1, 2)];
    let same = [copy(onto(0, 1), 1, 3, 9), copy(onto(1, 0), 1, 3, 9)];
    good(&[&cross[..], &same[..], &[get(0, Some(object(1, None)), 10, 11)]].concat());
    bad(&[&cross[..], &[copy(onto(0, 1), 1, 3, 9), copy(onto(1, 0), 2, 3, 9)]].concat());
}

#[test]
fn tags_belong_to_their_object() {
    let tagged = call(Ask::PutTags(0, 7), Told::Done, 3, 4);
    good(&[put(0, 1, 1, 2), tagged, tags(0, Some(Some(7)), 5, 6)]);
    good(&[put(0, 1, 1, 2), tagged, put(0, 2, 5, 6), tags(0, Some(None), 7, 8)]);
    bad(&[put(0, 1, 1, 2), tagged, put(0, 2, 5, 6), tags(0, Some(Some(7)), 7, 8)]);
    bad(&[put(0, 1, 1, 2), tagged, get(0, Some(object(1, None)), 5, 6)]);
    let begin = [put(0, 1, 1, 2), tagged, copy(onto(0, 1), 1, 5, 6)];
    good(&[&begin[..], &[tags(1, Some(Some(7)), 7, 8)]].concat());
    bad(&[&begin[..], &[tags(1, Some(None), 7, 8)]].concat());
    let others = Copying { tags: Some(8), ..onto(0, 1) };
    good(&[put(0, 1, 1, 2), tagged, copy(others, 1, 5, 6), tags(1, Some(Some(8)), 7, 8)]);
    bad(&[call(Ask::PutTags(0, 7), Told::Done, 3, 4)]);
    good(&[call(Ask::PutTags(0, 7), Told::Missing, 3, 4), tags(0, None, 5, 6)]);
}

#[test]
fn parts_are_copied_from_the_present_object() {
    let part = |told, began| call(Ask::CopyPart(0, 101), told, began, began + 1);
    good(&[put(0, 1, 1, 2), part(Told::Done, 3)]);
    bad(&[put(0, 1, 1, 2), put(0, 2, 3, 4), part(Told::Done, 5)]);
    good(&[put(0, 1, 1, 2), put(0, 2, 3, 4), part(Told::Refused, 5)]);
    good(&[put(0, 1, 1, 2), delete(0, 3, 4), part(Told::Missing, 5)]);
}

#[test]
fn unknown_outcomes_take_effect_late_or_never() {
    let doubt = call(Ask::Copy(onto(0, 1)), Told::Nothing, 3, 0);
    good(&[put(0, 1, 1, 2), doubt, get(1, None, 4, 5)]);
    good(&[put(0, 1, 1, 2), doubt, get(1, None, 4, 5), get(1, Some(object(1, None)), 6, 7)]);
    bad(&[
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
        let is_over = |call: &&Call| !call.deed.is_in_doubt();
        let Some(first_end) = calls.iter().filter(is_over).map(|call| call.ended).min() else {
            return true;
        };
        (0..calls.len()).any(|index| {
            if calls[index].began > first_end {
                return false;
            }
            let mut rest = calls.to_vec();
            let call = rest.remove(index);
            call.deed.apply(&state).is_some_and(|state| go(&rest, state))
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
fn invent(numbers: &mut Numbers) -> Vec<Call> {
    let mut free = [0; 3];
    let mut calls = Vec::new();
    for value in 1..=3 + numbers.below(4) {
        let client = usize::try_from(numbers.below(3)).expect("a small number");
        let began = free[client] + 1 + numbers.below(4);
        let ended = began + 1 + numbers.below(6);
        free[client] = ended;
        let (key, any) = (numbers.key(), 1 + numbers.below(value));
        let turn = numbers.below(8);
        let ask = match numbers.below(8) {
            0 | 1 => Ask::Get(key),
            2 | 3 => Ask::Put(key, object(value, None), When::Always),
            4 => Ask::Delete(key, When::Always),
            5 => Ask::PutTags(key, value),
            6 => Ask::Copy(touch(value)),
            _ => Ask::Copy(onto(key, numbers.key())),
        };
        let told = match ask {
            Ask::Get(_) if turn < 3 => Told::Found(None),
            Ask::Get(_) => {
                let found = object(any, None);
                Told::Found(Some((found.content, found.note, turn == 3)))
            }
            _ if turn == 7 => Told::Nothing,
            Ask::Copy(_) if turn < 2 => Told::Missing,
            Ask::Copy(_) => Told::Copied(100 + any),
            _ => Told::Done,
        };
        calls.push(call(ask, told, began, ended));
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
