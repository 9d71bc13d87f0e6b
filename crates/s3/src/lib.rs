//! The S3 protocol as values: signatures, requests, XML, error codes, checksums, bodies.
//!
//! Everything here is pure: bytes and the time come in as arguments, decisions go out as values.
//! There is no socket, no clock, no runtime and no storage. What the network sends is parsed once,
//! into types that cannot have illegal values. Nothing it sends can cause a panic.

pub mod auth;
pub mod body;
pub mod checksum;
pub mod conditions;
pub mod etag;
mod fault;
mod fields;
pub mod metadata;
pub mod name;
pub mod operation;
pub mod policy;
mod query;
pub mod range;
pub mod request;
pub mod response;
pub mod tagging;
pub mod xml;

pub use fault::{Code, Fault};
pub use metadata::Metadata;
pub use name::{BucketName, CopySource, KeyPrefix, ObjectKey, VersionId};
pub use operation::{Operation, S3Resource};
pub use policy::Policy;
pub use range::{Range, Span};
pub use tagging::{TagSet, Tagged};
