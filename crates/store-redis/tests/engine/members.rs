//! Each record of an ordered space exists once, in a partition that is in the index of its space,
//! and each record of a point space in a chunk that is in the index, while records are created and
//! deleted.

use std::collections::{BTreeMap, BTreeSet};

use store::{Guard, Key, MetaStore, Space, StoreErrorKind, Value, Write};
use store_redis::RedisStore;

use crate::dice::Dice;
use crate::server::{self, Volume};
use crate::{commit, key, plan, put, write};

/// A point space and two ordered ones.
const SPACES: [u8; 3] = [b'P', b'd', b'x'];

/// Returns the number of bytes of a key that name its container, without the space.
fn place_bytes(space: u8) -> usize {
    if Space(space).is_ordered() { Key::PREFIX_BYTES } else { 7 }
}

/// Returns the records of a walk in small pages; those of a chunk may be in any order.
async fn walked(store: &RedisStore, limit: u32) -> Vec<(Key, Value)> {
    let mut all = Vec::new();
    for space in SPACES.map(Space) {
        let mut resume = None;
        loop {
            let page = store.walk(space, resume, limit).await.expect("a page");
            // The server returns whole buckets of a hash.
            let most = usize::try_from(limit).expect("few");
            assert!(page.records.len() <= most || !space.is_ordered());
            all.extend(page.records);
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
    }
    let place = |key: &Key| key.as_bytes()[..place_bytes(key.space().0)].to_vec();
    assert!(all.is_sorted_by_key(|(key, _)| place(key)), "{all:?}");
    all.sort();
    all
}

/// Returns the partitions and chunks at the server, and those in the indexes, each with its space.
fn places(server: &str, volume: &Volume) -> [BTreeSet<Vec<u8>>; 2] {
    let mut connection = server::connection(server);
    let mut there = BTreeSet::new();
    for kind in ['r', 'z'] {
        let prefix = format!("{}{kind}", volume.prefix());
        let names: Vec<Vec<u8>> =
            redis::cmd("KEYS").arg(format!("{prefix}*")).query(&mut connection).expect("keys");
        there.extend(names.into_iter().map(|name| name[prefix.len()..].to_vec()));
    }
    let mut known = BTreeSet::new();
    for space in SPACES {
        let name = [format!("{}y", volume.prefix()).as_bytes(), &[space]].concat();
        let all: Vec<Vec<u8>> = redis::cmd("ZRANGE")
            .arg(name)
            .arg("-")
            .arg("+")
            .arg("BYLEX")
            .query(&mut connection)
            .expect("places");
        known.extend(all.into_iter().map(|place| [&[space][..], &place].concat()));
    }
    [there, known]
}

async fn check(server: &str, volume: &Volume, store: &RedisStore, model: &BTreeMap<Key, Value>) {
    let [there, known] = places(server, volume);
    assert_eq!(there, known);
    let expected = model.keys().map(|key| key.as_bytes()[..place_bytes(key.space().0)].to_vec());
    assert_eq!(known, expected.collect());
    let all: Vec<(Key, Value)> = model.clone().into_iter().collect();
    for limit in [1, 3, 500] {
        assert_eq!(walked(store, limit).await, all, "in pages of {limit}");
    }
}

impl Dice {
    fn any_key(&mut self) -> Key {
        let index = usize::try_from(self.below(3)).expect("few");
        let suffix = [b"\0a\xff"[usize::try_from(self.below(3)).expect("few")]; 2];
        let length = usize::try_from(self.below(3)).expect("few");
        Key::new(Space(SPACES[index]), self.below(4) << 15, &suffix[..length])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_of_a_space_has_exactly_its_containers() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let (mut dice, mut model) = (Dice(11), BTreeMap::new());
    let mut refused = 0;
    for round in 0..400_u64 {
        let (mut plans, mut after) = (Vec::new(), model.clone());
        for _ in 0..=dice.below(2) {
            let (mut guards, mut writes) = (Vec::new(), BTreeMap::new());
            let mut next = after.clone();
            for _ in 0..=dice.below(4) {
                let at = dice.any_key();
                match (dice.below(3), after.get(&at)) {
                    (0, Some(was)) => guards.push(Guard::Equals(at.clone(), Value::clone(was))),
                    (0, None) => guards.push(Guard::Absent(at.clone())),
                    (1, Some(_)) => guards.push(Guard::Present(at.clone())),
                    _ => {}
                }
                if dice.below(2) == 0 {
                    next.remove(&at);
                    writes.insert(at.clone(), Write::Delete(at));
                } else {
                    let value = Value::from(dice.below(3).to_string());
                    next.insert(at.clone(), value.clone());
                    writes.insert(at.clone(), Write::Put(at, value));
                }
            }
            // Each fourth plan is refused, and a plan with an `Empty` guard is not merged with
            // others.
            match dice.below(8) {
                0 | 1 => guards.push(Guard::Present(key(99, "never"))),
                2 | 3 => guards.push(Guard::Empty(key(98, ""), key(99, ""))),
                _ => {}
            }
            if matches!(guards.last(), Some(Guard::Present(at)) if *at == key(99, "never")) {
                refused += 1;
            } else {
                after = next;
            }
            plans.push(plan(guards, writes.into_values().collect::<Vec<_>>()));
        }
        store.commit(&plans).await.expect("decided");
        model = after;
        if round % 5 == 0 {
            check(&server, &volume, &store, &model).await;
        }
    }
    assert!(refused > 50, "{refused} plans were refused");
    let gone = model.keys().cloned().map(Write::Delete).collect::<Vec<_>>();
    write(&store, gone).await;
    check(&server, &volume, &store, &BTreeMap::new()).await;
}

/// An orphan's record may be long, but the part of it in the partition is short.
#[tokio::test(flavor = "multi_thread")]
async fn members_of_long_records_are_short() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let long = |byte: u8| Value::from(vec![byte; 100_000]);
    let at = || key(7, "orphan");
    write(&store, [Write::Put(at(), long(1))]).await;
    let member = || {
        let name = [format!("{}zd", volume.prefix()).as_bytes(), &7_u64.to_be_bytes()].concat();
        let mut all: Vec<Vec<u8>> = redis::cmd("ZRANGE")
            .arg(name)
            .arg(0)
            .arg(-1)
            .query(&mut server::connection(&server))
            .expect("members");
        assert_eq!(all.len(), 1, "a record stands once");
        all.remove(0)
    };
    assert_eq!(member(), [b"orphan\0\0", &long(1)[..252]].concat());
    write(&store, [put(at(), "short")]).await;
    assert_eq!(member(), b"orphan\0\0short");
    let guards = [Guard::Equals(at(), Value::from_static(b"short"))];
    assert!(commit(&store, plan(guards, [Write::Put(at(), long(2))])).await.expect("decided"));
    assert_eq!(member(), [b"orphan\0\0", &long(2)[..252]].concat());
    crate::long_records::check_no_string_is_left(&server, &volume, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_continues_after_a_deleted_record() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let all: Vec<Key> = (0..20).map(|number| key(number / 2, &format!("{number:02}"))).collect();
    write(&store, all.iter().map(|key| put(key.clone(), "x")).collect::<Vec<_>>()).await;
    let first = store.walk(Space(b'd'), None, 4).await.expect("a page");
    assert_eq!(first.records.len(), 4);
    // Deletes the last record of the page with its partition, and the next partition.
    let gone = all[2..6].iter().cloned().map(Write::Delete).collect::<Vec<_>>();
    write(&store, gone).await;
    let rest = store.walk(Space(b'd'), first.resume, 100).await.expect("a page");
    let keys: Vec<Key> = rest.records.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, all[6..]);
    assert_eq!(rest.resume, None);
    for bytes in [&b""[..], b"0", b"12345678", b"12345678a", b"12345678a\0\0x", b"1234567\0\0"] {
        let resume = Some(bytes::Bytes::copy_from_slice(bytes));
        let error = store.walk(Space(b'd'), resume, 1).await.expect_err("no place to go on");
        assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
    }
}
