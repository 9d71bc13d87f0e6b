//! The S3 protocol as values: it parses requests, authenticates them, decodes bodies and writes
//! response documents.
//!
//! Each stage of a request has a module. `auth` verifies the signature. `operation` finds the
//! operation in a table and lists the permissions that it needs. `request` parses query, headers
//! and body into one value for the operation. `body` and `checksum` decode and verify the content.
//! `response` writes XML. `fault` holds the S3 error codes. For example, a PUT of
//! `/photos/cat.jpg?tagging` becomes `Operation::PutObjectTagging`, a demand for
//! `s3:PutObjectTagging`, and a `TagSet`.
//!
//! Invariants: all functions are pure. Bytes and the current time are arguments, and results are
//! return values. Network input is parsed once, into types that cannot hold invalid values, and no
//! network input causes a panic.
//!
//! The crate has no socket, clock, runtime or storage. It does not know which access keys exist,
//! which policies allow a request, or how objects are stored.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod acl;
pub mod auth;
pub mod body;
pub mod bucket_document;
pub mod bucket_logging;
pub mod checksum;
pub mod conditions;
pub mod cors;
pub mod encryption;
pub mod etag;
mod fault;
mod fields;
pub mod lifecycle;
mod line;
pub mod metadata;
pub mod name;
pub mod object_lock;
pub mod operation;
pub mod post;
mod query;
pub mod range;
pub mod request;
pub mod response;
pub mod sts;
pub mod tagging;
pub mod versioning;
pub mod xml;

pub use fault::{Code, Fault};
pub use metadata::Metadata;
pub use name::{BucketName, CopySource, KeyPrefix, ObjectKey, VersionId};
pub use operation::{Operation, S3Resource};
pub use range::{Range, Span};
pub use tagging::{TagSet, Tagged};
