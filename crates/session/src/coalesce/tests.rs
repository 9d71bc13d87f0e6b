//! Waiting reads are sent together, and no caller pays for another.

use std::sync::Arc;
use std::time::Duration;

use faulty::{Faulty, Reading};
use futures::future::join_all;
use record::key::{self, space};
use store::{Key, MetaStore, Plan, Read, ReadResult, StoreErrorKind, Write};
use tokio::time::Instant;

use super::*;

/// Default duration of a read in these tests: less than the patience of any caller.
const TRIP: Duration = Duration::from_millis(1);
const _: () = assert!(TRIP.as_millis() < COALESCE_PATIENCE.as_millis());

fn at(number: usize) -> Key {
    Key::new(space::INODE, number as u64, b"")
}

fn ask(number: usize) -> Vec<Read> {
    vec![Read::Record { key: at(number), follow: None }]
}

/// The number in the record that was found, if that is the answer.
fn number(found: &[ReadResult]) -> Option<usize> {
    match found {
        [ReadResult::Record(Some(entry))] => {
            let value = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
            assert_eq!(entry.key, at(value), "an answer to another question");
            Some(value)
        }
        _ => None,
    }
}

async fn write(store: &Faulty, key: Key, value: String) {
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(key, value.into())] };
    store.commit(&[plan]).await.unwrap();
}

/// A store with so many records whose reads take [`TRIP`], and what gathers its reads one at a
/// time.
async fn coalescer(records: usize) -> (Arc<Faulty>, ReadCoalescer, Tasks) {
    let store = Faulty::new();
    for record in 0..records {
        write(&store, at(record), record.to_string()).await;
    }
    reads_take(&store, TRIP);
    let (tasks, same) = (Tasks::new(), Arc::clone(&store) as Arc<dyn MetaStore>);
    let coalescer = ReadCoalescer::new(&same, &Arc::new(Meters::default()), &tasks);
    (store, coalescer, tasks)
}

fn reads_take(store: &Faulty, takes: Duration) {
    *store.reading.lock().unwrap() = Reading { takes, ..Reading::default() };
}

