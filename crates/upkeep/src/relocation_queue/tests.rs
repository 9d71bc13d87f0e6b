//! The order and the limits of the relocator's queues.

use std::time::Duration;

use tokio::time::Instant;

use super::{CANDIDATES_MAX, Note, RelocationQueue};

const DELAY: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn candidates_are_taken_when_they_are_due_and_in_that_order() {
    let queue = RelocationQueue::new(DELAY);
    let began = Instant::now();
    queue.note(7);
    tokio::time::advance(DELAY / 2).await;
    queue.note(3);
    // A second note does not put the look off.
    queue.note(7);
    assert_eq!(queue.next_due(), Some(began + DELAY));
    assert!(queue.take_due(Some(Instant::now())).is_none(), "it is not due yet");
    queue.note_due(5);
    assert_eq!(queue.take_due(Some(Instant::now())).map(|(taken, _)| taken), Some(5));
    let (taken, note) = queue.take_due(None).unwrap();
    assert_eq!((taken, note.due, note.changed), (7, began + DELAY, began + DELAY / 2));
    assert_eq!(queue.take_due(None).map(|(taken, _)| taken), Some(3));
    assert_eq!((queue.next_due(), queue.len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_resting_candidate_is_due_after_its_rest() {
    let (queue, rest) = (RelocationQueue::new(DELAY), DELAY * 5);
    let now = Instant::now();
    queue.rest(1, rest);
    queue.note(1);
    queue.note(2);
    assert_eq!(queue.take_due(None).map(|(taken, note)| (taken, note.due)), Some((2, now + DELAY)));
    assert_eq!(queue.take_due(None).map(|(taken, note)| (taken, note.due)), Some((1, now + rest)));
    tokio::time::advance(rest).await;
    queue.rest(2, rest);
    queue.note(1);
    assert_eq!(queue.next_due(), Some(now + rest + DELAY), "its rest is over");
}

#[tokio::test(start_paused = true)]
async fn only_a_candidate_that_is_due_first_wakes_the_task() {
    let queue = RelocationQueue::new(DELAY);
    let woken = || {
        let earlier = queue.earlier.clone();
        async move { tokio::time::timeout(DELAY / 100, earlier.notified()).await.is_ok() }
    };
    queue.note(1);
    assert!(woken().await);
    queue.note(2);
    queue.note(1);
    assert!(!woken().await, "the task waits for an earlier time");
    queue.note_due(3);
    assert!(woken().await);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_further_candidates() {
    let queue = RelocationQueue::new(DELAY);
    for candidate in 0..=CANDIDATES_MAX {
        queue.note(candidate);
    }
    assert_eq!(queue.len(), CANDIDATES_MAX);
    let (taken, note) = queue.take_due(None).unwrap();
    queue.note_for_later(taken, Note { due: note.due, ..note });
    assert_eq!(queue.len(), CANDIDATES_MAX);
}
