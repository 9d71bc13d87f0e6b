//! Rounds of a workload against one target.
//!
//! For example, a benchmark calls [`Runner::prepare`] and [`Runner::round`] several times for each
//! workload, and [`Runner::clean`] at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::client::{Client, DeleteBatch, PAGE_KEYS, Payload};
use crate::keys::{Keys, Written};
use crate::steps::{ClientObjects, Job, Stepper, Work};
use crate::target::Address;
use crate::workload::PART_BYTES_MIN;
use crate::{Gauge, Round, TargetBucket, Trouble, Verb, Workload};

/// The time after the end of a round in which requests in flight must get their responses. Then the
/// round fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// The longest duration of a preparation, which writes the objects that a round needs.
const PREPARING: Duration = Duration::from_hours(1);

/// The pause of a client after an error, so that refusals do not cause a storm of requests.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// The number of consecutive errors after which a client ends its round.
const ERRORS_MAX: u32 = 50;

/// The number of clients that write objects concurrently in a preparation.
const PREPARERS: usize = 16;

/// Puts load on one target, in rounds, and keeps all objects below one prefix. In a round, all
/// clients repeat one operation for a given time.
pub struct Runner {
    target: TargetBucket,
    address: Arc<Address>,
    threads: usize,
    seed: u64,
    prefix: String,
    keys: Keys,
    rounds: u32,
    /// The objects that PUT rounds have written and no DELETE round has deleted.
    written: Vec<Written>,
    /// The number of the objects in `written` that cold rounds have read, by size in bytes. Such a
    /// round reads each object once.
    read: BTreeMap<u64, usize>,
    /// The operations, with their object sizes in bytes, for which the objects to read or list
    /// exist.
    filled: BTreeSet<(Verb, u64)>,
    objects: BTreeMap<u64, Vec<ClientObjects>>,
    payloads: BTreeMap<u64, Payload>,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("target", &self.target).finish_non_exhaustive()
    }
}

/// The clients that share a work: their number, and for how long and how fast they take steps.
#[derive(Clone, Copy)]
struct Crew {
    clients: usize,
    time: Duration,
    /// The shortest time between the begins of two steps of a client.
    pace: Option<Duration>,
}

/// The clients of a preparation.
const PREPARING_CREW: Crew = Crew { clients: PREPARERS, time: PREPARING, pace: None };

/// The result of one thread of a round, or of all threads together: the counts, and the state of
/// each client at its end.
struct RoundEnd {
    round: Round,
    /// For each client its number, the number of steps that it tried, and its objects.
    clients: Vec<(usize, u64, ClientObjects)>,
}

impl Runner {
    /// Creates a runner for `target` without a connection. All keys begin with `prefix`, which ends
    /// in a slash. Contents and order follow from `seed`. More than one thread is useful only if
    /// the endpoint is on another machine.
    ///
    /// # Errors
    ///
    /// If the target's endpoint, credentials or certificates cannot be used.
    pub fn new(
        target: &TargetBucket,
        prefix: &str,
        seed: u64,
        threads: usize,
    ) -> Result<Self, Trouble> {
        let address = Arc::new(target.address()?);
        // A client is created and dropped, so that wrong credentials fail here and not in the first
        // round.
        Client::new(target, Arc::clone(&address))?;
        Ok(Self {
            target: target.clone(),
            address,
            threads: threads.max(1),
            seed,
            prefix: prefix.to_owned(),
            keys: Keys::below(prefix),
            rounds: 0,
            written: Vec::new(),
            read: BTreeMap::new(),
            filled: BTreeSet::new(),
            objects: BTreeMap::new(),
            payloads: BTreeMap::new(),
        })
    }

    /// Continues with the same objects at another endpoint of the same bucket.
    ///
    /// # Errors
    ///
    /// If the endpoint cannot be used.
    pub fn move_to(&mut self, endpoint: &str) -> Result<(), Trouble> {
        endpoint.clone_into(&mut self.target.endpoint);
        self.address = Arc::new(self.target.address()?);
        Ok(())
    }

    /// Creates the bucket unless it exists. Returns true if it was created.
    ///
    /// # Errors
    ///
    /// If the endpoint cannot be reached, or refuses.
    pub fn make_bucket(&self) -> Result<bool, Trouble> {
        let mut client = self.client()?;
        runtime()?.block_on(client.make_bucket())
    }

    /// Returns the number of objects of `object_bytes` bytes that PUT rounds have written and no
    /// round has read or deleted. They are new to the caches of the endpoint.
    pub fn unread(&self, object_bytes: u64) -> usize {
        let all = self.written.iter().filter(|it| it.object_bytes == object_bytes);
        let all: u64 = all.flat_map(|it| &it.counts).sum();
        let read = self.read.get(&object_bytes).copied().unwrap_or(0);
        usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(read)
    }

