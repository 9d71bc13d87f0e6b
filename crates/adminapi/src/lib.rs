//! The administration of a volume over HTTP, as JSON.
//!
//! Clients reach it below `/api/v1` of the console's listener. For example,
//! `GET /api/v1/buckets?limit=10` returns the first ten buckets that the sender may see.
//!
//! - [`Endpoint`] is the table of the API. The router and the document of `OpenAPI` follow from it.
//! - [`AdminApi`] has a function for each resource, which checks the permission of an [`Actor`],
//!   the authenticated sender, and returns a value. [`AdminApi::handle`] is the HTTP interface to
//!   them; the console calls them directly.
//! - Objects and configurations of buckets are read and changed by the gateway of the process, in
//!   the name of the sender: see [`AdminApi::s3`].
//!
//! The invariant: each change passes the same check as a request of an S3 client, or the check of
//! an administrative action. The crate knows no HTML, no socket and no configuration file.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod actor;
mod api;
mod authenticate;
mod body;
mod bucket_json;
mod dispatch;
mod endpoint;
mod error;
pub mod etag;
mod interface;
mod issue;
mod jobs;
mod openapi;
pub mod page;
mod rank;
pub mod resources;
mod routing;
mod s3_call;
mod sealer;
mod served;
mod streams;
#[cfg(test)]
mod world;

pub use actor::Actor;
pub use api::{AdminApi, Parts, ProcessFacts};
pub use authenticate::SERVICE;
pub use endpoint::{Endpoint, EndpointPermission, Output};
pub use error::{ApiError, ErrorDocument};
pub use etag::IfMatch;
pub use interface::BODY_BYTES_MAX;
pub use routing::PREFIX;
pub use s3_call::{S3Call, S3Reply, error_of};
pub use served::{ApiServed, RequestNotes, S3_CALLS_NOTED_MAX, S3Noted, SenderProof};
