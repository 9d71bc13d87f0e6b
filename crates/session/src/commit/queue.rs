//! Forms batches of what waits.

use std::sync::Arc;

use store::Limits;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::{ADDED_BYTES, ADDED_ITEMS, Desk, Outcome, Sent, Waiting};
use crate::error::VolumeError;
use crate::lanes::TakenLane;

/// How often all that is ready to run has its turn before a batch is closed. Who waited for the same
/// as the first plan's caller, a pack or a commit, is about to bring a plan, too; and a request that
/// has arrived is not far from it. More turns gather hardly more, and an idle runtime has none to give.
const GATHERING_TURNS: usize = 4;

/// What a batch holds so far.
#[derive(Debug, Default)]
struct Load {
    plans: usize,
    items: usize,
    bytes: usize,
}

impl Load {
    /// Adds a plan, unless the batch has no room for it. The first one always fits: plans beyond
    /// the limits of a plan were refused before.
    fn add(&mut self, waiting: &Waiting, limits: &Limits) -> bool {
        let items = self.items + waiting.plan.items() + ADDED_ITEMS;
        let bytes = self.bytes + waiting.plan.bytes() + ADDED_BYTES;
        let fits = self.plans < limits.batch_plans
            && items <= limits.batch_items
            && bytes <= limits.batch_bytes;
        if self.plans > 0 && !fits {
            return false;
        }
        *self = Load { plans: self.plans + 1, items, bytes };
        true
    }
}

/// Sends batches until the queue has ended, `in_flight` at a time.
pub(super) async fn serve(desk: Arc<Desk>, mut queue: mpsc::Receiver<Waiting>, in_flight: usize) {
    let room = Arc::new(Semaphore::new(in_flight));
    let mut left: Option<Waiting> = None;
    loop {
        let permit = Arc::clone(&room).acquire_owned().await;
        let first = match left.take() {
            Some(waiting) => waiting,
            None => match next(&desk, &mut queue).await {
                Some(waiting) => waiting,
                None => return,
            },
        };
        for _ in 0..GATHERING_TURNS {
            tokio::task::yield_now().await;
        }
        let mut load = Load::default();
        let mut batch = Vec::new();
        let Some(sent) = take_lane(&desk, first).await else { continue };
        load.add(&sent.waiting, &desk.limits);
        batch.push(sent);
        while let Ok(waiting) = queue.try_recv() {
            if !load.add(&waiting, &desk.limits) {
                left = Some(waiting);
                break;
            }
            match desk.lanes.try_take() {
                Some(lane) => batch.extend(in_time(&desk, waiting, lane)),
                None => {
                    left = Some(waiting);
                    break;
                }
            }
        }
        let desk_of_batch = Arc::clone(&desk);
        drop(desk.tasks.spawn("commit", async move {
            desk_of_batch.decide(batch).await;
            drop(permit);
        }));
    }
}

/// The next plan; `None` when no more will come.
async fn next(desk: &Desk, queue: &mut mpsc::Receiver<Waiting>) -> Option<Waiting> {
    if !queue.is_closed() {
        tokio::select! {
            biased;
            waiting = queue.recv() => return waiting,
            () = desk.closing.cancelled() => queue.close(),
        }
    }
    queue.recv().await
}

/// A lane for the first plan of a batch. When none becomes free in time, nothing was sent.
async fn take_lane(desk: &Desk, waiting: Waiting) -> Option<Sent> {
    match tokio::time::timeout_at(waiting.deadline, desk.lanes.take()).await {
        Ok(lane) => in_time(desk, waiting, lane),
        Err(_late) => {
            refuse(waiting);
            None
        }
    }
}

/// Sends a plan unless it waited too long already.
fn in_time(desk: &Desk, waiting: Waiting, lane: TakenLane) -> Option<Sent> {
    if waiting.deadline > Instant::now() {
        return Some(Sent { waiting, lane });
    }
    desk.lanes.settle(lane, crate::lanes::Step::Untouched);
    refuse(waiting);
    None
}

fn refuse(mut waiting: Waiting) {
    let why = "other commits took until the deadline".to_owned();
    let outcome = Outcome::Failed(VolumeError::Unavailable(why));
    if let Some(caller) = waiting.caller.take() {
        let _gone = caller.send((outcome, waiting.staged));
    }
}
