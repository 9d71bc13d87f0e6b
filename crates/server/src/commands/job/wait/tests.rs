use std::cell::Cell;

use super::super::tests::job;
use super::*;

fn away() -> Problem {
    Problem::new("read", "it is away").because(Cause::Unavailable)
}

#[test]
fn a_pipe_gets_one_line_a_minute() {
    let began = Instant::now();
    let mut next = None;
    let lines = (0..600).filter(|second| is_due(&mut next, began + Duration::from_secs(*second)));
    assert_eq!(lines.collect::<Vec<_>>(), [0, 60, 120, 180, 240, 300, 360, 420, 480, 540]);
}

#[test]
fn a_line_has_the_state_and_the_counts() {
    assert_eq!(text(&job("running")), "job 7 is running: objects=1000, bytes=2.00 MiB");
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_with_the_job() {
    let reads = Cell::new(0);
    let ended = until_end(job("running"), async || {
        reads.set(reads.get() + 1);
        Ok(job(if reads.get() < 5 { "stopping" } else { "stopped" }))
    });
    assert_eq!(ended.await.expect("it ends").state, "stopped");
    assert_eq!(reads.get(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_may_be_away_for_a_minute() {
    let reads = Cell::new(0);
    let done = until_end(job("running"), async || {
        reads.set(reads.get() + 1);
        if reads.get() <= ABSENCES_MAX { Err(away()) } else { Ok(job("done")) }
    });
    assert_eq!(done.await.expect("it ends").state, "done");
    let gone = until_end(job("running"), async || Err(away())).await.expect_err("it is away");
    assert_eq!(gone.cause(), Cause::Unavailable);
    let refused = until_end(job("running"), async || Err(Problem::new("read", "no")));
    refused.await.expect_err("another attempt has the same result");
}

#[tokio::test(start_paused = true)]
async fn the_wait_has_an_end() {
    let waited = until_end(job("running"), async || Ok(job("running"))).await;
    let problem = waited.expect_err("it never ends").to_string();
    assert!(problem.contains("wait for the job 7"), "{problem}");
}
