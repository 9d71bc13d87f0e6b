//! One step of each workload. A step is a request, or several requests that are timed as one.
//!
//! For example, a step of `Multipart` creates an upload, sends its parts and completes it.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::Trouble;
use crate::client::{Client, DeleteBatch, PAGE_KEYS, Payload};
use crate::keys::Keys;

/// The shares of the mixed load in percent, as upper bounds: a random number below the first one
/// reads, and so on.
const MIXED_GET: u32 = 45;
const MIXED_HEAD: u32 = MIXED_GET + 30;
const MIXED_PUT: u32 = MIXED_HEAD + 15;

/// The work that all clients of a round share. Each client takes steps of it until the time is over
/// or the work is done.
pub(crate) struct Job {
    pub(crate) keys: Keys,
    pub(crate) seed: u64,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    /// Writes new objects until the time is over.
    Put { payload: Payload, round: u32 },
    /// Writes each of these objects once, each by one of the clients.
    Fill { payload: Payload, keys: Vec<String>, next: AtomicUsize },
    /// Reads these objects in random order.
    Get { bytes: u64, keys: Vec<String> },
    /// Reads each of these objects once, and compares them with `content` if it is given.
    GetOnce { bytes: u64, keys: Vec<String>, next: AtomicUsize, content: Option<Bytes> },
    /// Reads the headers of these objects in random order.
    Head { bytes: u64, keys: Vec<String> },
    /// Lists all keys with this prefix, of which there are `count`.
    List { prefix: String, count: usize },
    /// Deletes each of these objects once.
    Delete { keys: Vec<String>, next: AtomicUsize },
    /// Sends each of these batches of deletions once.
    DeleteBatches { batches: Vec<DeleteBatch>, next: AtomicUsize },
    /// Reads, writes and deletes objects, of which each client has its own.
    Mixed { bytes: u64, payload: Payload, objects: Mutex<Vec<ClientObjects>> },
    /// Writes new objects in parts until the time is over.
    Multipart { bytes: u64, parts: Vec<Payload>, round: u32 },
    /// Reads a range at a random position of one of these objects.
    Range { bytes: u64, range: u64, keys: Vec<String> },
}

/// The objects of one client of the mixed load: the numbers of those that exist, and the number of
/// the next new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientObjects {
    pub(crate) live: Vec<u64>,
    pub(crate) next: u64,
}

impl ClientObjects {
    pub(crate) fn of(numbers: Range<u64>) -> Self {
        Self { next: numbers.end, live: numbers.collect() }
    }
}

/// The result of a step, that is, of one request or of several that are timed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) units: u64,
    pub(crate) bytes: u64,
    /// True if the step wrote an object.
    pub(crate) write: bool,
}

/// The steps of one client: the shared work, and the position of the client in it.
pub(crate) struct Stepper {
    job: Arc<Job>,
    id: usize,
    random: SmallRng,
    /// The number of steps that this client has begun, successful or not. It also numbers the
    /// objects that the client writes.
    pub(crate) tried: u64,
    /// The continuation token of the current listing; `None` before its first page.
    page: Option<String>,
    /// The number of keys that the current listing has returned so far.
    listed: usize,
    pub(crate) objects: ClientObjects,
}

impl Stepper {
    pub(crate) fn new(job: Arc<Job>, id: usize) -> Self {
        // The random numbers differ between clients and are the same in each run.
        let seed = job.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(id as u64);
        let random = SmallRng::seed_from_u64(seed);
        let objects = match &job.work {
            Work::Mixed { objects, .. } => {
                // The objects of this client come from the round before. They return to the runner
                // at the end.
                let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
                objects.get_mut(id).map(std::mem::take).unwrap_or_default()
            }
            _ => ClientObjects::default(),
        };
        Self { job, id, random, tried: 0, page: None, listed: 0, objects }
    }

