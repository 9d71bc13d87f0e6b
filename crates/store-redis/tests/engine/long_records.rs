//! Long records, a part of which is in a string: for all old and new lengths and all kinds of
//! reads, the record that was put is found, and no string remains.

use std::collections::{BTreeMap, BTreeSet};

use store::{
    Follow, Guard, Key, MemoryStore, MetaStore, Plan, Read, ReadResult, Space, StoreErrorKind,
    Target, Value, Verdict, Write,
};
use store_redis::RedisStore;

use crate::dice::Dice;
use crate::server::{self, Volume};
use crate::{key, plan, point, record, write};

/// Lengths around those at which the form changes; `None` is no record.
const LENGTHS: [Option<usize>; 14] = [
    None,
    Some(0),
    Some(1),
    Some(251),
    Some(252),
    Some(253),
    Some(503),
    Some(504),
    Some(1_023),
    Some(1_024),
    Some(1_025),
    Some(1_276),
    Some(4_096),
    Some(1 << 20),
];

/// Returns true if a record of this length has a string.
fn is_long(length: usize) -> bool {
    length > 1_024 || length == 252
}

/// Returns bytes that differ at each position, and by `salt`.
fn filled(length: usize, salt: usize) -> Value {
    (0..length).map(|at| u8::try_from((at * 7 + at / 256 + salt) % 251).expect("a byte")).collect()
}

fn write_of(key: Key, value: Option<&Value>) -> Write {
    match value {
        Some(value) => Write::Put(key, value.clone()),
        None => Write::Delete(key),
    }
}

/// Returns each pair of an old and a new record, with a key for each pair.
fn transitions() -> Vec<(u64, Option<Value>, Option<Value>)> {
    let pairs = LENGTHS.iter().flat_map(|old| LENGTHS.iter().map(move |new| (*old, *new)));
    // Pairs of two records of a megabyte are left out: they would test nothing more.
    let pairs = pairs.filter(|(old, new)| old.unwrap_or(0) + new.unwrap_or(0) < 2 << 20);
    let values = |(old, new): (Option<usize>, Option<usize>)| {
        (old.map(|length| filled(length, 1)), new.map(|length| filled(length, 2)))
    };
    (0..).zip(pairs.map(values)).map(|(number, (old, new))| (number, old, new)).collect()
}

/// Returns the guards that a commit may have on a record before it writes.
fn guards_on(key: &Key, old: Option<&Value>) -> Vec<Vec<Guard>> {
    match old {
        None => vec![vec![], vec![Guard::Absent(key.clone())]],
        Some(old) => vec![
            vec![],
            vec![Guard::Present(key.clone())],
            vec![Guard::Equals(key.clone(), old.clone())],
        ],
    }
}

/// Returns the name of a record's string. It is the record's key; in an ordered space the suffix,
/// which has no zeros here, has two zeros after it.
fn string_of(key: &Key) -> Vec<u8> {
    let end = if key.space().is_ordered() { &b"\0\0"[..] } else { b"" };
    [key.as_bytes(), end].concat()
}

/// Returns the names of the strings of records at the server.
fn strings(server: &str, volume: &Volume) -> BTreeSet<Vec<u8>> {
    let mut keys = redis::cmd("KEYS");
    keys.arg(format!("{}l*", volume.prefix()));
    let keys: Vec<Vec<u8>> = keys.query(&mut server::connection(server)).expect("keys");
    keys.into_iter().map(|key| key[volume.prefix().len() + 1..].to_vec()).collect()
}

#[track_caller]
fn check_strings(server: &str, volume: &Volume, records: &BTreeMap<Key, Value>) {
    let long = records.iter().filter(|(_, value)| is_long(value.len()));
    let expected: BTreeSet<Vec<u8>> = long.map(|(key, _)| string_of(key)).collect();
    assert!(strings(server, volume) == expected, "strings are left behind or missing");
}

