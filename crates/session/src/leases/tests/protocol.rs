//! Single steps of the protocol between a session and its peers. The test plays the peers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peering::{Link, LinkEvents as _, LinkQueue, Message, Peer};
use record::{Ino, Nonce, key};
use runtime::Moment;
use store::{Key, Plan, Read, ReadResult, Write};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::leases::held::ASKS_MAX;
use crate::leases::lessor::{LESSEES_MAX, UNKNOWN_KEYS_MAX};
use crate::leases::{Leases, ReadsFrom, WhyAsks};
use crate::records::{Basis, DEMAND_MIN, RecordCache};
use crate::times::{AUTHORITY_DURATION, LEASE_INTERVAL, LEASE_PROMISE, SILENCE_DURATION};

const PEER: Nonce = Nonce([7; 10]);

/// A session, and the other end of its link to one peer.
struct Bench {
    leases: Arc<Leases>,
    records: Arc<RecordCache>,
    link: Link,
    sent: LinkQueue,
}

fn bench(is_local: bool) -> Bench {
    let records = RecordCache::new(1 << 20, true);
    let leases = Leases::new(&records, &Arc::default());
    leases.sessions_listed(Moment::now(), vec![Peer::without_addresses(PEER)]);
    let (link, sent) = Link::channel(PEER, is_local);
    leases.opened(&link);
    Bench { leases, records, link, sent }
}

fn inode(n: u64) -> Key {
    key::inode(Ino(n))
}

fn keys(numbers: impl IntoIterator<Item = u64>) -> Arc<[Key]> {
    numbers.into_iter().map(inode).collect()
}

impl Bench {
    fn receive(&self, message: Message) {
        self.leases.received(&self.link, message);
    }

