//! What each S3 request means on a volume: buckets, keys, multipart uploads, conditions, access.
//!
//! The protocol itself is the business of `s3`, files and blocks that of `volume`; this crate says
//! what one means to the other. It knows no socket, no TLS and no configuration file.
//!
//! Every request passes one function, [`Gateway::handle`]: it is parsed once, its signature is
//! checked, and what it demands is compared with what its sender may do. Nothing is looked up for
//! it before that.

pub mod access;
mod call;
mod finish;
mod gateway;
mod http;
mod operations;
mod receive;
mod response;
mod sending;
mod settings;
mod translate;

pub use crate::finish::{finish, refuse};
pub use crate::gateway::Gateway;
pub use crate::http::{BoxError, HttpBody, InMemory, RequestContext, RequestId, Served};
pub use crate::settings::{BODY_BYTES_PER_SECOND_MIN, DOCUMENT_BYTES_MAX, Settings};
