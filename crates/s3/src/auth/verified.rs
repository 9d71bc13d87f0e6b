//! A request that has been authenticated.

use sigv4::{CredentialScope, SigningKey};
use time::OffsetDateTime;

use super::kind::AuthKind;
use super::payload::PayloadMode;

/// Who has sent a request, and how its body is to be read. The sender may be anonymous.
///
/// Only [`Credentials::verify`](super::Credentials::verify) makes one, and
/// [`FormCredentials::verify`](super::FormCredentials::verify).
#[derive(Clone, Debug)]
pub struct Verified {
    pub(super) access_key: Option<String>,
    pub(super) kind: AuthKind,
    pub(super) payload: PayloadMode,
    pub(super) seed: Option<ChunkSeed>,
    pub(super) hoisted: Vec<(String, String)>,
    pub(super) signed_at: Option<OffsetDateTime>,
}

/// What the chain of chunk signatures begins with.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSeed {
    pub(crate) key: SigningKey,
    pub(crate) timestamp: String,
    pub(crate) scope: CredentialScope,
    /// The request's own signature, in hex.
    pub(crate) signature: String,
}

impl Verified {
    /// The access key that signed the request; `None` if it is anonymous.
    pub fn access_key(&self) -> Option<&str> {
        self.access_key.as_deref()
    }

    /// How it was signed.
    pub fn kind(&self) -> AuthKind {
        self.kind
    }

    /// When it was signed, as it says; nothing if it is anonymous, or does not say.
    pub fn signed_at(&self) -> Option<OffsetDateTime> {
        self.signed_at
    }

    /// How its body is framed.
    pub fn payload(&self) -> PayloadMode {
        self.payload
    }

    /// The signed `x-amz-*` query parameters of a presigned URL, which count as headers.
    /// Names are in lower case, values decoded.
    pub fn hoisted(&self) -> &[(String, String)] {
        &self.hoisted
    }

    pub(crate) fn seed(&self) -> Option<&ChunkSeed> {
        self.seed.as_ref()
    }
}
