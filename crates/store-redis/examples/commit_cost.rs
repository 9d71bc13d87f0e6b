//! Measures the cost of the PUT of a small object for the server: `cargo run --release -p
//! store-redis --example commit_cost redis://127.0.0.1:PORT/ [BYTES] [SECONDS]`. Sixteen writers
//! send plans with the shape of such a PUT. The waiting plans form a batch, one in flight at a
//! time, as in a volume. With BYTES of 0 the plans are those of a larger object, which has a short
//! record and shares a block with others. The volume `cost` remains afterwards. The memory is per
//! object if the volume did not exist before; the file's bytes are per object if the file was not
//! rewritten meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{CounterKey, Guard, Key, MetaStore, Plan, Space, Value, Verdict, Write};
use store_redis::{RedisOptions, RedisStore};
use tokio::sync::{Semaphore, mpsc, oneshot};

const WRITERS: u64 = 16;
const IN_FLIGHT: usize = 1;
const BUCKET: u64 = 2;
/// The first of the writers' own directories.
const DIRECTORIES: u64 = 1_000;
/// Number of steps after which a writer's objects are in the next block.
const BLOCK_STEPS: u64 = 8;

type QueuedPlan = (Plan, oneshot::Sender<Verdict>);

fn key(space: u8, partition: u64, suffix: &[u8]) -> Key {
    Key::new(Space(space), partition, suffix)
}

fn session() -> Key {
    key(b's', 0, b"session")
}

fn bucket() -> (Key, Value) {
    (key(b'd', 1, b"bucket/"), Value::from_static(b"bucket-of-21-bytes..."))
}

/// Returns a writer's idempotency slot after this number of steps.
fn slot(writer: u64, base: u64, steps: u64) -> (Key, Value) {
    let value = Value::copy_from_slice(&steps.to_be_bytes());
    let name = [&base.to_be_bytes()[..], &writer.to_be_bytes()].concat();
    (key(b'K', base, &name), value)
}

/// Returns bytes that cannot be compressed, like those of most objects.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend(state.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

/// Returns the directories above a writer's objects, each pointing to the next.
fn directories(writer: u64) -> Vec<(Key, Value)> {
    let to = |number: u64| Value::from([&[1; 6][..], &number.to_be_bytes()].concat());
    vec![
        (key(b'd', BUCKET, b"put-4096/"), to(BUCKET + 1)),
        (key(b'd', BUCKET + 1, b"0/"), to(BUCKET + 2)),
        (key(b'd', BUCKET + 2, format!("{writer}/").as_bytes()), to(DIRECTORIES + writer)),
    ]
}

fn put_plan(writer: u64, base: u64, steps: u64, bytes: usize) -> Plan {
    let number = base + steps * WRITERS + writer;
    let inode = noise(number, bytes + 180);
    let directory = DIRECTORIES + writer;
    let dentry = key(b'd', directory, format!("{base:x}-{steps:08}").as_bytes());
    let (slot_key, before) = slot(writer, base, steps);
    let (_, after) = slot(writer, base, steps + 1);
    let guard = if steps == 0 {
        Guard::Absent(slot_key.clone())
    } else {
        Guard::Equals(slot_key.clone(), before)
    };
    let counter = |of: u64, suffix: &[u8]| CounterKey(key(b'n', of, suffix));
    let (bucket_key, bucket) = bucket();
    let now = 1_700_000_000_000_000 + i64::try_from(steps).expect("small");
    let mut plan = Plan {
        guards: vec![guard, Guard::Present(session()), Guard::Equals(bucket_key, bucket)],
        writes: vec![
            Write::Put(key(b'~', number, b""), inode.into()),
            Write::Put(
                dentry.clone(),
                Value::copy_from_slice(&[&[1; 6], &number.to_be_bytes()[..]].concat()),
            ),
            Write::Max(counter(directory, b"m"), now),
            Write::Add(counter(directory, b"e"), 1),
            Write::Add(counter(BUCKET, b"o"), 1),
            Write::Add(counter(BUCKET, b"b"), 4_096),
            Write::Put(slot_key, after),
        ],
    };
    plan.guards.extend(directories(writer).into_iter().map(|(key, to)| Guard::Equals(key, to)));
    plan.guards.push(Guard::Absent(dentry));
    if bytes == 0 {
        plan.writes.extend(packed(base, steps / BLOCK_STEPS, number));
    }
    plan
}

