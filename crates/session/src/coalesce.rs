//! Coalesced reads: short reads that wait are sent to the store as one.
//!
//! A few short reads are under way at a time. Reads that come meanwhile wait in a bounded queue, and
//! are sent as one as soon as one under way has its answer, or after [`COALESCE_PATIENCE`] if that
//! takes longer. So an idle volume adds no delay and a busy one shares its round trips. A question
//! that several callers have is sent once.
//!
//! A read is sent after it was asked for, so it sees every commit that was acknowledged before, and
//! one snapshot for all is more than any single caller could ask for. A caller that goes away harms
//! nobody: it is passed over if it still waits, and a read for several callers runs in a task of the
//! session. An error reaches everyone whom it concerns; one that a single record may have caused is
//! looked for by sending each caller's read again by itself.
//!
//! Nothing here knows what the questions mean, and nothing is remembered.

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

/// How long an operation waits for one read of metadata.
pub const META_READ_DEADLINE: Duration = Duration::from_secs(10);

/// For how long a read that is under way makes others wait. If it takes longer, the time goes into
/// the network or the store, and waiting for it would cost others more than sharing saves.
pub(crate) const COALESCE_PATIENCE: Duration = Duration::from_millis(2);

/// Callers that wait in the queue; more go to the store by themselves.
pub(crate) const COALESCE_CALLERS_MAX: usize = 1_024;

/// Questions of a read that waits for others; one that has more goes by itself and delays nobody.
pub(crate) const SHORT_QUESTIONS_MAX: usize = 16;

/// Questions of a coalesced read, and bytes of their keys.
pub(crate) const COALESCED_QUESTIONS_MAX: usize = 128;
pub(crate) const COALESCED_BYTES_MAX: usize = 64 << 10;

/// What a caller gets.
type ReadAnswer = Result<Vec<ReadResult>, StoreError>;

/// Coalesces the short reads of a session.
#[derive(Debug)]
pub(crate) struct ReadCoalescer {
    context: Arc<ReadContext>,
}

#[derive(Debug)]
struct ReadContext {
    store: Arc<dyn MetaStore>,
    meters: Arc<Meters>,
    tasks: Tasks,
    in_flight: usize,
    questions_max: usize,
    queue: Mutex<ReadQueue>,
}

/// Who waits. Somebody does only while every place is taken.
#[derive(Debug, Default)]
struct ReadQueue {
    taken: usize,
    waiting: VecDeque<QueuedRead>,
}

/// A read that waits to leave.
#[derive(Debug)]
struct QueuedRead {
    reads: Vec<Read>,
    caller: oneshot::Sender<ReadAnswer>,
}

/// What becomes of a read.
enum Admission {
    /// It may leave at once.
    Now(ReadPermit),
    /// It leaves with others, and this is where its answer comes.
    Coalesced(oneshot::Receiver<ReadAnswer>),
    /// It leaves at once and counts for nobody.
    Uncounted,
}

impl ReadCoalescer {
    /// Lets `in_flight` short reads go at a time.
    pub(crate) fn new(
        store: &Arc<dyn MetaStore>,
        meters: &Arc<Meters>,
        tasks: &Tasks,
        in_flight: usize,
    ) -> ReadCoalescer {
        let questions_max = COALESCED_QUESTIONS_MAX.min(store.limits().reads);
        ReadCoalescer {
            context: Arc::new(ReadContext {
                store: Arc::clone(store),
                meters: Arc::clone(meters),
                tasks: tasks.clone(),
                in_flight: in_flight.max(1),
                questions_max,
                queue: Mutex::default(),
            }),
        }
    }