    /// Writes the objects that the next round of a workload needs. Objects for reads are also read
    /// and compared twice, so that a cache can keep them.
    ///
    /// # Errors
    ///
    /// If an object cannot be written, or a read returns another content.
    pub fn prepare(&mut self, workload: &Workload, gauge: &Arc<Gauge>) -> Result<(), Trouble> {
        let Workload { verb, object_bytes: bytes, clients, .. } = *workload;
        let count = workload.objects;
        match verb {
            // PUT rounds have written these objects.
            Verb::Get if workload.once.is_some() => {}
            Verb::Get | Verb::Head | Verb::Range => {
                let keys: Vec<_> = (0..count).map(|it| self.keys.read(bytes, it)).collect();
                // All workloads that read share the same objects.
                if self.filled.insert((Verb::Get, bytes)) {
                    self.fill(bytes, keys.clone(), gauge)?;
                    self.compare(bytes, &keys, gauge)?;
                }
            }
            Verb::List if self.filled.insert((verb, bytes)) => {
                let keys = (0..count).map(|it| self.keys.listed(bytes, it)).collect();
                self.fill(bytes, keys, gauge)?;
            }
            Verb::Delete | Verb::DeleteBatch if self.written_of(bytes).is_none() => {
                let put = Workload::new(Verb::Put, bytes, clients, workload.time);
                require_success(self.round(&put, gauge)?)?;
            }
            Verb::Mixed if !self.objects.contains_key(&bytes) => {
                let numbers = 0..u64::try_from(count).unwrap_or(u64::MAX);
                let of = |id: usize| numbers.clone().map(move |number| (id, number));
                let all = (0..clients).flat_map(of);
                let keys = all.map(|(id, number)| self.keys.mixed(bytes, id, number)).collect();
                self.fill(bytes, keys, gauge)?;
                self.objects.insert(bytes, vec![ClientObjects::of(numbers); clients]);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs one round and returns its result. The caller has called [`Runner::prepare`] before.
    ///
    /// # Errors
    ///
    /// If the endpoint cannot be reached or does not respond, or there are no objects for the
    /// workload. Failed requests are counted in the round instead.
    pub fn round(&mut self, workload: &Workload, gauge: &Arc<Gauge>) -> Result<Round, Trouble> {
        let Workload { verb, object_bytes: bytes, clients, time, pace, .. } = *workload;
        let round = self.rounds;
        self.rounds += 1;
        let work = self.work(workload, round)?;
        let left = self.run(work, Crew { clients, time, pace }, gauge)?;
        match verb {
            Verb::Put => {
                // Failed writes count, too: an object may exist although its response was an error.
                let mut counts = vec![0; clients];
                left.clients.iter().for_each(|(id, tried, _)| counts[*id] = *tried);
                self.written.push(Written { object_bytes: bytes, round, counts });
            }
            Verb::Mixed => {
                let mut objects = vec![ClientObjects::default(); clients];
                left.clients.into_iter().for_each(|(id, _, of_client)| objects[id] = of_client);
                self.objects.insert(bytes, objects);
            }
            _ => {}
        }
        Ok(left.round)
    }

    /// Deletes all objects below the prefix. Returns their number.
    ///
    /// # Errors
    ///
    /// If a listing or a deletion fails.
    pub fn clean(&mut self) -> Result<u64, Trouble> {
        let mut client = self.client()?;
        let (prefix, unsigned) = (self.prefix.clone(), self.target.unsigned);
        let (mut deleted, mut next) = (0, None::<String>);
        runtime()?.block_on(async {
            loop {
                let page = client.list(&prefix, next.as_deref(), false).await?;
                if !page.keys.is_empty() {
                    // The continuation token names a key, so it stays valid while keys before it
                    // are deleted.
                    let batch = DeleteBatch::new(&page.keys, unsigned);
                    client.delete_batch(&batch).await?;
                    deleted += batch.keys;
                }
                next = page.next;
                if next.is_none() {
                    return Ok(deleted);
                }
            }
        })
    }

    /// Returns the work that the clients of the round `round` share, for example the list of keys
    /// to read.
    fn work(&mut self, workload: &Workload, round: u32) -> Result<Work, Trouble> {
        let Workload { verb, object_bytes: bytes, objects, .. } = *workload;
        let next = AtomicUsize::new(0);
        let read = || (0..objects).map(|it| self.keys.read(bytes, it)).collect();
        Ok(match verb {
            Verb::Put => Work::Put { payload: self.payload(bytes), round },
            Verb::Get => match workload.once {
                Some(count) => {
                    let keys = self.take_unread(bytes, count)?;
                    Work::GetOnce { bytes, keys, next, content: None }
                }
                None => Work::Get { bytes, keys: read() },
            },
            Verb::Head => Work::Head { bytes, keys: read() },
            Verb::Range => Work::Range { bytes, range: workload.range_bytes, keys: read() },
            Verb::List => Work::List { prefix: self.keys.listing(bytes), count: objects },
            Verb::Delete => Work::Delete { keys: self.take_written(bytes)?, next },
            Verb::DeleteBatch => {
                let keys = self.take_written(bytes)?;
                let batches = keys.chunks(PAGE_KEYS);
                let batches = batches.map(|keys| DeleteBatch::new(keys, self.target.unsigned));
                Work::DeleteBatches { batches: batches.collect(), next }
            }
            Verb::Mixed => {
                let objects = self.objects.remove(&bytes).unwrap_or_default();
                Work::Mixed { bytes, payload: self.payload(bytes), objects: Mutex::new(objects) }
            }
            Verb::Multipart => {
                let all = self.payload(bytes).bytes;
                let part = usize::try_from(workload.part_bytes.max(PART_BYTES_MIN));
                let part = part.unwrap_or(usize::MAX);
                let slices = all.chunks(part).map(|slice| all.slice_ref(slice));
                let parts = slices.map(|slice| Payload::new(slice, self.target.unsigned));
                Work::Multipart { bytes, parts: parts.collect(), round }
            }
        })
    }

    /// Returns the index of the latest PUT round of a size.
    fn written_of(&self, bytes: u64) -> Option<usize> {
        self.written.iter().rposition(|it| it.object_bytes == bytes)
    }

    fn take_written(&mut self, bytes: u64) -> Result<Vec<String>, Trouble> {
        let place = self.written_of(bytes);
        let place =
            place.ok_or(Trouble::Nothing("no PUT round wrote objects that could be deleted"))?;
        Ok(self.keys.all(&self.written.remove(place)))
    }

    fn take_unread(&mut self, bytes: u64, count: usize) -> Result<Vec<String>, Trouble> {
        let read = self.read.entry(bytes).or_default();
        let all = self.written.iter().filter(|it| it.object_bytes == bytes);
        let all = all.flat_map(|it| self.keys.all(it));
        let keys: Vec<String> = all.skip(*read).take(count).collect();
        *read += keys.len();
        if keys.is_empty() {
            return Err(Trouble::Nothing("no PUT round wrote objects that are still unread"));
        }
        Ok(keys)
    }

    /// Returns the random body of all objects of a size.
    fn payload(&mut self, bytes: u64) -> Payload {
        let (seed, unsigned) = (self.seed, self.target.unsigned);
        let made = self.payloads.entry(bytes).or_insert_with(|| {
            let mut content = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
            SmallRng::seed_from_u64(seed ^ bytes).fill_bytes(&mut content);
            Payload::new(content.into(), unsigned)
        });
        made.clone()
    }

    fn fill(&mut self, bytes: u64, keys: Vec<String>, gauge: &Arc<Gauge>) -> Result<(), Trouble> {
        let work = Work::Fill { payload: self.payload(bytes), keys, next: AtomicUsize::new(0) };
        require_success(self.run(work, PREPARING_CREW, gauge)?.round)
    }

    fn compare(&mut self, bytes: u64, keys: &[String], gauge: &Arc<Gauge>) -> Result<(), Trouble> {
        // The first read may fill a cache, and the second one reads from it.
        for _ in 0..2 {
            let (keys, next) = (keys.to_vec(), AtomicUsize::new(0));
            let content = Some(self.payload(bytes).bytes);
            let work = Work::GetOnce { bytes, keys, next, content };
            require_success(self.run(work, PREPARING_CREW, gauge)?.round)?;
        }
        Ok(())
    }

    fn client(&self) -> Result<Client, Trouble> {
        Client::new(&self.target, Arc::clone(&self.address))
    }

    /// Runs clients on threads until the time is over or the work is done.
    fn run(&self, work: Work, crew: Crew, gauge: &Arc<Gauge>) -> Result<RoundEnd, Trouble> {
        let clients = crew.clients;
        // The random numbers differ between rounds and are the same in each run.
        let seed = self.seed.wrapping_add(u64::from(self.rounds));
        let job = Arc::new(Job { keys: self.keys.clone(), seed, work });
        let threads = self.threads.min(clients.max(1));
        // All threads begin after all have connected, so that the figures do not include
        // connections.
        let ready = Arc::new(Barrier::new(threads));
        // The clients are divided evenly among the threads.
        let share = |thread: usize| clients * thread / threads..clients * (thread + 1) / threads;
        let results: Vec<Result<RoundEnd, Trouble>> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|thread| {
                    let (job, ready) = (Arc::clone(&job), Arc::clone(&ready));
                    let ids = share(thread);
                    scope.spawn(move || self.one_thread(&job, ids, crew, gauge, &ready))
                })
                .collect();
            let ended = started.into_iter().map(|it| it.join().expect("a client does not panic"));
            ended.collect()
        });
        let mut all = RoundEnd { round: Round::empty(), clients: Vec::new() };
        for left in results {
            let left = left?;
            all.round.merge(left.round);
            all.clients.extend(left.clients);
        }
        if gauge.is_stopped() {
            return Err(Trouble::Stopped);
        }
        Ok(all)
    }

