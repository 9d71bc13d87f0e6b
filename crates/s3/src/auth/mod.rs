//! Authentication: it verifies who sent a request.
//!
//! Roles: [`Credentials`] are the credentials of a request, one of four kinds, parsed before any
//! access key is looked up. [`Credentials::verify`] checks them and returns a [`Verified`]. A form
//! has its [`FormCredentials`] in the body; their verification returns a [`VerifiedForm`].
//!
//! Invariant: only a [`Verified`] gives access to the decoded body, so the gateway uses no content
//! without a valid signature, unless the request is anonymous. For example, a chunked upload whose
//! second chunk has a wrong signature fails before the object is committed.
//!
//! `sigv4` computes signatures. This module does not know what a sender may do, where access keys
//! are stored, or the current time.

mod canonical;
mod credentials;
mod customer_key;
mod form;
mod head;
mod header;
mod kind;
mod payload;
mod presigned;
mod signature_rules;
#[cfg(test)]
pub(crate) mod tests;
mod token;
mod unknown_key;
mod uri;
mod v2;
mod v4;
mod verified;

pub use credentials::Credentials;
pub use form::{FormCredentials, VerifiedForm};
pub use head::RequestHead;
pub use header::HeaderSignature;
pub use kind::AuthKind;
pub use payload::PayloadMode;
pub use presigned::{PRESIGN_SECONDS_MAX, PresignedV4};
pub use signature_rules::{SKEW_SECONDS_MAX, SignatureRules};
pub use v2::PresignedV2;
pub(crate) use verified::ChunkSeed;
pub use verified::Verified;
