//! A turn: a place in the queue that an operation keeps over several tries.
//!
//! Some operations find an object, check permissions and conditions for it, and then commit on the
//! condition that the key still has this object. If another client replaces the object in between,
//! the driver cannot plan the operation again, because the new object is not checked yet. So the
//! caller begins anew. Without a place in the queue it would meet a new object each time while
//! other clients write the key continuously.
//!
//! For example, one client copies `log` and ten others PUT `log` without a pause. The first try of
//! the copy fails. Then [`crate::Tries::again`] takes a turn: it reserves the records of `log`, and
//! the PUTs wait until the turn ends. The second try meets the object that it has checked.
//!
//! A client that may only read an object can make its writers wait in this way, so turns have
//! limits:
//!
//! - Others wait for a turn for [`crate::TURN_DURATION`] at most, from when it is at the front of
//!   the queue. An operation whose turn has expired gets no other one.
//! - Turns of operations that only read the records do not wait for each other.
//!
//! Gateways do not share the queue: a rival in another process is met by random pauses, without a
//! turn.

use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;

use super::reservations::{Reservation, Reservations};

tokio::task_local! {
    static PLACE: Option<Turn>;
}

/// A place in the queue for all operations of one task, and their deadline.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) reservation: Arc<Reservation>,
    pub(crate) deadline: Instant,
}

/// The turn of a task; `None` if it has none.
#[derive(Debug)]
pub(crate) struct Place(pub(crate) Option<Turn>);

/// Returns the place of the current task.
pub(crate) fn place() -> Place {
    Place(PLACE.try_with(Option::clone).ok().flatten())
}

/// Runs a future in this place. A task of its own needs this, because it does not inherit the place
/// of its caller.
pub(crate) fn in_place<F: Future>(
    future: F,
    place: Place,
) -> impl Future<Output = F::Output> + use<F> {
    // Also without a turn: with a branch the program would have the code of each future twice.
    PLACE.scope(place.0, future)
}

/// Returns the turn of the current task, if it is one in this queue that has not expired.
pub(super) fn of_task(queue: &Arc<Reservations>) -> Option<Turn> {
    place().0.filter(|Turn { reservation, .. }| {
        Arc::ptr_eq(&reservation.reservations, queue) && queue.table.has(reservation.place)
    })
}

#[cfg(test)]
mod tests;
