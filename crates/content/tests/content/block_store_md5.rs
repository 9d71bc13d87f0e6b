//! MD5s that the block store reports.

use bytes::Bytes;
use content::{ContentWriter, Md5Wanted, StagedContent};
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

/// Sends a body whose MD5 is needed when it is finished.
async fn ask(bench: &Bench, body: &Bytes) -> StagedContent {
    let writer = ContentWriter::new(&bench.writers, Some(body.len() as u64));
    send(writer, Md5Wanted::AtFinish, body).await
}

async fn send(mut writer: ContentWriter, wanted: Md5Wanted, body: &Bytes) -> StagedContent {
    writer.request_md5(wanted);
    for frame in frames(body, 70_000) {
        writer.write(frame).await.unwrap();
    }
    if wanted == Md5Wanted::BeforeFinish {
        assert_eq!(writer.md5().await.unwrap(), md5(body));
    }
    writer.finish().await.unwrap()
}

#[tokio::test]
async fn one_block_body_has_the_md5_that_the_store_reported() {
    let bench = Bench::new(Faulty::reporting_md5(), BLOCK, 64 * MIB);
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
async fn md5_is_computed_where_the_store_will_not_report_it() {
    let reporting = Bench::new(Faulty::reporting_md5(), BLOCK, 64 * MIB);
    let silent = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let (soon, early) = (Md5Wanted::AtFinish, Md5Wanted::BeforeFinish);
    let block = u64::from(BLOCK);
    for (bench, size, announced, wanted, bare) in [
        (&reporting, 2 * MIB, true, soon, true),
        (&silent, 2 * MIB, true, soon, false),
        (&reporting, 2 * MIB, false, soon, false),
        (&reporting, 2 * MIB, true, early, false),
        (&reporting, block + 1, true, soon, false),
        (&reporting, 100_000, true, soon, false),
        (&reporting, 1, true, soon, false),
        (&reporting, 0, false, early, false),
    ] {
        let body = body(size, size);
        let writer = ContentWriter::new(&bench.writers, announced.then_some(size));
        let staged = send(writer, wanted, &body).await;
        assert_eq!(staged.md5(), Some(md5(&body)), "{size} bytes, {wanted:?}");
        let is_bare = matches!(staged.content(), Content::Slices(slices)
            if slices.iter().any(|slice| slice.block.is_bare()));
        assert_eq!(is_bare, bare, "{size} bytes, {wanted:?}");
    }
    for (size, bare) in [(100_000, false), (MIB, true)] {
        let body = body(size, size);
        let writer = ContentWriter::in_blocks(&reporting.writers, Some(size));
        let staged = send(writer, soon, &body).await;
        assert_eq!(staged.md5(), Some(md5(&body)));
        assert!(blocks(&staged).iter().all(|id| id.is_bare() == bare), "{size} bytes");
    }
}

#[tokio::test]
async fn body_longer_than_announced_has_no_wrong_md5() {
    let bench = Bench::new(Faulty::reporting_md5(), BLOCK, 64 * MIB);
    let mut writer = ContentWriter::new(&bench.writers, Some(2 * MIB));
    writer.request_md5(Md5Wanted::AtFinish);
    for frame in frames(&body(8, 3 * MIB), 70_000) {
        writer.write(frame).await.unwrap();
    }
    let error = writer.finish().await.unwrap_err();
    assert!(error.to_string().contains("differs from the announced one"), "{error}");
}

#[tokio::test]
async fn md5_is_absent_unless_requested() {
    let bench = Bench::new(Faulty::reporting_md5(), BLOCK, 64 * MIB);
    let staged = bench.write(&body(1, 3 * MIB), Some(3 * MIB), 70_000).await.unwrap();
    assert_eq!(staged.md5(), None);
    assert!(blocks(&staged).iter().all(|id| !id.is_bare()));
}

#[tokio::test]
async fn md5_that_the_store_did_not_report_is_computed() {
    let bench =
        Bench::new(Faulty::reporting_md5().put_fails(0, Fault::Unreported), BLOCK, 64 * MIB);
    let body = body(5, 3 * MIB);
    assert_eq!(ask(&bench, &body).await.md5(), Some(md5(&body)));
    assert_eq!(bench.faulty.fired(), 1);
}

#[tokio::test]
async fn bare_block_stays_bare_under_a_new_id() {
    let bench = Bench::new(Faulty::reporting_md5().put_fails(0, Fault::Conflict), BLOCK, 64 * MIB);
    let body = body(6, 3 * MIB);
    let staged = ask(&bench, &body).await;
    assert_eq!(staged.md5(), Some(md5(&body)));
    assert!(matches!(*blocks(&staged), [id] if id.is_bare()));
    assert_eq!(bench.faulty.fired(), 1);
}

#[tokio::test(start_paused = true)]
async fn md5_is_computed_when_a_bare_body_is_cut() {
    let bench = Bench::new(Faulty::reporting_md5(), BLOCK, 8 * MIB);
    let held = bench.staging.budget.acquire(7 * MIB, DEADLINES.budget).await.unwrap();
    let body = body(7, 3 * MIB);
    let staged = ask(&bench, &body).await;
    assert!(blocks(&staged).len() > 1, "memory was short");
    assert_eq!(staged.md5(), Some(md5(&body)));
    let found = bench.read(staged.content(), 0..staged.size()).await.unwrap();
    assert!(found == body);
    drop(held);
}
