//! Coalesced reads: short reads that wait are sent to the store as one.
//!
//! A few short reads are in flight at a time. Further reads wait in a bounded queue. When a read in
//! flight is answered, or after [`COALESCE_PATIENCE`] if that takes longer, the waiting reads are
//! sent together. So an idle volume adds no delay and a busy one shares its round trips. A question
//! that several callers have is sent once. For example, 50 concurrent GETs of one bucket read the
//! bucket's record once.
//!
//! - **Freshness.** A read is sent after its caller asked, so it sees every commit that was
//!   acknowledged before. All callers of a coalesced read get one snapshot.
//! - **Cancellation.** A caller that is dropped while it waits is skipped. A read for several
//!   callers runs in a task of the session.
//! - **Errors.** An error of the store's connection goes to all callers. An error that one record
//!   may have caused leads to a read of its own for each caller.
//!
//! This module does not know the meaning of the records, and keeps none of them.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::Tasks;
use store::{CounterKey, Key, MetaStore, Read, ReadResult, StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::VolumeError;
use crate::meters::Meters;
use crate::times::META_READ_DEADLINE;

/// Time for which a read in flight makes others wait. If a read takes longer, the network or the
/// store is slow, and waiting for it would cost more than a shared round trip saves.
pub(crate) const COALESCE_PATIENCE: Duration = Duration::from_millis(2);

/// Most callers whose reads wait to be sent together. A further caller's read is sent at once by
/// itself.
pub(crate) const COALESCE_CALLERS_MAX: usize = 1_024;

/// Most questions of a read that may wait for others. A longer one is sent alone, so that it delays
/// no other.
pub(crate) const SHORT_QUESTIONS_MAX: usize = 16;

/// Most questions of a coalesced read, and most bytes of their keys.
pub(crate) const COALESCED_QUESTIONS_MAX: usize = 128;
pub(crate) const COALESCED_BYTES_MAX: usize = 64 << 10;

/// The store's answer to the read of one caller.
type ReadAnswer = Result<Vec<ReadResult>, StoreError>;

/// Coalesces the short reads of a session: those that wait are sent to the store as one read.
#[derive(Debug)]
pub(crate) struct ReadCoalescer {
    context: Arc<ReadContext>,
}

#[derive(Debug)]
struct ReadContext {
    store: Arc<dyn MetaStore>,
    meters: Arc<Meters>,
    tasks: Tasks,
    /// Number of permits, that is, of short reads that may be in flight at a time.
    in_flight: usize,
    /// Most questions of a coalesced read: the smaller of [`COALESCED_QUESTIONS_MAX`] and the
    /// store's limit.
    questions_max: usize,
    queue: Mutex<ReadQueue>,
}

/// The reads that wait to be sent. The queue is empty unless all permits, the rights to have a read
/// in flight, are taken.
#[derive(Debug, Default)]
struct ReadQueue {
    /// Number of permits that are taken, at most `in_flight`.
    taken: usize,
    waiting: VecDeque<QueuedRead>,
}

/// A read that waits to be sent.
#[derive(Debug)]
struct QueuedRead {
    reads: Vec<Read>,
    caller: oneshot::Sender<ReadAnswer>,
}

/// The way in which a caller's read is sent.
enum Admission {
    /// At once, with a permit.
    Now(ReadPermit),
    /// With others. The receiver gets the answer.
    Coalesced(oneshot::Receiver<ReadAnswer>),
    /// At once and without a permit, because it is long or the queue is full.
    Uncounted,
}

impl ReadCoalescer {
    /// Creates a coalescer that keeps at most as many short reads in flight as the limits of the
    /// store say. Further ones wait and are sent together.
    pub(crate) fn new(
        store: &Arc<dyn MetaStore>,
        meters: &Arc<Meters>,
        tasks: &Tasks,
    ) -> ReadCoalescer {
        let limits = store.limits();
        ReadCoalescer {
            context: Arc::new(ReadContext {
                store: Arc::clone(store),
                meters: Arc::clone(meters),
                tasks: tasks.clone(),
                in_flight: limits.reads_in_flight.max(1),
                questions_max: COALESCED_QUESTIONS_MAX.min(limits.reads),
                queue: Mutex::default(),
            }),
        }
    }

    /// Answers `reads` from one snapshot that contains every commit that was acknowledged before
    /// the call.
    ///
    /// # Errors
    /// The store's errors; [`VolumeError::Unavailable`] after [`META_READ_DEADLINE`].
    pub(crate) async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        let deadline = Instant::now() + META_READ_DEADLINE;
        let late =
            || VolumeError::Unavailable("the metadata store does not answer a read".to_owned());
        let answer = match self.admit(reads) {
            Admission::Now(permit) => {
                let mut reading = pin!(self.context.read(reads));
                match timeout(COALESCE_PATIENCE, &mut reading).await {
                    Ok(answer) => answer,
                    Err(_slow) => {
                        // The next read need not wait for a slow one.
                        drop(permit);
                        timeout_at(deadline, reading).await.map_err(|_| late())?
                    }
                }
            }
            Admission::Coalesced(answer) => {
                let answer = timeout_at(deadline, answer).await.map_err(|_| late())?;
                answer.unwrap_or_else(|_dropped| Err(unavailable("the task that reads has ended")))
            }
            Admission::Uncounted => {
                timeout_at(deadline, self.context.read(reads)).await.map_err(|_| late())?
            }
        };
        Ok(answer?)
    }

    fn admit(&self, reads: &[Read]) -> Admission {
        let context = &self.context;
        // A read that the store would refuse must not make it refuse the reads of others.
        if !is_short(reads) || context.store.limits().check_read(reads).is_err() {
            return Admission::Uncounted;
        }
        let mut queue = context.queue();
        if queue.taken < context.in_flight {
            queue.taken += 1;
            return Admission::Now(ReadPermit { context: Arc::clone(context), held: true });
        }
        if queue.waiting.len() >= COALESCE_CALLERS_MAX {
            return Admission::Uncounted;
        }
        let (caller, answer) = oneshot::channel();
        queue.waiting.push_back(QueuedRead { reads: reads.to_vec(), caller });
        Admission::Coalesced(answer)
    }
}

