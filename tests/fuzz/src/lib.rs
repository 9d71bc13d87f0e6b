//! Properties of parsers for arbitrary bytes from clients.
//!
//! Each module is one target: a function that gives bytes to a parser and asserts more than that it
//! returns. Where a second implementation is possible, such as a decoder that reads the whole body
//! at once, both must agree. `libfuzzer/` calls these functions with inputs that increase the
//! coverage. `tests/corpus.rs` calls them with the checked-in inputs, so that these stay valid.
//!
//! Inputs are text that people can write. For example, a request is a request line, headers, an
//! empty line and a body.

mod canonical;
mod chunks_signed;
mod chunks_unsigned;
mod conditions;
mod cors;
mod credentials;
mod documents;
mod faults;
mod form;
mod framing;
mod fuse_request;
mod glob;
mod grants;
mod message;
mod naive_signer;
mod names;
mod peer_bytes;
mod pieces;
mod policy_document;
mod post_policy;
mod records;
mod request;
mod sts_form;
mod tokens;
mod xml;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its module, of its program and of its folder of inputs.
    pub name: &'static str,
    /// Panics if a property does not hold for the bytes.
    pub check: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident)*) => {
        /// All targets in alphabetical order.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), check: $name::check }),*];
    };
}

targets! {
    canonical
    chunks_signed
    chunks_unsigned
    conditions
    cors
    credentials
    documents
    form
    fuse_request
    grants
    names
    peer_bytes
    policy_document
    post_policy
    records
    request
    sts_form
    tokens
    xml
}

/// Runs the target of this name, which must exist. Each program of libFuzzer calls this function.
pub fn check(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").check)(input);
}
