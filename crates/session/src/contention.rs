//! Progress of operations whose plans other writers refuse.
//!
//! A plan is refused if a record that it guards was changed since it was planned. The operation then
//! plans again. By itself that is not fair: the writer that commits last always knows the newest
//! record, so it can go on refusing the others.
//!
//! Writers of this process form a line. After its first refusal an operation makes a *reservation* of
//! the records and ranges that its plan guards. An operation whose plan would change a reserved record
//! waits until all earlier reservations of that record have ended, and then plans again. A plan that
//! changes nothing reserved waits for nothing. For example, of 100 clients that put one key each waits
//! for the one before it, while PUTs of other keys go on.
//!
//! - An operation waits only for earlier reservations, so there is no circle of waiters.
//! - The first in the line can be refused only by plans that were already sent, and by other
//!   processes.
//!
//! Writers of other processes are not in the line. An operation that they refuse pauses for a random
//! time before it tries again (see [`Backoff`]). An operation that had to wait in the line pauses
//! before its commit while there are other sessions: otherwise a line that is never empty would leave
//! no gap for them.
//!
//! All waiting ends at the deadline of the operation: [`crate::CONTENTION_DEADLINE`], or an earlier one.

mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use namespace::FsError;
use store::{Guard, Plan};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::VolumeError;
use crate::state::SessionState;

use table::Table;

/// Refusals by one record after which an operation pauses. Other plans of this process that were
/// already under way may cause so many.
const REPEATS_WITHOUT_PAUSE: u32 = 2;

/// Bounds of the gap that a line leaves for other sessions. In between it is [`GAP_COMMITS`] commits
/// long.
const GAP_MIN: Duration = Duration::from_millis(2);
const GAP_MAX: Duration = Duration::from_millis(100);
const GAP_COMMITS: u32 = 2;

/// The reservations of a session.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    table: Table,
    /// How long the last commit of an operation in the line took, in microseconds.
    commit_micros: AtomicU64,
}

/// A place in the line, and the records reserved for it. Dropping it ends the reservation.
#[derive(Debug)]
struct Reservation {
    place: u64,
    reservations: Arc<Reservations>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.reservations.table.leave(self.place);
    }
}

/// One operation, as far as others get in its way.
#[derive(Debug)]
pub(crate) struct Contender<'s> {
    reservations: &'s Arc<Reservations>,
    session: &'s SessionState,
    deadline: Instant,
    /// Made when it is needed first.
    backoff: Option<Backoff>,
    reservation: Option<Reservation>,
    /// Refusals by a record that this operation had met before.
    repeats: u32,
}

impl<'s> Contender<'s> {
    /// An operation that waits for others until `deadline`.
    pub(crate) fn until(
        deadline: Instant,
        reservations: &'s Arc<Reservations>,
        session: &'s SessionState,
    ) -> Self {
        let (backoff, reservation) = (None, None);
        Contender { reservations, session, deadline, backoff, reservation, repeats: 0 }
    }

    /// Waits while earlier operations of this process depend on what `plan` would change. Returns
    /// whether it has waited: then what was known is old, and the operation is to be planned again.
    ///
    /// # Errors
    /// [`FsError::Contended`] at the deadline.
    pub(crate) async fn wait_for_turn(&mut self, plan: &Plan) -> Result<bool, VolumeError> {
        let table = &self.reservations.table;
        if table.is_empty() {
            return Ok(false);
        }
        let place = self.reservation.as_ref().map(|reservation| reservation.place);
        let Some(earlier) = table.earlier(plan, place) else {
            self.reserve(&plan.guards);
            return Ok(false);
        };
        if place.is_none() {
            self.join(&plan.guards);
        }
        if tokio::time::timeout_at(self.deadline, earlier.cancelled()).await.is_err() {
            return Err(FsError::Contended.into());
        }
        if self.session.has_peers() {
            let micros = self.reservations.commit_micros.load(Ordering::Relaxed);
            let gap = Duration::from_micros(micros).saturating_mul(GAP_COMMITS);
            self.backoff().pause_within(gap.clamp(GAP_MIN, GAP_MAX)).await;
        }
        Ok(true)
    }

    /// Takes note that a plan with these guards was refused. `repeats` says that the operation had
    /// met the record that refused it before. Pauses if that happens again and again.
    ///
    /// # Errors
    /// [`FsError::Contended`] at the deadline.
    pub(crate) async fn refused(
        &mut self,
        guards: &[Guard],
        repeats: bool,
    ) -> Result<(), VolumeError> {
        match &self.reservation {
            Some(_) => self.reserve(guards),
            None => self.join(guards),
        }
        self.repeats += u32::from(repeats);
        // The first try after a pause learns what the record is by now, and the second one may win.
        // So every second refusal is followed by a pause.
        let pauses = self.repeats > REPEATS_WITHOUT_PAUSE && self.repeats.is_multiple_of(2);
        let in_time = if repeats && pauses {
            self.backoff().pause().await
        } else {
            Instant::now() < self.deadline
        };
        if in_time { Ok(()) } else { Err(FsError::Contended.into()) }
    }

    /// Pauses before an operation that found no consistent state begins anew.
    ///
    /// # Errors
    /// [`FsError::Contended`] at the deadline.
    pub(crate) async fn begin_anew(&mut self) -> Result<(), VolumeError> {
        if self.backoff().pause().await { Ok(()) } else { Err(FsError::Contended.into()) }
    }

    /// Takes note of how long a commit took.
    pub(crate) fn record_commit_time(&self, took: Duration) {
        if self.reservation.is_some() {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            self.reservations.commit_micros.store(micros, Ordering::Relaxed);
        }
    }

    /// Leaves the line.
    pub(crate) fn leave(&mut self) {
        self.reservation = None;
    }

    fn backoff(&mut self) -> &mut Backoff {
        self.backoff.get_or_insert_with(|| Backoff::until(self.deadline))
    }

    /// Takes the last place in the line. If too many operations are in it, this one goes without.
    fn join(&mut self, guards: &[Guard]) {
        let reservations = Arc::clone(self.reservations);
        self.reservation =
            reservations.table.join(guards).map(|place| Reservation { place, reservations });
    }

    /// Reserves what the newest plan guards instead of what the one before did.
    fn reserve(&self, guards: &[Guard]) {
        if let Some(Reservation { place, .. }) = self.reservation {
            self.reservations.table.reserve(place, guards);
        }
    }
}
