//! `cargo bench -p hashing`: one core, and then bodies side by side as a gateway gets them.
//!
//! Of the first part a line is the best of many short runs, because others share the machine. The
//! second part counts the processor's time, not the clock's.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hashing::{HashingPool, Job, Md5, Patience};
use md5::Digest as _;

const MIB: usize = 1 << 20;

fn main() {
    alone();
    println!();
    for (bodies, bytes) in [
        (1, 16 * MIB),
        (4, 16 * MIB),
        (16, MIB),
        (16, 256 << 10),
        (16, 128 << 10),
        (16, 64 << 10),
        (16, 16 << 10),
    ] {
        side_by_side(bodies, bytes);
    }
}

fn alone() {
    let message = Bytes::from(vec![0x5a; 64 << 10]);
    best("md-5", message.len(), || {
        black_box(md5::Md5::digest(&message));
    });
    best("ours", message.len(), || {
        let mut md5 = Md5::new();
        md5.update(&message);
        black_box(md5.finish());
    });
    for messages in [1, 2, 3, 4, 6, 8, 12, 16] {
        let job = Job { md5: Md5::new(), pieces: vec![message.clone()] };
        let jobs = vec![job; messages];
        best(&format!("{messages} messages"), messages * message.len(), || {
            black_box(Job::run_all(jobs.clone()));
        });
    }
}

fn best(name: &str, bytes: usize, mut work: impl FnMut()) {
    let mut least = f64::MAX;
    for _ in 0..400 {
        let began = Instant::now();
        work();
        least = least.min(began.elapsed().as_secs_f64());
    }
    println!("{name:<26} {:>8.0} MB/s", size(bytes) / least / 1e6);
}

/// Bodies that arrive in frames of 64 KiB, each followed by a turn for the other tasks.
fn side_by_side(bodies: usize, bytes: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.expect("a runtime can be made");
    let frame = Bytes::from(vec![0x5a; bytes.min(64 << 10)]);
    let pool = Arc::new(HashingPool::start(NonZeroUsize::MIN));
    let rounds = (512 * MIB / (bodies * bytes)).clamp(2, 400);
    println!("{bodies} bodies at once, of {} KiB:", bytes >> 10);
    for way in [Way::Reference, Way::Inline, Way::Pool(64 << 10), Way::Pool(256 << 10)] {
        let began = (Instant::now(), processor_seconds());
        let tasks: Vec<_> = (0..bodies)
            .map(|_| {
                let (pool, frame, way) = (Arc::clone(&pool), frame.clone(), way);
                runtime.spawn(async move {
                    for _ in 0..rounds {
                        body(&pool, &frame, bytes, way).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).expect("a body is hashed");
        }
        let mib = size(bodies * bytes * rounds) / size(MIB);
        let (wall, cpu) = (began.0.elapsed().as_secs_f64(), processor_seconds() - began.1);
        let way = format!("{way:?}");
        println!("  {way:<14} {:>6.0} µs/MiB {:>6.0} MiB/s", cpu / mib * 1e6, mib / wall);
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Reference,
    Inline,
    /// In jobs of at least so many bytes.
    Pool(usize),
}

async fn body(pool: &HashingPool, frame: &Bytes, bytes: usize, way: Way) {
    let frames = bytes / frame.len();
    match way {
        Way::Reference => {
            let mut md5 = md5::Md5::new();
            for _ in 0..frames {
                md5.update(frame);
                tokio::task::yield_now().await;
            }
            black_box(md5.finalize());
        }
        Way::Inline => {
            let mut md5 = Md5::new();
            for _ in 0..frames {
                md5.update(frame);
                tokio::task::yield_now().await;
            }
            black_box(md5.finish());
        }
        Way::Pool(least) => {
            let mut md5 = Md5::new();
            let mut pieces = Vec::new();
            for number in 0..frames {
                pieces.push(frame.clone());
                tokio::task::yield_now().await;
                if pieces.len() * frame.len() >= least || number + 1 == frames {
                    let job = Job { md5, pieces: std::mem::take(&mut pieces) };
                    let pending = pool.submit(job, Patience::default()).expect("there is room");
                    md5 = pending.await.expect("the worker works");
                }
            }
            black_box(md5.finish());
        }
    }
}

/// Returns the CPU time of this process so far.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // utime and stime, in hundredths of a second.
    let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum::<u32>();
    f64::from(ticks) / 100.0
}

fn size(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) * 1024.0
}