    fn one_thread(
        &self,
        job: &Arc<Job>,
        ids: Range<usize>,
        crew: Crew,
        gauge: &Arc<Gauge>,
        ready: &Barrier,
    ) -> Result<RoundEnd, Trouble> {
        let time = crew.time;
        let connected = runtime().and_then(|runtime| {
            let mut clients = Vec::new();
            for id in ids {
                let mut client = self.client()?;
                runtime.block_on(client.connect())?;
                clients.push((client, Stepper::new(Arc::clone(job), id), id));
            }
            Ok((runtime, clients))
        });
        // The barrier comes before the error, so that a thread that could not connect does not
        // block the others.
        ready.wait();
        let (runtime, clients) = connected?;
        let begin = Instant::now();
        runtime.block_on(async {
            let mut running = JoinSet::new();
            for (client, stepper, id) in clients {
                let gauge = Arc::clone(gauge);
                let pace = crew.pace.map(|every| Pace::begin(begin, every, id, crew.clients));
                running.spawn(work(client, stepper, id, (begin, time, pace), gauge));
            }
            // A gateway that hangs must not hang the benchmark.
            let all = tokio::time::timeout(time + PATIENCE, running.join_all()).await;
            let all = all.map_err(|_| Trouble::Stalled((time + PATIENCE).as_secs()))?;
            let mut left = RoundEnd { round: Round::empty(), clients: Vec::new() };
            for (round, client) in all {
                left.round.merge(round);
                left.clients.push(client);
            }
            // The duration includes the last responses, so a slow gateway does not get a better
            // rate.
            left.round.took = begin.elapsed();
            Ok(left)
        })
    }
}