async fn walked(store: &dyn MetaStore, space: Space) -> BTreeMap<Key, Value> {
    let (mut all, mut resume) = (BTreeMap::new(), None);
    loop {
        let page = store.walk(space, resume, 50).await.expect("a page");
        all.extend(page.records);
        resume = page.resume;
        if resume.is_none() {
            return all;
        }
    }
}

async fn everything(store: &dyn MetaStore) -> BTreeMap<Key, Value> {
    let mut all = walked(store, Space(b'd')).await;
    all.extend(walked(store, Space(b'I')).await);
    all
}

/// Checks that each long record of the volume has its string, and that there are no other strings.
pub(crate) async fn check_no_string_is_left(server: &str, volume: &Volume, store: &dyn MetaStore) {
    check_strings(server, volume, &everything(store).await);
}

async fn taken(store: &dyn MetaStore) -> BTreeMap<Key, Value> {
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    rest(&mut *snapshot).await
}

async fn rest(snapshot: &mut dyn store::Snapshot) -> BTreeMap<Key, Value> {
    let mut all = BTreeMap::new();
    loop {
        let page = snapshot.records(100).await.expect("a page");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Each transition, with all guards that a commit may have, in both kinds of spaces. A snapshot
/// that was taken in between has the old records as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn each_replacement_is_found_and_leaves_no_string() {
    let Some(server) = server::given() else { return };
    for knowledge in 0..3 {
        let volume = Volume::new(&server);
        let store = volume.open().await;
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        let places = |number| [point(number), key(number % 5, &number.to_string())];
        for (number, old, new) in transitions() {
            for place in places(number) {
                if let Some(old) = &old {
                    write(&store, [Write::Put(place.clone(), old.clone())]).await;
                    before.insert(place.clone(), old.clone());
                }
                after.extend(new.clone().map(|new| (place, new)));
            }
        }
        assert!(everything(&store).await == before);
        check_strings(&server, &volume, &before);
        let mut snapshot = store.snapshot().await.expect("a snapshot");
        for (number, old, new) in transitions() {
            let mut plans = Vec::new();
            for place in places(number) {
                let mut guards = guards_on(&place, old.as_ref());
                let guards = guards.swap_remove(knowledge.min(guards.len() - 1));
                plans.push(plan(guards, [write_of(place, new.as_ref())]));
            }
            let verdicts = store.commit(&plans).await.expect("decided");
            assert_eq!(verdicts, [Verdict::Committed, Verdict::Committed]);
        }
        assert!(everything(&store).await == after);
        check_strings(&server, &volume, &after);
        for (place, value) in &after {
            assert!(record(&store, place.clone()).await.as_ref() == Some(value));
        }
        assert!(rest(&mut *snapshot).await == before, "the snapshot changed");
        assert!(taken(&store).await == after);
        drop(snapshot);
        store.close().await;
    }
}

/// Follows of records and of ranges return long records, for any requested number of bytes.
#[tokio::test(flavor = "multi_thread")]
async fn follows_return_the_requested_bytes_of_long_records() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let lengths: Vec<usize> = LENGTHS.into_iter().flatten().collect();
    for (number, length) in (0_u64..).zip(&lengths) {
        let pointer = Value::copy_from_slice(&point(number).partition().to_be_bytes());
        write(&store, [Write::Put(key(1, &format!("{number:02}")), pointer)]).await;
        write(&store, [Write::Put(point(number), filled(*length, 3))]).await;
    }
    let bounds = [0, 1, 128, 250, 251, 252, 253, 503, 1_023, 1_024, 1_025, 4_096, 1 << 20];
    for most in [None].into_iter().chain(bounds.map(Some)) {
        let follow =
            Some(Follow { prefix: b"I"[..].into(), offset: 0, length: 8, bytes_max: most });
        let range =
            Read::Range { start: key(1, ""), end: key(2, ""), limit: 100, follow: follow.clone() };
        let each = (0..lengths.len()).map(|number| Read::Record {
            key: key(1, &format!("{number:02}")),
            follow: follow.clone(),
        });
        let reads: Vec<Read> = [range].into_iter().chain(each).collect();
        let mut found = store.read(&reads).await.expect("answers");
        let singles = found.split_off(1);
        let Some(ReadResult::Range(entries)) = found.pop() else { panic!("a range was asked for") };
        let singles = singles.into_iter().map(|single| match single {
            ReadResult::Record(Some(entry)) => entry,
            other => panic!("{other:?}"),
        });
        for entries in [entries, singles.collect()] {
            assert_eq!(entries.len(), lengths.len());
            for (entry, length) in entries.iter().zip(&lengths) {
                let whole = filled(*length, 3);
                let enough = most.map_or(*length, |most| usize::try_from(most).expect("few"));
                let right = match &entry.target {
                    Target::Whole(value) => *length <= enough && *value == whole,
                    Target::Cut(beginning) => {
                        *length > enough && beginning.as_bytes() == &whole[..enough]
                    }
                    Target::Absent => false,
                };
                assert!(right, "{most:?} of {length}");
            }
        }
    }
}

