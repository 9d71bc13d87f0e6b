//! Bytes that change, repeat or stop on the way.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::fixture::*;
use crate::frame::FRAME_BYTES_MAX;
use crate::handshake::{ANSWER_BYTES, HELLO_BYTES, PROOF_BYTES};
use crate::{LinkState, Message};

/// Bytes of a dialer before its first frame.
const HANDSHAKE_BYTES: usize = HELLO_BYTES + PROOF_BYTES;

/// The frame of `ask(number)` for small numbers: header, kind, number, flag, tag.
const ASK_BYTES: usize = 4 + 1 + 1 + 1 + 16;

#[tokio::test]
async fn a_changed_byte_in_a_frame_ends_the_link() {
    // In the header (a length that is possible, and one that is not), in the message, in the tag.
    for offset in [3, 0, 4, ASK_BYTES - 1] {
        let mut dialer = Session::start(2, options()).await;
        let mut listener = Session::start(1, remote()).await;
        let at = HANDSHAKE_BYTES + ASK_BYTES + offset;
        let proxy = Proxy::start(&dialer.tasks, listener.tcp().to_owned(), Some(at)).await;
        dialer.links.set_peers(vec![peer_at(1, vec![proxy.reach()])]);
        let at_dialer = dialer.opened().await;
        let at_listener = listener.opened().await;
        assert!(at_dialer.send(ask(1)));
        assert_eq!(listener.received().await, ask(1));
        // Enough bytes, so that a longer frame is complete too.
        (2..10).for_each(|number| assert!(at_dialer.send(ask(number))));
        assert_eq!(listener.closed().await, at_listener.id(), "offset {offset}");
        assert_eq!(dialer.closed().await, at_dialer.id());
        assert_eq!(proxy.changed.load(Ordering::SeqCst), 1, "a bit was inverted");
    }
}

#[tokio::test]
async fn a_changed_byte_in_the_handshake_gives_no_link() {
    for at in [0, 8, 24, 34, 44, HELLO_BYTES, HANDSHAKE_BYTES - 1] {
        let mut dialer = Session::start(2, options()).await;
        let mut listener = Session::start(1, remote()).await;
        let proxy = Proxy::start(&dialer.tasks, listener.tcp().to_owned(), Some(at)).await;
        dialer.links.set_peers(vec![peer_at(1, vec![proxy.reach()])]);
        dialer.failure(1).await;
        assert!(proxy.changed.load(Ordering::SeqCst) > 0, "a bit was inverted");
        listener.quiet();
        dialer.quiet();
        dialer.links.close();
    }
}

#[tokio::test]
async fn a_recorded_handshake_opens_no_second_link() {
    let mut listener = Session::start(1, remote()).await;
    let reach = listener.reach[0].clone();
    // A genuine handshake, byte by byte, as a stranger on the way can record it.
    let prover = prover(2);
    let hello = prover.hello(nonce(1), [5; 32]);
    let mut connection = raw(&reach).await;
    connection.writer.write_all(&hello).await.unwrap();
    let mut answer = [0; ANSWER_BYTES];
    connection.reader.read_exact(&mut answer).await.unwrap();
    let (proof, mut keys) = prover.verify(&hello, &answer).unwrap();
    connection.writer.write_all(&proof).await.unwrap();
    let link = listener.opened().await;
    let mut frame = Vec::new();
    keys.sealer.seal(&Message::Bye, &mut frame);
    connection.writer.write_all(&frame).await.unwrap();
    assert_eq!(listener.received().await, Message::Bye);

    let mut again = raw(&reach).await;
    again.writer.write_all(&hello).await.unwrap();
    let mut other = [0; ANSWER_BYTES];
    again.reader.read_exact(&mut other).await.unwrap();
    assert_ne!(answer, other, "the listener's challenge is fresh");
    again.writer.write_all(&proof).await.unwrap();
    again.writer.write_all(&frame).await.unwrap();
    until_end(&mut again).await;
    listener.quiet();
    assert!(link.is_open(), "the genuine link is not replaced");
}

