//! What a PUT of a small object costs the server: `cargo run --release -p store-redis --example
//! commit_cost redis://127.0.0.1:PORT/ [BYTES] [SECONDS]`. Sixteen writers send plans shaped like such
//! a PUT, and whatever waits forms a batch, two under way at a time, as a volume does it. BYTES of 0
//! are those of a larger object, whose record is short, and which shares a block with others. What is
//! left over is a volume named `cost`; memory is that of an object if there was none before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Guard, Key, MetaStore, Plan, Space, TallyKey, Value, Verdict, Write};
use store_redis::{RedisOptions, RedisStore};
use tokio::sync::{Semaphore, mpsc, oneshot};

const WRITERS: u64 = 16;
const IN_FLIGHT: usize = 2;
const BUCKET: u64 = 2;
/// Steps after which a writer's objects lie in the next block.
const BLOCK_STEPS: u64 = 8;

type Waiting = (Plan, oneshot::Sender<Verdict>);

fn key(space: u8, partition: u64, suffix: &[u8]) -> Key {
    Key::new(Space(space), partition, suffix)
}

fn session() -> Key {
    key(b's', 0, b"session")
}

fn bucket() -> (Key, Value) {
    (key(b'd', 1, b"bucket/"), Value::from_static(b"bucket-of-21-bytes..."))
}

/// A writer's lane after so many steps.
fn lane(writer: u64, base: u64, steps: u64) -> (Key, Value) {
    let value = Value::copy_from_slice(&[base.to_be_bytes(), steps.to_be_bytes()].concat());
    (key(b'k', base, &writer.to_be_bytes()[6..]), value)
}

fn put_plan(writer: u64, base: u64, steps: u64, bytes: usize) -> Plan {
    let number = base + steps * WRITERS + writer;
    let inode = vec![u8::try_from(steps % 251).expect("a byte"); bytes + 180];
    let dentry = key(b'd', BUCKET, format!("run/object-{writer:02}-{base}-{steps:012}").as_bytes());
    let (lane_key, before) = lane(writer, base, steps);
    let (_, after) = lane(writer, base, steps + 1);
    let guard = if steps == 0 {
        Guard::Absent(lane_key.clone())
    } else {
        Guard::Equals(lane_key.clone(), before)
    };
    let tally = |suffix: &[u8]| TallyKey(key(b'n', BUCKET, suffix));
    let (bucket_key, bucket) = bucket();
    let now = 1_700_000_000_000_000 + i64::try_from(steps).expect("small");
    let mut plan = Plan {
        guards: vec![
            guard,
            Guard::Present(session()),
            Guard::Equals(bucket_key, bucket),
            Guard::Absent(dentry.clone()),
        ],
        writes: vec![
            Write::Put(key(b'I', number, b""), inode.into()),
            Write::Put(
                dentry,
                Value::copy_from_slice(&[&[1; 6], &number.to_be_bytes()[..]].concat()),
            ),
            Write::Max(tally(b"m"), now),
            Write::Add(tally(b"e"), 1),
            Write::Add(tally(b"o"), 1),
            Write::Add(tally(b"b"), 4_096),
            Write::Put(lane_key, after),
        ],
    };
    if bytes == 0 {
        plan.writes.extend(share(base, steps / BLOCK_STEPS, number));
    }
    plan
}

/// That an object has a share of a block.
fn share(base: u64, block: u64, number: u64) -> [Write; 2] {
    let id = [&base.to_be_bytes()[..], &[7; 2], &(1 << 47 | block).to_be_bytes()[2..]].concat();
    let partition = u64::from_be_bytes(*id.last_chunk().expect("sixteen bytes"));
    let owned = key(b'x', partition, &[&id[..], &number.to_be_bytes()].concat());
    let live = TallyKey(key(b'l', partition, &id));
    [Write::Put(owned, Value::from_static(b"\x01mark")), Write::Add(live, 65_536)]
}

/// Forms batches of what waits, and says how many there were.
#[expect(clippy::disallowed_methods, reason = "the example has no tasks of a volume")]
async fn serve(store: Arc<RedisStore>, mut queue: mpsc::Receiver<Waiting>) -> u64 {
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
                caller.send(verdict).expect("somebody waits");
            }
        }));
    }
}

/// Seconds of CPU and bytes of memory that the server has used.
fn used(connection: &mut redis::Connection) -> (f64, f64) {
    let told: String =
        redis::cmd("INFO").arg("cpu").arg("memory").query(connection).expect("an answer");
    let of = |name: &str| {
        let number = |line: &str| line.strip_prefix(name)?.parse::<f64>().ok();
        told.lines().find_map(number).expect("it is told")
    };
    (of("used_cpu_sys:") + of("used_cpu_user:"), of("used_memory:"))
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
    let writes = vec![Write::Put(session(), Value::new()), Write::Put(bucket_key, value)];
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.expect("set up");

    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let base = now.expect("after 1970").as_secs() << 40;
    let (queue, waiting) = mpsc::channel::<Waiting>(1_024);
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
                    queue.send((plan, caller)).await.expect("somebody serves");
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
        "{bytes} bytes: {:.0} plans/s, {:.1} plans a batch, {:.1} us of the server's CPU and {:.0} \
         bytes of its memory a plan",
        plans as f64 / took,
        plans as f64 / batches as f64,
        (after.0 - before.0) * 1e6 / plans as f64,
        (after.1 - before.1) / plans as f64,
    );
    store.close().await;
}
