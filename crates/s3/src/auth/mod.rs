//! Authentication: who has sent a request.
//!
//! [`Credentials`] are what a request carries: one of four kinds, decided once, before any access
//! key is looked up. [`Credentials::verify`] is the only way to a [`Verified`], and a body is
//! decoded only for a [`Verified`]. So no content is reached without a valid signature, unless the
//! request is anonymous. A form carries its [`FormCredentials`] in its body, and what is verified
//! of it is a [`VerifiedForm`].
//!
//! The arithmetic of signatures is that of `sigv4`. Nothing here knows who may do what, where keys
//! are stored, or what time it is.

mod canonical;
mod credentials;
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
