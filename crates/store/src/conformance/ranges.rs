//! Ranges: order, bounds, limits.

use super::{
    ORDERED, ask, check_record, decide_one, entry, follow, get, key, plan, point, put, range,
    suffixes, value, write,
};
use crate::{Entry, Guard, Key, MetaStore, Read, ReadResult, Space, Target, Verdict, Write};

/// A range over a whole partition returns only the records of the partition.
pub async fn a_whole_partition_is_a_range(store: &dyn MetaStore) {
    write(store, [put(key(6, "x"), "6"), put(key(8, ""), "8"), put(key(8, "x"), "8")]).await;
    write(store, [put(key(7, ""), "7"), put(key(7, [0xff; 40]), "7"), put(key(7, "m"), "7")]).await;
    assert_eq!(
        suffixes(store, key(7, ""), key(8, ""), 100).await,
        [b"".to_vec(), b"m".to_vec(), vec![0xff; 40]]
    );
    assert!(suffixes(store, key(9, ""), key(10, ""), 100).await.is_empty());
}

/// The start is inclusive, the end is exclusive, and a limit keeps the first records.
pub async fn a_range_has_its_bounds_and_its_limit(store: &dyn MetaStore) {
    let names = ["a", "b", "c", "d"];
    write(store, names.map(|name| put(key(1, name), name))).await;
    let all = suffixes(store, key(1, "a"), key(1, "d"), 10).await;
    assert_eq!(all, [b"a", b"b", b"c"]);
    assert_eq!(suffixes(store, key(1, "aa"), key(1, "cc"), 10).await, [b"b", b"c"]);
    assert_eq!(suffixes(store, key(1, "a"), key(2, ""), 2).await, [b"a", b"b"]);
    assert_eq!(suffixes(store, key(1, "a"), key(2, ""), 4).await.len(), 4);
    assert!(suffixes(store, key(1, "a"), key(2, ""), 0).await.is_empty());
    assert!(suffixes(store, key(1, "b"), key(1, "b"), 9).await.is_empty(), "an empty range");
}

/// Records are ordered by unsigned bytes, shorter ones first, independently of the order in which
/// they were written.
pub async fn ranges_follow_byte_order(store: &dyn MetaStore) {
    let mut sorted: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        vec![0x00],
        vec![0x00, 0x00],
        vec![0x00, 0xff],
        vec![0x01],
        b"A".to_vec(),
        b"a".to_vec(),
        b"a\x00".to_vec(),
        b"a ".to_vec(),
        b"a-b".to_vec(),
        b"a.txt".to_vec(),
        b"a/".to_vec(),
        b"aa".to_vec(),
        vec![0x7f],
        vec![0x80],
        "ä".as_bytes().to_vec(),
        vec![0xff],
        vec![0xff, 0x00],
        vec![0xff, 0xff],
    ];
    sorted.extend((2..=255_u8).map(|byte| vec![byte, byte, byte]));
    sorted.sort();
    let shuffled = sorted.iter().step_by(2).rev().chain(sorted.iter().skip(1).step_by(2));
    let writes: Vec<_> = shuffled.map(|suffix| put(key(3, suffix), suffix)).collect();
    write(store, writes).await;
    assert_eq!(suffixes(store, key(3, ""), key(4, ""), 1_000).await, sorted);

    let from = b"a\x00".to_vec();
    let rest: Vec<_> = sorted.iter().filter(|suffix| **suffix >= from).take(7).cloned().collect();
    assert_eq!(suffixes(store, key(3, &from), key(4, ""), 7).await, rest);
}

/// Records of neighbouring partitions and spaces, and records with similar keys, are not in the
/// range.
pub async fn ranges_never_leave_a_partition(store: &dyn MetaStore) {
    let neighbours = [
        key(0x0100, "n"),
        key(0x00ff, "n"),
        key(u64::MAX, "n"),
        key(0, "n"),
        Key::new(Space(ORDERED.0 - 1), 0x00fe, b"n"),
        Key::new(Space(ORDERED.0 + 1), 0x00fe, b"n"),
        Key::new(Space(ORDERED.0.to_ascii_uppercase()), 0x00fe, b"n"),
        point(0x00fe),
    ];
    write(store, neighbours.map(|key| put(key, "not this"))).await;
    write(store, [put(key(0x00fe, "in"), "this")]).await;
    assert_eq!(suffixes(store, key(0x00fe, ""), key(0x00ff, ""), 10).await, [b"in"]);
    let last = suffixes(store, key(u64::MAX, ""), key(u64::MAX, [0xff; 9]), 10).await;
    assert_eq!(last, [b"n"], "the last partition of a space");
}

