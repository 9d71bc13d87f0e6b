//! A layer that repeats calls for which the store was unavailable.
//!
//! Every call to a block store may be repeated, so the layer need not know the calls. It repeats a
//! call only after `Unavailable`, because any other error would recur. Each call has a deadline,
//! even if the store hangs, and all retries share a budget, so that an overloaded store does not
//! get more requests because it is overloaded.
//!
//! For example, 1,000 calls earn 100 retries. If a store fails every call, the layer repeats at
//! most the 64 saved ones and then one in ten.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use record::{BlockId, Nonce, RingNumber};
use runtime::{Metered, Metric, MetricCounter};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use crate::store::{READING_MARK, REMOVING_MARK, SETTING_MARK};
use crate::{
    BlockError, BlockErrorKind, BlockPage, BlockRef, BlockStore, ByteSource, SealedBlock, Stored,
};

/// The number of calls that pay for one retry, so that retries add at most a tenth to the calls.
const CALLS_PER_RETRY: u64 = 10;

/// The most retries that calls may save up. A new layer begins with as many.
const RETRIES_SAVED_MAX: u64 = 64;

/// The limits of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// The most times that one call is made.
    pub attempts_max: u32,
    /// The upper limit of the wait before the first retry. It doubles for each further retry. The
    /// wait is a random time between zero and the limit.
    pub backoff_first: Duration,
    /// The upper limit of the wait before any retry.
    pub backoff_max: Duration,
    /// The deadline of a call for one block, for the mark, or of a probe, including retries.
    pub deadline: Duration,
    /// The deadline of `sessions` and of a page of `list`, including retries.
    pub listing_deadline: Duration,
}

impl Default for RetryLimits {
    fn default() -> RetryLimits {
        RetryLimits {
            attempts_max: 10,
            backoff_first: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            deadline: Duration::from_secs(10),
            listing_deadline: Duration::from_mins(5),
        }
    }
}

/// A block store that repeats the calls of the one below it that failed with `Unavailable`.
#[derive(Debug)]
pub struct Retrying<B> {
    inner: B,
    limits: RetryLimits,
    /// The saved retries, counted in calls: [`CALLS_PER_RETRY`] calls pay for one retry.
    budget: AtomicU64,
    retries: MetricCounter,
    jitter: AtomicU64,
}

impl<B: BlockStore> Retrying<B> {
    /// Creates a layer that repeats failed calls to the block store `inner`. `seed` makes the
    /// random waits of different processes differ.
    pub fn new(inner: B, limits: RetryLimits, seed: u64) -> Retrying<B> {
        Retrying {
            inner,
            limits,
            budget: AtomicU64::new(RETRIES_SAVED_MAX * CALLS_PER_RETRY),
            retries: MetricCounter::default(),
            jitter: AtomicU64::new(seed),
        }
    }

    /// Returns the block store whose calls are repeated.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Returns the number of repeated calls since the layer was created.
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Makes a call until it succeeds, fails with an error other than `Unavailable`, or reaches a
    /// limit of retries or of time. At a limit, the last error is the result.
    async fn call<T, F>(
        &self,
        doing: impl fmt::Display,
        within: Duration,
        mut call: impl FnMut() -> F,
    ) -> Result<T, BlockError>
    where
        F: Future<Output = Result<T, BlockError>>,
    {
        let deadline = Instant::now() + within;
        self.earn_retry();
        let mut attempts = 0;
        loop {
            attempts += 1;
            // The deadline covers all attempts, so that a caller never waits longer, however many
            // there are.
            let Ok(answer) = timeout_at(deadline, call()).await else {
                let error = format!("no answer within {within:?}, after {attempts} attempts");
                let doing = doing.to_string();
                return Err(BlockError::with_cause(BlockErrorKind::Unavailable, doing, error));
            };
            let error = match answer {
                Err(error) if error.kind() == BlockErrorKind::Unavailable => error,
                answer => return answer,
            };
            // Check every limit before the wait: a retry that cannot finish in time would only add
            // load.
            let wait = self.wait(attempts);
            if attempts >= self.limits.attempts_max
                || Instant::now() + wait >= deadline
                || !self.spend_retry()
            {
                return Err(error);
            }
            self.retries.add(1);
            warn!(%doing, attempts, %error, "the block store did not answer; retrying");
            sleep(wait).await;
        }
    }

