use super::*;

const NOTHING: fn() = || {};

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_move_refuses_after_the_shortest_wait() {
    let queue = Queue::new(1);
    let began = Instant::now();
    let held = queue.permit(WaitLimit::WhileMoving(began), NOTHING).await;
    assert!(held.is_some());
    assert!(queue.permit(WaitLimit::WhileMoving(began), NOTHING).await.is_none());
    assert!((1.0..1.2).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
}

/// Returns how many of `count` requests that come together are served, and the longest wait of a
/// refused one, where each request needs its permit for `needs`.
async fn burst(count: usize, needs: Duration) -> (usize, Duration) {
    let queue = Queue::new(1);
    let began = Instant::now();
    let requests = (0..count).map(|_| async {
        let Some(permit) = queue.permit(WaitLimit::WhileMoving(began), NOTHING).await else {
            return Err(began.elapsed());
        };
        tokio::time::sleep(needs).await;
        drop(permit);
        Ok(())
    });
    let ends = futures::future::join_all(requests).await;
    let served = ends.iter().filter(|end| end.is_ok()).count();
    (served, ends.into_iter().filter_map(Result::err).max().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_fits_the_maximum_wait_is_served_completely() {
    assert_eq!(burst(1_000, Duration::from_millis(25)).await, (1_000, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_turn_comes_too_late_is_refused_early() {
    let (served, longest) = burst(10_000, Duration::from_millis(25)).await;
    assert!((1_000..1_300).contains(&served), "{served}");
    assert!(longest < Duration::from_secs(31), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_reclaimed_goes_to_the_queue() {
    let queue = Queue::new(1);
    let patience = WaitLimit::Until(Instant::now() + Duration::from_secs(5));
    let held = std::sync::Mutex::new(queue.permit(patience, NOTHING).await);
    assert!(held.lock().expect("not poisoned").is_some());
    let began = Instant::now();
    let reclaim = || {
        if began.elapsed() >= Duration::from_millis(250) {
            held.lock().expect("not poisoned").take();
        }
    };
    assert!(queue.permit(patience, reclaim).await.is_some());
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    assert!(held.lock().expect("not poisoned").is_none());
}