/// Returns true if the read is short enough to make others wait.
fn is_short(reads: &[Read]) -> bool {
    let single = |read: &Read| matches!(read, Read::Record { .. } | Read::Counter(_));
    reads.len() <= SHORT_QUESTIONS_MAX && reads.iter().all(single)
}

/// Returns the bytes of the keys that a question names.
fn bytes(read: &Read) -> usize {
    let key = |key: &Key| key.as_bytes().len();
    match read {
        Read::Record { key: at, follow } => {
            key(at) + follow.as_ref().map_or(0, |follow| follow.prefix.len())
        }
        Read::Range { start, end, .. } => key(start) + key(end),
        Read::Counter(CounterKey(at)) => key(at),
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("reading: {why}"))
}

impl ReadContext {
    fn queue(&self) -> MutexGuard<'_, ReadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads in one round trip.
    async fn read(&self, reads: &[Read]) -> ReadAnswer {
        self.meters.reads.add(1);
        self.store.read(reads).await
    }

    /// Returns the callers whose reads are sent next, in the order of the queue, as many as one
    /// read may carry. If there are none, gives back the permit, the right to have a read in
    /// flight.
    fn next(&self) -> Vec<QueuedRead> {
        let mut queue = self.queue();
        let (mut batch, mut questions, mut key_bytes) = (Vec::new(), 0, 0);
        while let Some(first) = queue.waiting.front() {
            if !first.caller.is_closed() {
                questions += first.reads.len();
                key_bytes += first.reads.iter().map(bytes).sum::<usize>();
                let full = questions > self.questions_max || key_bytes > COALESCED_BYTES_MAX;
                if full && !batch.is_empty() {
                    break;
                }
            }
            let first = queue.waiting.pop_front();
            batch.extend(first.filter(|first| !first.caller.is_closed()));
        }
        if batch.is_empty() {
            queue.taken -= 1;
        }
        batch
    }
}

