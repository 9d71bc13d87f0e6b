//! How the body of a request is framed and verified.

use sigv4::UNSIGNED_PAYLOAD;

use super::kind::AuthKind;
use crate::{Code, Fault};

/// How a body is framed, and what vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// Plain; its SHA-256 was sent before it.
    Hashed([u8; 32]),
    /// Plain; nothing but its length and whatever checksums were sent.
    Unsigned,
    /// Chunks that each carry a signature, with or without a signed trailer.
    SignedChunks {
        /// Whether a trailer follows the last chunk.
        trailer: bool,
    },
    /// Chunks without signatures, then a trailer.
    UnsignedTrailer,
}

impl PayloadMode {
    /// Chooses by the value of `x-amz-content-sha256`, the kind of credentials, and whether the
    /// operation takes streams: never by anything that might not be signed.
    ///
    /// Faults: `InvalidRequest` for a value unknown, missing, or not allowed here;
    /// `NotImplemented` for streams signed with `AWS4-ECDSA-P256-SHA256`.
    pub fn choose(
        content_sha256: Option<&str>,
        kind: AuthKind,
        may_stream: bool,
    ) -> Result<PayloadMode, Fault> {
        let Some(value) = content_sha256 else {
            return match kind {
                AuthKind::Header => {
                    Err(refuse("Missing required header for this request: x-amz-content-sha256"))
                }
                AuthKind::Anonymous | AuthKind::Query | AuthKind::QueryV2 => {
                    Ok(PayloadMode::Unsigned)
                }
            };
        };
        let signed_stream = |trailer| match kind {
            AuthKind::Header if may_stream => Ok(PayloadMode::SignedChunks { trailer }),
            _ => Err(refuse("The request cannot have a body in signed chunks.")),
        };
        match value {
            UNSIGNED_PAYLOAD => Ok(PayloadMode::Unsigned),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => signed_stream(false),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => signed_stream(true),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => match kind {
                AuthKind::Header | AuthKind::Anonymous if may_stream => {
                    Ok(PayloadMode::UnsignedTrailer)
                }
                _ => Err(refuse("The request cannot have a body in chunks with a trailer.")),
            },
            _ if value.starts_with("STREAMING-AWS4-ECDSA-") => match kind {
                AuthKind::Anonymous => Err(refuse("An anonymous body cannot be signed.")),
                _ => Err(Fault::because(Code::NotImplemented, "SigV4a is not implemented.")),
            },
            _ => hash(value).map(PayloadMode::Hashed).ok_or_else(|| {
                refuse(
                    "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, one of the STREAMING values \
                     or a valid sha256 value.",
                )
            }),
        }
    }

    /// Whether the body is cut into chunks.
    pub fn is_chunked(self) -> bool {
        matches!(self, PayloadMode::SignedChunks { .. } | PayloadMode::UnsignedTrailer)
    }
}

fn hash(value: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    hex::decode_to_slice(value, &mut hash).ok()?;
    Some(hash)
}

fn refuse(why: &'static str) -> Fault {
    Fault::because(Code::InvalidRequest, why)
}
