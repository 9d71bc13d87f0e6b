use store::feed::{FEED_BATCH_BYTES_MAX, decode};
use store::{Changes, Key, Plan, Position, Space, StoreErrorKind, Value, Verdict, Write};

use super::{FeedPosition, rows};

fn key(number: u64) -> Key {
    // Long keys, so that few of them fill a row.
    Key::new(Space(b'd'), number, &[7; 1_000])
}

fn puts(numbers: std::ops::Range<u64>) -> Vec<Plan> {
    let plan =
        |number| Plan { guards: Vec::new(), writes: vec![Write::Put(key(number), Value::new())] };
    numbers.map(plan).collect()
}

fn keys_of(row: Vec<u8>) -> Vec<u64> {
    let position = Position(Value::new());
    match decode([row.into()], position).expect("an entry") {
        Changes::Notified { keys, .. } => keys.iter().map(Key::partition).collect(),
        Changes::Gap { .. } => panic!("a gap"),
    }
}

#[test]
fn small_batches_share_a_row_and_refused_plans_have_none() {
    let batches = [puts(0..2), puts(2..3), Vec::new(), puts(3..5), puts(5..6)];
    let refused = Verdict::Refused { guard: 0, found: None };
    let verdicts = [
        vec![Verdict::Committed; 2],
        vec![refused.clone()],
        vec![],
        vec![refused, Verdict::Committed],
        vec![Verdict::Committed],
    ];
    let both = batches.iter().zip(&verdicts).map(|(plans, verdicts)| (&plans[..], &verdicts[..]));
    let mut rows = rows(both);
    assert_eq!(rows.len(), 1);
    assert_eq!(keys_of(rows.remove(0)), [0, 1, 4, 5]);
}

#[test]
fn a_batch_that_does_not_fit_begins_a_row() {
    let batches = [puts(0..40), puts(40..60), puts(60..80), puts(80..81)];
    let verdicts = vec![Verdict::Committed; 40];
    let rows = rows(batches.iter().map(|plans| (&plans[..], &verdicts[..plans.len()])));
    assert!(rows.iter().all(|row| row.len() <= FEED_BATCH_BYTES_MAX));
    let told: Vec<_> = rows.into_iter().map(keys_of).collect();
    assert_eq!(told, [(0..60).collect::<Vec<_>>(), (60..81).collect()]);
}

#[test]
fn a_batch_without_committed_changes_has_no_row() {
    let counter = store::CounterKey(key(1));
    let plans = [Plan { guards: Vec::new(), writes: vec![Write::Add(counter, 1)] }];
    assert_eq!(rows([(&plans[..], &[Verdict::Committed][..])].into_iter()), Vec::<Vec<u8>>::new());
    assert_eq!(rows(std::iter::empty()), Vec::<Vec<u8>>::new());
}

#[test]
fn a_position_is_read_as_it_was_written() {
    for number in [0, 1, i64::MAX] {
        let place = FeedPosition { origin: *b"\x00origin\xff", number };
        assert_eq!(FeedPosition::read(&place.write()).expect("a position"), place);
    }
    for bytes in [&[][..], &[0; 15], &[0; 17], &[0xff; 16]] {
        let error =
            FeedPosition::read(&Position(Value::copy_from_slice(bytes))).expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Malformed);
    }
}
