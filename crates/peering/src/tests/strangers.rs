//! Peers of another volume, key or release, and programs that are no peers.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::fixture::*;
use crate::handshake::{ANSWER_BYTES, HELLO_BYTES, HandshakeError, Prover, VERSION};
use crate::{ADDRESS_DEADLINE, Peer, PeeringKey, PeeringOptions};

/// Asserts that a session with these options fails to dial one with those, and returns the text.
async fn refused(dialer: PeeringOptions, listener: PeeringOptions) -> String {
    let mut dialer = Session::start(2, dialer).await;
    let mut listener = Session::start(1, listener).await;
    dialer.links.set_peers(vec![listener.peer()]);
    let text = dialer.failure(1).await;
    dialer.quiet();
    listener.quiet();
    text.strip_prefix(&listener.reach[0]).expect("it begins with the address").to_owned()
}

#[tokio::test]
async fn a_session_with_another_key_is_refused() {
    let other = PeeringOptions { network_key: Some(PeeringKey::new([8; 32])), ..options() };
    let text = refused(other, remote()).await;
    assert_eq!(
        text,
        ": it does not know the secret: over the network that is the volume's master key"
    );
}

#[tokio::test]
async fn a_session_of_another_volume_is_refused() {
    let other = PeeringOptions { volume: [2; 16], ..options() };
    assert_eq!(refused(other, remote()).await, ": its session belongs to another volume");
}

/// The refusals of the listener, for dialers that do not care about the answer.
#[tokio::test]
async fn a_listener_closes_connections_without_a_right_proof() {
    let mut listener = Session::start(1, remote()).await;
    let reach = listener.reach[0].clone();
    listener.links.set_peers(vec![Peer::without_addresses(nonce(2))]);
    let other_key = Prover::new(VOLUME, &PeeringKey::new([8; 32]), nonce(2));
    let hellos = [
        other_key.hello(nonce(1), [5; 32]),
        Prover::new([2; 16], &PeeringKey::new(SECRET), nonce(2)).hello(nonce(1), [5; 32]),
        prover(2).hello(nonce(3), [5; 32]),
        prover(1).hello(nonce(1), [5; 32]),
        [0; HELLO_BYTES],
        [b'G'; HELLO_BYTES],
    ];
    for hello in hellos {
        let mut connection = raw(&reach).await;
        connection.writer.write_all(&hello).await.unwrap();
        // A proof, and more than a handshake has.
        let _ = connection.writer.write_all(&[7; 4_096]).await;
        until_end(&mut connection).await;
    }
    listener.quiet();
    let text = listener.failure(2).await;
    assert_eq!(
        text,
        "its connection: it does not know the secret: over the network that is the volume's master key"
    );

    let (_connection, _keys) = dialled(&listener.peer(), 2).await;
    listener.opened().await;
}

#[tokio::test]
async fn an_address_of_another_session_is_recognized() {
    let mut listener = Session::start(1, remote()).await;
    let dialer = Session::start(3, options()).await;
    // The address belonged to session 2 before.
    dialer.links.set_peers(vec![peer_at(2, listener.reach.clone())]);
    let text = dialer.failure(2).await;
    assert!(text.ends_with(": another session has this address"), "{text}");
    listener.quiet();
}

/// Starts a server that answers each connection with `answer` after the first bytes arrive.
async fn server(tasks: &runtime::Tasks, answer: &'static [u8], keep: Duration) -> String {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let inner = tasks.clone();
    tasks.spawn("server", async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            inner.spawn("connection", async move {
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer).await;
                sleep(keep).await;
            });
        }
    });
    format!("tcp:{address}")
}

async fn failure_at(answer: &'static [u8], keep: Duration) -> (String, Duration) {
    let dialer = Session::start(2, options()).await;
    let address = server(&dialer.tasks, answer, keep).await;
    let began = Instant::now();
    dialer.links.set_peers(vec![peer_at(1, vec![address.clone()])]);
    let text = dialer.failure(1).await;
    (text.strip_prefix(&address).expect("the address").to_owned(), began.elapsed())
}

#[tokio::test]
async fn an_http_server_at_the_address_is_recognized_at_once() {
    let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    let (text, took) = failure_at(answer, Duration::from_mins(1)).await;
    assert_eq!(text, ": it is not a session of this program");
    assert!(took < ADDRESS_DEADLINE, "{took:?}");
}

#[tokio::test]
async fn a_server_that_is_silent_is_left_at_the_deadline() {
    let (text, took) = failure_at(b"", Duration::from_mins(1)).await;
    assert_eq!(text, ": it did not answer in time");
    assert!(took >= ADDRESS_DEADLINE && took < 3 * ADDRESS_DEADLINE, "{took:?}");
}

#[tokio::test]
async fn a_server_that_closes_is_reported() {
    let (text, _) = failure_at(b"ashla", Duration::ZERO).await;
    let closed = ": it closed the connection during the handshake";
    assert!(text == closed || text == ": connection reset", "{text}");
}

#[tokio::test]
async fn a_session_of_another_release_is_recognized() {
    let (text, _) = failure_at(b"ashlarP\x02", Duration::from_mins(1)).await;
    assert_eq!(
        text,
        ": its release has version 2 of the peer protocol, and this one has version 1"
    );

    // A newer dialer finds this release's version at the same place.
    let listener = Session::start(1, remote()).await;
    let mut hello = prover(2).hello(nonce(1), [5; 32]);
    hello[7] = 2;
    let mut connection = raw(&listener.reach[0]).await;
    connection.writer.write_all(&hello).await.unwrap();
    let mut answer = [0; ANSWER_BYTES];
    connection.reader.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer[..8], [b"ashlarP", &[VERSION][..]].concat());
    until_end(&mut connection).await;
}

#[tokio::test]
async fn a_host_without_an_address_is_reported() {
    let dialer = Session::start(2, options()).await;
    let reach = vec!["tcp:does-not-exist.invalid:9703".to_owned()];
    dialer.links.set_peers(vec![peer_at(1, reach)]);
    let text = dialer.failure(1).await;
    assert!(text.starts_with("tcp:does-not-exist.invalid:9703: "), "{text}");
    assert!(!text.contains("os error"), "{text}");
    assert_ne!(text, HandshakeError::Stranger.to_string());
}