#[tokio::test]
async fn a_reflected_handshake_opens_no_link() {
    let mut listener = Session::start(1, remote()).await;
    let reach = listener.reach[0].clone();
    // A stranger without the key returns the listener's own proof.
    let hello = prover(2).hello(nonce(1), [5; 32]);
    let mut connection = raw(&reach).await;
    connection.writer.write_all(&hello).await.unwrap();
    let mut answer = [0; ANSWER_BYTES];
    connection.reader.read_exact(&mut answer).await.unwrap();
    connection.writer.write_all(&answer[ANSWER_BYTES - PROOF_BYTES..]).await.unwrap();
    until_end(&mut connection).await;
    listener.quiet();
    assert_eq!(listener.state(2), None);
}

#[tokio::test]
async fn a_frame_that_ends_early_is_not_received() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    for cut in [1, 4, 5, ASK_BYTES - 1] {
        let (mut connection, mut keys) = dialled(&listener.peer(), 2).await;
        let link = listener.opened().await;
        let mut frames = Vec::new();
        keys.sealer.seal(&ask(1), &mut frames);
        keys.sealer.seal(&ask(2), &mut frames);
        connection.writer.write_all(&frames[..ASK_BYTES + cut]).await.unwrap();
        assert_eq!(listener.received().await, ask(1));
        sleep(Duration::from_millis(20)).await;
        listener.quiet();
        drop(connection);
        assert_eq!(listener.closed().await, link.id());
    }
}

#[tokio::test]
async fn a_frame_of_impossible_length_ends_the_link_before_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
    for length in [0, too_long, u32::MAX] {
        let (mut connection, _keys) = dialled(&listener.peer(), 2).await;
        let link = listener.opened().await;
        connection.writer.write_all(&length.to_be_bytes()).await.unwrap();
        assert_eq!(listener.closed().await, link.id());
        until_end(&mut connection).await;
    }
}

/// The length of a frame is known before its proof, so it must not decide about memory.
#[tokio::test]
async fn a_frame_that_is_only_announced_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let (mut connection, mut keys) = dialled(&listener.peer(), 2).await;
    listener.opened().await;
    let longest = u32::try_from(FRAME_BYTES_MAX).unwrap();
    connection.writer.write_all(&longest.to_be_bytes()).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    listener.quiet();
    // Bytes that are no such frame: the link ends only when all have arrived.
    let mut other = Vec::new();
    keys.sealer.seal(&ask(1), &mut other);
    let wrong = vec![7; FRAME_BYTES_MAX];
    connection.writer.write_all(&wrong[1..]).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    listener.quiet();
    connection.writer.write_all(&wrong[..1]).await.unwrap();
    listener.closed().await;
}

#[tokio::test]
async fn a_proxy_that_closes_is_only_an_interruption() {
    let mut dialer = Session::start(2, options()).await;
    let mut listener = Session::start(1, remote()).await;
    let proxy = Proxy::start(&dialer.tasks, listener.tcp().to_owned(), None).await;
    let began = Instant::now();
    dialer.links.set_peers(vec![peer_at(1, vec![proxy.reach()])]);
    for count in 1..=4 {
        let link = dialer.opened().await;
        let at_listener = listener.opened().await;
        assert_eq!(proxy.accepted.load(Ordering::SeqCst), count);
        // The listener's side closes as a network would; the dialer did not want it.
        at_listener.close();
        assert_eq!(listener.closed().await, at_listener.id());
        assert_eq!(dialer.closed().await, link.id());
    }
    // Links that end early do not make the dialer hurry: 25, 50 and 100 ms at least.
    assert!(began.elapsed() >= Duration::from_millis(175), "{:?}", began.elapsed());
    assert_ne!(dialer.state(1), Some(LinkState::Unreachable));
}
