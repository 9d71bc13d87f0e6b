//! Links between sessions: order, replacement, ends and restarts.

use std::time::Duration;

use store::{Key, Space};
use tokio::time::{Instant, sleep};

use super::fixture::*;
use crate::dialer::SECOND_DIAL_PAUSE;
use crate::{CLOSE_DRAIN_MAX, LinkState, Message};

fn notice(batch: u64, keys: usize) -> Message {
    let key = |number| Key::new(Space(b'd'), batch, format!("file-{number}").as_bytes());
    Message::Notice { batch, keys: (0..keys).map(key).collect() }
}

async fn messages_pass_in_order(mut dialer: Session, mut listener: Session, is_local: bool) {
    let (at_dialer, at_listener) = connected(&mut dialer, &mut listener).await;
    assert_eq!((at_dialer.peer(), at_listener.peer()), (nonce(1), nonce(2)));
    assert_eq!((at_dialer.is_local(), at_listener.is_local()), (is_local, is_local));
    for session in [&dialer, &listener] {
        let states = session.links.states();
        assert_eq!(states.len(), 1);
        assert_eq!(states[0].1, LinkState::Open { local: is_local });
    }
    for number in 0..5_000 {
        assert!(at_dialer.send(ask(number)));
        // Some frames are longer than a read.
        assert!(at_listener.send(notice(number, if number % 500 == 0 { 10_000 } else { 3 })));
    }
    for number in 0..5_000 {
        assert_eq!(listener.received().await, ask(number));
        let keys = if number % 500 == 0 { 10_000 } else { 3 };
        assert_eq!(dialer.received().await, notice(number, keys));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_pass_in_order_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let dialer = Session::start(2, local(folder.path())).await;
    let listener = Session::start(1, local(folder.path())).await;
    messages_pass_in_order(dialer, listener, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_pass_in_order_over_tcp() {
    let dialer = Session::start(2, options()).await;
    let listener = Session::start(1, remote()).await;
    messages_pass_in_order(dialer, listener, false).await;
}

#[tokio::test]
async fn a_second_connection_replaces_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let (mut first, mut first_keys) = dialled(&listener.peer(), 2).await;
    let one = listener.opened().await;
    let (mut second, mut keys) = dialled(&listener.peer(), 2).await;
    assert_eq!(listener.closed().await, one.id());
    let other = listener.opened().await;
    assert_ne!(one.id(), other.id());
    until_end(&mut first).await;
    assert!(!one.is_open() && other.is_open());

    // The replaced connection delivers nothing, the other one does.
    send(&mut first, &mut first_keys, ask(1)).await;
    send(&mut second, &mut keys, ask(2)).await;
    let event = listener.event().await;
    assert!(matches!(&event, Event::Received(id, _) if *id == other.id()), "{event:?}");
    drop(second);
    assert_eq!(listener.closed().await, other.id());
    assert!(other.peer_has_left() && !one.peer_has_left());
    listener.quiet();
}

async fn send(
    connection: &mut crate::transport::Connection,
    keys: &mut crate::handshake::FrameKeys,
    message: Message,
) {
    use tokio::io::AsyncWriteExt as _;
    let mut frame = Vec::new();
    keys.sealer.seal(&message, &mut frame);
    // The other side may have closed the connection.
    let _ = connection.writer.write_all(&frame).await;
}

/// Many processes with one nonce that replace each other at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacements_that_race_report_one_link_at_a_time() {
    let mut listener = Session::start(1, remote()).await;
    let dialers: Vec<_> = (0..60)
        .map(|number| {
            let peer = listener.peer();
            listener.tasks.spawn("dialer", async move {
                // Some at the same instant, and some while the one before is open.
                sleep(Duration::from_millis(number / 4)).await;
                // A connection that is replaced before the verdict fails.
                try_dial(&peer, 2).await.ok()
            })
        })
        .collect();
    let mut connections = Vec::new();
    for dialer in dialers {
        connections.extend(dialer.await.unwrap());
    }
    drop(connections);
    listener.links.close();
    assert_eq!(listener.tasks.close_and_wait(PATIENCE).await, 0);
    let (mut open, mut opened) = (None, 0);
    for event in listener.waiting() {
        match event {
            Event::Opened(link) => {
                assert_eq!(open, None, "the one before has ended");
                open = Some(link.id());
                opened += 1;
            }
            Event::Closed(id) => assert_eq!(open.take(), Some(id)),
            Event::Received(..) => panic!("{event:?}"),
        }
    }
    assert_eq!(open, None, "each link that opened has closed");
    assert!(opened >= 2, "{opened}");
}

#[tokio::test]
async fn a_closing_session_sends_its_queue_and_removes_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let mut dialer = Session::start(2, local(folder.path())).await;
    let mut listener = Session::start(1, local(folder.path())).await;
    let (_, at_listener) = connected(&mut dialer, &mut listener).await;
    let path = socket_path(&listener.reach[0]);
    assert!(path.exists());
    for number in 0..1_000 {
        assert!(at_listener.send(ask(number)));
    }
    assert!(at_listener.send(Message::Bye));
    listener.links.close();
    assert!(!path.exists());
    assert!(!at_listener.send(ask(0)));
    for number in 0..1_000 {
        assert_eq!(dialer.received().await, ask(number));
    }
    assert_eq!(dialer.received().await, Message::Bye);
    dialer.closed().await;
    assert_eq!(listener.closed().await, at_listener.id());
    assert_eq!(listener.tasks.close_and_wait(CLOSE_DRAIN_MAX * 4).await, 0);
    listener.quiet();
}

