//! Fairness between operations whose plans other writers refuse.
//!
//! A plan is refused if a record that it guards was changed since it was planned. The operation
//! then plans again. By itself that is not fair: the writer that committed last knows the newest
//! record, so it can refuse the others again and again.
//!
//! Writers of one process form a queue. After its first refusal an operation gets a place in the
//! queue and *reserves* the records and ranges that its plan guards. An operation whose plan would
//! change a reserved record waits until all earlier reservations of that record have ended, and
//! then plans again. For example, of 100 clients that PUT one key each waits for the one before it,
//! while PUTs of other keys go on.
//!
//! - An operation waits only for earlier reservations, so there is no deadlock.
//! - The first operation in the queue can be refused only by plans that were already in flight, and
//!   by other processes.
//!
//! Writers of other processes are not in the queue. An operation that they refuse pauses for a
//! random time before it tries again (see [`Backoff`]). An operation that had to wait in the queue
//! pauses before its commit while other sessions exist: otherwise a queue that is never empty would
//! leave no gap for them.
//!
//! All waiting ends at the operation's deadline: [`crate::CONTENTION_DEADLINE`], or an earlier one.
//!
//! An operation that checks an object before it plans keeps its place over several tries: see
//! [`turn`].

pub(crate) mod reservations;
mod table;
pub(crate) mod turn;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use namespace::FsError;
use store::{Guard, Plan};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::VolumeError;
use crate::state::SessionState;

use reservations::{Reservation, Reservations};

/// The refusals by a record that the operation had met before which do not lead to a pause. Plans
/// of this process that were already in flight may cause this many.
const REPEATS_WITHOUT_PAUSE: u32 = 2;

/// The pause of an operation that had to wait in the queue, so that other sessions can commit, has
/// a random length. Its limit is `GAP_COMMITS` times the duration of the last commit, but at least
/// `GAP_MIN` and at most `GAP_MAX`.
const GAP_MIN: Duration = Duration::from_millis(2);
const GAP_MAX: Duration = Duration::from_millis(100);
const GAP_COMMITS: u32 = 2;

/// One operation that contends with others for records: its place in the queue of refused
/// operations, and its pauses.
#[derive(Debug)]
pub(crate) struct Contender<'s> {
    reservations: &'s Arc<Reservations>,
    session: &'s SessionState,
    deadline: Instant,
    /// The lengths of the operation's pauses. Created at the first pause.
    backoff: Option<Backoff>,
    reservation: Option<Arc<Reservation>>,
    /// True if the place in the queue is that of the task's [`turn`], which outlives this
    /// operation.
    has_turn: bool,
    /// The number of refusals by a record that this operation had met before.
    repeats: u32,
    /// The number of refusals of this operation's plans.
    refusals: u32,
    /// For background work, the number of refusals after which it ends. It takes no place in the
    /// queue and does not pause, so that it delays no client. `None` for an operation of a client.
    refusals_max: Option<u32>,
}

impl<'s> Contender<'s> {
    /// Creates the state of an operation that waits for others until `deadline`. If the task has a
    /// [`turn`], the operation has the place of the turn in the queue.
    pub(crate) fn until(
        deadline: Instant,
        reservations: &'s Arc<Reservations>,
        session: &'s SessionState,
    ) -> Self {
        let turn = turn::of_task(reservations);
        let deadline = turn.as_ref().map_or(deadline, |turn| deadline.min(turn.deadline));
        let reservation = turn.map(|turn| turn.reservation);
        Contender {
            reservations,
            session,
            deadline,
            backoff: None,
            has_turn: reservation.is_some(),
            reservation,
            repeats: 0,
            refusals: 0,
            refusals_max: None,
        }
    }

    /// Returns the same state for background work, which neither waits for other operations nor
    /// lets them wait, and ends with [`FsError::Contended`] at this number of refusals.
    pub(crate) fn in_background(self, refusals_max: u32) -> Self {
        Contender { refusals_max: Some(refusals_max), ..self }
    }

    /// Returns true if the operation is background work.
    pub(crate) fn is_background(&self) -> bool {
        self.refusals_max.is_some()
    }

    /// Returns the number of refusals of this operation's plans.
    pub(crate) fn refusals(&self) -> u32 {
        self.refusals
    }

