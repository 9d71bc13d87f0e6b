//! What must hold of any bytes that a stranger sends.
//!
//! Each module is one target: a function that takes bytes, gives them to a parser, and asserts more
//! than that it comes back. Where there is a second way to say what a parser does, such as a decoder
//! that waits for the whole body, the two must agree. `libfuzzer/` feeds these functions with what
//! raises the coverage; `tests/corpus.rs` feeds them with the inputs that are checked in, so that
//! these cannot rot.
//!
//! Inputs are spelt so that people can write them: a request is a request line, headers, an empty
//! line and a body.

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
mod pieces;
mod policy_document;
mod post_policy;
mod records;
mod request;
mod sts_form;
mod tokens;
mod xml;

/// One thing to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its module, of its program and of its folder of inputs.
    pub name: &'static str,
    /// Panics if something does not hold of the bytes.
    pub check: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident)*) => {
        /// All targets, in the order of the alphabet.
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
    policy_document
    post_policy
    records
    request
    sts_form
    tokens
    xml
}

/// Runs the target of this name, which must exist: what a program of libFuzzer is made of.
pub fn check(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").check)(input);
}
