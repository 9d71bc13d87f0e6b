use store::{Position, StoreErrorKind};

use super::{Heads, KEPT, Question, SHARDS, SHARDS_USIZE, TRIM_EVERY, shard, trim};

const STORE: &[u8] = b"sixteen bytes...";

#[test]
fn positions_are_decoded_as_encoded() {
    let mut heads = Heads([0; SHARDS_USIZE]);
    heads.0[3] = u64::MAX;
    heads.0[15] = 7;
    let position = heads.write(STORE);
    assert_eq!(Heads::read(&position, STORE).expect("a position"), Some(heads));
    assert_eq!(Heads::read(&position, b"another store...").expect("a position"), None);
    let short = Position(position.0.slice(1..));
    let error = Question::new(Some(&short), STORE).expect_err("too short");
    assert_eq!(error.kind(), StoreErrorKind::Malformed);
}

#[test]
fn a_shard_is_trimmed_at_intervals_and_keeps_the_promised_entries() {
    assert!((0..KEPT).all(|number| trim(0, number).is_none()));
    let trims: Vec<u64> = (KEPT..2 * KEPT).filter(|number| trim(0, *number).is_some()).collect();
    assert_eq!(trims.len() as u64, KEPT / TRIM_EVERY);
    assert!((0..100).all(|connection| shard(connection) < u64::from(SHARDS)));
}
