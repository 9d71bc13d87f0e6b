use std::time::Duration;

use store::{Key, Space};
use tokio::time::timeout;

use super::*;
use crate::MESSAGE_KEYS_MAX;

const PEER: Nonce = Nonce([7; Nonce::BYTES]);

fn ask(number: u64) -> Message {
    Message::Ask { number, outlives_link: false }
}

fn notice(keys: usize, bytes: usize) -> Message {
    let key = Key::new(Space(b'd'), 1, &vec![b'x'; bytes - Key::PREFIX_BYTES]);
    Message::Notice { batch: 1, keys: vec![key; keys].into() }
}

#[tokio::test]
async fn messages_leave_the_queue_in_their_order() {
    let (link, mut queue) = Link::channel(PEER, true);
    assert_eq!((link.peer(), link.is_local(), link.is_open()), (PEER, true, true));
    assert!(link.send(ask(1)) && link.clone().send(ask(2)));
    assert_eq!(queue.next().await, Some(ask(1)));
    assert_eq!(queue.try_next(), Some(ask(2)));
    assert_eq!(queue.try_next(), None);
}

#[tokio::test]
async fn a_waiting_queue_wakes_for_a_message_and_for_the_end() {
    let (link, mut queue) = Link::channel(PEER, false);
    let (message, ()) = tokio::join!(queue.next(), async {
        tokio::task::yield_now().await;
        assert!(link.send(ask(1)));
    });
    assert_eq!(message, Some(ask(1)));
    let (message, ()) = tokio::join!(queue.next(), async {
        tokio::task::yield_now().await;
        link.close();
    });
    assert_eq!(message, None);
}

#[tokio::test]
async fn a_dropped_wait_loses_no_message() {
    let (link, mut queue) = Link::channel(PEER, false);
    let elapsed = timeout(Duration::from_millis(1), queue.next()).await;
    assert!(elapsed.is_err());
    assert!(link.send(ask(1)));
    assert_eq!(queue.next().await, Some(ask(1)));
}

#[tokio::test]
async fn a_closed_link_sends_its_queue_and_accepts_no_more() {
    let (link, mut queue) = Link::channel(PEER, false);
    assert!(link.send(Message::Bye));
    link.close();
    assert!(!link.is_open() && !link.send(ask(1)));
    assert_eq!(queue.next().await, Some(Message::Bye));
    assert_eq!(queue.next().await, None);
}

#[tokio::test]
async fn a_link_without_its_queue_has_ended() {
    let (link, queue) = Link::channel(PEER, false);
    drop(queue);
    assert!(!link.is_open() && !link.send(ask(1)) && !link.peer_has_left());
    let (link, queue) = Link::channel(PEER, true);
    queue.end_by_peer();
    assert!(!link.is_open() && link.peer_has_left());
}

#[tokio::test]
async fn a_link_ends_if_too_many_messages_wait() {
    let (link, mut queue) = Link::channel(PEER, false);
    for number in 0..QUEUE_MESSAGES_MAX as u64 {
        assert!(link.send(ask(number)));
    }
    assert!(!link.send(ask(0)));
    assert!(!link.is_open());
    assert_eq!(queue.next().await, None, "a gap in the messages is never sent");
}

#[tokio::test]
async fn a_link_ends_if_too_many_bytes_wait() {
    let (link, mut queue) = Link::channel(PEER, false);
    let mut sent = 0;
    while link.send(notice(1_000, 1_000)) {
        sent += 1;
    }
    assert!((8..=QUEUE_BYTES_MAX / 1_000_000).contains(&sent), "{sent}");
    assert!(!link.is_open());
    assert_eq!(queue.next().await, None);
}

#[tokio::test]
async fn taken_messages_make_room() {
    let (link, mut queue) = Link::channel(PEER, false);
    for _ in 0..100 {
        assert!(link.send(notice(1_000, 1_000)));
        assert!(queue.next().await.is_some());
    }
    assert_eq!(link.shared.lock().bytes, 0);
}

#[tokio::test]
async fn a_message_that_fits_no_frame_ends_the_link() {
    let (link, _queue) = Link::channel(PEER, false);
    assert!(link.send(notice(MESSAGE_KEYS_MAX, 9)));
    assert!(!link.send(notice(MESSAGE_KEYS_MAX + 1, 9)));
    assert!(!link.is_open());
}

#[test]
fn links_have_different_ids() {
    let (one, _queue) = Link::channel(PEER, false);
    let (other, _queue) = Link::channel(PEER, false);
    assert_ne!(one.id(), other.id());
    assert_eq!(one.id(), one.clone().id());
}
