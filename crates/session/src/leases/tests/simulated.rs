//! Random reads and writes of three sessions over one slow store, with links that are slow and that
//! end. A read sees each value that was acknowledged before it and each value that another read has
//! returned before it.
//!
//! Time is simulated: it passes when all tasks wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use peering::{Link, LinkEvents as _, LinkQueue, Message, Peer};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use record::{Ino, Nonce, key};
use runtime::{Moment, Tasks};
use store::{Guard, Key, MetaStore as _, Plan, Read, Verdict, Write};

use crate::cached_store::CachedStore;
use crate::leases::Leases;
use crate::records::RecordCache;
use crate::slow_store::Slow;
use crate::state::value;

const SESSIONS: usize = 3;
const KEYS: u64 = 4;
const TASKS_OF_A_SESSION: usize = 2;
const STEPS: u64 = 150;

/// A fault of the protocol that a link plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The lessee acknowledges a notice that it does not handle.
    Deaf,
    /// The lessee handles a notice only after the batch is done.
    Late,
    /// The lessor's grants are never fresh.
    StaleGrant,
    /// The lessor does not wait until its promise ends.
    Impatient,
}

struct Session {
    nonce: Nonce,
    leases: Arc<Leases>,
    records: Arc<RecordCache>,
    store: CachedStore,
}

/// The records, and for each the highest number that was acknowledged or read.
struct World {
    sessions: Vec<Session>,
    seen: Vec<AtomicU64>,
    from_memory: AtomicU64,
    /// The first violation.
    violation: Mutex<Option<String>>,
    fault: Fault,
}

fn at(number: u64) -> Key {
    key::inode(Ino(number + 1))
}

fn pause(random: &mut SmallRng, longest: u64) -> impl Future<Output = ()> + use<> {
    tokio::time::sleep(Duration::from_micros(random.random_range(0..longest)))
}

fn number(found: Option<&store::ReadResult>) -> u64 {
    value(found).map_or(0, |value| u64::from_be_bytes(value[..].try_into().expect("eight bytes")))
}

impl World {
    fn new(seed: u64, tasks: &Tasks, fault: Fault) -> Arc<World> {
        let pause = Duration::from_millis(2);
        let store = Arc::new(Slow::with_pauses(seed, tasks.clone(), pause));
        let session = |n: usize| {
            let records = RecordCache::new(1 << 20, true);
            let leases = Leases::new(&records, &Arc::default());
            let nonce = Nonce([u8::try_from(n).expect("few"); 10]);
            let store = CachedStore::new(store.clone(), records.clone(), leases.clone());
            Session { nonce, leases, records, store }
        };
        Arc::new(World {
            sessions: (0..SESSIONS).map(session).collect(),
            seen: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            from_memory: AtomicU64::new(0),
            violation: Mutex::new(None),
            fault,
        })
    }

    /// Reads a record in one session.
    async fn read(&self, session: &Session, n: u64) -> u64 {
        let seen = &self.seen[usize::try_from(n).expect("few")];
        let least = seen.load(Ordering::SeqCst);
        let reads = [Read::Record { key: at(n), follow: None }];
        let remembered = session.records.answer(&reads).is_some();
        self.from_memory.fetch_add(u64::from(remembered), Ordering::Relaxed);
        let found = session.store.read(&reads).await.expect("reads do not fail");
        let found = number(found.first());
        seen.fetch_max(found, Ordering::SeqCst);
        if found < least {
            let how = format!("{} read {found} of record {n} after {least}", session.nonce);
            self.violation.lock().unwrap().get_or_insert(how);
        }
        found
    }

    /// Adds one to a record in one session.
    async fn write(&self, session: &Session, n: u64) {
        let before = self.read(session, n).await;
        let key = at(n);
        let guard = match before {
            0 => Guard::Absent(key.clone()),
            found => Guard::Equals(key.clone(), Bytes::copy_from_slice(&found.to_be_bytes())),
        };
        let value = Bytes::copy_from_slice(&(before + 1).to_be_bytes());
        let plan = Plan { guards: vec![guard], writes: vec![Write::Put(key, value)] };
        if let Ok(verdicts) = session.store.commit(&[plan]).await
            && verdicts[..] == [Verdict::Committed]
        {
            let seen = &self.seen[usize::try_from(n).expect("few")];
            seen.fetch_max(before + 1, Ordering::SeqCst);
        }
    }
}

