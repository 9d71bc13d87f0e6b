//! Measures the cost of PUTs of small objects for the database, without a gateway. The plans have
//! the shape of those that publish members of packs, collected into batches as a volume does.
//!
//! `puts URL SECONDS CLIENTS VALUE_BYTES` creates its records in the database that the URL names,
//! which should be empty, and prints the number of plans per second. It does not measure the CPU
//! time of the database's processes and the growth of its tables.

#![expect(
    clippy::disallowed_methods,
    reason = "what measures draws its own values and owns its tasks"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::RngExt as _;
use store::{CounterKey, Guard, Key, MetaStore, Plan, Space, Verdict, Write};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Number of members of a pack.
const PACK: u64 = 8;

/// Number of batches in flight.
const IN_FLIGHT: usize = 1;

type QueuedPlan = (Plan, oneshot::Sender<()>);

fn big(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn dentry(parent: u64, name: &[u8]) -> Key {
    Key::new(Space(b'd'), parent, name)
}

fn bound(parent: u64, name: &[u8], ino: u64) -> (Key, Bytes) {
    let value = [&[1, 2][..], &big(ino), &[7; 4]].concat();
    (dentry(parent, name), value.into())
}

struct Client {
    number: u64,
    nonce: [u8; 10],
    slot: Key,
    steps: u64,
    directory: u64,
    round: u64,
    value_bytes: usize,
}

impl Client {
    fn step(&self) -> Bytes {
        [&[1, 2][..], &self.steps.to_be_bytes()[5..], &[9; 4]].concat().into()
    }

    fn plan(&mut self, ino: u64, name: u64) -> Plan {
        let slot = self.slot.clone();
        let before = match self.steps {
            0 => Guard::Absent(slot.clone()),
            _ => Guard::Equals(slot.clone(), self.step()),
        };
        self.steps += 1;
        let session = Key::new(Space(b's'), 0, &self.nonce);
        let (folder, client) = (self.directory - 2, format!("{}/", self.number));
        let round = format!("{}/", self.round);
        let chain = [
            bound(1, b"ashlar-bench/", 1_000_000),
            bound(1_000_000, b"bench/", 1_000_001),
            bound(1_000_001, b"put-65536/", folder),
            bound(folder, round.as_bytes(), folder + 1),
            bound(folder + 1, client.as_bytes(), self.directory + self.number),
        ];
        let parent = self.directory + self.number;
        let dentry = bound(parent, format!("{name:08}").as_bytes(), ino);
        let mut guards = vec![before, Guard::Present(session)];
        guards.extend(chain.map(|(key, value)| Guard::Equals(key, value)));
        guards.push(Guard::Absent(dentry.0.clone()));
        let mut value = vec![0; self.value_bytes];
        rand::rng().fill(&mut value[..]);
        let counter = ((1 << 47) | (ino / PACK)).to_be_bytes();
        let pack = [&self.nonce[..], &counter[2..]].concat();
        let partition = u64::from_be_bytes(pack[8..].try_into().expect("eight bytes"));
        let of_pack = |space: u8| CounterKey(Key::new(Space(space), partition, &pack));
        let counter = |ino: u64, count: u8| CounterKey(Key::new(Space(b'n'), ino, &[count]));
        let mut writes = vec![
            Write::Put(Key::new(Space(b'~'), ino, &[]), value.into()),
            Write::Put(dentry.0, dentry.1),
            Write::Max(counter(parent, 1), i64::try_from(ino).expect("small")),
            Write::Add(counter(parent, 0), 1),
            Write::Add(counter(1_000_000, 2), 1),
            Write::Add(counter(1_000_000, 3), 65_536),
        ];
        if self.value_bytes < 1_000 {
            writes.push(Write::Max(of_pack(b'r'), 1 << 40 | 8));
            writes.push(Write::Add(of_pack(b'l'), 65_536));
        }
        writes.push(Write::Put(slot, self.step()));
        Plan { guards, writes }
    }
}

async fn serve(
    store: Arc<PostgresStore>,
    mut queue: mpsc::Receiver<QueuedPlan>,
    calls: Arc<AtomicU64>,
) {
    let room = Arc::new(Semaphore::new(IN_FLIGHT));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("open");
        let Some(first) = queue.recv().await else { return };
        let mut batch = vec![first];
        while let Ok(more) = queue.try_recv() {
            batch.push(more);
        }
        let (store, calls) = (Arc::clone(&store), Arc::clone(&calls));
        tokio::spawn(async move {
            let plans: Vec<Plan> = batch.iter().map(|(plan, _)| plan.clone()).collect();
            let verdicts = store.commit(&plans).await.expect("committed");
            assert!(verdicts.iter().all(|it| *it == Verdict::Committed), "{verdicts:?}");
            calls.fetch_add(1, Ordering::Relaxed);
            for (_, answer) in batch {
                let _ = answer.send(());
            }
            drop(permit);
        });
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().expect("URL SECONDS CLIENTS VALUE_BYTES");
    let url = word();
    let [seconds, clients, bytes]: [u64; 3] =
        std::array::from_fn(|_| word().parse().expect("a number"));
    let store = PostgresStore::open(&url, PostgresOptions::default()).await.expect("a store");
    let store = Arc::new(store);
    let mut nonce = [0; 10];
    rand::rng().fill(&mut nonce);
    let (round, directory) = (3, 2_000_000);
    let value_bytes = usize::try_from(bytes).expect("small");
    let mut setup = vec![
        (Key::new(Space(b's'), 0, &nonce), Bytes::from_static(b"session")),
        bound(1, b"ashlar-bench/", 1_000_000),
        bound(1_000_000, b"bench/", 1_000_001),
        bound(1_000_001, b"put-65536/", directory - 2),
        bound(directory - 2, b"3/", directory - 1),
    ];
    for number in 0..clients {
        let name = format!("{number}/");
        setup.push(bound(directory - 1, name.as_bytes(), directory + number));
    }
    let writes = setup.into_iter().map(|(key, value)| Write::Put(key, value)).collect();
    store.commit(&[Plan { guards: vec![], writes }]).await.expect("set up");

    let (send, queue) = mpsc::channel(1_024);
    let calls = Arc::new(AtomicU64::new(0));
    let serving = tokio::spawn(serve(Arc::clone(&store), queue, Arc::clone(&calls)));
    let next = Arc::new(AtomicU64::new(3_000_000));
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds);
    let mut tasks = Vec::new();
    for number in 0..clients {
        let (send, next) = (send.clone(), Arc::clone(&next));
        let slot = u16::try_from(number).expect("few").to_be_bytes();
        let partition = u64::from_be_bytes(nonce[..8].try_into().expect("eight bytes"));
        let slot = Key::new(Space(b'k'), partition, &[&nonce[..], &slot].concat());
        let mut client = Client { number, nonce, slot, steps: 0, directory, round, value_bytes };
        tasks.push(tokio::spawn(async move {
            let mut plans = 0;
            while Instant::now() < end {
                let plan = client.plan(next.fetch_add(1, Ordering::Relaxed), plans);
                let (answer, answered) = oneshot::channel();
                send.send((plan, answer)).await.expect("served");
                answered.await.expect("answered");
                plans += 1;
            }
            plans
        }));
    }
    let mut plans = 0;
    for task in tasks {
        plans += task.await.expect("a client");
    }
    drop(send);
    serving.await.expect("served");
    let took = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate to print")]
    let rate = plans as f64 / took;
    println!("plans {plans} batches {} plans_per_second {rate:.0}", calls.load(Ordering::Relaxed));
    store.close().await;
}
