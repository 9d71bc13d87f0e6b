use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use futures::executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::tests::{message, reference};

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

fn job(number: usize, bytes: usize) -> Job {
    Job { md5: Md5::new(), pieces: vec![Bytes::from(message(number, bytes))] }
}

/// A pool whose worker takes nothing, as one that gets no processor.
fn at_rest() -> HashingPool {
    let queue = Arc::new(SharedQueue::default());
    queue.waiting().workers = 1;
    HashingPool { queue }
}

#[test]
fn a_job_is_answered() {
    let pool = HashingPool::start(one());
    let pending = pool.submit(job(1, 100_001), Patience::default()).unwrap();
    assert_eq!(block_on(pending).unwrap().finish(), reference(&message(1, 100_001)));
}

#[test]
fn a_job_of_no_bytes_is_answered() {
    let pool = HashingPool::start(one());
    let pending = pool.submit(Job::default(), Patience::default()).unwrap();
    assert_eq!(block_on(pending).unwrap().finish(), reference(b""));
}

#[test]
fn queued_jobs_are_done_after_the_pool_is_dropped() {
    let pool = HashingPool::start(one());
    let pending: Vec<Pending> = (0..40)
        .map(|number| pool.submit(job(number, 30_000), Patience::default()).unwrap())
        .collect();
    let queue = Arc::downgrade(&pool.queue);
    drop(pool);
    for (number, pending) in pending.into_iter().enumerate() {
        assert_eq!(block_on(pending).unwrap().finish(), reference(&message(number, 30_000)));
    }
    while queue.strong_count() > 0 {
        // The worker holds it until its thread ends.
        thread::yield_now();
    }
}

#[test]
fn a_job_whose_future_was_dropped_is_skipped() {
    let pool = HashingPool::start(one());
    let others: Vec<Pending> = (0..30)
        .map(|number| pool.submit(job(number, 200_000), Patience::default()).unwrap())
        .collect();
    drop(others);
    let pending = pool.submit(job(7, 1_000), Patience::default()).unwrap();
    assert_eq!(block_on(pending).unwrap().finish(), reference(&message(7, 1_000)));
}

#[test]
fn a_full_queue_returns_the_job() {
    let pool = at_rest();
    let big = vec![Bytes::from(vec![0; QUEUED_BYTES_MAX / 2])];
    let big = || Job { md5: Md5::new(), pieces: big.clone() };
    let kept = [
        pool.submit(big(), Patience::default()).unwrap(),
        pool.submit(big(), Patience::default()).unwrap(),
    ];
    let refused = pool.submit(job(1, 1_000), Patience::default()).unwrap_err();
    assert_eq!(refused.run().finish(), reference(&message(1, 1_000)));
    let rest = QUEUED_JOBS_MAX - kept.len();
    let kept: Vec<Pending> =
        (0..rest).map(|_| pool.submit(Job::default(), Patience::default()).unwrap()).collect();
    assert!(
        pool.submit(Job::default(), Patience::default()).is_err(),
        "{} jobs wait already",
        kept.len() + 2
    );
}

#[test]
fn a_taken_job_frees_its_place_in_the_queue() {
    let pool = at_rest();
    let big = || Job { md5: Md5::new(), pieces: vec![Bytes::from(vec![0; QUEUED_BYTES_MAX])] };
    let _kept = pool.submit(big(), Patience::default()).unwrap();
    assert!(pool.submit(big(), Patience::default()).is_err());
    assert_eq!(pool.queue.take(COLUMNS_MAX, false).len(), 1);
    assert!(pool.submit(big(), Patience::default()).is_ok());
}