/// A long record can be followed as a short one can, also from bytes where its two parts meet.
#[tokio::test(flavor = "multi_thread")]
async fn long_records_can_be_followed_from_each_offset() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    for (name, length) in [("a", 252), ("b", 262), ("c", 1_025), ("d", 5_000)] {
        write(&store, [Write::Put(key(1, name), filled(length, 8))]).await;
    }
    for offset in [0, 3, 243, 244, 245, 248, 251, 252, 254, 255] {
        let pointer = &filled(5_000, 8)[usize::from(offset)..][..8];
        let partition = u64::from_be_bytes(pointer.try_into().expect("eight bytes"));
        let target = Key::new(Space(b'I'), partition, b"");
        write(&store, [Write::Put(target, filled(2_000, 9))]).await;
        let follow = Some(Follow { prefix: b"I"[..].into(), offset, length: 8, bytes_max: None });
        let range = Read::Range { start: key(1, ""), end: key(2, ""), limit: 9, follow };
        let found = store.read(&[range]).await.expect("an answer").remove(0);
        let ReadResult::Range(entries) = found else { panic!("a range was asked for") };
        assert_eq!(entries.len(), 4);
        for entry in entries {
            let reaches = entry.value.len() >= usize::from(offset) + 8;
            let expected = if reaches { Target::Whole(filled(2_000, 9)) } else { Target::Absent };
            assert!(entry.target == expected, "{} of {}", offset, entry.value.len());
        }
    }
}

/// A guard compares all bytes, and a refusal returns all of them.
#[tokio::test(flavor = "multi_thread")]
async fn guards_compare_all_bytes_of_long_records() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    for length in LENGTHS.into_iter().flatten().filter(|length| *length > 0) {
        let whole = filled(length, 4);
        write(&store, [Write::Put(point(1), whole.clone())]).await;
        let last_differs: Value = [&whole[..length - 1], &[whole[length - 1] ^ 1]].concat().into();
        for other in [last_differs, whole.slice(..length - 1), filled(252, 5), filled(253, 5)] {
            let guard = Guard::Equals(point(1), other);
            let verdicts = store.commit(&[plan([guard], [])]).await.expect("decided");
            let refused = Verdict::Refused { guard: 0, found: Some(whole.clone()) };
            assert!(verdicts == [refused], "of {length} bytes");
        }
        let absent = plan([Guard::Absent(point(1))], []);
        let same = plan([Guard::Equals(point(1), whole.clone())], []);
        let verdicts = store.commit(&[absent, same]).await.expect("decided");
        assert!(
            verdicts == [Verdict::Refused { guard: 0, found: Some(whole) }, Verdict::Committed],
            "of {length} bytes"
        );
    }
}

impl Dice {
    fn key(&mut self) -> Key {
        if self.below(2) == 0 {
            point(self.below(6))
        } else {
            key(self.below(2), self.pick(&["a", "b", "c"]))
        }
    }

