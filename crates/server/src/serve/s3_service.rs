//! The gateway as the service behind the edge, the HTTP layer that limits connections and requests.
//!
//! The edge does not know S3. For example, it refuses a request with [`Refusal::Busy`], and the
//! client gets the error document `SlowDown`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use edge::{AccessFacts, Answer, BodyError, Caller, EdgeBody, Refusal, Service};
use gateway::{Gateway, InMemory, RequestContext, RequestId, Served};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{Request, Response};
use identity::ClientAddress;
use s3::{Code, Fault};
use volume::{RoundTrips, Volume};

/// The gateway as the service behind the edge.
#[derive(Debug)]
pub(super) struct S3 {
    gateway: Arc<Gateway>,
    volume: Arc<Volume>,
    /// True if the last readiness check succeeded. It is kept so that only changes are logged.
    was_ready: AtomicBool,
    /// True if a store was full at the last check, so that only changes are logged.
    was_full: AtomicBool,
}

impl S3 {
    /// Returns the service of a gateway on this volume.
    pub(super) fn new(gateway: Arc<Gateway>, volume: Arc<Volume>) -> S3 {
        S3 { gateway, volume, was_ready: AtomicBool::new(true), was_full: AtomicBool::new(false) }
    }
}

impl Service for S3 {
    type Context = RequestContext;

    fn begin(&self, head: &mut Parts, id: String, caller: Caller) -> RequestContext {
        head.extensions.insert(RequestId(id));
        head.extensions.insert(ClientAddress { address: caller.address, tls: caller.tls });
        RequestContext::of(head)
    }

    async fn handle(&self, request: Request<EdgeBody>) -> Answer {
        let (response, trips) = volume::count_round_trips(self.gateway.handle(request)).await;
        answer(response, trips)
    }

    fn refuse(&self, context: &RequestContext, refusal: Refusal) -> Answer {
        answer(gateway::refuse(context, &fault(refusal)), RoundTrips::default())
    }

    fn finish(&self, context: &RequestContext, response: Response<EdgeBody>) -> Response<EdgeBody> {
        gateway::finish(context, response)
    }

    fn slot_lost() -> BodyError {
        Fault::new(Code::SlowDown).into()
    }

    async fn ready(&self) -> bool {
        let health = self.volume.check().await;
        let ready = health.is_ready();
        // Only changes are logged, because load balancers check every few seconds.
        if self.was_ready.swap(ready, Ordering::Relaxed) != ready {
            if ready {
                tracing::info!("the gateway is ready again");
            } else {
                tracing::warn!(
                    ?health,
                    "the gateway is not ready: a store or the session does not answer"
                );
            }
        }
        let shortages = health.shortages();
        if self.was_full.swap(!shortages.is_empty(), Ordering::Relaxed) == shortages.is_empty() {
            if shortages.is_empty() {
                tracing::info!("the full store has space again; writes succeed");
            } else {
                tracing::warn!(
                    ?shortages,
                    "a store is full: writes fail, reads and deletes continue; add space"
                );
            }
        }
        ready
    }
}

/// Returns a response of the gateway as an answer for the edge. `trips` are the round trips to the
/// metadata store before the response began.
fn answer(mut response: Response<EdgeBody>, trips: RoundTrips) -> Answer {
    let in_memory = response.extensions_mut().remove::<InMemory>().is_some();
    let served = response.extensions_mut().remove::<Served>().unwrap_or_default();
    let facts = AccessFacts {
        operation: served.operation,
        bucket: served.bucket,
        code: served.code,
        reads: trips.reads,
        commits: trips.commits,
    };
    Answer { response, in_memory, facts }
}

/// Returns the S3 error of a request that the edge refuses.
fn fault(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Busy => Fault::new(Code::SlowDown).with_header(RETRY_AFTER, "1"),
        Refusal::TooManyHeaders(max) => Fault::because(
            Code::RequestHeaderSectionTooLarge,
            format!("Your request has more than {max} headers."),
        ),
        Refusal::TooLongHeaders(max) => {
            Fault::new(Code::RequestHeaderSectionTooLarge).with("MaxSizeAllowed", max.to_string())
        }
        Refusal::Panicked => Code::InternalError.into(),
    }
}

#[cfg(test)]
mod tests;
