//! An authenticated request.

use sigv4::{CredentialScope, SigningKey};
use time::OffsetDateTime;

use super::kind::AuthKind;
use super::payload::PayloadMode;

/// The verified sender of a request, and the framing of the request body. The sender may be
/// anonymous.
///
/// [`Credentials::verify`](super::Credentials::verify) and
/// [`FormCredentials::verify`](super::FormCredentials::verify) create one, and
/// [`Verified::without_signature`] for a view with another proof of the sender.
#[derive(Clone, Debug)]
pub struct Verified {
    pub(super) access_key: Option<String>,
    pub(super) kind: AuthKind,
    pub(super) payload: PayloadMode,
    pub(super) seed: Option<ChunkSeed>,
    pub(super) hoisted: Vec<(String, String)>,
    pub(super) signed_at: Option<OffsetDateTime>,
}

/// The start of the chain of signatures in a chunked body, in which the signature of each chunk
/// covers the previous one: the signing key, and the signature of the request.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSeed {
    pub(crate) key: SigningKey,
    pub(crate) timestamp: String,
    pub(crate) scope: CredentialScope,
    /// The signature of the request itself, in hexadecimal.
    pub(crate) signature: String,
}

impl Verified {
    /// Returns the facts of a request whose sender a view has authenticated without a signature,
    /// for example by the cookie of a console session. The conditions of policies see a request
    /// that was signed at `now` in its headers, with an unsigned body.
    pub fn without_signature(access_key: impl Into<String>, now: OffsetDateTime) -> Verified {
        Verified {
            access_key: Some(access_key.into()),
            kind: AuthKind::Header,
            payload: PayloadMode::Unsigned,
            seed: None,
            hoisted: Vec::new(),
            signed_at: Some(now),
        }
    }

    /// Returns the access key that signed the request; `None` if it is anonymous.
    pub fn access_key(&self) -> Option<&str> {
        self.access_key.as_deref()
    }

    /// Returns the kind of the credentials, for example a SigV4 header or a presigned URL.
    pub fn kind(&self) -> AuthKind {
        self.kind
    }

    /// Returns the time of signing; `None` if the request is anonymous or its signature has no
    /// time.
    pub fn signed_at(&self) -> Option<OffsetDateTime> {
        self.signed_at
    }

    /// Returns the framing of the request body, and the method that verifies its content.
    pub fn payload(&self) -> PayloadMode {
        self.payload
    }

    /// Returns the signed `x-amz-*` query parameters of a presigned URL, which count as headers:
    /// lower-case names, decoded values.
    pub fn hoisted(&self) -> &[(String, String)] {
        &self.hoisted
    }

    pub(crate) fn seed(&self) -> Option<&ChunkSeed> {
        self.seed.as_ref()
    }
}