    fn value(&mut self) -> Value {
        let length = self.pick(&[0, 8, 251, 252, 253, 1_024, 1_025, 3_000]);
        filled(length, self.pick(&[0, 1, 2]))
    }

    /// Returns a plan whose guards often hold, because they compare with records of `model`.
    async fn plan(&mut self, model: &dyn MetaStore) -> Plan {
        let mut guards = Vec::new();
        for _ in 0..self.below(3) {
            let key = self.key();
            guards.push(match (self.below(5), record(model, key.clone()).await) {
                (0, _) => Guard::Empty(crate::key(0, ""), crate::key(1, "")),
                (1, _) => Guard::Absent(key),
                (2, _) => Guard::Present(key),
                (_, Some(value)) => Guard::Equals(key, value),
                (_, None) => Guard::Absent(key),
            });
        }
        let mut writes = BTreeMap::new();
        for _ in 0..=self.below(3) {
            let key = self.key();
            let value = (self.below(3) > 0).then(|| self.value());
            writes.insert(key.clone(), write_of(key, value.as_ref()));
        }
        plan(guards, writes.into_values().collect::<Vec<_>>())
    }
}

/// Batches of several plans on few keys, compared with the in-memory store.
#[tokio::test(flavor = "multi_thread")]
async fn batches_of_short_and_long_records_agree_with_memory() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let (store, model) = (volume.open().await, MemoryStore::new());
    let mut dice = Dice(7);
    let (mut committed, mut refused) = (0, 0);
    let mut snapshot: Option<(Box<dyn store::Snapshot>, BTreeMap<Key, Value>)> = None;
    for round in 0..600 {
        let mut plans = Vec::new();
        for _ in 0..=dice.below(5) {
            plans.push(dice.plan(&model).await);
        }
        let verdicts = store.commit(&plans).await.expect("decided");
        assert!(verdicts == model.commit(&plans).await.expect("decided"), "round {round}");
        let good = verdicts.iter().filter(|verdict| **verdict == Verdict::Committed).count();
        committed += good;
        refused += verdicts.len() - good;
        let now = everything(&model).await;
        assert!(everything(&store).await == now, "round {round}");
        check_strings(&server, &volume, &now);
        if round % 7 == 6 {
            if let Some((mut snapshot, then)) = snapshot.take() {
                assert!(rest(&mut *snapshot).await == then, "round {round}");
            }
            snapshot = Some((store.snapshot().await.expect("a snapshot"), now));
        }
    }
    assert!(committed > 200 && refused > 200, "{committed} committed, {refused} refused");
    drop(snapshot);
    store.close().await;
}

/// The records of a snapshot are enough to create the same volume elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_can_be_copied_through_a_snapshot() {
    let Some(server) = server::given() else { return };
    let (volume, copy) = (Volume::new(&server), Volume::new(&server));
    let (store, other) = (volume.open().await, copy.open().await);
    let mut all = BTreeMap::new();
    for (number, length) in (0..300).zip(LENGTHS.into_iter().flatten().take(12).cycle()) {
        let length = length + usize::try_from(number / 100).expect("few");
        for place in [point(number), key(number % 3, &number.to_string())] {
            all.insert(place.clone(), filled(length, 6));
            write(&store, [Write::Put(place, filled(length, 6))]).await;
        }
    }
    let changed = taken(&store).await;
    assert!(changed == all);
    for (place, value) in changed {
        write(&other, [Write::Put(place, value)]).await;
    }
    assert!(everything(&other).await == all);
    check_strings(&server, &copy, &all);
}

fn delete_string(server: &str, volume: &Volume, key: &Key) {
    let name = [format!("{}l", volume.prefix()).as_bytes(), &string_of(key)].concat();
    let deleted: u64 =
        redis::cmd("DEL").arg(name).query(&mut server::connection(server)).expect("an answer");
    assert_eq!(deleted, 1, "there was no string");
}