    /// Answers questions from one snapshot that holds every commit acknowledged before the call.
    ///
    /// # Errors
    /// What the store says; [`VolumeError::Unavailable`] after [`META_READ_DEADLINE`].
    pub(crate) async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        let deadline = Instant::now() + META_READ_DEADLINE;
        let late =
            || VolumeError::Unavailable("the metadata store does not answer a read".to_owned());
        let answer = match self.admit(reads) {
            Admission::Now(place) => {
                let mut reading = pin!(self.context.read(reads));
                match timeout(COALESCE_PATIENCE, &mut reading).await {
                    Ok(answer) => answer,
                    Err(_slow) => {
                        drop(place);
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
        // What a store would refuse must not be refused to others.
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

/// Whether a read takes no longer than others can wait for.
fn is_short(reads: &[Read]) -> bool {
    let single = |read: &Read| matches!(read, Read::Record { .. } | Read::Counter(_));
    reads.len() <= SHORT_QUESTIONS_MAX && reads.iter().all(single)
}

/// What a question weighs: the bytes that it names.
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

    /// One round trip.
    async fn read(&self, reads: &[Read]) -> ReadAnswer {
        self.meters.reads.add(1);
        self.store.read(reads).await
    }

    /// Those who leave next, in their order, as many as one read may carry. If nobody waits, a
    /// place becomes free.
    fn next(&self) -> Vec<QueuedRead> {
        let mut queue = self.queue();
        let (mut leaving, mut questions, mut weight) = (Vec::new(), 0, 0);
        while let Some(first) = queue.waiting.front() {
            if !first.caller.is_closed() {
                questions += first.reads.len();
                weight += first.reads.iter().map(bytes).sum::<usize>();
                let full = questions > self.questions_max || weight > COALESCED_BYTES_MAX;
                if full && !leaving.is_empty() {
                    break;
                }
            }
            let first = queue.waiting.pop_front();
            leaving.extend(first.filter(|first| !first.caller.is_closed()));
        }
        if leaving.is_empty() {
            queue.taken -= 1;
        }
        leaving
    }
}

/// The right to have a read under way. Let go of, it passes to those who wait.
#[derive(Debug)]
struct ReadPermit {
    context: Arc<ReadContext>,
    held: bool,
}

impl ReadPermit {
    /// Those who leave next in this place; if nobody waits, it is given back.
    fn next(mut self) -> Option<(ReadPermit, Vec<QueuedRead>)> {
        let leaving = self.context.next();
        self.held = !leaving.is_empty();
        self.held.then_some((self, leaving))
    }

    /// Reads for those who leave, and for those who wait meanwhile, until nobody does.
    async fn serve(self, leaving: Vec<QueuedRead>) {
        let context = Arc::clone(&self.context);
        let mut next = Some((self, leaving));
        while let Some((place, leaving)) = next {
            let (questions, callers) = coalesce(leaving);
            let mut reading = pin!(context.read(&questions));
            let answer = match timeout(COALESCE_PATIENCE, &mut reading).await {
                Ok(answer) => {
                    next = place.next();
                    answer
                }
                Err(_slow) => {
                    drop(place);
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
        let leaving = self.context.next();
        if !leaving.is_empty() {
            let place = ReadPermit { context: Arc::clone(&self.context), held: true };
            drop(self.context.tasks.spawn("coalesced read", place.serve(leaving)));
        }
    }
}

/// Someone who waits for an answer, with the indices of what was asked.
#[derive(Debug)]
struct Caller {
    waiting: QueuedRead,
    answers: Vec<usize>,
}

/// What is asked for all: each question once.
fn coalesce(leaving: Vec<QueuedRead>) -> (Vec<Read>, Vec<Caller>) {
    let mut places: HashMap<Read, usize> = HashMap::new();
    let mut questions = Vec::new();
    let mut callers = Vec::with_capacity(leaving.len());
    for waiting in leaving {
        let mut answers = Vec::with_capacity(waiting.reads.len());
        for read in &waiting.reads {
            let next = questions.len();
            let place = *places.entry(read.clone()).or_insert(next);
            if place == next {
                questions.push(read.clone());
            }
            answers.push(place);
        }
        callers.push(Caller { waiting, answers });
    }
    (questions, callers)
}

/// Tells each caller what was answered to its questions.
fn deliver(context: &Arc<ReadContext>, callers: Vec<Caller>, answer: ReadAnswer) {
    let found = match answer {
        Ok(found) => found,
        Err(error) => return deliver_error(context, callers, &error),
    };
    for Caller { waiting, answers } in callers {
        let own = answers.iter().map(|place| found.get(*place).cloned());
        // Whoever asked counts the answers.
        let own = own.flatten().collect();
        let _gone = waiting.caller.send(Ok(own));
    }
}

/// Tells of an error. One that is not the store's absence may concern one caller alone: then each
/// is answered by itself, in a task of its own, so that nobody waits for it.
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
