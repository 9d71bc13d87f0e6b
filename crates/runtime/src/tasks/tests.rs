use std::future::pending;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn a_task_runs_to_its_end_without_a_caller() {
    let tasks = Tasks::new();
    let (go, wait) = oneshot::channel::<()>();
    let (answer, answered) = oneshot::channel();
    drop(tasks.spawn("answer", async move {
        wait.await.unwrap();
        answer.send(7).unwrap();
    }));
    assert_eq!(tasks.running(), 1);
    go.send(()).unwrap();
    assert_eq!(tasks.close_and_wait(Duration::from_secs(9)).await, 0);
    assert_eq!(answered.await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn closing_waits_no_longer_than_the_timeout() {
    let tasks = Tasks::new();
    drop(tasks.spawn("hang", pending::<()>()));
    let begun = Instant::now();
    assert_eq!(tasks.close_and_wait(Duration::from_secs(3)).await, 1);
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn closing_waits_for_tasks_that_tasks_spawn() {
    let tasks = Tasks::new();
    let more = tasks.clone();
    let (answer, answered) = oneshot::channel();
    drop(tasks.spawn("first", async move {
        tokio::task::yield_now().await;
        drop(more.spawn("second", async move {
            tokio::task::yield_now().await;
            answer.send(()).unwrap();
        }));
    }));
    assert_eq!(tasks.close_and_wait(Duration::from_secs(9)).await, 0);
    assert_eq!(answered.await, Ok(()));
}

#[tokio::test]
async fn a_panic_ends_its_own_task_and_is_counted() {
    let tasks = Tasks::new();
    let error = tasks.spawn("panic", async { panic!("as the test wants") }).await.unwrap_err();
    assert!(error.is_panic());
    assert_eq!(tasks.panics(), 1);
    assert_eq!(tasks.spawn("next", async { 3 }).await.unwrap(), 3);
}
