use bytes::Bytes;

use super::{Entries, entry, pieces};
use crate::feed::{self, FEED_BATCH_BYTES_MAX};
use crate::{Changes, CounterKey, Key, Plan, Position, Space, StoreErrorKind, Write};

fn key(space: u8, partition: u64, suffix: &[u8]) -> Key {
    Key::new(Space(space), partition, suffix)
}

fn plan(keys: &[Key]) -> Plan {
    let put = |key: &Key| Write::Put(key.clone(), Bytes::from_static(b"value"));
    Plan { guards: Vec::new(), writes: keys.iter().map(put).collect() }
}

fn read(joined: impl Into<Bytes>) -> Changes {
    let next = Position(Bytes::from_static(b"next"));
    feed::decode(Entries::new(joined.into()), next).expect("entries that can be read")
}

fn keys(changes: Changes) -> Vec<Key> {
    match changes {
        Changes::Notified { keys, .. } => keys,
        Changes::Gap { .. } => panic!("there was no gap"),
    }
}

fn sorted(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort();
    keys.dedup();
    keys
}

#[test]
fn an_entry_has_each_key_once_and_in_order() {
    let one = [key(b'd', 7, b"0001"), key(b'I', 1_000, b""), key(b'k', 9, b"slot")];
    let other = [key(b'd', 7, b"0002"), key(b'I', 1_001, b""), key(b'k', 9, b"slot")];
    let plans = [plan(&one), plan(&other)];
    let all = sorted(one.iter().chain(&other).cloned().collect());
    let whole = entry(&plans);
    assert_eq!(keys(read(whole.clone())), all);
    assert!(whole.len() < 60, "{} bytes for five keys of 63", whole.len());
    let pieces = pieces(&plans);
    assert_eq!(pieces.len(), 2);
    let each = [sorted(one.into()), sorted(other.into())].concat();
    assert_eq!(keys(read(pieces.concat())), each);
}

/// A piece can be decoded after any other piece, and without the pieces that were left out.
#[test]
fn pieces_of_committed_plans_have_their_keys() {
    let of = |number: u64| vec![key(b'd', 7, b"same"), key(b'd', 7, &number.to_be_bytes())];
    let all: Vec<Vec<Key>> = (0..6).map(of).collect();
    let plans: Vec<Plan> = all.iter().map(|keys| plan(keys)).collect();
    let pieces = pieces(&plans);
    for chosen in 0..1_u32 << all.len() {
        let is_chosen = |number: &usize| chosen >> number & 1 == 1;
        let some: Vec<usize> = (0..all.len()).filter(is_chosen).collect();
        let joined: Vec<&[u8]> = some.iter().map(|number| &pieces[*number][..]).collect();
        let expected: Vec<Key> =
            some.iter().flat_map(|number| sorted(all[*number].clone())).collect();
        assert_eq!(keys(read(joined.concat())), expected, "{chosen:b}");
    }
}

#[test]
fn long_keys_and_long_shared_prefixes_are_decoded() {
    for shared in [0, 126, 127, 128, 254, 255, 256, 1_000] {
        for more in [0, 1, 100, 127, 128, 300] {
            let first = key(b'd', 1, &vec![5; shared]);
            let second = key(b'd', 1, &[vec![5; shared], vec![6; more]].concat());
            let all = sorted(vec![first, second]);
            assert_eq!(keys(read(entry(&[plan(&all)]))), all, "{shared} and {more}");
        }
    }
}

#[test]
fn counters_are_left_out_and_large_batches_are_a_gap() {
    let add = Write::Add(CounterKey(key(b'n', 1, b"")), 1);
    let silent = [Plan { guards: Vec::new(), writes: vec![add] }];
    assert!(entry(&silent).is_empty() && pieces(&silent).is_empty());
    let many = FEED_BATCH_BYTES_MAX / 1_009 + 1;
    let long = |number: usize| key(b'd', 1, format!("{number:01000}").as_bytes());
    let all: Vec<Key> = (0..many).map(long).collect();
    assert!(matches!(read(entry(&[plan(&all)])), Changes::Gap { .. }));
    assert_eq!(keys(read(entry(&[plan(&all[1..])]))).len(), many - 1);
}

#[test]
fn malformed_entries_are_refused() {
    for wrong in [&[0][..], &[1, 0], &[0, 2, b'd'], &[0, 0x80], &[0, 1, b'd']] {
        let next = Position(Bytes::new());
        let error = feed::decode(Entries::new(Bytes::from_static(wrong)), next).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{wrong:?}");
    }
}