/// The times at which a client with a limited rate begins its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    due: Instant,
    every: Duration,
}

impl Pace {
    /// Returns the pace of client `id`. The clients begin one after the other, so that their
    /// requests do not arrive together.
    fn begin(begin: Instant, every: Duration, id: usize, clients: usize) -> Self {
        let of = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { due: begin + every * of(id) / of(clients).max(1), every }
    }

    /// Sets the time of the next step after a step that begins `now`. A client that is late does
    /// not catch up, because a burst would exceed the rate.
    fn step(&mut self, now: Instant) {
        self.due = now + self.every;
    }
}

/// Runs the round of one client: takes one step after the other until the time is over, the work is
/// done, the run is stopped, or too many steps in a row fail.
async fn work(
    mut client: Client,
    mut stepper: Stepper,
    id: usize,
    (begin, time, mut pace): (Instant, Duration, Option<Pace>),
    gauge: Arc<Gauge>,
) -> (Round, (usize, u64, ClientObjects)) {
    let mut round = Round::empty();
    let mut errors_in_a_row = 0;
    let mut since = begin;
    while since.duration_since(begin) < time && !gauge.is_stopped() {
        if let Some(pace) = &mut pace {
            tokio::time::sleep_until(pace.due.into()).await;
            // The pause before a step is not part of its latency, and no step begins after the
            // end of the round.
            since = Instant::now();
            if since.duration_since(begin) >= time || gauge.is_stopped() {
                break;
            }
            pace.step(since);
        }
        let Some(done) = stepper.step(&mut client).await else { break };
        let now = Instant::now();
        match done {
            Ok(done) => {
                round.add(done.units, done.bytes, now.duration_since(since));
                if done.write {
                    round.add_write(now.duration_since(since));
                }
                gauge.add(done.units, done.bytes);
                errors_in_a_row = 0;
            }
            Err(trouble) => {
                round.add_error(trouble.to_string());
                gauge.add_error();
                errors_in_a_row += 1;
                if errors_in_a_row >= ERRORS_MAX {
                    break;
                }
                // The pause is not part of a latency, because the next step takes its own time.
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
        since = Instant::now();
    }
    (round, (id, stepper.tried, stepper.objects))
}

/// Creates a runtime of one thread.
fn runtime() -> Result<Runtime, Trouble> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|source| Trouble::System { doing: "start a runtime".to_owned(), source })
}

/// Returns the first error of a preparation, in which no request may fail.
fn require_success(round: Round) -> Result<(), Trouble> {
    match round.samples.into_iter().next() {
        None => Ok(()),
        Some(wrong) => Err(Trouble::Preparing(wrong)),
    }
}

#[cfg(test)]
mod tests;
