//! The gateway as the service behind the edge, the HTTP layer that limits connections and requests.
//!
//! The edge does not know S3. For example, it refuses a request with [`Refusal::Busy`], and the
//! client gets the error document `SlowDown`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use edge::{
    AccessFacts, Answer, BodyError, Caller, EdgeBody, GivableSlot, Refusal, Service, SlotLost,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use gateway::{
    Abandoned, Gateway, GivePlaceUp, InMemory, Place, RequestContext, RequestId, Served,
};
use http::Extensions;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{Request, Response};
use identity::ClientAddress;
use madmin::MinioAdmin;
use s3::{Code, Fault};
use volume::{RoundTrips, Volume};

use super::audited::{Audited, Begun};
use super::minio_admin;

/// The facts of a request for its refusal and for the access log.
#[derive(Debug)]
pub(super) struct S3Context {
    request: RequestContext,
    begun: Arc<Begun>,
    gateway: Arc<Gateway>,
    audited: Arc<Audited>,
}

impl Drop for S3Context {
    /// Records a request whose client disconnected before the gateway had it, for example while it
    /// waited for its turn.
    fn drop(&mut self) {
        let begun = &self.begun;
        if !begun.set_handled() {
            let claimed = self.gateway.claimed(&begun.method, &begun.uri, &begun.headers);
            self.audited.record_abandoned(begun, claimed);
        }
    }
}

/// The gateway as the service behind the edge.
#[derive(Debug)]
pub(super) struct S3 {
    gateway: Arc<Gateway>,
    volume: Arc<Volume>,
    audited: Arc<Audited>,
    /// MinIO's administration protocol; `None` if it is off.
    minio_admin: Option<Arc<MinioAdmin>>,
    /// True if the last readiness check succeeded. It is kept so that only changes are logged.
    was_ready: AtomicBool,
    /// True if a store was full at the last check, so that only changes are logged.
    was_full: AtomicBool,
}

impl S3 {
    /// Returns the service of a gateway on this volume. `audited` gets each request that has ended.
    pub(super) fn new(
        gateway: Arc<Gateway>,
        volume: Arc<Volume>,
        audited: Arc<Audited>,
        minio_admin: Option<Arc<MinioAdmin>>,
    ) -> S3 {
        let (was_ready, was_full) = (AtomicBool::new(true), AtomicBool::new(false));
        S3 { gateway, volume, audited, minio_admin, was_ready, was_full }
    }

    /// Returns the protocol of administration if the request belongs to it.
    fn minio_admin(&self, request: &Request<EdgeBody>) -> Option<&Arc<MinioAdmin>> {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let is_for = |_: &&_| minio_admin::is_for(&self.gateway, method, uri, headers);
        self.minio_admin.as_ref().filter(is_for)
    }

    /// Returns a response of the gateway as an answer for the edge. `trips` are the round trips to
    /// the metadata store before the response began.
    fn answer(
        &self,
        mut response: Response<EdgeBody>,
        trips: RoundTrips,
        begun: Arc<Begun>,
    ) -> Answer {
        let in_memory = response.extensions_mut().remove::<InMemory>().is_some();
        let served = response.extensions_mut().remove::<Served>().unwrap_or_default();
        let facts = AccessFacts {
            operation: served.operation,
            bucket: served.bucket.clone(),
            code: served.code,
            reads: trips.reads,
            commits: trips.commits,
            on_end: Some(self.audited.on_end(begun, served, response.headers())),
        };
        Answer { response, in_memory, facts }
    }
}

impl Service for S3 {
    type Context = S3Context;

    fn begin(&self, head: &mut Parts, id: String, caller: Caller) -> S3Context {
        let begun = Arc::new(Begun::new(head, id.clone(), caller, self.volume.now()));
        head.extensions.insert(RequestId(id));
        let Caller { address, tls, is_local, .. } = caller;
        head.extensions.insert(ClientAddress { address, tls, is_local });
        head.extensions.insert(Arc::clone(&begun));
        let (gateway, audited) = (Arc::clone(&self.gateway), Arc::clone(&self.audited));
        S3Context { request: RequestContext::of(head), begun, gateway, audited }
    }

    async fn handle(&self, mut request: Request<EdgeBody>) -> Answer {
        let begun = request.extensions_mut().remove::<Arc<Begun>>();
        let begun = begun.expect("`begin` has inserted it");
        begun.set_handled();
        let (audited, of_request) = (Arc::clone(&self.audited), Arc::clone(&begun));
        let abandoned = move |served| audited.record_abandoned(&of_request, served);
        request.extensions_mut().insert(Abandoned::new(abandoned));
        add_place(request.extensions_mut());
        let (response, trips) = if let Some(minio_admin) = self.minio_admin(&request) {
            // Its calls run in tasks of their own, whose round trips are not counted.
            (minio_admin.handle(request).await, RoundTrips::default())
        } else {
            volume::count_round_trips(self.gateway.handle(request)).await
        };
        self.answer(response, trips, begun)
    }

    fn refuse(&self, context: &S3Context, refusal: Refusal) -> Answer {
        context.begun.set_handled();
        let fault = fault(refusal);
        let mut response = gateway::refuse(&context.request, &fault);
        let begun = &context.begun;
        let claimed = self.gateway.claimed(&begun.method, &begun.uri, &begun.headers);
        response.extensions_mut().insert(Served { code: Some(fault.code.as_str()), ..claimed });
        self.answer(response, RoundTrips::default(), Arc::clone(begun))
    }

    fn finish(&self, context: &S3Context, response: Response<EdgeBody>) -> Response<EdgeBody> {
        // A health check has no line.
        context.begun.set_handled();
        gateway::finish(&context.request, response)
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

/// The slot of a request at the edge, as its place for the gateway.
struct SlotPlace(GivableSlot);

impl GivePlaceUp for SlotPlace {
    fn without<'a>(&'a self, wait: BoxFuture<'a, ()>) -> BoxFuture<'a, bool> {
        self.0.without(wait).map(|waited: Result<(), SlotLost>| waited.is_ok()).boxed()
    }
}

/// Adds the place of a request to its extensions, from the slot that the edge has put there.
pub(super) fn add_place(extensions: &mut Extensions) {
    if let Some(slot) = extensions.remove::<GivableSlot>() {
        extensions.insert(Place::new(SlotPlace(slot)));
    }
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