    /// Takes the next step. Returns `None` when the work is done.
    pub(crate) async fn step(&mut self, client: &mut Client) -> Option<Result<Done, Trouble>> {
        let job = Arc::clone(&self.job);
        let number = self.tried;
        let one = |bytes: u64| move |()| Done { units: 1, bytes, write: false };
        let written = |bytes: u64| move |()| Done { units: 1, bytes, write: true };
        let done = match &job.work {
            Work::Put { payload, round } => {
                let bytes = length(payload);
                let key = job.keys.written(bytes, *round, self.id, number);
                client.put(&key, payload).await.map(written(bytes))
            }
            Work::Fill { payload, keys, next } => {
                let key = take(keys, next)?;
                client.put(key, payload).await.map(written(length(payload)))
            }
            Work::Get { bytes, keys } => {
                let key = self.pick(keys)?;
                client.get(key, None, *bytes, None).await.map(one(*bytes))
            }
            Work::GetOnce { bytes, keys, next, content } => {
                let key = take(keys, next)?;
                client.get(key, None, *bytes, content.as_ref()).await.map(one(*bytes))
            }
            Work::Head { bytes, keys } => {
                let key = self.pick(keys)?;
                client.head(key, *bytes).await.map(one(0))
            }
            Work::List { prefix, count } => self.page(client, prefix, *count).await,
            Work::Delete { keys, next } => {
                let key = take(keys, next)?;
                client.delete(key).await.map(one(0))
            }
            Work::DeleteBatches { batches, next } => {
                let batch = take(batches, next)?;
                let done = Done { units: batch.keys, bytes: 0, write: false };
                client.delete_batch(batch).await.map(|()| done)
            }
            Work::Mixed { bytes, payload, .. } => {
                self.mixed(client, &job.keys, *bytes, payload).await
            }
            Work::Multipart { bytes, parts, round } => {
                let key = job.keys.parted(*bytes, *round, self.id, number);
                client.multipart(&key, parts).await.map(written(*bytes))
            }
            Work::Range { bytes, range, keys } => {
                let key = self.pick(keys)?;
                // An object may be smaller than the range.
                let range = (*range).min(*bytes).max(1);
                let first = self.random.random_range(0..=bytes.saturating_sub(range));
                let last = first + range - 1;
                client.get(key, Some((first, last)), range, None).await.map(one(range))
            }
        };
        self.tried += 1;
        Some(done)
    }

    fn pick<'a>(&mut self, keys: &'a [String]) -> Option<&'a String> {
        let count = keys.len();
        if count == 0 { None } else { keys.get(self.random.random_range(0..count)) }
    }

    /// Lists one page. Fails at the last page if the listing has not returned all keys.
    async fn page(
        &mut self,
        client: &mut Client,
        prefix: &str,
        count: usize,
    ) -> Result<Done, Trouble> {
        let from = self.page.take();
        let page = client.list(prefix, from.as_deref(), true).await?;
        let keys = page.keys.len();
        self.listed = if from.is_some() { self.listed + keys } else { keys };
        self.page = page.next;
        let listed = self.listed;
        if self.page.is_none() && listed != count || keys > PAGE_KEYS {
            let wrong = format!("gave {listed} keys instead of {count}");
            return Err(Trouble::Content { request: format!("LIST {prefix}"), wrong });
        }
        Ok(Done { units: u64::try_from(keys).unwrap_or(u64::MAX), bytes: 0, write: false })
    }

    async fn mixed(
        &mut self,
        client: &mut Client,
        keys: &Keys,
        bytes: u64,
        payload: &Payload,
    ) -> Result<Done, Trouble> {
        let count = self.objects.live.len();
        let dice = self.random.random_range(0..100);
        // A client without objects writes one first.
        let place = if count == 0 { 0 } else { self.random.random_range(0..count) };
        let live = self.objects.live.get(place).copied();
        let (Some(number), true) = (live, !(MIXED_HEAD..MIXED_PUT).contains(&dice)) else {
            let number = self.objects.next;
            self.objects.next += 1;
            client.put(&keys.mixed(bytes, self.id, number), payload).await?;
            self.objects.live.push(number);
            return Ok(Done { units: 1, bytes, write: true });
        };
        let key = keys.mixed(bytes, self.id, number);
        if dice < MIXED_GET {
            client.get(&key, None, bytes, None).await?;
            return Ok(Done { units: 1, bytes, write: false });
        }
        if dice < MIXED_HEAD {
            client.head(&key, bytes).await?;
        } else {
            self.objects.live.swap_remove(place);
            client.delete(&key).await?;
        }
        Ok(Done { units: 1, bytes: 0, write: false })
    }
}

/// Takes the next element of a list that all clients share; `None` at its end.
fn take<'a, T>(all: &'a [T], next: &AtomicUsize) -> Option<&'a T> {
    all.get(next.fetch_add(1, Ordering::Relaxed))
}

fn length(payload: &Payload) -> u64 {
    u64::try_from(payload.bytes.len()).unwrap_or(u64::MAX)
}
