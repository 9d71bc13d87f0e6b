//! What each S3 request means on a volume: buckets, keys, multipart uploads, conditions, access.
//!
//! The protocol itself is the business of `s3`, files and blocks that of `volume`; this crate says
//! what one means to the other. It knows no socket, no TLS and no configuration file.

pub mod access;
mod http;

pub use crate::http::{Body, BoxError, RequestId, Served};