    fn sent(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.sent.try_next()).collect()
    }

    /// Lets the peer ask, and returns the messages that it gets.
    fn asked(&mut self, number: u64) -> Vec<Message> {
        self.receive(Message::Ask { number, outlives_link: false });
        self.sent()
    }

    /// Takes a lease of the peer.
    fn take_lease(&mut self, fresh: bool) {
        self.leases.feed_checked(Moment::now());
        self.leases.ask_peers();
        let Some(Message::Ask { number, .. }) = self.sent().pop() else { panic!("it did not ask") };
        self.receive(Message::Grant { number, fresh });
    }

    /// Reads a record from the store and caches it.
    fn learn(&self, n: u64) {
        let reads = [Read::Record { key: inode(n), follow: None }];
        let entry = store::Entry {
            key: inode(n),
            value: bytes::Bytes::from_static(b"value"),
            target: store::Target::Absent,
        };
        self.records.begin_read().found(&reads, &[ReadResult::Record(Some(entry))]);
    }

    fn answers(&self, n: u64) -> bool {
        self.records.answer(&[Read::Record { key: inode(n), follow: None }]).is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_peer_costs_no_messages_and_no_wait() {
    let mut bench = bench(true);
    for n in 0..3 {
        let notice = bench.leases.give_notice(&keys([n]));
        let began = Instant::now();
        notice.acknowledged().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        notice.done();
    }
    assert_eq!(bench.sent(), []);
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_the_acknowledgement_of_a_lessee() {
    let mut bench = bench(true);
    assert_eq!(bench.asked(1), [Message::Grant { number: 1, fresh: true }]);
    let notice = bench.leases.give_notice(&keys([5]));
    assert_eq!(bench.sent(), [Message::Notice { batch: 1, keys: keys([5]) }]);
    let wait = timeout(Duration::from_millis(100), notice.acknowledged());
    assert!(wait.await.is_err(), "it may not leave without an acknowledgement");
    bench.receive(Message::Ack { batch: 1 });
    let began = Instant::now();
    notice.acknowledged().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    notice.done();
    assert_eq!(bench.sent(), [Message::Done { batch: 1 }]);
    assert_eq!(bench.asked(2), [Message::Grant { number: 2, fresh: false }]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_lessee_delays_one_batch_until_the_promise_ends() {
    let mut bench = bench(false);
    bench.asked(1);
    let began = Instant::now();
    let notice = bench.leases.give_notice(&keys([5]));
    notice.acknowledged().await;
    notice.done();
    let waited = began.elapsed();
    assert!(waited >= LEASE_PROMISE && waited < 2 * LEASE_PROMISE, "{waited:?}");
    let notice = bench.leases.give_notice(&keys([6]));
    notice.acknowledged().await;
    assert_eq!(began.elapsed(), waited, "the next batch does not wait");
    notice.done();
    bench.sent();
    bench.receive(Message::Ack { batch: 1 });
    assert_eq!(bench.asked(2), [Message::Grant { number: 2, fresh: true }]);
}

#[tokio::test(start_paused = true)]
async fn an_extended_promise_does_not_extend_the_wait() {
    let mut bench = bench(false);
    bench.asked(1);
    let began = Instant::now();
    let notice = bench.leases.give_notice(&keys([5]));
    let asks = async {
        for number in 2.. {
            tokio::time::sleep(Duration::from_millis(100)).await;
            bench.receive(Message::Ask { number, outlives_link: false });
        }
    };
    tokio::select! {
        () = notice.acknowledged() => {}
        () = asks => {}
    }
    assert!(began.elapsed() <= LEASE_PROMISE + Duration::from_millis(100));
    notice.done();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_without_acknowledging_gets_no_further_lease() {
    let mut bench = bench(false);
    bench.asked(1);
    let notice = bench.leases.give_notice(&keys([5]));
    let asks = async {
        for number in 2.. {
            tokio::time::sleep(Duration::from_millis(100)).await;
            bench.receive(Message::Ask { number, outlives_link: false });
        }
    };
    tokio::select! {
        () = notice.acknowledged() => {}
        () = asks => {}
    }
    notice.done();
    tokio::time::sleep(LEASE_PROMISE).await;
    bench.sent();
    assert_eq!(bench.asked(50), []);
    let began = Instant::now();
    let notice = bench.leases.give_notice(&keys([6]));
    notice.acknowledged().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    notice.done();
    bench.receive(Message::Ack { batch: 1 });
    assert_eq!(bench.asked(51), [Message::Grant { number: 51, fresh: true }]);
}

/// For example, the mount of a `serve --mount` has ended before its kernel acknowledged a notice,
/// and the gateway goes on.
#[tokio::test(start_paused = true)]
async fn a_peer_that_was_silent_once_gets_a_lease_later() {
    let mut bench = bench(false);
    bench.asked(1);
    let notice = bench.leases.give_notice(&keys([5]));
    notice.acknowledged().await;
    notice.done();
    bench.sent();
    tokio::time::sleep(SILENCE_DURATION / 10 * 9).await;
    assert_eq!(bench.asked(2), []);
    tokio::time::sleep(SILENCE_DURATION / 5).await;
    assert_eq!(bench.asked(3), [Message::Grant { number: 3, fresh: true }]);
    let notice = bench.leases.give_notice(&keys([6]));
    bench.receive(Message::Ack { batch: 2 });
    let began = Instant::now();
    notice.acknowledged().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    notice.done();
}

#[tokio::test(start_paused = true)]
async fn only_the_end_of_a_local_link_ends_the_wait() {
    for is_local in [true, false] {
        let mut bench = bench(is_local);
        bench.asked(1);
        let began = Instant::now();
        let notice = bench.leases.give_notice(&keys([5]));
        if is_local {
            bench.sent.end_by_peer();
        }
        bench.leases.closed(&bench.link);
        notice.acknowledged().await;
        let waited = began.elapsed();
        assert_eq!(waited < LEASE_PROMISE, is_local, "{waited:?}");
        notice.done();
    }
}

/// Both sessions dial at the same time. The second connection replaces the first one, and the peer
/// drops it before it has seen the end of the first one, over which it has a lease.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_link_without_a_lease_ends_no_promise() {
    let mut bench = bench(true);
    bench.asked(1);
    let asked = Moment::now();
    bench.leases.closed(&bench.link);
    let (second, queue) = Link::channel(PEER, true);
    bench.leases.opened(&second);
    queue.end_by_peer();
    bench.leases.closed(&second);
    let notice = bench.leases.give_notice(&keys([5]));
    notice.acknowledged().await;
    assert!(asked.after(LEASE_PROMISE).has_passed(), "the peer may still rely on its lease");
    notice.done();
}

#[tokio::test(start_paused = true)]
async fn a_lessee_that_says_bye_is_not_waited_for() {
    let mut bench = bench(false);
    bench.asked(1);
    let notice = bench.leases.give_notice(&keys([5]));
    bench.receive(Message::Bye);
    let began = Instant::now();
    notice.acknowledged().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    notice.done();
    bench.sent();
    assert_eq!(bench.asked(2), [Message::Grant { number: 2, fresh: true }]);
}

#[tokio::test(start_paused = true)]
async fn batches_in_flight_or_of_unknown_outcome_precede_a_grant_on_each_link() {
    let mut bench = bench(false);
    let in_flight = bench.leases.give_notice(&keys([1]));
    drop(bench.leases.give_notice(&keys([2])));
    bench.leases.give_notice(&keys([3])).done();
    let expected = [
        Message::Notice { batch: 1, keys: keys([1]) },
        Message::Notice { batch: 2, keys: keys([2]) },
        Message::Grant { number: 1, fresh: true },
    ];
    assert_eq!(bench.asked(1), expected);
    assert_eq!(bench.asked(2), [Message::Grant { number: 2, fresh: false }]);
    let (link, sent) = Link::channel(PEER, false);
    bench.leases.closed(&bench.link);
    bench.leases.opened(&link);
    (bench.link, bench.sent) = (link, sent);
    assert_eq!(bench.asked(1), expected, "the new link knows nothing");
    in_flight.done();
    assert_eq!(bench.sent(), [Message::Done { batch: 1 }]);
}

/// Plans whose outcome is found by their slots.
fn plans(slots: [u16; 2]) -> Vec<Plan> {
    let slot = |slot| Write::Put(key::idempotency_slot(PEER, slot), Bytes::new());
    slots.map(|number| Plan { guards: Vec::new(), writes: vec![slot(number)] }).into()
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_an_unknown_outcome_ends_when_all_its_plans_have_settled() {
    let mut bench = bench(false);
    bench.asked(1);
    let settle = |bench: &Bench, slot| {
        bench.leases.slot_settled(&key::idempotency_slot(PEER, slot));
    };
    let batch = plans([3, 4]);
    bench.leases.give_notice(&keys([5])).unknown(&batch);
    bench.sent();
    settle(&bench, 3);
    settle(&bench, 7);
    assert_eq!(bench.sent(), [], "another plan may still commit");
    settle(&bench, 4);
    assert_eq!(bench.sent(), [Message::Done { batch: 1 }]);
    // A plan without a slot never settles.
    let mut batch = plans([3, 4]);
    batch.push(Plan::default());
    bench.leases.give_notice(&keys([6])).unknown(&batch);
    settle(&bench, 3);
    settle(&bench, 4);
    assert_eq!(bench.sent(), [Message::Notice { batch: 2, keys: keys([6]) }]);
    let (link, sent) = Link::channel(PEER, false);
    bench.leases.opened(&link);
    (bench.link, bench.sent) = (link, sent);
    let expected =
        [Message::Notice { batch: 2, keys: keys([6]) }, Message::Grant { number: 1, fresh: true }];
    assert_eq!(bench.asked(1), expected, "the first batch has ended");
}

/// Batches that settle do not count against the limit of those with an unknown outcome.
#[tokio::test(start_paused = true)]
async fn settled_batches_do_not_end_leases() {
    let mut bench = bench(false);
    for _ in 0..4 {
        let batch = plans([3, 4]);
        bench.leases.give_notice(&keys(0..UNKNOWN_KEYS_MAX as u64)).unknown(&batch);
        bench.leases.slot_settled(&key::idempotency_slot(PEER, 3));
        bench.leases.slot_settled(&key::idempotency_slot(PEER, 4));
    }
    assert_eq!(bench.asked(1), [Message::Grant { number: 1, fresh: true }]);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_lessees_is_limited() {
    let mut bench = bench(true);
    let mut links = Vec::new();
    for n in 0..=LESSEES_MAX {
        let nonce = Nonce([u8::try_from(n).expect("few") + 100; 10]);
        let (link, mut sent) = Link::channel(nonce, true);
        bench.leases.opened(&link);
        bench.leases.received(&link, Message::Ask { number: 1, outlives_link: false });
        assert_eq!(sent.try_next().is_some(), n < LESSEES_MAX, "lessee {n}");
        links.push((link, sent));
    }
    assert_eq!(bench.asked(1), []);
    let (ended, queue) = links.remove(0);
    queue.end_by_peer();
    bench.leases.closed(&ended);
    assert_eq!(bench.asked(2), [Message::Grant { number: 2, fresh: true }]);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_too_many_unknown_outcomes_gives_no_lease() {
    let mut bench = bench(true);
    let half = u64::try_from(UNKNOWN_KEYS_MAX / 2).expect("a small number");
    drop(bench.leases.give_notice(&keys(0..half)));
    drop(bench.leases.give_notice(&keys(half..2 * half)));
    assert_eq!(bench.asked(1).len(), 3);
    tokio::time::sleep(LEASE_PROMISE).await;
    drop(bench.leases.give_notice(&keys([0])));
    assert_eq!(bench.asked(2), []);
}

#[tokio::test(start_paused = true)]
async fn a_lessee_answers_from_memory_until_its_lease_ends() {
    let mut bench = bench(true);
    assert_eq!(bench.leases.reads_from(), ReadsFrom::Store(WhyAsks::Off));
    bench.take_lease(true);
    bench.learn(1);
    assert!(bench.answers(1));
    assert_eq!(bench.leases.reads_from(), ReadsFrom::MemoryLeased(1));
    let basis = bench.records.relied_on().map(|(_, _, basis)| basis);
    assert_eq!(basis, Some(Basis::Leases));
    tokio::time::sleep(AUTHORITY_DURATION).await;
    bench.leases.feed_checked(Moment::now());
    assert!(!bench.answers(1), "the lease has ended");
    bench.take_lease(false);
    assert!(bench.answers(1), "nothing has changed meanwhile");
    tokio::time::sleep(AUTHORITY_DURATION).await;
    bench.take_lease(true);
    assert!(!bench.answers(1), "the peer has changed records without notice");
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_before_the_question() {
    let mut bench = bench(true);
    bench.leases.ask_peers();
    let Some(Message::Ask { number, .. }) = bench.sent().pop() else { panic!("it did not ask") };
    tokio::time::sleep(AUTHORITY_DURATION).await;
    bench.leases.feed_checked(Moment::now());
    bench.receive(Message::Grant { number, fresh: true });
    bench.learn(1);
    assert!(!bench.answers(1));
}

#[tokio::test(start_paused = true)]
async fn a_noticed_record_is_a_hint_until_it_is_read_after_the_batch() {
    let mut bench = bench(true);
    bench.take_lease(true);
    bench.learn(1);
    bench.learn(2);
    let early = bench.records.begin_read();
    bench.receive(Message::Notice { batch: 9, keys: keys([1]) });
    assert_eq!(bench.sent(), [Message::Ack { batch: 9 }]);
    assert!(!bench.answers(1) && bench.answers(2));
    bench.learn(1);
    assert!(!bench.answers(1), "the batch may commit at any time");
    bench.receive(Message::Done { batch: 9 });
    let reads = [Read::Record { key: inode(1), follow: None }];
    early.found(&reads, &[ReadResult::Record(None)]);
    assert!(!bench.answers(1), "a read from before the batch ended teaches nothing");
    bench.learn(1);
    assert!(bench.answers(1));
}

#[tokio::test(start_paused = true)]
async fn a_current_record_stays_when_the_feed_reports_it() {
    let mut bench = bench(true);
    bench.take_lease(true);
    bench.learn(1);
    bench.records.forget(&inode(1));
    assert!(bench.answers(1));
    bench.receive(Message::Notice { batch: 9, keys: keys([1]) });
    bench.records.forget(&inode(1));
    bench.receive(Message::Done { batch: 9 });
    assert!(!bench.answers(1));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_link_or_a_new_session_ends_the_lease() {
    let mut bench = bench(true);
    bench.take_lease(true);
    bench.learn(1);
    bench.leases.sessions_changed();
    assert!(!bench.answers(1));
    bench.leases.sessions_listed(Moment::now(), vec![Peer::without_addresses(PEER)]);
    bench.learn(1);
    assert!(bench.answers(1), "the lease of the known peer still runs");
    bench.leases.closed(&bench.link);
    bench.leases.feed_checked(Moment::now());
    assert!(!bench.answers(1));
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_too_many_changes_in_flight_is_given_up() {
    let mut bench = bench(true);
    bench.take_lease(true);
    bench.learn(1);
    for batch in 0..=16 {
        let first = batch * 4_096 + 10;
        bench.receive(Message::Notice { batch, keys: keys(first..first + 4_096) });
    }
    assert!(!bench.link.is_open(), "the link was closed");
    assert!(!bench.answers(1));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_answer_is_asked_less_often() {
    let mut bench = bench(true);
    for _ in 0..100 {
        bench.leases.ask_peers();
    }
    assert_eq!(bench.sent().len(), ASKS_MAX);
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.leases.ask_peers();
    assert_eq!(bench.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_many_reads_asks_once_an_interval() {
    let mut bench = bench(true);
    let asking = Arc::clone(&bench.leases).ask(CancellationToken::new());
    let intervals = 5;
    let end = Instant::now() + LEASE_INTERVAL * intervals;
    let reading = async {
        let mut count = 0;
        while Instant::now() < end {
            for _ in 0..DEMAND_MIN {
                bench.answers(1);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            for message in bench.sent() {
                let Message::Ask { number, .. } = message else { panic!("{message:?}") };
                count += 1;
                bench.receive(Message::Grant { number, fresh: false });
            }
        }
        count
    };
    let count = tokio::select! {
        () = asking => panic!("the session is open"),
        count = reading => count,
    };
    // One question comes from the beginning of the reads.
    assert!((2..=intervals + 2).contains(&count), "{count} questions");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_outlives_its_link_ends_by_time_alone() {
    let mut bench = bench(true);
    bench.receive(Message::Ask { number: 1, outlives_link: true });
    assert_eq!(bench.sent(), [Message::Grant { number: 1, fresh: true }]);
    let asked = Moment::now();
    // The next process of the same session knows nothing of the kernel's caches.
    bench.receive(Message::Bye);
    bench.link.close();
    bench.leases.closed(&bench.link);
    let (link, sent) = Link::channel(PEER, true);
    bench.leases.opened(&link);
    (bench.link, bench.sent) = (link, sent);
    bench.receive(Message::Ask { number: 2, outlives_link: true });
    assert_eq!(bench.sent(), [Message::Grant { number: 2, fresh: true }]);
    let notice = bench.leases.give_notice(&keys([5]));
    bench.receive(Message::Ack { batch: 1 });
    notice.acknowledged().await;
    assert!(
        asked.after(LEASE_PROMISE).has_passed(),
        "the kernel may still rely on the first lease"
    );
    notice.done();
    // From now on acknowledgements count.
    let notice = bench.leases.give_notice(&keys([6]));
    bench.receive(Message::Ack { batch: 2 });
    let began = Instant::now();
    notice.acknowledged().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    notice.done();
}
