//! A turn: a place in the queue that an operation keeps over several tries.
//!
//! Some operations find an object, check permissions and conditions for it, and then commit on the
//! condition that the key still has this object. If another client replaces the object in between,
//! the driver cannot plan the operation again, because the new object is not checked yet. So the
//! caller begins anew. Without a place in the queue it would meet a new object each time while
//! other clients write the key continuously.
//!
//! For example, one client copies `log` and ten others PUT `log` without a pause. The first try of
//! the copy fails. Then [`Tries::again`] takes a turn: it reserves the records of `log`, and the
//! PUTs wait until the turn ends. The second try meets the object that it has checked.
//!
//! Other operations wait for a turn for [`TURN_DURATION`] at most. So a turn that hangs delays
//! them, and does not stop them. Gateways do not share the queue: a rival in another process is met
//! by random pauses.

use std::future::Future;
use std::sync::Arc;

use store::{Guard, Key};
use tokio::time::Instant;

use crate::Session;
use crate::backoff::Backoff;
use crate::times::TURN_DURATION;

use super::{Reservation, Reservations};

/// The number of tries in a turn after which an operation pauses. Plans of this process that were
/// already in flight when the turn began may cause this many failures.
const TRIES_WITHOUT_PAUSE: u32 = 2;

tokio::task_local! {
    static PLACE: Arc<Reservation>;
}

/// The place of a task in the queue of refused operations; `None` if it has no turn.
#[derive(Debug)]
pub(crate) struct Place(Option<Arc<Reservation>>);

/// Returns the place of the current task.
pub(crate) fn place() -> Place {
    Place(PLACE.try_with(Arc::clone).ok())
}

/// Runs a future in this place. A task of its own needs this, because it does not inherit the place
/// of its caller.
pub(crate) async fn in_place<F: Future>(future: F, place: Place) -> F::Output {
    match place.0 {
        Some(reservation) => PLACE.scope(reservation, future).await,
        None => future.await,
    }
}

/// Returns the place of the current task, if it is one in this queue.
pub(super) fn place_of_task(queue: &Arc<Reservations>) -> Option<Arc<Reservation>> {
    place().0.filter(|reservation| Arc::ptr_eq(&reservation.reservations, queue))
}

/// The tries of one operation that checks an object and then commits if the key still has it.
#[derive(Debug)]
pub struct Tries<'s> {
    session: &'s Session,
    backoff: Backoff,
    turn: Option<Arc<Reservation>>,
    failures: u32,
}

impl Session {
    /// Begins the tries of an operation. They end after [`crate::CONTENTION_DEADLINE`].
    pub fn tries(&self) -> Tries<'_> {
        Tries { session: self, backoff: Backoff::default(), turn: None, failures: 0 }
    }
}

impl Tries<'_> {
    /// Runs the part of a try that commits.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        in_place(future, Place(self.turn.clone())).await
    }

    /// Waits before the next try, after one has failed because another client has changed one of
    /// `records`. Reserves them for the next try, so that other operations of this process leave
    /// them as they are for [`TURN_DURATION`]. Without `records` it pauses only: a caller that
    /// moves many bytes must not let others wait.
    ///
    /// Returns false if the time for tries is over.
    pub async fn again(&mut self, records: &[Key]) -> bool {
        self.failures += 1;
        if records.is_empty() {
            self.turn = None;
            return self.backoff.pause().await;
        }
        if !self.take_turn(records).await {
            return false;
        }
        // Only a session elsewhere can have made so many tries fail.
        if self.failures > TRIES_WITHOUT_PAUSE {
            self.backoff.pause().await
        } else {
            Instant::now() < self.backoff.deadline()
        }
    }

    /// Reserves these records, and waits until all earlier reservations of them have ended. Returns
    /// false at the deadline.
    async fn take_turn(&mut self, records: &[Key]) -> bool {
        let queue = &self.session.reservations;
        let guards: Vec<Guard> = records.iter().cloned().map(Guard::Present).collect();
        let has_turn =
            self.turn.as_ref().is_some_and(|turn| queue.table.reserve_too(turn.place, &guards));
        if !has_turn {
            let place = queue.table.join(&guards, Some(Instant::now() + TURN_DURATION));
            let reservations = Arc::clone(queue);
            // A full queue gives no place, and then the tries go on without one.
            self.turn = place.map(|place| Arc::new(Reservation { place, reservations }));
        }
        let place = self.turn.as_ref().map(|turn| turn.place);
        while let Some(earlier) = queue.table.earlier_of(records.iter().collect(), place) {
            if !queue.table.wait_until(self.backoff.deadline(), earlier).await {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
