use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn other_tasks_run_while_a_request_works() {
    let turns = Arc::new(AtomicUsize::new(0));
    let other = {
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    };
    let work = async {
        let mut work = BoundedWork::default();
        for _ in 0..10 {
            work.run(async { std::thread::sleep(WORK_STEP) }).await;
        }
        assert!(!work.is_exhausted());
    };
    tokio::select! {
        () = other => {}
        () = work => {}
    }
    assert!(turns.load(Ordering::Relaxed) >= 9, "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_do_not_count_as_work() {
    let mut work = BoundedWork::default();
    work.run(tokio::time::sleep(WORK_MAX * 2)).await;
    assert!(!work.is_exhausted());
    work.run(async { std::thread::sleep(WORK_MAX) }).await;
    assert!(work.is_exhausted());
}
