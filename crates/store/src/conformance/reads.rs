//! Reads: snapshots, freshness, follows.

use futures::future::join_all;

use super::{
    POINT, ask, ask_one, check_record, counter, entry, follow, get, key, plan, point, put, range,
    value, write,
};
use crate::{Entry, Follow, MetaStore, Read, ReadResult, Target, Value, Verdict, Write};

/// The answers have the indices of their questions, for all kinds and repetitions.
pub async fn many_questions_are_answered_in_their_order(store: &dyn MetaStore) {
    write(store, [put(key(1, "a"), "A"), put(key(1, "b"), "B"), put(point(9), "P")]).await;
    write(store, [Write::Add(counter(1, "n"), 7)]).await;
    let reads = [
        get(point(9)),
        Read::Counter(counter(1, "n")),
        range(key(1, ""), key(2, ""), 1),
        get(key(1, "none")),
        get(key(1, "b")),
        Read::Counter(counter(1, "none")),
        range(key(1, "b"), key(2, ""), 9),
        get(key(1, "b")),
        Read::Counter(counter(1, "n")),
    ];
    let b = entry(&key(1, "b"), "B");
    let expected = [
        ReadResult::Record(Some(entry(&point(9), "P"))),
        ReadResult::Counter(7),
        ReadResult::Range(vec![entry(&key(1, "a"), "A")]),
        ReadResult::Record(None),
        ReadResult::Record(Some(b.clone())),
        ReadResult::Counter(0),
        ReadResult::Range(vec![b.clone()]),
        ReadResult::Record(Some(b)),
        ReadResult::Counter(7),
    ];
    assert_eq!(ask(store, &reads).await, expected);
    assert!(ask(store, &[]).await.is_empty());
}

/// A read that begins after a commit was acknowledged sees it.
pub async fn reads_see_acknowledged_commits(store: &dyn MetaStore) {
    for turn in 1..=100_i64 {
        let now = turn.to_be_bytes();
        write(store, [put(key(1, "turn"), now), Write::Max(counter(1, "turn"), turn)]).await;
        let reads = [
            get(key(1, "turn")),
            range(key(1, ""), key(2, ""), 5),
            Read::Counter(counter(1, "turn")),
        ];
        let found = ask(store, &reads).await;
        let record = entry(&key(1, "turn"), now);
        let expected = [
            ReadResult::Record(Some(record.clone())),
            ReadResult::Range(vec![record]),
            ReadResult::Counter(turn),
        ];
        assert_eq!(found, expected, "turn {turn}");
    }
}

/// While concurrent commits move units between two records, no read sees half of a move.
pub async fn reads_are_snapshots(store: &dyn MetaStore) {
    const UNITS: u8 = 200;
    let (left, right) = (key(1, "left"), key(2, "right"));
    write(store, [put(left.clone(), [UNITS]), put(right.clone(), [0])]).await;
    let writer = async {
        for moved in 1..=UNITS {
            let writes = [
                put(left.clone(), [UNITS - moved]),
                put(right.clone(), [moved]),
                Write::Add(counter(3, "moved"), 1),
            ];
            write(store, writes).await;
        }
    };
    let readers = join_all((0..4).map(|_| async {
        let mut highest = 0;
        while highest < i64::from(UNITS) {
            // A record, a range and a counter, because an engine may fetch each in another way.
            let reads = [
                get(left.clone()),
                range(key(2, ""), key(3, ""), 2),
                Read::Counter(counter(3, "moved")),
            ];
            let found = ask(store, &reads).await;
            let [
                ReadResult::Record(Some(left)),
                ReadResult::Range(right),
                ReadResult::Counter(moved),
            ] = &found[..]
            else {
                panic!("answers of other kinds: {found:?}")
            };
            assert_eq!(left.value[0] + right[0].value[0], UNITS, "one half of a move");
            assert_eq!(i64::from(right[0].value[0]), *moved, "a counter from another snapshot");
            assert!(*moved >= highest, "a reader went back in time");
            highest = *moved;
        }
    }));
    futures::join!(writer, readers);
}

