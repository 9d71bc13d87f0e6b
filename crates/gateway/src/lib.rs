//! What each S3 request means on a volume: buckets, keys, multipart uploads, conditions, access.
//!
//! `s3` knows the protocol, `volume` knows files and blocks; this crate translates between the two.
//! It knows no socket, no TLS and no configuration file.
//!
//! Every request passes one function, [`Gateway::handle`]. It parses the request once, verifies its
//! signature, and compares the permissions that the request needs with those of its sender. Only
//! then is anything looked up for the request.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod access;
mod bounded_work;
mod call;
mod documents;
mod finish;
mod form;
mod gateway;
mod holder;
mod http;
mod lifecycle;
mod lifecycle_meters;
mod operations;
mod receive;
mod response;
mod room;
mod rules;
mod sender;
mod sending;
mod settings;
mod summing;
mod translate;

pub use crate::finish::{finish, refuse};
pub use crate::gateway::Gateway;
pub use crate::http::{
    BoxError, ClientAddress, HttpBody, InMemory, RequestContext, RequestId, Served,
};
pub use crate::lifecycle_meters::LifecycleCounters;
pub use crate::settings::{BODY_BYTES_PER_SECOND_MIN, DOCUMENT_BYTES_MAX, Settings};
