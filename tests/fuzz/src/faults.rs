//! What a refused client is told: a document that parses, of a bounded size.

use s3::Fault;
use s3::xml::{Element, XmlLimits};

/// What a fault says besides what it repeats of the request, in bytes.
const OWN_BYTES_MAX: usize = 8 << 10;
/// How much longer a byte may be in a document: `&quot;`, for `"`.
const ESCAPE_BYTES: usize = 6;
/// How often a fault may repeat what was sent.
const TIMES: usize = 12;

/// Asserts that the answer to a refused request of so many bytes is one that clients can read.
pub(crate) fn are_told(fault: &Fault, sent_bytes: usize) {
    let document = fault.to_xml("/bucket/key", "id", "host");
    let most = OWN_BYTES_MAX + TIMES * ESCAPE_BYTES * sent_bytes;
    assert!(document.len() <= most, "{} bytes about {sent_bytes}", document.len());
    let limits = XmlLimits { bytes: most, elements: 100 };
    let root = Element::parse(document.as_bytes(), "Error", limits).expect("a fault that parses");
    assert_eq!(root.value("Code").ok().flatten(), Some(fault.code.as_str()));
    assert!(fault.status().as_u16() >= 400 && fault.status().as_u16() != 500, "{fault:?}");
}
