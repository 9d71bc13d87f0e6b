//! Carries out S3 requests on a volume: buckets, keys, multipart uploads, conditions, access.
//!
//! `s3` knows the protocol, and `volume` knows files and blocks. This crate translates between the
//! two. It knows no socket, no TLS and no configuration file.
//!
//! Each request passes one function, [`Gateway::handle`]. It parses the request once, verifies the
//! signature, and compares the permissions that the request needs with those of the sender. Only
//! then does an operation look up objects for the request.
//!
//! For example, a GET of a missing key by a client without `s3:ListBucket` gets `AccessDenied`, so
//! a client cannot probe for keys.
//!
//! - `identity`, a crate below this one, authenticates senders and decides about their permissions.
//! - `operations` has one module for each kind of S3 operation.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod bounded_work;
mod browser;
mod call;
mod documents;
mod encryption;
mod finish;
mod form;
mod gateway;
mod holder;
mod http;
mod log_object;
mod operations;
mod place;
mod quota;
mod receive;
mod response;
mod sending;
mod settings;
mod summing;
mod translate;
mod unknown_senders;

pub use crate::finish::{finish, refuse};
pub use crate::gateway::Gateway;
pub use crate::http::{
    Abandoned, BoxError, DeletedKey, DeletedKeys, ExpectedBucket, HttpBody, InMemory,
    RequestContext, RequestId, Served,
};
pub use crate::log_object::{BucketLines, LogError};
pub use crate::place::{GivePlaceUp, Place};
pub use crate::settings::{BODY_BYTES_PER_SECOND_MIN, DOCUMENT_BYTES_MAX, Settings};
