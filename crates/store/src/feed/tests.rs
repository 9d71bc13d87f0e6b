use super::*;
use crate::{CounterKey, Space, Value};

fn key(number: u64) -> Key {
    Key::new(Space(b'd'), number, b"name")
}

fn here() -> Position {
    Position(Bytes::from_static(b"here"))
}

fn plan(writes: Vec<Write>) -> Plan {
    Plan { guards: Vec::new(), writes }
}

#[test]
fn pieces_have_written_records_and_no_counters() {
    let plans = [
        plan(vec![Write::Put(key(1), Value::from_static(b"x")), Write::Delete(key(2))]),
        plan(vec![Write::Add(CounterKey(key(3)), 1), Write::Clear(CounterKey(key(4)))]),
        plan(vec![Write::Delete(key(5))]),
    ];
    let pieces = pieces(&plans);
    assert!(pieces[1].is_empty());
    let told = decode([pieces.concat().into()], here()).unwrap();
    assert_eq!(told, Changes::Notified { keys: vec![key(1), key(2), key(5)], next: here() });
}

#[test]
fn a_too_large_batch_is_a_gap() {
    let writes = (0..10_000).map(|number| Write::Delete(key(number))).collect();
    let pieces = pieces(&[plan(writes), plan(vec![Write::Add(CounterKey(key(3)), 1)])]);
    assert!(pieces.iter().map(Bytes::len).sum::<usize>() < 10);
    assert!(pieces[1].is_empty());
    let told = decode([pieces.concat().into()], here()).unwrap();
    assert_eq!(told, Changes::Gap { next: here() });
}

#[test]
fn more_keys_than_the_limit_of_an_answer_are_a_gap() {
    let writes = (0..1_000).map(|number| Write::Delete(key(number))).collect();
    let entry = Bytes::from(pieces(&[plan(writes)]).concat());
    let entries = |number| std::iter::repeat_n(entry.clone(), number);
    let full = FEED_KEYS_MAX / 1_000;
    assert!(matches!(decode(entries(full), here()).unwrap(), Changes::Notified { .. }));
    assert_eq!(decode(entries(full + 1), here()).unwrap(), Changes::Gap { next: here() });
}

#[test]
fn a_cut_entry_is_corrupt() {
    let entry = pieces(&[plan(vec![Write::Delete(key(1)), Write::Delete(key(2))])]).concat();
    let whole = entry.len() / 2;
    for length in 1..entry.len() {
        let cut = Bytes::copy_from_slice(&entry[..length]);
        assert_eq!(decode([cut], here()).is_ok(), length == whole, "cut to {length}");
    }
}
