//! Who sends a request, and the proof of it.
//!
//! [`Credentials`] says what proof a request carries: one of four kinds, decided once, before any
//! key is looked up. [`Credentials::verify`] is the only way to a [`Verified`], and a body is only
//! decoded for a [`Verified`]: no path around the signature reaches a byte of content.
//!
//! Nothing here knows who may do what, where keys are kept, or what time it is.

mod canonical;
mod credentials;
mod head;
mod header;
mod kind;
mod payload;
mod presigned;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod unknown_key;
mod uri;
mod v2;
mod v4;
mod verified;

pub use credentials::Credentials;
pub use head::RequestHead;
pub use header::HeaderSignature;
pub use kind::AuthKind;
pub use payload::PayloadMode;
pub use presigned::{PRESIGN_SECONDS_MAX, PresignedV4};
pub use terms::{SKEW_SECONDS_MAX, Terms};
pub use v2::PresignedV2;
pub(crate) use verified::ChunkSeed;
pub use verified::Verified;
