use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use record::Nonce;
use runtime::Tasks;
use tokio::io::{DuplexStream, duplex, split};
use tokio::time::Instant;

use super::*;
use crate::Message;
use crate::handshake::{PeeringKey, Prover};

#[derive(Debug, Default)]
struct Counter {
    opened: AtomicUsize,
    closed: AtomicUsize,
    received: Mutex<Vec<Message>>,
    /// Ends the link from within a call, or panics in it.
    misbehaves: Option<fn(&Link)>,
}

impl LinkEvents for Counter {
    fn opened(&self, _: &Link) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    fn received(&self, link: &Link, message: Message) {
        self.received.lock().unwrap().push(message);
        if let Some(misbehave) = self.misbehaves {
            misbehave(link);
        }
    }

    fn closed(&self, link: &Link) {
        assert!(!link.is_open());
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns the keys of a dialer and of a listener.
fn keys() -> (FrameKeys, FrameKeys) {
    let prover = |own| Prover::new([1; 16], &PeeringKey::new([9; 32]), Nonce([own; 10]));
    let hello = prover(2).hello(Nonce([1; 10]), [5; 32]);
    let answer = prover(1).answer(&hello, [6; 32]).unwrap();
    let (proof, keys) = prover(2).verify(&hello, &answer.bytes).unwrap();
    (keys, answer.dialer.unwrap().verify(&proof).unwrap().1)
}

fn connection(stream: DuplexStream) -> Connection {
    let (reader, writer) = split(stream);
    Connection { reader: Box::new(reader), writer: Box::new(writer), is_local: true }
}

struct Side {
    link: Link,
    task: tokio::task::JoinHandle<()>,
    other: DuplexStream,
    keys: FrameKeys,
    events: Arc<Counter>,
}

/// Starts a link whose connection holds `bytes` bytes in each direction.
fn start(bytes: usize, misbehaves: Option<fn(&Link)>) -> Side {
    let (stream, other) = duplex(bytes);
    let (ours, theirs) = keys();
    let (link, queue) = Link::channel(Nonce([1; 10]), true);
    let events = Arc::new(Counter { misbehaves, ..Counter::default() });
    let (tasks, calls) = (Tasks::new(), Arc::clone(&events));
    let served = link.clone();
    let task = tasks.spawn("link", run(served, queue, connection(stream), ours, calls));
    Side { link, task, other, keys: theirs, events }
}

impl Side {
    async fn send(&mut self, messages: &[Message]) {
        let mut frames = Vec::new();
        messages.iter().for_each(|message| self.keys.sealer.seal(message, &mut frames));
        self.other.write_all(&frames).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_progress_ends_the_link() {
    let side = start(64, None);
    let began = Instant::now();
    (0..100)
        .for_each(|number| assert!(side.link.send(Message::Ask { number, outlives_link: false })));
    side.task.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), WRITE_STALL_MAX.as_secs());
    assert_eq!(side.events.closed.load(Ordering::SeqCst), 1);
}

/// Each write has the whole time, so a slow peer that reads keeps its link.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_keeps_its_link() {
    let mut side = start(64, None);
    let count = 40;
    (0..count)
        .for_each(|number| assert!(side.link.send(Message::Ask { number, outlives_link: false })));
    let mut received = Vec::new();
    let mut number = 0;
    let began = Instant::now();
    while number < count {
        tokio::time::sleep(WRITE_STALL_MAX / 2).await;
        let mut chunk = [0; 64];
        let length = side.other.read(&mut chunk).await.unwrap();
        received.extend_from_slice(&chunk[..length]);
        while let Some(length) = FrameOpener::frame_bytes(&received).unwrap() {
            if received.len() < length {
                break;
            }
            let message = side.keys.opener.open(&mut received[..length]);
            assert_eq!(message, Ok(Message::Ask { number, outlives_link: false }));
            received.drain(..length);
            number += 1;
        }
    }
    assert!(began.elapsed() > 3 * WRITE_STALL_MAX);
    assert!(side.link.is_open());
}

#[tokio::test]
async fn a_panic_of_the_user_still_closes_the_link_once() {
    let mut side = start(1 << 16, Some(|_| panic!("planted")));
    side.send(&[Message::Bye, Message::Bye]).await;
    assert!(side.task.await.unwrap_err().is_panic());
    assert_eq!(side.events.opened.load(Ordering::SeqCst), 1);
    assert_eq!(side.events.closed.load(Ordering::SeqCst), 1);
    assert_eq!(side.events.received.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_is_received_after_the_user_ended_the_link() {
    let mut side = start(1 << 16, Some(Link::end));
    side.send(&[Message::Bye, Message::Bye]).await;
    side.task.await.unwrap();
    assert_eq!(side.events.received.lock().unwrap().len(), 1);
}

/// A user of links that takes its time in `closed`.
#[derive(Debug, Default)]
struct SlowToClose {
    opened: tokio::sync::Notify,
}

impl LinkEvents for SlowToClose {
    fn opened(&self, _: &Link) {
        self.opened.notify_one();
    }

    fn received(&self, _: &Link, _: Message) {}

    fn closed(&self, _: &Link) {
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A lease that ends in `closed` has ended when the peer sees the end of the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_is_open_until_closed_has_returned() {
    for ends in [Link::close as fn(&Link), Link::end] {
        let (stream, mut other) = duplex(64);
        let (link, queue) = Link::channel(Nonce([1; 10]), true);
        let events = Arc::new(SlowToClose::default());
        let calls = Arc::clone(&events);
        let served = run(link.clone(), queue, connection(stream), keys().0, calls);
        Tasks::new().spawn("link", served);
        events.opened.notified().await;
        let began = Instant::now();
        ends(&link);
        assert_eq!(other.read(&mut [0]).await.unwrap(), 0);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(200), "{took:?}");
        assert!(!link.peer_has_left(), "this side ended it");
    }
}

#[tokio::test]
async fn the_end_of_a_local_peer_is_recognized() {
    for is_local in [true, false] {
        let (stream, other) = duplex(64);
        let (link, queue) = Link::channel(Nonce([1; 10]), is_local);
        let connection = Connection { is_local, ..connection(stream) };
        drop(other);
        run(link.clone(), queue, connection, keys().0, Arc::new(Counter::default())).await;
        assert_eq!(link.peer_has_left(), is_local);
    }
    // A write that finds no peer, and a read that finds damage.
    let side = start(64, None);
    let (link, task) = (side.link, side.task);
    drop(side.other);
    link.send(Message::Bye);
    task.await.unwrap();
    assert!(link.peer_has_left());
    let mut side = start(64, None);
    side.other.write_all(&[0xff; 4]).await.unwrap();
    side.task.await.unwrap();
    assert!(!side.link.peer_has_left(), "the peer may still exist");
}

/// Counts the writes and their bytes.
#[derive(Clone, Default)]
struct Writes(Arc<(AtomicUsize, AtomicUsize)>);

impl AsyncWrite for Writes {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        self.0.1.fetch_add(bytes.len(), Ordering::SeqCst);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn messages_of_one_moment_leave_in_one_write() {
    let (stream, _other) = duplex(64);
    let writes = Writes::default();
    let connection = Connection { writer: Box::new(writes.clone()), ..connection(stream) };
    let (link, queue) = Link::channel(Nonce([1; 10]), true);
    (0..100).for_each(|number| assert!(link.send(Message::Ask { number, outlives_link: false })));
    link.close();
    run(link, queue, connection, keys().0, Arc::new(Counter::default())).await;
    assert_eq!(writes.0.1.load(Ordering::SeqCst), 100 * 23);
    assert_eq!(writes.0.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_link_that_ended_before_its_turn_reports_nothing() {
    let (stream, _other) = duplex(64);
    let (link, queue) = Link::channel(Nonce([1; 10]), true);
    link.end();
    let events = Arc::new(Counter::default());
    let calls = Arc::clone(&events);
    run(link, queue, connection(stream), keys().0, calls).await;
    assert_eq!(events.opened.load(Ordering::SeqCst), 0);
    assert_eq!(events.closed.load(Ordering::SeqCst), 0);
}