    /// Adds one call to the budget of retries, which all calls share.
    fn earn_retry(&self) {
        let full = RETRIES_SAVED_MAX * CALLS_PER_RETRY;
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| {
            (saved < full).then_some(saved + 1)
        });
    }

    /// Takes one retry from the budget, which all calls share. Returns false if none is left.
    fn spend_retry(&self) -> bool {
        self.budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| {
                saved.checked_sub(CALLS_PER_RETRY)
            })
            .is_ok()
    }

    /// Returns the wait before the next retry after so many attempts: a random time up to a limit
    /// that doubles.
    fn wait(&self, attempts: u32) -> Duration {
        // The shift may exceed 31 bits with many attempts; then `backoff_max` is the limit.
        let doubled = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        let bound = self.limits.backoff_first.saturating_mul(doubled).min(self.limits.backoff_max);
        bound.saturating_mul(self.next_random()) / u32::from(u16::MAX)
    }

    /// Returns the next pseudo-random number up to `u16::MAX` (`SplitMix64`; it need not be
    /// unpredictable).
    fn next_random(&self) -> u32 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut number = self.jitter.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [.., high, low] = number.to_le_bytes();
        u32::from(u16::from_be_bytes([high, low]))
    }
}

impl<B: BlockStore + Metered> Metered for Retrying<B> {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.inner.visit_metrics(visit);
        let help = "Requests to the block store that were repeated after a failure.";
        visit(Metric::counter("ashlar_blocks_retries_total", help, self.retries()));
    }
}

#[async_trait]
impl<B: BlockStore> BlockStore for Retrying<B> {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        let doing = format!("writing block {}", block.id());
        self.call(doing, self.limits.deadline, || self.inner.put(block)).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let doing = format!("reading block {id}");
        self.call(doing, self.limits.deadline, || self.inner.get(id, bytes.clone())).await
    }

    fn reports_md5(&self) -> bool {
        self.inner.reports_md5()
    }

    fn streams(&self) -> bool {
        self.inner.streams()
    }

    /// Repeats the call only until the store has begun to answer, because bytes that were passed on
    /// cannot be taken back.
    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        let doing = format!("reading block {id}");
        self.call(doing, self.limits.deadline, || self.inner.open(id, bytes.clone())).await
    }

    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        let doing = format!("recomputing the checksums of block {}", block.id);
        self.call(doing, self.limits.deadline, || self.inner.recompute_checksums(block)).await
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        let doing = format!("looking for block {id}");
        self.call(doing, self.limits.deadline, || self.inner.size(id)).await
    }

    async fn ring_of(&self, id: BlockId) -> Result<Option<RingNumber>, BlockError> {
        let doing = format!("reading the ring key of block {id}");
        self.call(doing, self.limits.deadline, || self.inner.ring_of(id)).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        let doing = format!("deleting block {id}");
        self.call(doing, self.limits.deadline, || self.inner.delete(id)).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        let within = self.limits.listing_deadline;
        self.call("listing the sessions", within, || self.inner.sessions()).await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        let doing = format!("listing the blocks of session {session}");
        let within = self.limits.listing_deadline;
        self.call(doing, within, || self.inner.list(session, resume.clone())).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        let within = self.limits.deadline;
        self.call(READING_MARK, within, || self.inner.mark()).await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        let within = self.limits.deadline;
        self.call(SETTING_MARK, within, || self.inner.set_mark(mark.clone())).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        let within = self.limits.deadline;
        self.call(REMOVING_MARK, within, || self.inner.remove_mark(mark.clone())).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        let within = self.limits.deadline;
        self.call("probing the block store", within, || self.inner.probe()).await
    }
}

#[cfg(test)]
mod tests;