#[tokio::test]
async fn a_restarted_listener_is_reached_again() {
    let mut dialer = Session::start(2, options()).await;
    let mut listener = Session::start(1, remote()).await;
    connected(&mut dialer, &mut listener).await;
    let address = listener.tcp().parse().unwrap();
    listener.links.close();
    dialer.closed().await;
    listener.tasks.close_and_wait(Duration::from_secs(5)).await;
    dialer.failure(1).await;

    // The same address, without another list.
    let options = crate::PeeringOptions { listen: Some(address), ..options() };
    let mut listener = Session::start(1, options).await;
    dialer.opened().await;
    listener.opened().await;
}

#[tokio::test]
async fn a_new_address_is_dialled_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut dialer = Session::start(2, options()).await;
    let gone = peer_at(1, vec!["tcp:127.0.0.1:1".to_owned()]);
    dialer.links.set_peers(vec![gone]);
    // The back-off has grown by now.
    let text = dialer.failure(1).await;
    assert_eq!(text, "tcp:127.0.0.1:1: connection refused");
    sleep(Duration::from_secs(3)).await;
    let mut listener = Session::start(1, local(folder.path())).await;
    let began = Instant::now();
    connected(&mut dialer, &mut listener).await;
    assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_link_closes_after_two_lists_without_its_peer() {
    let folder = tempfile::tempdir().unwrap();
    let mut dialer = Session::start(2, local(folder.path())).await;
    let mut listener = Session::start(1, local(folder.path())).await;
    let (at_dialer, at_listener) = connected(&mut dialer, &mut listener).await;
    dialer.links.set_peers(Vec::new());
    assert!(at_dialer.is_open());
    assert_eq!(dialer.state(1), Some(LinkState::Open { local: true }));
    dialer.links.set_peers(vec![listener.peer()]);
    dialer.links.set_peers(Vec::new());
    assert!(at_dialer.is_open(), "the absences are not in a row");
    dialer.links.set_peers(Vec::new());
    assert_eq!(dialer.closed().await, at_dialer.id());
    assert_eq!(listener.closed().await, at_listener.id());
    assert_eq!(dialer.state(1), None);

    dialer.links.set_peers(vec![listener.peer()]);
    dialer.opened().await;
}

#[tokio::test]
async fn a_peer_may_connect_before_a_list_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut dialer = Session::start(2, options()).await;
    let mut listener = Session::start(1, local(folder.path())).await;
    dialer.links.set_peers(vec![listener.peer()]);
    dialer.opened().await;
    assert_eq!(listener.opened().await.peer(), nonce(2));
    assert_eq!(listener.links.states(), [(nonce(2), LinkState::Open { local: true })]);
}

#[tokio::test]
async fn the_session_with_the_smaller_nonce_dials_if_the_other_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Session::start(2, local(folder.path())).await;
    let mut session = Session::start(1, local(folder.path())).await;
    session.links.set_peers(vec![other.peer(), session.peer()]);
    sleep(SECOND_DIAL_PAUSE / 5).await;
    session.quiet();
    assert_eq!(session.links.states(), [(nonce(2), LinkState::Connecting)]);
    assert_eq!(session.opened().await.peer(), nonce(2));
    assert_eq!(other.opened().await.peer(), nonce(1));
    other.links.set_peers(vec![session.peer()]);
    sleep(SECOND_DIAL_PAUSE + Duration::from_millis(200)).await;
    other.quiet();
    session.quiet();
}

#[tokio::test]
async fn a_session_with_a_link_is_not_dialled_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut dialer = Session::start(2, local(folder.path())).await;
    let mut listener = Session::start(1, local(folder.path())).await;
    connected(&mut dialer, &mut listener).await;
    sleep(SECOND_DIAL_PAUSE + Duration::from_millis(200)).await;
    dialer.quiet();
    listener.quiet();
}

#[tokio::test]
async fn a_peer_without_a_usable_address_is_unreachable() {
    let dialer = Session::start(2, options()).await;
    let reach = vec!["unix:0:/missing/peer-0123456789abcdef.sock".to_owned()];
    dialer.links.set_peers(vec![peer_at(1, reach)]);
    until(async || (dialer.state(1) == Some(LinkState::Unreachable)).then_some(())).await;
}

#[tokio::test]
async fn a_closed_session_accepts_and_dials_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut dialer = Session::start(2, local(folder.path())).await;
    let mut listener = Session::start(1, remote()).await;
    let reach = listener.reach[0].clone();
    dialer.links.close();
    dialer.links.set_peers(vec![listener.peer()]);
    assert_eq!(dialer.tasks.close_and_wait(Duration::from_secs(5)).await, 0);
    listener.links.close();
    until(async || {
        let connecting = tokio::net::TcpStream::connect(&reach["tcp:".len()..]).await;
        connecting.is_err().then_some(())
    })
    .await;
    dialer.quiet();
    listener.quiet();
}