/// Suffixes with zeros and other bytes at the ends of their range, in each position, and in long
/// runs.
fn any_suffixes() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..3 {
        let shorter = all[from..].to_vec();
        from = all.len();
        let longer =
            |suffix: &Vec<u8>| [0, 1, 0xfe, 0xff].map(|byte| [suffix, &[byte][..]].concat());
        all.extend(shorter.iter().flat_map(longer));
    }
    for run in [8, 126, 127, 128, 200] {
        for byte in [0, 0xff] {
            let run = vec![byte; run];
            all.extend([run.clone(), [&run[..], b"a"].concat(), [b"a", &run[..]].concat()]);
        }
    }
    all.sort();
    all
}

/// Suffixes may have any bytes. They keep their order and are found by ranges, by guards and by
/// follows.
pub async fn suffixes_may_have_any_bytes(store: &dyn MetaStore) {
    let all = any_suffixes();
    let shuffled = all.iter().skip(1).step_by(2).chain(all.iter().step_by(2).rev());
    for some in shuffled.collect::<Vec<_>>().chunks(20) {
        let new = some.iter().map(|suffix| Guard::Absent(key(3, suffix)));
        let puts = some.iter().map(|suffix| put(key(3, suffix), suffix));
        let new = plan(new.collect::<Vec<_>>(), puts.collect::<Vec<_>>());
        assert_eq!(decide_one(store, new).await, Verdict::Committed);
    }
    assert_eq!(suffixes(store, key(3, ""), key(4, ""), 1_000).await, all);
    for pair in all.windows(2) {
        let between = suffixes(store, key(3, &pair[0]), key(3, &pair[1]), 9).await;
        assert_eq!(between, pair[..1], "before {:x?}", pair[1]);
    }
    let reads: Vec<Read> = all.iter().map(|suffix| get(key(3, suffix))).collect();
    for (suffix, found) in all.iter().zip(ask(store, &reads).await) {
        assert_eq!(found, ReadResult::Record(Some(entry(&key(3, suffix), suffix))));
    }
    // A record whose value is a suffix points to the record with that suffix.
    let prefix = key(3, "").as_bytes().to_vec();
    for suffix in &all {
        write(store, [put(key(9, "pointer"), suffix)]).await;
        let length = u8::try_from(suffix.len()).expect("they are short");
        let by = Some(follow(&prefix, 0, length));
        let target = Target::Whole(value(suffix));
        let met = Entry { key: key(9, "pointer"), value: value(suffix), target };
        let mut reads = vec![Read::Record { key: key(9, "pointer"), follow: by.clone() }];
        reads.push(Read::Range { start: key(9, ""), end: key(9, "q"), limit: 5, follow: by });
        let expected = [ReadResult::Record(Some(met.clone())), ReadResult::Range(vec![met])];
        assert_eq!(ask(store, &reads).await, expected);
    }
    // Replacing or deleting one of them changes no other.
    for (number, suffix) in all.iter().enumerate() {
        let change = match number % 3 {
            0 => Write::Delete(key(3, suffix)),
            1 => put(key(3, suffix), "other"),
            _ => continue,
        };
        write(store, [change]).await;
    }
    let left = all.iter().enumerate().filter(|(number, _)| number % 3 != 0);
    let left: Vec<Entry> = left
        .map(|(number, suffix)| {
            let value = if number % 3 == 1 { b"other" } else { &suffix[..] };
            entry(&key(3, suffix), value)
        })
        .collect();
    let found = ask(store, &[range(key(3, ""), key(4, ""), 1_000)]).await;
    assert_eq!(found, [ReadResult::Range(left)]);
    check_record(store, &key(3, ""), None).await;
}
