//! The test suite of the block store contract.
//!
//! Each function takes an empty store and panics if the store violates the contract of
//! [`BlockStore`]. [`conformance!`](crate::conformance!) makes one test of each. For example,
//! `racing_contents_leave_one_winner` puts eight contents under one id and expects exactly one
//! success. The functions need no particular runtime; the macro uses tokio's test attribute.

#![expect(clippy::expect_used, clippy::panic, reason = "these functions are tests")]

use std::collections::BTreeSet;
use std::ops::{Deref, Range};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::{Either, join_all, select};
use futures::stream;
use record::{BlockId, Nonce, RingNumber};

use crate::{
    BLOCK_BYTES_MAX, BlockError, BlockErrorKind, BlockStore, MARK_BYTES_MAX, SUB_BLOCK_BYTES,
    SealedBlock, Sealer, sealed,
};

/// Defines one test for each function of [`conformance`](mod@crate::conformance). The argument is
/// an async function. It returns `Some((guard, store))` with an empty store, or `None`, after it
/// has printed the reason, if there is no store to test. The guard is dropped at the end of the
/// test.
///
/// With `secret` as a second argument, all blocks of the suite are secret, under ring key 1, which
/// the store must know.
///
/// The calling crate must depend on tokio with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! conformance {
    ($fresh:path) => {
        $crate::conformance!($fresh, plain);
    };
    ($fresh:path, $kind:ident) => {
        $crate::conformance!($fresh, $kind =>
            a_block_reads_back_as_it_was_put
            the_largest_block_reads_back
            a_range_returns_exactly_its_bytes
            a_streamed_range_equals_the_range_read_at_once
            an_absent_block_is_not_found
            putting_the_same_bytes_again_succeeds
            an_id_keeps_its_first_content
            racing_puts_of_one_block_agree
            racing_contents_leave_one_winner
            a_reader_never_sees_part_of_a_block
            deleting_is_idempotent_and_exact
            concurrent_deletes_and_puts_lose_nothing
            sessions_are_complete
            a_listing_names_every_block_once
            a_long_listing_is_complete
            a_listing_tolerates_changes_between_its_pages
            probing_leaves_no_block
            a_mark_is_set_once_and_kept
            racing_marks_leave_one_winner
            a_mark_is_no_block
        );
    };
    ($fresh:path, $kind:ident => $($behaviour:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                if let Some((_guard, store)) = $fresh().await {
                    let subject = $crate::conformance::Subject::$kind(&store);
                    $crate::conformance::$behaviour(subject).await;
                }
            }
        )+
    };
}

/// The ring key of all secret blocks of the suite.
const RING: RingNumber = RingNumber(1);

/// A store under test, and the kind of the blocks that the suite puts into it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    store: &'a dyn BlockStore,
    secret: bool,
}

