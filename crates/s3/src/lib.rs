//! The S3 protocol as values: signatures, requests, XML, error codes, checksums, bodies.
//!
//! Everything here is pure: bytes and the time come in as arguments, decisions go out as values.
//! There is no socket, no clock, no runtime and no storage. What the network sends is parsed once,
//! into types that cannot have illegal values. Nothing it sends can cause a panic.

pub mod acl;
pub mod auth;
pub mod body;
pub mod checksum;
pub mod conditions;
pub mod cors;
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
