//! The rules and limits of retries.

use std::sync::Mutex;

use super::*;
use crate::{MemoryBlocks, Sealer};

/// An in-memory store whose first calls fail as scripted. `None` is a call that hangs.
#[derive(Debug, Default)]
struct Failing {
    blocks: MemoryBlocks,
    failures: Mutex<Vec<Option<BlockErrorKind>>>,
    calls: AtomicU64,
}

impl Failing {
    async fn fail(&self) -> Result<(), BlockError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let failure = self.failures.lock().expect("not poisoned").pop();
        match failure {
            None => Ok(()),
            Some(Some(kind)) => Err(BlockError::new(kind, "failing on purpose")),
            Some(None) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl BlockStore for Failing {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.fail().await?;
        self.blocks.put(block).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.fail().await?;
        self.blocks.get(id, bytes).await
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.fail().await?;
        self.blocks.size(id).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.fail().await?;
        self.blocks.delete(id).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.fail().await?;
        self.blocks.sessions().await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.fail().await?;
        self.blocks.list(session, resume).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.fail().await?;
        self.blocks.mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.fail().await?;
        self.blocks.set_mark(mark).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.fail().await?;
        self.blocks.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.fail().await?;
        self.blocks.probe().await
    }
}

const GONE: Option<BlockErrorKind> = Some(BlockErrorKind::Unavailable);

fn store(failures: &[Option<BlockErrorKind>]) -> Retrying<Failing> {
    let failing = Failing { failures: Mutex::new(failures.to_vec()), ..Failing::default() };
    Retrying::new(failing, RetryLimits::default(), 1)
}

fn block() -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), 9);
    sealer.push_copy(&[1; 9]);
    sealer.finish()
}

#[track_caller]
fn check_calls(store: &Retrying<Failing>, calls: u64, retries: u64) {
    let found = (store.inner().calls.load(Ordering::Relaxed), store.retries());
    assert_eq!(found, (calls, retries));
}

#[tokio::test(start_paused = true)]
async fn every_verb_is_repeated() {
    let store = store(&[GONE; 5]);
    store.put(&block()).await.expect("the sixth attempt");
    check_calls(&store, 6, 5);
    let (id, session) = (block().id(), block().id().session());
    let fail_once = || store.inner().failures.lock().expect("not poisoned").push(GONE);
    fail_once();
    assert_eq!(store.get(id, 0..99).await.expect("get"), block().to_bytes());
    fail_once();
    let mut source = store.open(id, 0..99).await.expect("open");
    assert_eq!(source.next().await.expect("it is there"), Some(block().to_bytes()));
    fail_once();
    assert!(store.size(id).await.expect("size").is_some());
    fail_once();
    assert_eq!(store.sessions().await.expect("sessions"), [session]);
    fail_once();
    assert_eq!(store.list(session, None).await.expect("list").blocks.len(), 1);
    fail_once();
    store.set_mark(Bytes::from_static(b"ours")).await.expect("set_mark");
    fail_once();
    assert_eq!(store.mark().await.expect("mark").as_deref(), Some(&b"ours"[..]));
    fail_once();
    store.probe().await.expect("probe");
    fail_once();
    store.delete(id).await.expect("delete");
    check_calls(&store, 24, 14);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_limited_and_the_last_error_is_returned() {
    let store = store(&[GONE; 50]);
    let error = store.put(&block()).await.expect_err("ten attempts fail");
    assert_eq!(error.kind(), BlockErrorKind::Unavailable);
    assert!(error.to_string().contains("failing on purpose"), "{error}");
    check_calls(&store, 10, 9);
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_not_repeated() {
    for kind in [
        BlockErrorKind::NotFound,
        BlockErrorKind::Corrupt,
        BlockErrorKind::Conflict,
        BlockErrorKind::Refused,
    ] {
        let store = store(&[Some(kind)]);
        assert_eq!(store.put(&block()).await.expect_err("it fails").kind(), kind);
        check_calls(&store, 1, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let store = store(&[None, GONE]);
    let begun = Instant::now();
    let error = store.get(block().id(), 0..9).await.expect_err("no answer");
    assert_eq!(error.kind(), BlockErrorKind::Unavailable);
    assert!(error.to_string().contains("no answer within 10s, after 2 attempts"), "{error}");
    let taken = begun.elapsed();
    let deadline = RetryLimits::default().deadline;
    assert!((deadline..deadline + Duration::from_millis(50)).contains(&taken), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn no_wait_goes_beyond_the_deadline() {
    let failing = Failing { failures: Mutex::new(vec![GONE; 9_999]), ..Failing::default() };
    let limits = RetryLimits { attempts_max: u32::MAX, ..RetryLimits::default() };
    let store = Retrying::new(failing, limits, 7);
    let begun = Instant::now();
    store.put(&block()).await.expect_err("it never succeeds");
    assert!(begun.elapsed() <= limits.deadline);
    assert!(store.retries() > 5, "it was worth trying");
}

#[tokio::test(start_paused = true)]
async fn repetitions_add_at_most_a_tenth() {
    let store = store(&vec![GONE; 100_000]);
    for _ in 0..1_000 {
        store.put(&block()).await.expect_err("it never succeeds");
    }
    let most = RETRIES_SAVED_MAX + 1_000 / CALLS_PER_RETRY;
    assert!((most - 1..=most).contains(&store.retries()), "{}", store.retries());
}

#[test]
fn waits_are_spread_between_zero_and_a_growing_limit() {
    let store = store(&[]);
    for (attempts, bound_ms) in [(1, 50), (2, 100), (6, 1_600), (7, 2_000), (99, 2_000)] {
        let waits: Vec<u128> = (0..200).map(|_| store.wait(attempts).as_millis()).collect();
        assert!(waits.iter().all(|wait| *wait <= bound_ms), "{attempts}");
        assert!(waits.iter().any(|wait| *wait > bound_ms * 8 / 10), "{attempts}");
        assert!(waits.iter().any(|wait| *wait < bound_ms * 2 / 10), "{attempts}");
    }
}