/// How many questions each read had so far.
fn asked(store: &Faulty) -> Vec<usize> {
    store.asked.lock().unwrap().iter().map(Vec::len).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lone_read_is_sent_at_once() {
    let (store, coalescer, tasks) = coalescer(2).await;
    for turn in 0..2 {
        let begun = Instant::now();
        let found = coalescer.read(&ask(turn)).await.unwrap();
        assert_eq!(number(&found), Some(turn));
        assert_eq!(begun.elapsed(), TRIP);
    }
    assert_eq!(*store.asked.lock().unwrap(), [ask(0), ask(1)]);
    assert_eq!(tasks.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_reads_are_sent_together_and_answered_apart() {
    let (store, coalescer, _tasks) = coalescer(40).await;
    let begun = Instant::now();
    let all = join_all((0..40).map(|n| {
        let coalescer = &coalescer;
        async move { coalescer.read(&ask(n)).await }
    }));
    for (n, found) in all.await.into_iter().enumerate() {
        assert_eq!(number(&found.unwrap()), Some(n));
    }
    assert_eq!(asked(&store), [1, 39]);
    assert_eq!(begun.elapsed(), 2 * TRIP);
    let missing = coalescer.read(&ask(77)).await.unwrap();
    assert_eq!(missing, [ReadResult::Record(None)], "the place is free again");
}

#[tokio::test(start_paused = true)]
async fn a_question_of_several_callers_is_sent_once() {
    let (store, coalescer, _tasks) = coalescer(10).await;
    let counter = Read::Counter(key::counter(record::Ino(1), key::CounterKind::Objects));
    let all = join_all((0..10).map(|n| {
        let (coalescer, counter) = (&coalescer, counter.clone());
        async move { coalescer.read(&[ask(3), vec![counter], ask(n), ask(3)].concat()).await }
    }));
    for (n, found) in all.await.into_iter().enumerate() {
        let found = found.unwrap();
        assert_eq!(found.len(), 4);
        let numbers = [0, 2, 3].map(|place| number(&found[place..=place]));
        assert_eq!(numbers, [Some(3), Some(n), Some(3)]);
        assert_eq!(found[1], ReadResult::Counter(0));
    }
    // The first had four questions for itself; the others share record 3 and the counter.
    assert_eq!(asked(&store), [4, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_coalesced_read_is_bounded_and_in_order() {
    let (store, coalescer, _tasks) = coalescer(300).await;
    let all = join_all((0..300).map(|n| {
        let coalescer = &coalescer;
        async move {
            let found = coalescer.read(&ask(n)).await.unwrap();
            assert_eq!(number(&found), Some(n));
            Instant::now()
        }
    }));
    let answered = all.await;
    assert!(answered.is_sorted());
    let rest = 299 - 2 * COALESCED_QUESTIONS_MAX;
    assert_eq!(asked(&store), [1, COALESCED_QUESTIONS_MAX, COALESCED_QUESTIONS_MAX, rest]);
}

#[tokio::test(start_paused = true)]
async fn reads_are_sent_alone_when_the_queue_is_full() {
    let (store, coalescer, _tasks) = coalescer(1).await;
    let all = join_all((0..COALESCE_CALLERS_MAX + 50).map(|_| {
        let coalescer = &coalescer;
        async move { coalescer.read(&ask(0)).await }
    }));
    assert!(all.await.into_iter().all(|found| number(&found.unwrap()) == Some(0)));
    let trips = COALESCE_CALLERS_MAX.div_ceil(COALESCED_QUESTIONS_MAX);
    assert_eq!(asked(&store).len(), 50 + trips);
}

#[tokio::test(start_paused = true)]
async fn long_and_invalid_reads_delay_no_other() {
    let (store, coalescer, _tasks) = coalescer(SHORT_QUESTIONS_MAX + 1).await;
    let long = (0..=SHORT_QUESTIONS_MAX).flat_map(ask).collect::<Vec<_>>();
    let (start, end) = key::dentries(record::Ino(1));
    let range = [Read::Range { start, end, limit: 9, follow: None }];
    let key = Key::new(space::INODE, 0, &vec![0; store.limits().key_bytes + 1]);
    let (short, malformed) = (ask(2), [Read::Record { key, follow: None }]);
    let begun = Instant::now();
    let all = futures::join!(
        coalescer.read(&long),
        coalescer.read(&range),
        coalescer.read(&malformed),
        coalescer.read(&short),
    );
    assert_eq!(all.0.unwrap().len(), SHORT_QUESTIONS_MAX + 1);
    assert_eq!(all.1.unwrap().len(), 1);
    assert!(matches!(all.2, Err(VolumeError::Corrupt(_))), "{:?}", all.2);
    assert_eq!(number(&all.3.unwrap()), Some(2));
    assert_eq!((asked(&store).len(), begun.elapsed()), (4, TRIP));
}

#[tokio::test(start_paused = true)]
async fn a_store_error_reaches_all_callers() {
    let (store, coalescer, _tasks) = coalescer(8).await;
    let fails = Some(StoreErrorKind::Unavailable);
    *store.reading.lock().unwrap() = Reading { takes: TRIP, fails, ..Reading::default() };
    let all = join_all((0..8).map(|n| {
        let coalescer = &coalescer;
        async move { coalescer.read(&ask(n)).await }
    }));
    let errors = all.await.into_iter().map(Result::unwrap_err).collect::<Vec<_>>();
    let alone = &errors[0];
    assert!(matches!(alone, VolumeError::Unavailable(_)), "{alone:?}");
    assert!(alone.to_string().contains("as injected"), "{alone}");
    assert!(errors.iter().all(|error| error.to_string() == alone.to_string()));
    assert_eq!(asked(&store), [1, 7]);
    reads_take(&store, TRIP);
    assert_eq!(number(&coalescer.read(&ask(1)).await.unwrap()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_fails_only_its_callers() {
    let (store, coalescer, _tasks) = coalescer(8).await;
    let damaged = Some(at(5));
    *store.reading.lock().unwrap() = Reading { takes: TRIP, damaged, ..Reading::default() };
    let all = join_all((0..8).map(|n| {
        let coalescer = &coalescer;
        async move { coalescer.read(&ask(n)).await }
    }));
    for (n, found) in all.await.into_iter().enumerate() {
        match found {
            Err(VolumeError::Corrupt(_)) => assert_eq!(n, 5),
            found => assert_eq!(number(&found.unwrap()), Some(n)),
        }
    }
    assert_eq!(asked(&store), [1, 7, 1, 1, 1, 1, 1, 1, 1], "together first, then apart");
}

#[tokio::test(start_paused = true)]
async fn dropped_callers_do_not_affect_others() {
    let (store, coalescer, _tasks) = coalescer(4).await;
    let asks = [ask(0), ask(1), ask(2), ask(3)];
    let [first, second, third, fourth] = asks.each_ref().map(|ask| Box::pin(coalescer.read(ask)));
    let (mut first, mut second) = (first, second);
    assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
    let leave = async {
        // One leaves the line, and the first with its read under way.
        drop(second);
        drop(first);
    };
    let (third, fourth, ()) = futures::join!(third, fourth, leave);
    assert_eq!(number(&third.unwrap()), Some(2));
    assert_eq!(number(&fourth.unwrap()), Some(3));
    let separate = store.asked.lock().unwrap().clone();
    assert_eq!(separate, [ask(0), [ask(2), ask(3)].concat()]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_delays_others_only_briefly() {
    let (store, coalescer, _tasks) = coalescer(30).await;
    let slow = Duration::from_millis(500);
    reads_take(&store, slow);
    let begun = Instant::now();
    let all = join_all((0..30).map(|n| {
        let coalescer = &coalescer;
        async move {
            // Each millisecond one more asks.
            tokio::time::sleep(u32::try_from(n).unwrap() * TRIP).await;
            let asked = Instant::now();
            assert_eq!(number(&coalescer.read(&ask(n)).await.unwrap()), Some(n));
            asked.elapsed()
        }
    }));
    let longest = all.await.into_iter().max().unwrap();
    // The clock of timers counts in milliseconds.
    assert!(longest <= slow + COALESCE_PATIENCE + TRIP, "{longest:?}");
    assert!(begun.elapsed() < 2 * slow);
    assert!(asked(&store).len() < 25, "{:?}", asked(&store));
}

#[tokio::test(start_paused = true)]
async fn no_caller_waits_beyond_the_deadline() {
    let (store, coalescer, tasks) = coalescer(8).await;
    reads_take(&store, 3 * META_READ_DEADLINE);
    let begun = Instant::now();
    let all = join_all((0..8).map(|n| {
        let coalescer = &coalescer;
        async move { coalescer.read(&ask(n)).await }
    }));
    for found in all.await {
        assert!(matches!(found, Err(VolumeError::Unavailable(_))), "{found:?}");
    }
    assert!(begun.elapsed() <= META_READ_DEADLINE + TRIP);
    assert_eq!(tasks.close_and_wait(META_READ_DEADLINE).await, 0, "nothing is left behind");
    assert_eq!(asked(&store), [1, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_read_never_joins_one_that_was_sent_before() {
    let (store, coalescer, _tasks) = coalescer(1).await;
    let read = async || coalescer.read(&ask(0)).await.unwrap();
    let begin = async {
        // Its snapshot is taken at once, and its answer comes after the commit.
        let found = read().await;
        assert_eq!(number(&found), Some(0));
    };
    let later = async {
        let write = Plan { guards: Vec::new(), writes: vec![Write::Delete(at(0))] };
        store.commit_now(&[write]).await;
        assert_eq!(read().await, [ReadResult::Record(None)], "the delete was acknowledged before");
    };
    futures::join!(begin, later);
    assert_eq!(asked(&store), [1, 1]);
}
