use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{InFlight, Interruption};

fn counting() -> (Arc<AtomicUsize>, super::Action) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let action = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    (count, Box::new(action))
}

#[test]
fn interrupt_of_an_unknown_request_is_reported() {
    let table = InFlight::default();
    assert_eq!(table.interrupt(8), Interruption::Unknown);
    table.begin(8);
    assert_eq!(table.interrupt(8), Interruption::Recorded);
    table.end(8);
    assert_eq!(table.interrupt(8), Interruption::Unknown);
}

#[test]
fn interrupt_action_runs_at_most_once() {
    let table = InFlight::default();
    let (count, action) = counting();
    table.begin(2);
    table.register(2, action);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    table.interrupt(2);
    table.interrupt(2);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn action_registered_after_the_interrupt_runs_at_once() {
    let table = InFlight::default();
    let (count, action) = counting();
    table.begin(2);
    table.interrupt(2);
    table.register(2, action);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn an_answered_request_runs_no_action() {
    let table = InFlight::default();
    let (count, action) = counting();
    table.begin(2);
    table.register(2, action);
    table.end(2);
    table.interrupt(2);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(Arc::strong_count(&count), 1, "the action is gone");
}

#[test]
fn resent_request_has_its_own_entry() {
    let table = InFlight::default();
    let resent = 8 | (1 << 63);
    table.begin(resent);
    assert_eq!(table.interrupt(8), Interruption::Unknown);
    assert_eq!(table.interrupt(resent), Interruption::Recorded);
}

#[test]
fn waiting_ends_with_the_last_reply_or_the_timeout() {
    let table = InFlight::default();
    table.begin(2);
    table.begin(4);
    assert_eq!(table.wait_until_empty(Duration::from_millis(20)), 2);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| table.wait_until_empty(Duration::from_secs(30)));
        table.end(2);
        table.end(4);
        assert_eq!(waiting.join().unwrap(), 0);
    });
}
