use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::BufferPool;

#[test]
fn reader_waits_while_all_large_buffers_are_lent() {
    let pool = BufferPool::new(8192, 1);
    let first = pool.large();
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let second = pool.large();
            sender.send(second.len()).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        drop(first);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(0));
    });
}

#[test]
fn returned_buffer_is_empty_and_reused() {
    let pool = BufferPool::new(8192, 2);
    let mut large = pool.large();
    large.clear_for_read().extend_from_slice(b"old bytes");
    let address = large.as_ptr();
    drop(large);
    let again = pool.large();
    assert!(again.is_empty());
    assert_eq!(again.as_ptr(), address);
}

#[test]
fn small_buffers_do_not_count_as_large_ones() {
    let pool = BufferPool::new(8192, 1);
    let small: Vec<_> = (0..600).map(|_| pool.small_copy(b"abc")).collect();
    let _large = pool.large();
    assert!(small.iter().all(|it| &**it == b"abc"));
    drop(small);
    assert_eq!(pool.lock().small.len(), super::SMALL_KEPT);
}