impl<'a> Subject<'a> {
    /// Tests a store with blocks that are not secret.
    pub fn plain(store: &'a dyn BlockStore) -> Subject<'a> {
        Subject { store, secret: false }
    }

    /// Tests a store with secret blocks, all under ring key 1.
    pub fn secret(store: &'a dyn BlockStore) -> Subject<'a> {
        Subject { store, secret: true }
    }

    /// Returns the id with this counter, of the kind of the suite's blocks.
    fn id(self, session: Nonce, counter: u64) -> BlockId {
        let counter = if self.secret {
            (counter | BlockId::SECRET_BIT) & !BlockId::BARE_BIT
        } else {
            counter & !BlockId::SECRET_BIT
        };
        BlockId::new(session, counter)
    }

    fn small(self, session: Nonce, counter: u64) -> SealedBlock {
        block(self.id(session, counter), 40)
    }
}

impl Deref for Subject<'_> {
    type Target = dyn BlockStore;

    fn deref(&self) -> &Self::Target {
        self.store
    }
}

fn session(name: u8) -> Nonce {
    Nonce([name; Nonce::BYTES])
}

fn content(id: BlockId, length: u32) -> Vec<u8> {
    let step = u32::from(id.0[15]) + 3;
    (0..length).map(|at| (at.wrapping_mul(step) ^ (at >> 8)).to_le_bytes()[0]).collect()
}

fn sealer(id: BlockId, length: u32) -> Sealer {
    let sealer = Sealer::new(id, length);
    if id.is_secret() { sealer.under(RING) } else { sealer }
}

fn block(id: BlockId, length: u32) -> SealedBlock {
    let mut sealer = sealer(id, length);
    sealer.push_copy(&content(id, length));
    sealer.finish()
}

async fn put(store: Subject<'_>, block: &SealedBlock) {
    store.put(block).await.expect("a block can be put");
}

async fn read(
    store: Subject<'_>,
    block: &SealedBlock,
    range: Range<u32>,
) -> Result<Vec<u8>, BlockError> {
    let span = sealed::span(block.length(), range.clone());
    let bytes = store.get(block.id(), span.bytes).await?;
    Ok(sealed::open(block.reference(), range, bytes)?.concat())
}

/// Returns all pages of a session. Panics if a page is out of order.
async fn list(store: Subject<'_>, session: Nonce) -> Vec<(BlockId, u64)> {
    let mut blocks = Vec::new();
    let mut resume = None;
    loop {
        let page = store.list(session, resume).await.expect("a session can be listed");
        blocks.extend(page.blocks);
        assert!(blocks.is_sorted_by(|a, b| a.0 < b.0), "ascending, and nothing twice");
        resume = page.resume;
        if resume.is_none() {
            return blocks;
        }
    }
}

#[track_caller]
fn kind<T>(result: Result<T, BlockError>) -> BlockErrorKind {
    match result {
        Ok(_) => panic!("an error was due"),
        Err(error) => error.kind(),
    }
}

/// Returns all bytes that arrive of a range.
async fn arrive(store: Subject<'_>, id: BlockId, bytes: Range<u64>) -> Result<Vec<u8>, BlockError> {
    let mut source = store.open(id, bytes).await?;
    let mut found = Vec::new();
    while let Some(frame) = source.next().await? {
        assert!(!frame.is_empty(), "each frame has something");
        found.extend_from_slice(&frame);
    }
    let end = source.next().await?;
    assert_eq!(end, None, "an end stays an end");
    Ok(found)
}

/// Blocks of many lengths read back whole and verified, with their sizes.
pub async fn a_block_reads_back_as_it_was_put(store: Subject<'_>) {
    let lengths = [1, 100, SUB_BLOCK_BYTES - 1, SUB_BLOCK_BYTES, SUB_BLOCK_BYTES + 1, 3 << 20];
    for (counter, length) in (0_u64..).zip(lengths) {
        let id = store.id(session(1), counter);
        let block = block(id, length);
        put(store, &block).await;
        let found = read(store, &block, 0..length).await.expect("a block that was put can be read");
        assert!(found == content(id, length), "{length} bytes came back changed");
        let size = store.size(id).await.expect("its size is known");
        assert_eq!(size, Some(sealed::sealed_bytes(length)));
    }
}

/// A block of the greatest length reads back.
pub async fn the_largest_block_reads_back(store: Subject<'_>) {
    let id = store.id(session(1), BlockId::COUNTER_MAX);
    let block = block(id, BLOCK_BYTES_MAX);
    put(store, &block).await;
    let found = read(store, &block, 0..BLOCK_BYTES_MAX).await.expect("it can be read");
    assert!(found == content(id, BLOCK_BYTES_MAX), "the largest block came back changed");
}

/// A range returns its bytes, cut at the block's end.
pub async fn a_range_returns_exactly_its_bytes(store: Subject<'_>) {
    let block = block(store.id(session(1), 5), 3 * SUB_BLOCK_BYTES - 7);
    put(store, &block).await;
    let whole = block.to_bytes();
    let size = whole.len();
    for range in [0..1, 0..size, 31..33, 65_000..66_000, size - 1..size, size - 5..size + 100] {
        let asked = range.start as u64..range.end as u64;
        let found = store.get(block.id(), asked).await.expect("the block is there");
        assert!(found == whole.slice(range.start..range.end.min(size)), "{range:?} differs");
    }
    for behind in [size as u64..size as u64 + 1, 1 << 40..1 << 41] {
        let found = store.get(block.id(), behind).await.expect("the block is there");
        assert_eq!(found, Bytes::new(), "nothing is behind the end");
    }
    for range in [0..10, 65_535..65_537, 131_072..131_073, 70_000..196_600] {
        let found = read(store, &block, range.clone()).await.expect("a part can be verified");
        let content = content(block.id(), block.length());
        assert!(Some(&*found) == content.get(range.start as usize..range.end as usize));
    }
}

/// A streamed range equals the range read at once, and opening an absent block fails.
pub async fn a_streamed_range_equals_the_range_read_at_once(store: Subject<'_>) {
    let block = block(store.id(session(1), 5), 3 << 20);
    put(store, &block).await;
    let bytes = block.to_bytes();
    let size = bytes.len();
    for range in [0..1, 0..size, 31..700_000, size - 5..size, size - 5..size + 100] {
        let asked = range.start as u64..range.end as u64;
        let found = arrive(store, block.id(), asked).await.expect("the block is there");
        assert!(found == bytes.slice(range.start..range.end.min(size)), "{range:?}");
    }
    let behind = arrive(store, block.id(), size as u64..size as u64 + 1).await;
    assert_eq!(behind.expect("the block is there"), b"", "nothing is behind the end");
    let absent = arrive(store, store.id(session(1), 6), 0..9).await;
    assert_eq!(kind(absent), BlockErrorKind::NotFound);
}

/// An absent block is `NotFound` for `get`, `None` for `size`, and missing from listings.
pub async fn an_absent_block_is_not_found(store: Subject<'_>) {
    let present = store.small(session(1), 1);
    put(store, &present).await;
    for absent in [store.id(session(1), 2), store.id(session(2), 1)] {
        assert_eq!(kind(store.get(absent, 0..9).await), BlockErrorKind::NotFound);
        assert_eq!(kind(store.get(absent, 5_000..5_001).await), BlockErrorKind::NotFound);
        assert_eq!(store.size(absent).await.expect("absence is an answer"), None);
    }
    assert_eq!(list(store, session(2)).await, []);
    store.delete(present.id()).await.expect("it can be deleted");
    assert_eq!(kind(store.get(present.id(), 0..9).await), BlockErrorKind::NotFound);
    assert_eq!(store.size(present.id()).await.expect("absence is an answer"), None);
    assert_eq!(list(store, session(1)).await, []);
}

/// A repeated put succeeds without effect.
pub async fn putting_the_same_bytes_again_succeeds(store: Subject<'_>) {
    let block = block(store.id(session(1), 1), 100_000);
    for _ in 0..3 {
        put(store, &block).await;
    }
    read(store, &block, 0..100_000).await.expect("it is still whole");
    assert_eq!(list(store, session(1)).await, [(block.id(), block.sealed_bytes())]);
}

/// Other bytes of any length under a used id are refused, and the first bytes stay.
pub async fn an_id_keeps_its_first_content(store: Subject<'_>) {
    let first = block(store.id(session(1), 1), 1_000);
    put(store, &first).await;
    for length in [1_000, 10, 70_000] {
        let mut sealer = sealer(first.id(), 0);
        sealer.push_copy(&vec![9; length]);
        assert_eq!(kind(store.put(&sealer.finish()).await), BlockErrorKind::Conflict);
    }
    read(store, &first, 0..1_000).await.expect("the first content stays");
}

/// Concurrent puts of one block all succeed.
pub async fn racing_puts_of_one_block_agree(store: Subject<'_>) {
    let block = block(store.id(session(1), 1), 200_000);
    for result in join_all((0..8).map(|_| store.put(&block))).await {
        result.expect("each put of the same bytes succeeds");
    }
    read(store, &block, 0..200_000).await.expect("it is whole");
}

/// Of several contents put concurrently under one id, exactly one is kept, and only its put
/// succeeds.
pub async fn racing_contents_leave_one_winner(store: Subject<'_>) {
    let id = store.id(session(1), 1);
    let contenders: Vec<SealedBlock> = (0..8)
        .map(|contender| {
            let mut sealer = sealer(id, 100_000);
            sealer.push_copy(&vec![contender; 100_000]);
            sealer.finish()
        })
        .collect();
    let results = join_all(contenders.iter().map(|block| store.put(block))).await;
    let (won, lost): (Vec<_>, Vec<_>) =
        contenders.iter().zip(results).partition(|(_, result)| result.is_ok());
    assert_eq!(won.len(), 1, "one content wins");
    for (_, result) in lost {
        assert_eq!(kind(result), BlockErrorKind::Conflict);
    }
    for (winner, _) in won {
        read(store, winner, 0..100_000).await.expect("the winner's content is kept");
    }
}

/// While a block is being put, a reader finds nothing or all of it.
pub async fn a_reader_never_sees_part_of_a_block(store: Subject<'_>) {
    for counter in 0..4 {
        let block = block(store.id(session(1), counter), 2 << 20);
        let mut writing = store.put(&block);
        loop {
            let reading = read(store, &block, 0..2 << 20);
            // The read races the put, and its result must be nothing or the whole block.
            let written = select(&mut writing, Box::pin(reading)).await;
            match written {
                Either::Left((written, reading)) => {
                    written.expect("the block can be put");
                    drop(reading);
                    break;
                }
                Either::Right((Ok(_), _)) => {}
                Either::Right((Err(error), _)) => {
                    assert_eq!(error.kind(), BlockErrorKind::NotFound, "{error}");
                }
            }
        }
        read(store, &block, 0..2 << 20).await.expect("after the put it is there");
    }
}

/// A delete removes only its block, and may be repeated.
pub async fn deleting_is_idempotent_and_exact(store: Subject<'_>) {
    let blocks = [0, 1, 4_095, 4_096].map(|counter| store.small(session(1), counter));
    join_all(blocks.iter().map(|block| put(store, block))).await;
    let [gone, kept @ ..] = &blocks;
    for _ in 0..2 {
        store.delete(gone.id()).await.expect("a delete may be repeated");
    }
    store.delete(store.id(session(9), 1)).await.expect("a block that never existed may be deleted");
    let expected: Vec<_> = kept.iter().map(|block| (block.id(), block.sealed_bytes())).collect();
    assert_eq!(list(store, session(1)).await, expected);
}

/// Deletes that empty a session and concurrent puts into it do not interfere.
pub async fn concurrent_deletes_and_puts_lose_nothing(store: Subject<'_>) {
    let old = store.small(session(1), 0);
    for counter in 1..40 {
        put(store, &old).await;
        let new = store.small(session(1), counter);
        let (deleted, written) = futures::join!(store.delete(old.id()), store.put(&new));
        deleted.expect("the old block can be deleted");
        written.expect("the new block can be put");
        read(store, &new, 0..40).await.expect("the new block is there");
        store.delete(new.id()).await.expect("the new block can be deleted");
    }
    assert_eq!(list(store, session(1)).await, []);
}

/// Every session with a block is listed once, in order.
pub async fn sessions_are_complete(store: Subject<'_>) {
    assert_eq!(store.sessions().await.expect("none is an answer"), []);
    let names = [3, 1, 0xff, 2, 0];
    for name in names {
        put(store, &store.small(session(name), 1)).await;
        put(store, &store.small(session(name), 1 << 40)).await;
    }
    let expected: BTreeSet<Nonce> = names.map(session).into();
    let found = store.sessions().await.expect("sessions can be listed");
    assert_eq!(found, Vec::from_iter(expected));
}

/// A session's listing has all its blocks with their sizes, and no other session's blocks.
pub async fn a_listing_names_every_block_once(store: Subject<'_>) {
    let counters = [0, 1, 4_095, 4_096, 4_097, 1 << 20, 1 << 47, BlockId::COUNTER_MAX];
    let mut expected = Vec::new();
    for (length, counter) in (1..).zip(counters) {
        let block = block(store.id(session(5), counter), length);
        put(store, &block).await;
        put(store, &store.small(session(4), counter)).await;
        put(store, &store.small(session(6), counter)).await;
        expected.push((block.id(), sealed::sealed_bytes(length)));
    }
    assert_eq!(list(store, session(5)).await, expected);
}

/// A listing is complete that has one block more than a page of S3, and several pages in a folder.
pub async fn a_long_listing_is_complete(store: Subject<'_>) {
    let blocks: Vec<_> = (0..1_001).map(|n| store.small(session(1), n * 7)).collect();
    stream::iter(&blocks).for_each_concurrent(16, |block| put(store, block)).await;
    let found = list(store, session(1)).await;
    let expected: Vec<_> = blocks.iter().map(|block| (block.id(), block.sealed_bytes())).collect();
    assert!(found == expected, "{} of {} blocks were listed", found.len(), expected.len());
}

/// Blocks that are put or deleted between two pages neither hide nor repeat other blocks.
pub async fn a_listing_tolerates_changes_between_its_pages(store: Subject<'_>) {
    // Counters in steps of ten leave room for blocks that are put between the pages.
    let blocks: Vec<_> = (0..1_100).map(|n| store.small(session(1), n * 10)).collect();
    stream::iter(&blocks).for_each_concurrent(16, |block| put(store, block)).await;
    let first = store.list(session(1), None).await.expect("a session can be listed");
    assert!(first.resume.is_some(), "one page does not hold all");
    let (last, _) = *first.blocks.last().expect("the first page has blocks");
    for gone in [first.blocks.first().map(|block| block.0), Some(last)].into_iter().flatten() {
        store.delete(gone).await.expect("a listed block can be deleted");
    }
    put(store, &store.small(session(1), 1)).await;
    put(store, &store.small(session(1), 10_989)).await;
    let mut found = first.blocks;
    let mut resume = first.resume;
    while resume.is_some() {
        let page = store.list(session(1), resume).await.expect("the listing goes on");
        found.extend(page.blocks);
        assert!(found.is_sorted_by(|a, b| a.0 < b.0), "ascending, and nothing twice");
        resume = page.resume;
    }
    let kept: Vec<_> = (0..1_100).map(|n| store.id(session(1), n * 10)).collect();
    let found: Vec<_> = found.iter().map(|(id, _)| *id).filter(|id| kept.contains(id)).collect();
    assert!(found == kept, "each that stayed, once");
}

/// A probe of a healthy store succeeds, may be repeated, and leaves nothing in listings.
pub async fn probing_leaves_no_block(store: Subject<'_>) {
    for _ in 0..2 {
        store.probe().await.expect("a healthy store answers");
    }
    assert_eq!(store.sessions().await.expect("sessions can be listed"), []);
    put(store, &store.small(session(1), 1)).await;
    store.probe().await.expect("a healthy store answers");
    assert_eq!(store.sessions().await.expect("sessions can be listed"), [session(1)]);
    assert_eq!(list(store, session(1)).await.len(), 1);
}

/// A mark is absent at first, kept byte for byte, and never replaced.
pub async fn a_mark_is_set_once_and_kept(store: Subject<'_>) {
    assert_eq!(store.mark().await.expect("absence is an answer"), None);
    let long = Bytes::from(vec![7; MARK_BYTES_MAX + 1]);
    assert_eq!(kind(store.set_mark(long.clone()).await), BlockErrorKind::Refused);
    assert_eq!(store.mark().await.expect("absence is an answer"), None);
    let mark = long.slice(..MARK_BYTES_MAX);
    for _ in 0..2 {
        store.set_mark(mark.clone()).await.expect("the same mark may be set again");
        assert_eq!(store.mark().await.expect("it can be read").as_ref(), Some(&mark));
    }
    for other in [mark.slice(1..), Bytes::from_static(b"another's"), Bytes::new()] {
        assert_eq!(kind(store.set_mark(other).await), BlockErrorKind::Conflict);
        assert_eq!(store.mark().await.expect("it can be read").as_ref(), Some(&mark));
    }
    store.remove_mark(Bytes::from_static(b"another's")).await.expect("another mark is no error");
    assert_eq!(store.mark().await.expect("it can be read").as_ref(), Some(&mark));
    for _ in 0..2 {
        store.remove_mark(mark.clone()).await.expect("no mark is no error");
        assert_eq!(store.mark().await.expect("absence is an answer"), None);
    }
    store.set_mark(Bytes::from_static(b"another's")).await.expect("a removed mark is replaced");
}

/// Of several marks set concurrently exactly one is kept, and only its setter succeeds.
pub async fn racing_marks_leave_one_winner(store: Subject<'_>) {
    let marks: Vec<Bytes> = (0..8).map(|contender| Bytes::from(vec![contender; 50])).collect();
    let results = join_all(marks.iter().map(|mark| store.set_mark(mark.clone()))).await;
    let (won, lost): (Vec<_>, Vec<_>) =
        marks.iter().zip(results).partition(|(_, result)| result.is_ok());
    for (_, result) in lost {
        assert_eq!(kind(result), BlockErrorKind::Conflict);
    }
    let kept = store.mark().await.expect("it can be read");
    let won: Vec<_> = won.into_iter().map(|(mark, _)| mark.clone()).collect();
    assert_eq!(won, Vec::from_iter(kept), "one mark wins");
}

/// A mark is in no listing, and stays when all blocks are deleted.
pub async fn a_mark_is_no_block(store: Subject<'_>) {
    let mark = Bytes::from_static(b"ours\n");
    store.set_mark(mark.clone()).await.expect("a mark can be set");
    assert_eq!(store.sessions().await.expect("sessions can be listed"), []);
    let block = store.small(session(1), 1);
    put(store, &block).await;
    assert_eq!(store.sessions().await.expect("sessions can be listed"), [session(1)]);
    assert_eq!(list(store, session(1)).await.len(), 1);
    store.probe().await.expect("a healthy store answers");
    store.delete(block.id()).await.expect("it can be deleted");
    assert_eq!(store.sessions().await.expect("sessions can be listed"), []);
    assert_eq!(store.mark().await.expect("it can be read"), Some(mark));
}