async fn check_damaged(store: &RedisStore, read: Read) {
    let error = store.read(&[read]).await.expect_err("it is damaged");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    let cause = std::error::Error::source(&error).expect("the server has said why");
    assert!(cause.to_string().contains("lost its overflow value"), "{cause}");
}

/// A record whose string was deleted is damaged, and neither absent nor shorter.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_without_its_string_is_damaged_and_not_absent() {
    let Some(server) = server::given() else { return };
    for length in [252, 1_025, 5_000] {
        let volume = Volume::new(&server);
        let store = volume.open().await;
        let pointer = Value::copy_from_slice(&point(1).partition().to_be_bytes());
        let both = [
            Write::Put(point(1), filled(length, 7)),
            Write::Put(key(1, "a"), pointer),
            Write::Put(point(2), filled(8, 7)),
        ];
        write(&store, both).await;
        let mut snapshot = store.snapshot().await.expect("a snapshot");
        delete_string(&server, &volume, &point(1));
        check_damaged(&store, Read::Record { key: point(1), follow: None }).await;
        for most in [None, Some(252), Some(2_000)] {
            let follow =
                Some(Follow { prefix: b"I"[..].into(), offset: 0, length: 8, bytes_max: most });
            let by_key = Read::Record { key: key(1, "a"), follow: follow.clone() };
            check_damaged(&store, by_key).await;
            let range = Read::Range { start: key(1, ""), end: key(2, ""), limit: 1, follow };
            check_damaged(&store, range).await;
        }
        let error = store.walk(Space(b'I'), None, 10).await.expect_err("it is damaged");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        let guard = Guard::Equals(point(1), filled(length, 7));
        let change = plan([guard], [Write::Put(point(2), filled(9, 7))]);
        let error = store.commit(&[change]).await.expect_err("it is damaged");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert_eq!(record(&store, point(2)).await, Some(filled(8, 7)), "something was written");
        // A plan that does not read the record may replace it; the snapshot reports the damage.
        write(&store, [Write::Put(point(1), filled(9, 7))]).await;
        assert_eq!(record(&store, point(1)).await, Some(filled(9, 7)));
        let error = snapshot.records(10).await.expect_err("it is damaged");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        drop(snapshot);
        store.close().await;
    }
}

/// Other plans of the same batch are decided.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_fails_its_own_plans_alone() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let whole = filled(5_000, 7);
    write(&store, [Write::Put(point(1), whole.clone()), Write::Put(point(3), whole.clone())]).await;
    delete_string(&server, &volume, &point(1));
    let at = |number: u64| key(1, &number.to_string());
    let change = |guard, number| plan([guard], [Write::Put(at(number), filled(8, 7))]);
    let batch = [
        change(Guard::Absent(at(0)), 0),
        change(Guard::Equals(point(1), whole.clone()), 1),
        change(Guard::Absent(point(1)), 2),
        change(Guard::Present(point(1)), 3),
        change(Guard::Equals(point(3), whole.clone()), 4),
    ];
    let verdicts = store.commit(&batch).await.expect("most are decided");
    let damaged = Verdict::Failed(StoreErrorKind::Corrupt);
    let fine = Verdict::Committed;
    assert_eq!(verdicts, [fine.clone(), damaged.clone(), damaged, fine.clone(), fine]);
    for (number, is_there) in [(0, true), (1, false), (2, false), (3, true), (4, true)] {
        assert_eq!(record(&store, at(number)).await.is_some(), is_there, "{number}");
    }
    // A damaged record can be deleted and replaced.
    let replaced = plan([Guard::Present(point(1))], [Write::Put(point(1), whole.clone())]);
    let after = change(Guard::Equals(point(1), whole.clone()), 5);
    let verdicts = store.commit(&[replaced, after]).await.expect("decided");
    assert_eq!(verdicts, [Verdict::Committed, Verdict::Committed]);
    assert_eq!(record(&store, point(1)).await, Some(whole));
    store.close().await;
}