    /// Waits while earlier operations of this process have reserved records that `plan` would
    /// change. Returns true if it has waited: then the records that the operation has read are old,
    /// and it must be planned again. Returns false if the plan may be committed now.
    ///
    /// # Errors
    /// [`FsError::Contended`] at the deadline.
    pub(crate) async fn wait_for_turn(&mut self, plan: &Plan) -> Result<bool, VolumeError> {
        let table = &self.reservations.table;
        // Most operations meet no contention, and pay only for this check.
        if table.is_empty() || self.is_background() {
            return Ok(false);
        }
        self.drop_expired_turn();
        let place = self.reservation.as_ref().map(|reservation| reservation.place);
        // Without an earlier reservation of its records the operation may commit. Its own
        // reservation follows its newest plan.
        let Some(earlier) = table.earlier(plan, place) else {
            self.reserve(&plan.guards);
            return Ok(false);
        };
        // It gets its place before it waits, so that later operations line up behind it.
        if place.is_none() {
            self.join(&plan.guards);
        }
        if !table.wait_until(self.deadline, earlier).await {
            return Err(FsError::Contended.into());
        }
        // Other processes cannot see this queue. The random gap gives them a chance to commit.
        if self.session.has_peers() {
            let micros = self.reservations.commit_micros.load(Ordering::Relaxed);
            let gap = Duration::from_micros(micros).saturating_mul(GAP_COMMITS);
            self.backoff().pause_within(gap.clamp(GAP_MIN, GAP_MAX)).await;
        }
        Ok(true)
    }

    /// Handles the refusal of this operation's plan, which has these guards: reserves the guarded
    /// records, so that later operations of this process wait. `repeats` is true if the operation
    /// had met the refusing record before; if that happens repeatedly, the operation pauses.
    ///
    /// # Errors
    /// [`FsError::Contended`] at the deadline.
    pub(crate) async fn refused(
        &mut self,
        guards: &[Guard],
        repeats: bool,
    ) -> Result<(), VolumeError> {
        self.refusals += 1;
        if let Some(most) = self.refusals_max {
            return if self.refusals < most { Ok(()) } else { Err(FsError::Contended.into()) };
        }
        self.drop_expired_turn();
        match &self.reservation {
            Some(_) => self.reserve(guards),
            None => self.join(guards),
        }
        self.repeats += u32::from(repeats);
        // The first try after a pause learns the newest record, and the second may win. So a pause
        // follows only every second refusal.
        let pauses = self.repeats > REPEATS_WITHOUT_PAUSE && self.repeats.is_multiple_of(2);
        let in_time = if repeats && pauses {
            self.backoff().pause().await
        } else {
            Instant::now() < self.deadline
        };
        if in_time { Ok(()) } else { Err(FsError::Contended.into()) }
    }

    /// Pauses before an operation that found no consistent state is planned from the beginning.
    ///
    /// # Errors
    /// [`FsError::Contended`] at the deadline.
    pub(crate) async fn begin_anew(&mut self) -> Result<(), VolumeError> {
        if self.is_background() {
            return Err(FsError::Contended.into());
        }
        if self.backoff().pause().await { Ok(()) } else { Err(FsError::Contended.into()) }
    }

    /// Stores the duration of a commit of this operation, if it is in the queue. The pauses that
    /// let other sessions commit depend on it.
    pub(crate) fn record_commit_time(&self, took: Duration) {
        if self.reservation.is_some() {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            self.reservations.commit_micros.store(micros, Ordering::Relaxed);
        }
    }

    /// Leaves the queue of refused operations. The operation's reservation of records ends.
    pub(crate) fn leave(&mut self) {
        self.reservation = None;
    }

    /// Gives the place of a turn up that has expired. Otherwise the operation would pass those
    /// behind this place, which do not see it any more.
    fn drop_expired_turn(&mut self) {
        let expired = |turn: &Arc<Reservation>| !self.reservations.table.has(turn.place);
        if self.has_turn && self.reservation.as_ref().is_some_and(expired) {
            (self.has_turn, self.reservation) = (false, None);
        }
    }

    fn backoff(&mut self) -> &mut Backoff {
        self.backoff.get_or_insert_with(|| Backoff::until(self.deadline))
    }

    /// Takes the last place in the queue of refused operations, and reserves the records of these
    /// guards. If the queue is full, the operation goes on without a place.
    fn join(&mut self, guards: &[Guard]) {
        let reservations = Arc::clone(self.reservations);
        let place = reservations.table.join(guards, false);
        self.reservation = place.map(|place| Arc::new(Reservation { place, reservations }));
    }

    /// Reserves the records that the operation's newest plan guards, in place of those that it had
    /// reserved. A turn keeps its own records. Does nothing if the operation has no place in the
    /// queue.
    fn reserve(&self, guards: &[Guard]) {
        let Some(place) = self.reservation.as_ref().map(|reservation| reservation.place) else {
            return;
        };
        if self.has_turn {
            let _has_place = self.reservations.table.reserve_too(place, guards);
        } else {
            self.reservations.table.reserve(place, guards);
        }
    }
}
