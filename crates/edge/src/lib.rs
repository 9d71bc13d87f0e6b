//! The HTTP edge between sockets and a service, such as the S3 gateway.
//!
//! The edge gives each request an id. It answers health checks, refuses requests over a limit
//! before it reads a body, turns a panic of the service into a refusal, and records each request in
//! metrics and the access log. It knows no operation and no error document: a [`Service`] answers
//! the requests, and also makes the responses of refusals. For example, a request while
//! `requests_max` others are in flight waits in a queue, and gets [`Refusal::Busy`] if the queue
//! has not moved after a second.
//!
//! - [`Listener`] accepts connections and passes their requests to the [`Edge`].
//! - [`ConnectionPermits`] and [`HostLimits`] are the limits of connections, [`Hosts`] the table of
//!   the clients that have some. Slots and queues limit the requests in flight.
//! - [`Stall`] and [`Lingering`] limit the time of connections whose clients read nothing, or still
//!   send.
//! - [`Tls`] holds a certificate that can be renewed while connections are served.
//! - [`EdgeMetrics`] counts connections, requests and refusals.
//!
//! A service that answers each request with its path:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use edge::{
//!     AccessFacts, Answer, BodyError, Caller, ConnectionPermits, Edge, EdgeBody, EdgeMetrics,
//!     HostLimits, Hosts, Lingering, Listener, Refusal, ResponseTimeouts, Service,
//! };
//! use http::request::Parts;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tokio_util::sync::CancellationToken;
//!
//! struct Echo;
//!
//! fn answer(text: String) -> Answer {
//!     let body = Full::new(text.into()).map_err(|never| match never {}).boxed_unsync();
//!     Answer { response: Response::new(body), in_memory: true, facts: AccessFacts::default() }
//! }
//!
//! impl Service for Echo {
//!     type Context = ();
//!
//!     fn begin(&self, _head: &mut Parts, _id: String, _caller: Caller) {}
//!
//!     async fn handle(&self, request: Request<EdgeBody>) -> Answer {
//!         answer(request.uri().path().to_owned())
//!     }
//!
//!     fn refuse(&self, _context: &(), refusal: Refusal) -> Answer {
//!         answer(format!("{refusal:?}"))
//!     }
//!
//!     fn finish(&self, _context: &(), response: Response<EdgeBody>) -> Response<EdgeBody> {
//!         response
//!     }
//!
//!     fn slot_lost() -> BodyError {
//!         "other requests were served first".into()
//!     }
//!
//!     async fn ready(&self) -> bool {
//!         true
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let metrics = Arc::new(EdgeMetrics::new());
//! let edge = Arc::new(Edge::new(Echo, Arc::clone(&metrics), 64, 0));
//! let minute = Duration::from_secs(60);
//! let limits = HostLimits { connections_max: 16, requests_max: 16, proxies: Vec::new() };
//! let listener = Listener {
//!     tls: None,
//!     edge,
//!     permits: ConnectionPermits::new(1024),
//!     hosts: Hosts::new(limits),
//!     metrics,
//!     timeouts: ResponseTimeouts { download: minute, in_memory: minute },
//!     lingering: Lingering::default(),
//! };
//! let socket = edge::bind("127.0.0.1:0").await.unwrap();
//! let stop = CancellationToken::new();
//! # stop.cancel();
//! assert!(listener.serve(socket, stop, minute).await, "all requests have finished");
//! # });
//! ```

mod answers;
mod edge;
mod flow;
mod hosts;
mod ids;
mod linger;
mod listener;
mod metrics;
mod network;
mod permit;
mod queue;
mod response;
mod service;
mod slot;
mod stall;
mod tls;
mod upload;

pub use crate::edge::Edge;
pub use hosts::{HostLimits, Hosts};
pub use linger::Lingering;
pub use listener::{Listener, bind};
pub use metrics::EdgeMetrics;
pub use network::Network;
pub use permit::ConnectionPermits;
pub use service::{
    AccessFacts, Answer, BodyError, Caller, EdgeBody, OnEnd, Refusal, RequestEnd, Service,
};
pub use slot::{GivableSlot, SlotLost};
pub use stall::{ResponseKind, ResponseTimeouts, Stall};
pub use tls::{RELOAD_INTERVAL, Tls, TlsFiles};

#[cfg(test)]
mod tests;