/// Delivers the messages of one direction of a link, slowly, with the planted fault.
async fn deliver(
    world: Arc<World>,
    (to, at): (usize, Link),
    back: Link,
    mut queue: LinkQueue,
    seed: u64,
) {
    let mut random = SmallRng::seed_from_u64(seed);
    let leases = &world.sessions[to].leases;
    let mut held_back = Vec::new();
    while let Some(message) = queue.next().await {
        // Now and then the receiver is stopped for longer than a promise lasts.
        let longest = if random.random_bool(0.002) { 3_000_000 } else { 400 };
        pause(&mut random, longest).await;
        match (world.fault, message) {
            (Fault::Deaf, Message::Notice { batch, .. }) => drop(at.send(Message::Ack { batch })),
            (Fault::Late, Message::Notice { batch, keys }) => {
                at.send(Message::Ack { batch });
                held_back.push(Message::Notice { batch, keys });
            }
            (Fault::Late, message @ Message::Done { .. }) => {
                held_back.drain(..).for_each(|notice| leases.received(&at, notice));
                leases.received(&at, message);
            }
            (Fault::StaleGrant, Message::Grant { number, .. }) => {
                leases.received(&at, Message::Grant { number, fresh: false });
            }
            (Fault::Impatient, message @ Message::Notice { .. }) => {
                // The lessor takes this for the end of the lease.
                let from = back.peer();
                let lessor = world.sessions.iter().find(|session| session.nonce == at.peer());
                lessor.expect("it exists").leases.state().promise_ended(from);
                pause(&mut random, 20_000).await;
                leases.received(&at, message);
            }
            (_, message) => leases.received(&at, message),
        }
    }
}

/// Connects two sessions again and again, until the test ends.
async fn connect(world: Arc<World>, tasks: Tasks, pair: [usize; 2], seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    loop {
        let [a, b] = pair;
        let (to_b, from_a) = Link::channel(world.sessions[b].nonce, false);
        let (to_a, from_b) = Link::channel(world.sessions[a].nonce, false);
        world.sessions[a].leases.opened(&to_b);
        world.sessions[b].leases.opened(&to_a);
        let seeds: [u64; 2] = random.random();
        let there = deliver(world.clone(), (b, to_a.clone()), to_b.clone(), from_a, seeds[0]);
        let back = deliver(world.clone(), (a, to_b.clone()), to_a.clone(), from_b, seeds[1]);
        let [there, back] = [tasks.spawn("there", there), tasks.spawn("back", back)];
        pause(&mut random, 20_000_000).await;
        there.abort();
        back.abort();
        // The two ends learn of it at different times.
        let mut ends = [(a, &to_b), (b, &to_a)];
        if random.random_bool(0.5) {
            ends.reverse();
        }
        for (session, link) in ends {
            pause(&mut random, 2_000_000).await;
            world.sessions[session].leases.closed(link);
        }
        pause(&mut random, 300_000).await;
    }
}

/// Asks for leases, and reads the feed, with gaps that are longer than leases last.
async fn maintain(world: Arc<World>, n: usize, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let session = &world.sessions[n];
    let others = world.sessions.iter().filter(|other| other.nonce != session.nonce);
    let others = others.map(|other| Peer::without_addresses(other.nonce)).collect();
    session.leases.sessions_listed(Moment::now(), others);
    loop {
        session.leases.feed_checked(Moment::now());
        session.leases.ask_peers();
        let longest = if random.random_bool(0.05) { 2_000_000 } else { 200_000 };
        pause(&mut random, longest).await;
    }
}

/// Returns how many reads were answered from memory, and the first violation.
async fn play(seed: u64, fault: Fault) -> (u64, Option<String>) {
    let tasks = Tasks::new();
    let world = World::new(seed, &tasks, fault);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut background = Vec::new();
    for n in 0..SESSIONS {
        background.push(tasks.spawn("maintain", maintain(world.clone(), n, random.random())));
        for other in n + 1..SESSIONS {
            let connecting = connect(world.clone(), tasks.clone(), [n, other], random.random());
            background.push(tasks.spawn("connect", connecting));
        }
    }
    let players: Vec<_> = (0..SESSIONS * TASKS_OF_A_SESSION)
        .map(|player| {
            let (world, mut random) = (world.clone(), SmallRng::seed_from_u64(random.random()));
            tasks.spawn("player", async move {
                let session = &world.sessions[player % SESSIONS];
                for _ in 0..STEPS {
                    let n = random.random_range(0..KEYS);
                    if random.random_bool(0.06) {
                        world.write(session, n).await;
                    } else {
                        world.read(session, n).await;
                    }
                    let longest = if random.random_bool(0.01) { 1_000_000 } else { 10_000 };
                    pause(&mut random, longest).await;
                }
            })
        })
        .collect();
    for player in players {
        player.await.expect("no task panics");
    }
    background.iter().for_each(tokio::task::JoinHandle::abort);
    let violation = world.violation.lock().unwrap().take();
    (world.from_memory.load(Ordering::Relaxed), violation)
}

#[tokio::test(start_paused = true)]
async fn reads_beside_peers_never_go_back() {
    let mut from_memory = 0;
    for seed in 0..60 {
        let (remembered, violation) = play(seed, Fault::None).await;
        assert_eq!(violation, None, "seed {seed}");
        from_memory += remembered;
    }
    assert!(from_memory > 10_000, "only {from_memory} reads were answered from memory");
}

#[tokio::test(start_paused = true)]
async fn planted_faults_are_found() {
    for fault in [Fault::Deaf, Fault::Late, Fault::StaleGrant, Fault::Impatient] {
        let mut found = false;
        for seed in 0..60 {
            found |= play(seed, fault).await.1.is_some();
            if found {
                break;
            }
        }
        assert!(found, "{fault:?} was not found");
    }
}