/// Records of point spaces can be written, guarded and read like all others.
pub async fn point_spaces_hold_records(store: &dyn MetaStore) {
    write(store, [put(point(1), "one"), put(point(2), "two")]).await;
    write(store, [Write::Delete(point(1)), put(point(2), "zwei")]).await;
    check_record(store, &point(1), None).await;
    check_record(store, &point(2), Some(b"zwei")).await;
    let verdicts =
        super::decide(store, &[plan([crate::Guard::Absent(point(2))], [put(point(3), "")])]).await;
    assert_eq!(verdicts, [super::refused(0, Some(b"zwei"))]);
    assert_ne!(verdicts, [Verdict::Committed]);
}

/// A follow reads the target of the record in another space and partition.
pub async fn a_follow_finds_its_target_or_reports_it_absent(store: &dyn MetaStore) {
    // Zero bytes in the pointer and in the target's key must not terminate a string early.
    let mut pointer = b"xx".to_vec();
    pointer.extend_from_slice(&0x0001_00ff_0000_0a00_u64.to_be_bytes());
    let target = point(0x0001_00ff_0000_0a00);
    write(store, [put(key(1, "hit"), &pointer), put(target.clone(), b"\0found\0")]).await;
    write(store, [put(key(1, "miss"), [9; 10]), put(key(1, "short"), &pointer[..9])]).await;
    write(store, [put(key(1, "empty"), "")]).await;

    let by = follow(&[POINT.0], 2, 8);
    let reads = ["hit", "miss", "short", "empty", "none"]
        .map(|name| Read::Record { key: key(1, name), follow: Some(by.clone()) });
    let expected = [
        ReadResult::Record(Some(Entry {
            key: key(1, "hit"),
            value: value(&pointer),
            target: Target::Whole(value(b"\0found\0")),
        })),
        ReadResult::Record(Some(entry(&key(1, "miss"), [9; 10]))),
        ReadResult::Record(Some(entry(&key(1, "short"), &pointer[..9]))),
        ReadResult::Record(Some(entry(&key(1, "empty"), ""))),
        ReadResult::Record(None),
    ];
    assert_eq!(ask(store, &reads).await, expected);

    // The prefix may be a space and a partition; then the pointer is the suffix.
    let mut prefix = vec![super::ORDERED.0];
    prefix.extend_from_slice(&5_u64.to_be_bytes());
    write(store, [put(key(5, "\0\u{1}"), "suffix"), put(key(5, ""), "partition")]).await;
    let by_suffix = Read::Record { key: key(1, "hit"), follow: Some(follow(&prefix, 2, 2)) };
    let ReadResult::Record(Some(found)) = ask_one(store, by_suffix).await else {
        panic!("it is there")
    };
    assert_eq!(found.target, Target::Whole(value("suffix")));
    let by_nothing = Read::Record { key: key(1, "empty"), follow: Some(follow(&prefix, 0, 0)) };
    let ReadResult::Record(Some(found)) = ask_one(store, by_nothing).await else {
        panic!("it's there")
    };
    assert_eq!(found.target, Target::Whole(value("partition")));
}

/// A range follows each of its records independently.
pub async fn ranges_follow_each_record(store: &dyn MetaStore) {
    for number in 0..20_u64 {
        let name = format!("{number:02}");
        write(store, [put(key(1, &name), number.to_be_bytes())]).await;
        if number % 3 == 0 {
            write(store, [put(point(number), format!("target {number}"))]).await;
        }
    }
    write(store, [put(key(1, "10"), "short")]).await;
    let read = Read::Range {
        start: key(1, "02"),
        end: key(1, "15"),
        limit: 12,
        follow: Some(follow(&[POINT.0], 0, 8)),
    };
    let ReadResult::Range(entries) = ask_one(store, read).await else {
        panic!("a range was asked for")
    };
    assert_eq!(entries.len(), 12);
    for (number, found) in (2_u64..).zip(&entries) {
        let expected = Entry {
            key: key(1, format!("{number:02}")),
            value: if number == 10 { value("short") } else { value(number.to_be_bytes()) },
            target: match number % 3 {
                0 => Target::Whole(value(format!("target {number}"))),
                _ => Target::Absent,
            },
        };
        assert_eq!(found, &expected);
    }
}

/// Returns the expected target if the reader requests `most` bytes of it.
fn cut(record: &Value, most: Option<u32>) -> Target {
    let by = Follow { bytes_max: most, ..follow(&[POINT.0], 0, 8) };
    let fetched = by.fetch_bytes().map_or(usize::MAX, |bytes| usize::try_from(bytes).expect("few"));
    by.to_target(Some(record.slice(..record.len().min(fetched))))
}

