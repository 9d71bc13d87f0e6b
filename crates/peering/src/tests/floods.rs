//! Peers and strangers that take much and give nothing.

use std::time::Duration;

use futures::future::join_all;
use store::{Key, Space};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::fixture::*;
use crate::transport::Connection;
use crate::{
    HANDSHAKE_DEADLINE, HANDSHAKES_MAX, LINKS_MAX, LinkState, Message, Peer, WRITE_STALL_MAX,
};

fn large() -> Message {
    let key = |number: u64| Key::new(Space(b'd'), number, &[b'x'; 200]);
    Message::Notice { batch: 1, keys: (0..1_000).map(key).collect() }
}

/// Returns true if the other side closes the connection within the time.
async fn ends_within(connection: &mut Connection, limit: Duration) -> bool {
    timeout(limit, connection.reader.read_u8()).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_are_limited_in_number_and_time() {
    const FLOOD: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let options = crate::PeeringOptions { listen: Some(loopback()), ..local(folder.path()) };
    let mut listener = Session::start(1, options).await;
    let began = Instant::now();
    let tcp = format!("tcp:{}", listener.tcp());
    let mut flood = join_all((0..FLOOD).map(|_| raw(&tcp))).await;
    // No handshake that began has reached its deadline by then.
    let before_deadline = began + HANDSHAKE_DEADLINE * 3 / 4;
    let limit = before_deadline.saturating_duration_since(Instant::now());
    let ended = flood.iter_mut().map(|it| ends_within(it, limit));
    let closed = join_all(ended).await.iter().filter(|it| **it).count();
    assert!(closed <= FLOOD - HANDSHAKES_MAX, "{closed} are closed at once");
    assert!(closed >= FLOOD / 4, "{closed} are closed at once");

    // The socket file has its own limit.
    let mut dialer = Session::start(2, super::fixture::options()).await;
    dialer.links.set_peers(vec![listener.peer()]);
    dialer.opened().await;
    assert!(listener.opened().await.is_local());

    // The rest is closed at the deadline, and then the port serves again.
    join_all(flood.iter_mut().map(until_end)).await;
    assert!(began.elapsed() >= HANDSHAKE_DEADLINE);
    assert!(began.elapsed() < 3 * HANDSHAKE_DEADLINE);
    let (_connection, _keys) = dialled(&peer_at(1, vec![tcp]), 3).await;
    assert!(!listener.opened().await.is_local());
}

#[tokio::test]
async fn a_hello_that_arrives_slowly_is_cut_at_the_deadline() {
    use tokio::io::AsyncWriteExt as _;
    let mut listener = Session::start(1, remote()).await;
    let mut connection = raw(&listener.reach[0]).await;
    let hello = prover(2).hello(nonce(1), [5; 32]);
    let began = Instant::now();
    for byte in hello {
        if connection.writer.write_all(&[byte]).await.is_err() {
            break;
        }
        sleep(HANDSHAKE_DEADLINE / 20).await;
    }
    until_end(&mut connection).await;
    assert!(began.elapsed() < 3 * HANDSHAKE_DEADLINE);
    listener.quiet();
}

#[tokio::test]
async fn a_peer_that_never_reads_loses_its_link_after_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let (_connection, _keys) = dialled(&listener.peer(), 2).await;
    let link = listener.opened().await;
    // More than the kernel's buffer, and less than the queue.
    for _ in 0..20 {
        assert!(link.send(large()));
    }
    let began = Instant::now();
    assert_eq!(listener.closed().await, link.id());
    let took = began.elapsed();
    assert!(took >= WRITE_STALL_MAX * 9 / 10 && took < WRITE_STALL_MAX * 5, "{took:?}");
    assert!(!link.send(ask(1)));
}

#[tokio::test]
async fn a_full_queue_ends_the_link_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let (_connection, _keys) = dialled(&listener.peer(), 2).await;
    let link = listener.opened().await;
    let began = Instant::now();
    let mut sent = 0;
    // In one step, without a chance for the writer.
    while link.send(large()) {
        sent += 1;
    }
    assert!(sent > 10, "{sent}");
    assert_eq!(listener.closed().await, link.id());
    assert!(began.elapsed() < WRITE_STALL_MAX);
}

#[tokio::test]
async fn a_closed_link_to_a_peer_that_never_reads_ends_soon() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let (_connection, _keys) = dialled(&listener.peer(), 2).await;
    let link = listener.opened().await;
    for _ in 0..20 {
        assert!(link.send(large()));
    }
    let began = Instant::now();
    link.close();
    assert_eq!(listener.closed().await, link.id());
    let took = began.elapsed();
    assert!(took >= crate::CLOSE_DRAIN_MAX * 9 / 10 && took < WRITE_STALL_MAX, "{took:?}");
}

/// The peer's socket is full of messages that it does not read, and it still hears this session.
#[tokio::test]
async fn links_to_other_peers_go_on_beside_a_stopped_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let (_stopped, _keys) = dialled(&listener.peer(), 2).await;
    let stopped = listener.opened().await;
    let mut dialer = Session::start(3, options()).await;
    dialer.links.set_peers(vec![listener.peer()]);
    dialer.opened().await;
    let link = listener.opened().await;
    for _ in 0..20 {
        assert!(stopped.send(large()));
    }
    for number in 0..100 {
        assert!(link.send(ask(number)));
        assert_eq!(dialer.received().await, ask(number));
    }
    assert!(stopped.is_open(), "it was stopped for the whole time");
}

#[tokio::test]
async fn links_are_limited_and_named_peers_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let last = u8::try_from(LINKS_MAX).unwrap() + 9;
    let named = [last + 1, last + 2];
    listener.links.set_peers(named.map(|it| Peer::without_addresses(nonce(it))).into());
    let mut unnamed = Vec::new();
    for own in 10..=last {
        unnamed.push(dialled(&listener.peer(), own).await);
        listener.opened().await;
    }
    assert_eq!(unnamed.len(), LINKS_MAX);
    let refused = try_dial(&listener.peer(), last + 9).await.err().expect("a refusal");
    assert_eq!(refused.to_string(), "it has too many links");
    listener.quiet();

    // A named peer takes the place of one of them.
    let _one = dialled(&listener.peer(), named[0]).await;
    let (mut opened, mut closed) = (0, 0);
    for _ in 0..2 {
        match listener.event().await {
            Event::Opened(link) => opened += usize::from(link.peer() == nonce(named[0])),
            Event::Closed(_) => closed += 1,
            event @ Event::Received(..) => panic!("{event:?}"),
        }
    }
    assert_eq!((opened, closed), (1, 1));
    let open = listener.links.states().into_iter();
    let open = open.filter(|(_, state)| matches!(state, LinkState::Open { .. })).count();
    assert_eq!(open, LINKS_MAX);
    // And a peer that has a link may replace it.
    let own = listener.links.states()[0].0.0[0];
    let _again = dialled(&listener.peer(), own).await;
    listener.closed().await;
    listener.opened().await;
}
