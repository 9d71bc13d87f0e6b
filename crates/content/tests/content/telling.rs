//! MD5s that the block store tells.

use bytes::Bytes;
use content::{ContentWriter, PERMIT_STEP_BYTES, StagedContent};
use md5::{Digest as _, Md5};
use record::{BlockId, Content};

use crate::bench::{Bench, DEADLINES, MIB, body, frames};
use crate::faulty::{Fault, Faulty};

const BLOCK: u32 = 4 << 20;

fn md5(body: &[u8]) -> [u8; 16] {
    Md5::digest(body).into()
}

fn blocks(staged: &StagedContent) -> Vec<BlockId> {
    match staged.content() {
        Content::Slices(slices) => slices.iter().map(|slice| slice.block).collect(),
        other => panic!("slices were due, not {other:?}"),
    }
}

/// Sends a body whose MD5 is asked for, and will be told.
async fn ask(bench: &Bench, body: &Bytes) -> StagedContent {
    let mut writer = ContentWriter::new(&bench.staging, Some(body.len() as u64));
    assert!(writer.ask_md5(), "it fits into one block");
    for frame in frames(body, 70_000) {
        writer.write(frame).await.unwrap();
    }
    assert_eq!(writer.cut_short(), None, "there is memory");
    writer.finish().await.unwrap()
}

#[tokio::test]
async fn a_body_of_one_block_has_the_md5_that_was_told() {
    let bench = Bench::new(Faulty::telling_md5(), BLOCK, 64 * MIB);
    for size in [MIB + 1, 3 * MIB, u64::from(BLOCK)] {
        let body = body(size, size);
        let mut staged = ask(&bench, &body).await;
        assert_eq!(staged.md5(), Some(md5(&body)));
        assert!(matches!(*blocks(&staged), [id] if id.is_bare()));
        staged.disarm();
        let found = bench.read(staged.content(), 0..size).await.unwrap();
        assert!(found == body, "{size} bytes came back changed");
    }
}

#[tokio::test]
async fn an_md5_is_promised_only_where_it_will_be_told() {
    let telling = Bench::new(Faulty::telling_md5(), BLOCK, 64 * MIB);
    let silent = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let promised = |bench: &Bench, hint| ContentWriter::new(&bench.staging, hint).ask_md5();
    assert!(promised(&telling, Some(2 * MIB)));
    assert!(!promised(&silent, Some(2 * MIB)), "the store does not tell");
    assert!(!promised(&telling, None), "nobody knows how long it will be");
    assert!(!promised(&telling, Some(u64::from(BLOCK) + 1)), "it will be two blocks");
    assert!(!promised(&telling, Some(100_000)), "it may share a block");
    assert!(!ContentWriter::in_blocks(&telling.staging, Some(100_000)).ask_md5(), "it is short");
    assert!(ContentWriter::in_blocks(&telling.staging, Some(MIB)).ask_md5());
}

#[tokio::test]
async fn who_does_not_ask_gets_none() {
    let bench = Bench::new(Faulty::telling_md5(), BLOCK, 64 * MIB);
    let staged = bench.write(&body(1, 3 * MIB), Some(3 * MIB), 70_000).await.unwrap();
    assert_eq!(staged.md5(), None);
    assert!(blocks(&staged).iter().all(|id| !id.is_bare()));
}

#[tokio::test]
async fn an_md5_that_was_not_told_is_computed() {
    let bench = Bench::new(Faulty::telling_md5().put_fails(0, Fault::Untold), BLOCK, 64 * MIB);
    let body = body(5, 3 * MIB);
    assert_eq!(ask(&bench, &body).await.md5(), Some(md5(&body)));
    assert_eq!(bench.faulty.fired(), 1);
}

#[tokio::test]
async fn a_block_whose_name_was_taken_is_bare_under_the_next() {
    let bench = Bench::new(Faulty::telling_md5().put_fails(0, Fault::Conflict), BLOCK, 64 * MIB);
    let body = body(6, 3 * MIB);
    let staged = ask(&bench, &body).await;
    assert_eq!(staged.md5(), Some(md5(&body)));
    assert!(matches!(*blocks(&staged), [id] if id.is_bare()));
    assert_eq!(bench.faulty.fired(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_cut_short_gives_back_what_had_arrived() {
    let bench = Bench::new(Faulty::telling_md5(), BLOCK, 8 * MIB);
    let held = bench.staging.budget.acquire(7 * MIB, DEADLINES.budget).await.unwrap();
    let body = body(7, 3 * MIB);
    let mut writer = ContentWriter::new(&bench.staging, Some(3 * MIB));
    assert!(writer.ask_md5());
    let (mut arrived, mut written) = (Vec::new(), 0);
    for frame in frames(&body, 100_000) {
        written += frame.len();
        writer.write(frame).await.unwrap();
        if let Some(pieces) = writer.cut_short() {
            assert!(arrived.is_empty(), "it is told once");
            arrived = pieces.concat();
            assert!(arrived.len() <= written && written - arrived.len() < 100_000);
        }
    }
    assert!(arrived.len() >= PERMIT_STEP_BYTES as usize, "memory was short");
    assert!(body.starts_with(&arrived));
    let staged = writer.finish().await.unwrap();
    assert!(blocks(&staged).len() > 1);
    assert_eq!(staged.md5(), None, "nobody was told the MD5 of all of it");
    let found = bench.read(staged.content(), 0..staged.size()).await.unwrap();
    assert!(found == body);
    drop(held);
}
