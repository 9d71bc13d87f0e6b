//! Configurations of buckets that are one document: a client stores it, reads it and deletes it.
//!
//! A constant describes each such configuration: its limit, its parser, and the answer while there
//! is none. For example, [`CORS`] parses the document of a PUT, which is then stored as it arrived,
//! and a GET before the first PUT fails with `NoSuchCORSConfiguration`.
//!
//! This module does not know where the documents are stored.

use crate::cors::CorsConfiguration;
use crate::operation::Stub;
use crate::{Code, Fault};

/// A configuration of a bucket that is one document.
#[derive(Clone, Copy, Debug)]
pub struct BucketDocument {
    /// The limit of the document of a PUT, in bytes.
    pub bytes_max: usize,
    /// Parses a document, and returns it as a GET shows it. Fails with the fault of a PUT. Later
    /// releases must parse all documents that this one accepts.
    pub show: fn(&[u8]) -> Result<String, Fault>,
    /// The answer to a GET while the bucket has no such configuration.
    pub absent: Stub,
}

/// The cross-origin rules for browsers.
pub const CORS: BucketDocument = BucketDocument {
    bytes_max: CorsConfiguration::BYTES_MAX,
    show: |document| Ok(CorsConfiguration::parse(document)?.to_xml()),
    absent: Stub::Absent(Code::NoSuchCORSConfiguration),
};