/// The right to have a short read in flight. When it is dropped it passes to the waiting reads.
#[derive(Debug)]
struct ReadPermit {
    context: Arc<ReadContext>,
    held: bool,
}

impl ReadPermit {
    /// Returns the callers whose reads are sent next with this permit, the right to have a read in
    /// flight. Returns `None` if no caller waits.
    fn next(mut self) -> Option<(ReadPermit, Vec<QueuedRead>)> {
        let batch = self.context.next();
        self.held = !batch.is_empty();
        self.held.then_some((self, batch))
    }

    /// Sends one read for these callers, and then for those that have come in between, until the
    /// queue is empty.
    async fn serve(self, batch: Vec<QueuedRead>) {
        let context = Arc::clone(&self.context);
        let mut next = Some((self, batch));
        while let Some((permit, batch)) = next {
            let (questions, callers) = coalesce(batch);
            // A slow read gives its permit away, and the waiting reads need not wait for it.
            let mut reading = pin!(context.read(&questions));
            let answer = match timeout(COALESCE_PATIENCE, &mut reading).await {
                Ok(answer) => {
                    next = permit.next();
                    answer
                }
                Err(_slow) => {
                    drop(permit);
                    next = None;
                    let late = |_| unavailable("the metadata store does not answer");
                    timeout(META_READ_DEADLINE, reading).await.map_err(late).flatten()
                }
            };
            deliver(&context, callers, answer);
        }
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let batch = self.context.next();
        if !batch.is_empty() {
            let permit = ReadPermit { context: Arc::clone(&self.context), held: true };
            drop(self.context.tasks.spawn("coalesced read", permit.serve(batch)));
        }
    }
}

/// A caller and the indices of its questions among those that are sent.
#[derive(Debug)]
struct Caller {
    waiting: QueuedRead,
    answers: Vec<usize>,
}

/// Merges the questions of all callers, each question once.
fn coalesce(batch: Vec<QueuedRead>) -> (Vec<Read>, Vec<Caller>) {
    let mut indices: HashMap<Read, usize> = HashMap::new();
    let mut questions = Vec::new();
    let mut callers = Vec::with_capacity(batch.len());
    for waiting in batch {
        let mut answers = Vec::with_capacity(waiting.reads.len());
        for read in &waiting.reads {
            let next = questions.len();
            let index = *indices.entry(read.clone()).or_insert(next);
            if index == next {
                questions.push(read.clone());
            }
            answers.push(index);
        }
        callers.push(Caller { waiting, answers });
    }
    (questions, callers)
}

/// Sends each caller the answers to its own questions.
fn deliver(context: &Arc<ReadContext>, callers: Vec<Caller>, answer: ReadAnswer) {
    let found = match answer {
        Ok(found) => found,
        Err(error) => return deliver_error(context, callers, &error),
    };
    for Caller { waiting, answers } in callers {
        let own = answers.iter().map(|index| found.get(*index).cloned());
        // The caller checks the number of its answers.
        let own = own.flatten().collect();
        let _gone = waiting.caller.send(Ok(own));
    }
}

/// Sends an error to the callers. An error other than `Unavailable` may concern one caller alone.
/// Then each caller's read is sent again by itself, in a task, so that no other read waits for it.
fn deliver_error(context: &Arc<ReadContext>, callers: Vec<Caller>, error: &StoreError) {
    if error.kind() == StoreErrorKind::Unavailable || callers.len() == 1 {
        for caller in callers {
            let _gone = caller.waiting.caller.send(Err(error.clone()));
        }
        return;
    }
    let separate = Arc::clone(context);
    drop(context.tasks.spawn("read apart", async move {
        for Caller { waiting, .. } in callers {
            let reading = separate.read(&waiting.reads);
            let late = |_| unavailable("the metadata store does not answer");
            let answer = timeout(META_READ_DEADLINE, reading).await.map_err(late).flatten();
            let _gone = waiting.caller.send(answer);
        }
    }));
}

#[cfg(test)]
mod tests;