/// Returns the writes that record an object's bytes in a shared block.
fn packed(base: u64, block: u64, number: u64) -> [Write; 2] {
    let id = [&base.to_be_bytes()[..], &[7; 2], &(1 << 47 | block).to_be_bytes()[2..]].concat();
    let partition = u64::from_be_bytes(*id.last_chunk().expect("sixteen bytes"));
    let share = key(b'x', partition, &[&id[..], &number.to_be_bytes()].concat());
    let live = CounterKey(key(b'l', partition, &id));
    [Write::Put(share, Value::from_static(&[1; 5])), Write::Add(live, 65_536)]
}

/// Forms batches of the waiting plans. Returns the number of batches.
#[expect(clippy::disallowed_methods, reason = "the example has no tasks of a volume")]
async fn serve(store: Arc<RedisStore>, mut queue: mpsc::Receiver<QueuedPlan>) -> u64 {
    let (room, mut batches) = (Arc::new(Semaphore::new(IN_FLIGHT)), 0);
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
        let mut batch = Vec::new();
        if queue.recv_many(&mut batch, store.limits().batch_plans).await == 0 {
            return batches;
        }
        batches += 1;
        let store = Arc::clone(&store);
        drop(tokio::spawn(async move {
            let (plans, callers): (Vec<Plan>, Vec<_>) = batch.into_iter().unzip();
            let verdicts = store.commit(&plans).await.expect("decided");
            drop(permit);
            for (caller, verdict) in callers.into_iter().zip(verdicts) {
                caller.send(verdict).expect("the caller waits");
            }
        }));
    }
}

/// The resources that the server has used.
struct Used {
    /// Seconds of CPU, with those of ended children, which rewrite its append-only file.
    cpu: f64,
    children: f64,
    memory: f64,
    /// Bytes of its append-only file, if there is one.
    file: f64,
}

fn used(connection: &mut redis::Connection) -> Used {
    let mut command = redis::cmd("INFO");
    command.arg("cpu").arg("memory").arg("persistence");
    let told: String = command.query(connection).expect("an answer");
    let of = |name: &str| {
        let number = |line: &str| line.strip_prefix(name)?.parse::<f64>().ok();
        told.lines().find_map(number).unwrap_or_default()
    };
    Used {
        cpu: of("used_cpu_sys:") + of("used_cpu_user:"),
        children: of("used_cpu_sys_children:") + of("used_cpu_user_children:"),
        memory: of("used_memory:"),
        file: of("aof_current_size:"),
    }
}

#[tokio::main]
#[expect(
    clippy::disallowed_methods,
    reason = "the example names its own records, and joins its tasks"
)]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("the server's URL");
    let bytes = arguments.next().map_or(4_096, |bytes| bytes.parse().expect("a number"));
    let seconds = arguments.next().map_or(5, |seconds| seconds.parse().expect("a number"));
    let options = RedisOptions { relaxed: true, ..RedisOptions::default() };
    let store = RedisStore::open(&format!("{url}?prefix=cost"), options).await.expect("a store");
    let store = Arc::new(store);
    let client = redis::Client::open(url).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    let (bucket_key, value) = bucket();
    let mut writes = vec![Write::Put(session(), Value::new()), Write::Put(bucket_key, value)];
    let all: BTreeMap<Key, Value> = (0..WRITERS).flat_map(directories).collect();
    writes.extend(all.into_iter().map(|(key, value)| Write::Put(key, value)));
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.expect("set up");

    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let base = now.expect("after 1970").as_secs() << 40;
    let (queue, waiting) = mpsc::channel::<QueuedPlan>(1_024);
    let serving = tokio::spawn(serve(Arc::clone(&store), waiting));
    let (before, began) = (used(&mut connection), Instant::now());
    let until = began + Duration::from_secs(seconds);
    let running: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut steps = 0;
                while Instant::now() < until {
                    let (caller, verdict) = oneshot::channel();
                    let plan = put_plan(writer, base, steps, bytes);
                    queue.send((plan, caller)).await.expect("the server task runs");
                    assert_eq!(verdict.await.expect("decided"), Verdict::Committed);
                    steps += 1;
                }
                steps
            })
        })
        .collect();
    drop(queue);
    let mut plans = 0;
    for writer in running {
        plans += writer.await.expect("it ran");
    }
    let (took, after) = (began.elapsed().as_secs_f64(), used(&mut connection));
    let batches = serving.await.expect("it ran");
    println!(
        "{bytes} bytes: {:.0} plans/s, {:.1} plans a batch; a plan costs the server {:.1} us of CPU \
         and its children {:.1} us, {:.0} bytes of memory and {:.0} of its file",
        plans as f64 / took,
        plans as f64 / batches as f64,
        (after.cpu - before.cpu) * 1e6 / plans as f64,
        (after.children - before.children) * 1e6 / plans as f64,
        (after.memory - before.memory) / plans as f64,
        (after.file - before.file) / plans as f64,
    );
    store.close().await;
}
