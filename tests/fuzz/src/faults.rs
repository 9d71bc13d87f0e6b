//! Errors for refused clients: a document that parses, of limited size.

use s3::Fault;
use s3::xml::{Element, XmlLimits};

/// Limit of an error's own text, without the repeated parts of the request, in bytes.
const OWN_BYTES_MAX: usize = 8 << 10;
/// Length of the longest escape of one byte in a document: `&quot;` for `"`.
const ESCAPE_BYTES: usize = 6;
/// Limit of the number of times an error may repeat a part of the request.
const TIMES: usize = 12;

/// Asserts that the error for a refused request of `sent_bytes` bytes is readable for clients.
pub(crate) fn are_told(fault: &Fault, sent_bytes: usize) {
    let document = fault.to_xml("/bucket/key", "id", "host");
    let most = OWN_BYTES_MAX + TIMES * ESCAPE_BYTES * sent_bytes;
    assert!(document.len() <= most, "{} bytes about {sent_bytes}", document.len());
    let limits = XmlLimits { bytes: most, elements: 100 };
    let root = Element::parse(document.as_bytes(), "Error", limits).expect("a fault that parses");
    assert_eq!(root.value("Code").ok().flatten(), Some(fault.code.as_str()));
    assert!(fault.status().as_u16() >= 400 && fault.status().as_u16() != 500, "{fault:?}");
}