#[test]
fn jobs_of_a_panicked_worker_get_errors() {
    let pool = at_rest();
    let under_way = pool.submit(job(1, 1_000), Patience::default()).unwrap();
    let waiting = pool.submit(job(2, 1_000), Patience::default()).unwrap();
    let worker = Worker(Arc::clone(&pool.queue));
    let panicking = thread::Builder::new().spawn(move || {
        let taken = worker.0.take(1, true);
        assert!(taken.is_empty(), "this is the fault");
    });
    assert!(panicking.unwrap().join().is_err(), "the worker panicked");
    assert_eq!(block_on(under_way).unwrap_err(), Gone);
    assert_eq!(block_on(waiting).unwrap_err(), Gone);
    let refused = pool.submit(job(3, 1_000), Patience::default()).unwrap_err();
    assert_eq!(refused.run().finish(), reference(&message(3, 1_000)));
}

#[test]
fn a_machine_has_a_worker_for_every_three_processors() {
    let workers =
        |processors| HashingPool::workers_for(NonZeroUsize::new(processors).unwrap()).get();
    assert_eq!([1, 2, 5, 6, 8, 16, 64].map(workers), [1, 1, 1, 2, 2, 5, 21]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Bodies of all lengths, each with one job at a time, on several threads and workers.
    #[test]
    fn bodies_side_by_side_get_each_its_own_sum(
        bodies in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(0_usize..9_000, 0..6), 0..5),
            1..40,
        ),
        workers in 1_usize..3,
    ) {
        let pool = Arc::new(HashingPool::start(NonZeroUsize::new(workers).unwrap()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build();
        let runtime = runtime.unwrap();
        let tasks: Vec<_> = bodies.into_iter().enumerate().map(|(number, jobs)| {
            let pool = Arc::clone(&pool);
            runtime.spawn(async move {
                let whole = message(number, jobs.iter().flatten().sum());
                let mut rest = Bytes::copy_from_slice(&whole);
                let mut md5 = Md5::new();
                for pieces in jobs {
                    let pieces = pieces.iter().map(|bytes| rest.split_to(*bytes)).collect();
                    md5 = pool.submit(Job { md5, pieces }, Patience::default()).unwrap().await.unwrap();
                }
                assert_eq!(md5.finish(), reference(&whole), "body {number}");
            })
        }).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn a_patient_job_waits_for_the_expected_jobs() {
    let pool = at_rest();
    let patience = Patience { wait: Duration::from_hours(1), jobs: 3 };
    let waits = |pool: &HashingPool| {
        let waiting = pool.queue.waiting();
        !waiting.is_due(Instant::now())
    };
    let first = pool.submit(job(1, 1_000), patience).unwrap();
    assert!(waits(&pool));
    let second = pool.submit(job(2, 2_000), patience).unwrap();
    assert!(waits(&pool));
    let third = pool.submit(job(3, 3_000), patience).unwrap();
    assert!(!waits(&pool), "all are there");
    let worker = Worker(Arc::clone(&pool.queue));
    drop(pool);
    worker.run();
    for (number, pending) in [first, second, third].into_iter().enumerate() {
        let message = message(number + 1, (number + 1) * 1_000);
        assert_eq!(block_on(pending).unwrap().finish(), reference(&message));
    }
}

#[test]
fn a_patient_job_alone_is_done_after_its_wait() {
    let pool = HashingPool::start(one());
    let patience = Patience { wait: Duration::from_millis(30), jobs: 9 };
    let began = Instant::now();
    let pending = pool.submit(job(1, 1_000), patience).unwrap();
    assert_eq!(block_on(pending).unwrap().finish(), reference(&message(1, 1_000)));
    assert!(began.elapsed() >= patience.wait, "it did not wait");
}

#[test]
fn an_impatient_job_ends_the_wait_of_patient_jobs() {
    let pool = HashingPool::start(one());
    let patience = Patience { wait: Duration::from_hours(1), jobs: 9 };
    let patient = pool.submit(job(1, 1_000), patience).unwrap();
    let other = pool.submit(job(2, 1_000), Patience::default()).unwrap();
    assert_eq!(block_on(patient).unwrap().finish(), reference(&message(1, 1_000)));
    assert_eq!(block_on(other).unwrap().finish(), reference(&message(2, 1_000)));
}
