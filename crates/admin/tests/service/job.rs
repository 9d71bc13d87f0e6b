//! Jobs: their records, their limits, and their interruption.

use std::sync::Arc;

use admin::{
    Admin, AdminError, JOB_LINES_MAX, JOBS_KEPT_MAX, JOBS_RUNNING_MAX, JobEnd, JobError, JobOrder,
    NewJob,
};
use record::{JobKind, JobState, Nonce};
use store::{MemoryStore, MetaStore};
use volume::Volume;

use crate::{make_volume, open, over};

/// A volume with an open session, and its administration.
struct World {
    admin: Admin,
    volume: Arc<Volume>,
}

async fn world() -> World {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let blocks = make_volume(&store).await;
    World { admin: over(Arc::clone(&store)), volume: open(&store, &blocks).await }
}

impl World {
    async fn start(&self, kind: JobKind) -> Result<u64, AdminError> {
        let arguments = [("source".to_owned(), "box".to_owned())];
        let session = self.volume.nonce();
        self.admin.start_job(&NewJob { kind, arguments: &arguments, user: "anna", session }).await
    }

    async fn end(&self, number: u64) {
        let of = (number, self.volume.nonce());
        self.admin.end_job(of, &[], end(JobState::Done)).await.unwrap();
    }
}

fn end(state: JobState) -> JobEnd {
    JobEnd { state, message: "well".to_owned(), lines: Vec::new(), has_more_lines: false }
}

#[tokio::test]
async fn a_job_shows_its_progress_and_its_end() {
    let world = world().await;
    let number = world.start(JobKind::Fork).await.unwrap();
    let session = world.volume.nonce();
    let counts = [("files".to_owned(), 7)];
    let order = world.admin.report_job(number, session, &counts).await.unwrap();
    assert_eq!(order, JobOrder::Continue);
    let jobs = world.admin.jobs().await.unwrap();
    let [shown] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert_eq!((shown.number, shown.was_interrupted), (number, false));
    assert_eq!((shown.job.state, &shown.job.progress[..]), (JobState::Running, &counts[..]));
    assert_eq!((shown.job.user.as_str(), shown.job.kind), ("anna", JobKind::Fork));
    // A session that does not do the work cannot report.
    let order = world.admin.report_job(number, Nonce([9; 10]), &[]).await.unwrap();
    assert_eq!(order, JobOrder::Stop);
    let mut long = end(JobState::Failed);
    long.lines = vec!["ü".repeat(400); JOB_LINES_MAX + 1];
    world.admin.end_job((number, session), &counts, long).await.unwrap();
    let job = world.admin.jobs().await.unwrap().remove(0).job;
    assert_eq!(
        (job.state, job.lines.len(), job.has_more_lines),
        (JobState::Failed, JOB_LINES_MAX, true)
    );
    assert!(job.lines[0].len() < 600 && job.lines[0].ends_with('…'));
    // The end is final.
    world.end(number).await;
    assert_eq!(world.admin.jobs().await.unwrap()[0].job.state, JobState::Failed);
}

#[tokio::test]
async fn a_job_is_stopped_by_an_order_and_removed_after_its_end() {
    let world = world().await;
    let number = world.start(JobKind::Fsck).await.unwrap();
    let refused = |done: Result<(), AdminError>| match done {
        Err(AdminError::Job(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(world.admin.remove_job(number).await), JobError::IsRunning);
    world.admin.stop_job(number).await.unwrap();
    let order = world.admin.report_job(number, world.volume.nonce(), &[]).await.unwrap();
    assert_eq!(order, JobOrder::Stop);
    assert_eq!(world.admin.jobs().await.unwrap()[0].job.state, JobState::Stopping);
    world.end(number).await;
    assert_eq!(refused(world.admin.stop_job(number).await), JobError::HasEnded);
    world.admin.remove_job(number).await.unwrap();
    assert_eq!(refused(world.admin.remove_job(number).await), JobError::NoSuchJob);
    assert_eq!(refused(world.admin.stop_job(number).await), JobError::NoSuchJob);
    assert_eq!(world.admin.jobs().await.unwrap(), []);
}

#[tokio::test]
async fn a_job_whose_session_has_ended_was_interrupted() {
    let world = world().await;
    let number = world.start(JobKind::Dump).await.unwrap();
    assert!(
        matches!(world.start(JobKind::Dump).await, Err(AdminError::Job(JobError::Runs(of))) if of == number)
    );
    world.volume.close().await;
    let jobs = world.admin.jobs().await.unwrap();
    assert!(jobs[0].was_interrupted && jobs[0].job.state == JobState::Running);
    assert!(matches!(world.admin.stop_job(number).await, Err(AdminError::Job(JobError::HasEnded))));
    // An interrupted job is in the way of no other one, and can be removed.
    world.start(JobKind::Dump).await.unwrap();
    world.admin.remove_job(number).await.unwrap();
}

#[tokio::test]
async fn running_jobs_have_a_limit() {
    let world = world().await;
    let mut last = 0;
    for _ in 0..JOBS_RUNNING_MAX {
        last = world.start(JobKind::Warmup).await.unwrap();
    }
    assert!(matches!(world.start(JobKind::Warmup).await, Err(AdminError::Job(JobError::TooMany))));
    world.end(last).await;
    world.start(JobKind::Warmup).await.unwrap();
}

#[tokio::test]
async fn the_oldest_ended_jobs_are_forgotten() {
    let world = world().await;
    let running = world.start(JobKind::Warmup).await.unwrap();
    let mut numbers = Vec::new();
    for _ in 0..JOBS_KEPT_MAX + 3 {
        let number = world.start(JobKind::Fork).await.unwrap();
        world.end(number).await;
        numbers.push(number);
    }
    let kept: Vec<u64> = world.admin.jobs().await.unwrap().iter().map(|job| job.number).collect();
    assert_eq!(kept.len(), JOBS_KEPT_MAX);
    assert!(kept.contains(&running), "a running job stays");
    numbers.reverse();
    assert_eq!(kept[..JOBS_KEPT_MAX - 1], numbers[..JOBS_KEPT_MAX - 1]);
}
