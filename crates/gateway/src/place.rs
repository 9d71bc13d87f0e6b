//! The place of a request among the requests in flight, as the layer in front of the gateway counts
//! them.
//!
//! A request gives its place up while it waits for something that other clients hold, such as
//! memory for documents, and while a sender whom the gateway does not know yet sends its fields.
//! For example, 500 requests that wait for the memory of slow documents leave their places to GETs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use s3::{Code, Fault};

/// The counter of requests in flight, for one request that has a place.
pub trait GivePlaceUp: Send + Sync {
    /// Waits for `wait`, and gives the place of the request up meanwhile. Then waits for a place
    /// again. Returns false if the request gets none in time.
    fn without<'a>(&'a self, wait: BoxFuture<'a, ()>) -> BoxFuture<'a, bool>;
}

/// An extension of a request: its place among the requests in flight.
#[derive(Clone)]
pub struct Place(Arc<dyn GivePlaceUp>);

impl Place {
    /// Returns the extension of a request with this counter.
    pub fn new(counter: impl GivePlaceUp + 'static) -> Place {
        Place(Arc::new(counter))
    }

    /// Waits for `wait` without the `place`, if the request has one. Fails with `SlowDown` if the
    /// request gets no place after the wait.
    pub async fn without<T: Send>(
        place: Option<&Place>,
        wait: impl Future<Output = T> + Send,
    ) -> Result<T, Fault> {
        let Some(Place(counter)) = place else { return Ok(wait.await) };
        let mut output = None;
        let waits = counter.without(Box::pin(async { output = Some(wait.await) }));
        let has_place = waits.await;
        output.filter(|_| has_place).ok_or_else(|| Code::SlowDown.into())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}
