//! The framing of a request body, and the method that verifies its content.

use std::borrow::Cow;

use sigv4::UNSIGNED_PAYLOAD;

use super::kind::AuthKind;
use crate::{Code, Fault};

const SIGNED_CHUNKS: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
const SIGNED_CHUNKS_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// The payload mode of a request body: its framing (plain bytes or `aws-chunked`), and the hash or
/// signatures by which its content is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// No framing. The request head has the SHA-256 of the body, which is the value here.
    Hashed([u8; 32]),
    /// No framing. Only the length and optional checksums can be checked.
    Unsigned,
    /// `aws-chunked` framing, in which each chunk has a signature.
    SignedChunks {
        /// True if a signed trailer, that is, header lines with a checksum, follows the last chunk.
        trailer: bool,
    },
    /// `aws-chunked` framing without signatures. A trailer, that is, header lines with a checksum,
    /// follows the last chunk.
    UnsignedTrailer,
}

impl PayloadMode {
    /// Returns the payload mode, that is, framing and verification of the body, for a value of
    /// `x-amz-content-sha256`, a kind of credentials, and an operation. `accepts_aws_chunked` is
    /// true if the operation accepts chunks. The signature covers all of these, so a header that is
    /// not signed cannot change the mode.
    ///
    /// Fails with `InvalidArgument` for an unknown value; `InvalidRequest` for a value that is
    /// missing or not allowed here; `NotImplemented` for chunks that are signed with
    /// `AWS4-ECDSA-P256-SHA256`.
    pub fn choose(
        content_sha256: Option<&str>,
        kind: AuthKind,
        accepts_aws_chunked: bool,
    ) -> Result<PayloadMode, Fault> {
        let Some(value) = content_sha256 else {
            return match kind {
                AuthKind::Header => {
                    Err(refuse("Missing required header for this request: x-amz-content-sha256"))
                }
                AuthKind::Anonymous
                | AuthKind::Query
                | AuthKind::QueryV2
                | AuthKind::Form
                | AuthKind::FormV2 => Ok(PayloadMode::Unsigned),
            };
        };
        // Chunk signatures continue the signature in the `Authorization` header, so presigned URLs
        // and forms cannot have them.
        let signed_stream = |trailer| match kind {
            AuthKind::Header if accepts_aws_chunked => Ok(PayloadMode::SignedChunks { trailer }),
            AuthKind::Anonymous => Err(refuse(UNSIGNED_STREAM)),
            AuthKind::Header
            | AuthKind::Query
            | AuthKind::QueryV2
            | AuthKind::Form
            | AuthKind::FormV2 => Err(refuse(MISPLACED)),
        };
        match value {
            UNSIGNED_PAYLOAD => Ok(PayloadMode::Unsigned),
            SIGNED_CHUNKS => signed_stream(false),
            SIGNED_CHUNKS_TRAILER => signed_stream(true),
            UNSIGNED_TRAILER => match kind {
                AuthKind::Header | AuthKind::Anonymous if accepts_aws_chunked => {
                    Ok(PayloadMode::UnsignedTrailer)
                }
                AuthKind::Header
                | AuthKind::Anonymous
                | AuthKind::Query
                | AuthKind::QueryV2
                | AuthKind::Form
                | AuthKind::FormV2 => Err(refuse(MISPLACED)),
            },
            _ if value.starts_with("STREAMING-AWS4-ECDSA-") => match kind {
                AuthKind::Anonymous => Err(refuse(UNSIGNED_STREAM)),
                AuthKind::Header
                | AuthKind::Query
                | AuthKind::QueryV2
                | AuthKind::Form
                | AuthKind::FormV2 => {
                    Err(Fault::new(Code::NotImplemented).detail("SigV4A is not implemented."))
                }
            },
            _ => hash(value).map(PayloadMode::Hashed).ok_or_else(|| {
                Fault::because(Code::InvalidArgument, UNKNOWN)
                    .with("ArgumentName", "x-amz-content-sha256")
                    .with("ArgumentValue", value)
            }),
        }
    }

    /// Returns the value of `x-amz-content-sha256` for this mode. A request without this header has
    /// an unsigned body.
    pub fn content_sha256(self) -> Cow<'static, str> {
        match self {
            PayloadMode::Hashed(hash) => hex::encode(hash).into(),
            PayloadMode::Unsigned => UNSIGNED_PAYLOAD.into(),
            PayloadMode::SignedChunks { trailer: false } => SIGNED_CHUNKS.into(),
            PayloadMode::SignedChunks { trailer: true } => SIGNED_CHUNKS_TRAILER.into(),
            PayloadMode::UnsignedTrailer => UNSIGNED_TRAILER.into(),
        }
    }

    /// Returns true if the body has `aws-chunked` framing, with or without signatures.
    pub fn is_chunked(self) -> bool {
        matches!(self, PayloadMode::SignedChunks { .. } | PayloadMode::UnsignedTrailer)
    }
}

/// S3's message for `aws-chunked` framing with an operation or a kind of credentials that does not
/// allow it.
const MISPLACED: &str = "The value of x-amz-content-sha256 header is invalid.";

const UNSIGNED_STREAM: &str = "Anonymous requests don't support this x-amz-content-sha256 value. \
                               Please use UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER.";

const UNKNOWN: &str = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, \
                       STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, \
                       STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, \
                       STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, \
                       STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value.";

/// Decodes a SHA-256 in hexadecimal.
fn hash(value: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    hex::decode_to_slice(value, &mut hash).ok()?;
    Some(hash)
}

fn refuse(why: &'static str) -> Fault {
    Fault::because(Code::InvalidRequest, why)
}