#[track_caller]
fn check_target(found: &Target, expected: &Target, asked: &dyn std::fmt::Debug) {
    // Compare lengths first: a failure message must not print long binary values.
    let shown = |target: &Target| (target.first_bytes().map(<[u8]>::len), target.whole().is_some());
    assert_eq!(shown(found), shown(expected), "bytes, and whether they are all: {asked:?}");
    assert!(found == expected, "other bytes: {asked:?}");
}

/// Lengths of targets: zero, small, around each bound below, and larger than a row of a table or a
/// page of a file.
const LENGTHS: [usize; 11] = [0, 1, 2, 99, 100, 101, 255, 256, 257, 5_000, 70_000];

/// Requested bytes of targets.
const BOUNDS: [Option<u32>; 7] =
    [None, Some(0), Some(1), Some(100), Some(256), Some(60_000), Some(1 << 20)];

async fn plant_targets(store: &dyn MetaStore) -> Vec<Value> {
    let mut targets = Vec::new();
    for (number, length) in (0_u64..).zip(LENGTHS) {
        let bytes: Value =
            (0..length).map(|at| u8::try_from(at * 31 % 251).expect("below 251")).collect();
        write(store, [put(key(1, [b'a', at(number)]), number.to_be_bytes())]).await;
        write(store, [put(point(number), &bytes)]).await;
        targets.push(bytes);
    }
    write(store, [put(key(1, "b"), 99_u64.to_be_bytes()), put(key(1, "c"), "short")]).await;
    targets
}

fn at(number: u64) -> u8 {
    u8::try_from(number).expect("few")
}

/// A target up to the requested bytes is returned whole, a longer one as its first bytes, and a
/// missing one as absent. Each question has its own limit.
pub async fn a_follow_returns_at_most_the_requested_bytes(store: &dyn MetaStore) {
    let targets = plant_targets(store).await;
    let (mut reads, mut expected) = (Vec::new(), Vec::new());
    for most in BOUNDS {
        let by = Follow { bytes_max: most, ..follow(&[POINT.0], 0, 8) };
        for (number, target) in (0_u64..).zip(&targets) {
            let record = key(1, [b'a', at(number)]);
            reads.push(Read::Record { key: record, follow: Some(by.clone()) });
            expected.push(cut(target, most));
        }
        for name in ["b", "c"] {
            reads.push(Read::Record { key: key(1, name), follow: Some(by.clone()) });
            expected.push(Target::Absent);
        }
    }
    let check = |read: &Read, found: &ReadResult, expected: &Target| {
        let ReadResult::Record(Some(entry)) = found else { panic!("it is there: {read:?}") };
        check_target(&entry.target, expected, read);
    };
    // All questions in one call, then each in a call of its own, because an engine may have a
    // separate path for one question.
    for ((read, found), expected) in reads.iter().zip(ask(store, &reads).await).zip(&expected) {
        check(read, &found, expected);
    }
    for (read, expected) in reads.iter().zip(&expected) {
        check(read, &ask_one(store, read.clone()).await, expected);
    }
}

/// As [`a_follow_returns_at_most_the_requested_bytes`], for ranges, alone and with other questions.
pub async fn ranges_cut_targets_to_the_requested_bytes(store: &dyn MetaStore) {
    let targets = plant_targets(store).await;
    for most in BOUNDS {
        let read = Read::Range {
            start: key(1, "a"),
            end: key(2, ""),
            limit: 100,
            follow: Some(Follow { bytes_max: most, ..follow(&[POINT.0], 0, 8) }),
        };
        let mut expected: Vec<_> = targets.iter().map(|target| cut(target, most)).collect();
        expected.extend([Target::Absent, Target::Absent]);
        let alone = ask_one(store, read.clone()).await;
        let beside =
            ask(store, &[get(point(1)), read, Read::Counter(counter(1, "n"))]).await.remove(1);
        for found in [alone, beside] {
            let ReadResult::Range(entries) = found else { panic!("a range was asked for") };
            assert_eq!(entries.len(), expected.len());
            for (entry, expected) in entries.iter().zip(&expected) {
                check_target(&entry.target, expected, &(most, &entry.key));
            }
        }
    }
}
