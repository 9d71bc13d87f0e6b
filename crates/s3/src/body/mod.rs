//! Decodes request bodies as they arrive, without copying content.
//!
//! One decoder serves all payload modes. It passes content on as slices of the input and buffers
//! only the beginning of a line, so the longest line bounds its memory, not the chunk size.
//!
//! Invariant: content that the decoder has passed on is not verified yet. Only
//! [`BodyDecoder::finish`] confirms length, framing and signatures, and the caller must not commit
//! before. For example, a writer stages the pieces of an upload while they arrive, and publishes
//! the object after `finish`.
//!
//! `checksum` verifies checksums. The trailers of HTTP itself are not part of the decoded bytes.

mod chain;
mod chunks;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{HeaderMap, Version};

use crate::auth::{PayloadMode, Verified};
use crate::{Code, Fault};

use chain::Chain;
use chunks::Chunks;
pub use chunks::{
    CHUNK_HEADER_BYTES_MAX, SIGNED_CHUNK_BYTES_MIN, TRAILER_BYTES_MAX, TRAILER_LINES_MAX,
};

/// The maximum content in bytes of a `PutObject` or `UploadPart`: 5 GiB.
pub const UPLOAD_BYTES_MAX: u64 = 5 << 30;

/// The number of bytes by which a chunk may exceed the announced content before it is refused. The
/// decoder drops these bytes and refuses the body at the end of the chunk.
const EXCESS_BYTES_MAX: u64 = 1024;

/// The length of a request body and the fields of its trailer (header lines after the last chunk),
/// as the request head announces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyHead {
    /// The number of bytes on the wire, framing included; `None` if the head does not announce it.
    content_length: Option<u64>,
    /// The number of bytes of content in a body with `aws-chunked` framing; `None` if the head does
    /// not announce it.
    decoded_length: Option<u64>,
    /// True if HTTP itself marks the end of a body without a length, as with `Transfer-Encoding:
    /// chunked` or HTTP/2.
    self_delimited: bool,
    /// The names of the trailer fields in `x-amz-trailer`, in lower case.
    trailers: Vec<String>,
}

impl BodyHead {
    /// Parses `Content-Length`, `Transfer-Encoding`, `x-amz-decoded-content-length` and
    /// `x-amz-trailer`.
    ///
    /// Fails with `InvalidArgument` for a malformed length, or with `InvalidRequest` for more than
    /// one name in `x-amz-trailer`: a trailer has only the checksum of the body.
    pub fn parse(version: Version, headers: &HeaderMap) -> Result<BodyHead, Fault> {
        // HTTP/2 and HTTP/3 mark the end of each body themselves.
        let http1 = matches!(version, Version::HTTP_09 | Version::HTTP_10 | Version::HTTP_11);
        let mut trailers = Vec::new();
        for value in headers.get_all("x-amz-trailer") {
            let value = value.to_str().map_err(|_| {
                Fault::because(Code::InvalidRequest, "x-amz-trailer is not visible ASCII text.")
            })?;
            let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
            trailers.extend(names.map(str::to_ascii_lowercase));
        }
        if trailers.len() > 1 {
            let why = "Expecting a single x-amz-checksum- header";
            return Err(Fault::because(Code::InvalidRequest, why));
        }
        Ok(BodyHead {
            content_length: length(headers, "content-length")?,
            // A malformed decoded length counts as absent.
            decoded_length: length(headers, "x-amz-decoded-content-length").unwrap_or_default(),
            self_delimited: !http1 || headers.contains_key("transfer-encoding"),
            trailers,
        })
    }

    /// Requires that the request announces a length or frames its body, as uploads must.
    ///
    /// Fails with `MissingContentLength`.
    pub fn require_length(&self) -> Result<(), Fault> {
        if self.content_length.is_none() && !self.self_delimited {
            return Err(Code::MissingContentLength.into());
        }
        Ok(())
    }

    /// Returns the names of the trailer fields in `x-amz-trailer`, in lower case. The trailer
    /// follows the last chunk of the body.
    pub fn trailers(&self) -> &[String] {
        &self.trailers
    }

    /// Returns the number of bytes of content that the head announces; `None` if HTTP marks the end
    /// of the body, so that the number is known only there.
    fn content_bytes(&self, mode: PayloadMode) -> Result<Option<u64>, Fault> {
        if mode.is_chunked() {
            return self.decoded_length.map(Some).ok_or_else(|| {
                Fault::new(Code::MissingContentLength)
                    .detail("The request must also have x-amz-decoded-content-length.")
            });
        }
        match self.content_length {
            Some(bytes) => Ok(Some(bytes)),
            // Without a length the size is known only at the end, so the limit is checked while
            // content arrives.
            None if self.self_delimited => Ok(None),
            None => Ok(Some(0)),
        }
    }
}

/// The result of a completely decoded body: the fields of its trailer (header lines after the last
/// chunk), and the size of its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    fields: Vec<(String, String)>,
    content_bytes: u64,
}

impl Trailers {
    /// Returns the value of a trailer field. `name` is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the number of bytes of content of the body.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }
}

/// The decoder of one request body. It removes the framing, verifies the signatures of chunks, and
/// passes the content on.
#[derive(Debug)]
pub struct BodyDecoder {
    framing: Framing,
    /// The number of bytes of content that the request head announced; `None` if it announced none.
    expected: Option<u64>,
    /// The number of bytes of content that have arrived.
    received: u64,
    /// The maximum number of bytes of content. A body with more is refused.
    bytes_max: u64,
    /// The first fault, if there was one. After it nothing more is decoded, and each call returns
    /// it.
    first_fault: Option<Fault>,
}

/// The framing of a body.
#[derive(Debug)]
enum Framing {
    Plain,
    Chunked(Box<Chunks>),
}

impl Framing {
    fn chunked(chain: Option<Chain>, has_trailer: bool, head: &BodyHead) -> Framing {
        Framing::Chunked(Box::new(Chunks::new(chain, has_trailer, &head.trailers)))
    }
}

impl BodyDecoder {
    /// Returns a decoder for the body of an authenticated request.
    ///
    /// Fails with `MissingContentLength` if a chunked body has no decoded length; `EntityTooLarge`
    /// for more than `bytes_max` bytes of content; `InvalidRequest` for a trailer that this framing
    /// cannot have.
    pub fn new(verified: &Verified, head: &BodyHead, bytes_max: u64) -> Result<BodyDecoder, Fault> {
        let mode = verified.payload();
        let expected = head.content_bytes(mode)?;
        // A body that announces too much is refused before its first byte.
        check_size(expected.unwrap_or(0), bytes_max)?;
        let framing = match mode {
            PayloadMode::Hashed(_) | PayloadMode::Unsigned => Framing::Plain,
            PayloadMode::SignedChunks { trailer } => {
                // `verify` returns a seed with this mode, so a missing seed is a bug of the
                // gateway.
                let seed = verified.seed().ok_or(Code::InternalError)?;
                Framing::chunked(Some(Chain::new(seed)), trailer, head)
            }
            PayloadMode::UnsignedTrailer => Framing::chunked(None, true, head),
        };
        // A trailer that cannot follow would silently drop the checksum that the client announced.
        let takes_trailer = matches!(
            mode,
            PayloadMode::SignedChunks { trailer: true } | PayloadMode::UnsignedTrailer
        );
        if !takes_trailer && !head.trailers.is_empty() {
            let why = "x-amz-trailer announces a trailer that this kind of body cannot have.";
            return Err(Fault::because(Code::InvalidRequest, why));
        }
        Ok(BodyDecoder { framing, expected, received: 0, bytes_max, first_fault: None })
    }

    /// Returns the number of bytes of content that the request head announced; `None` if the number
    /// is known only at the end of the body.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Returns the number of bytes of content, without framing, that have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Decodes bytes as they arrive, and appends their content to `out`.
    ///
    /// Fails with `IncompleteBody` for a wrong length or malformed framing,
    /// `InvalidChunkSizeError`, `SignatureDoesNotMatch`, `MalformedTrailerError` or
    /// `EntityTooLarge`. The first fault is final: each later call returns it again.
    pub fn push(&mut self, input: Bytes, out: &mut Vec<Bytes>) -> Result<(), Fault> {
        if let Some(fault) = &self.first_fault {
            return Err(fault.clone());
        }
        let outcome = self.decode(input, out);
        // The fault is kept, because after it the position in the framing is unknown.
        if let Err(fault) = &outcome {
            self.first_fault = Some(fault.clone());
        }
        outcome
    }

    fn decode(&mut self, mut input: Bytes, out: &mut Vec<Bytes>) -> Result<(), Fault> {
        match &mut self.framing {
            Framing::Plain => accept(&mut self.received, self.expected, self.bytes_max, input, out),
            Framing::Chunked(chunks) => {
                let expected = self.expected.unwrap_or(self.bytes_max);
                while let Some(content) = chunks.next(&mut input)? {
                    self.received = self.received.saturating_add(content.len() as u64);
                    let announced = self.received.saturating_add(chunks.chunk_remaining());
                    let is_over = self.received > expected;
                    // A chunk that announces far more than expected is refused before its content
                    // arrives. A chunk that exceeds the expected content by a few bytes may only
                    // have a wrong size; its line end then shows that the framing is malformed,
                    // which is another fault.
                    if announced > expected.saturating_add(EXCESS_BYTES_MAX)
                        || is_over && chunks.is_at_chunk_header()
                    {
                        return Err(Code::IncompleteBody.into());
                    }
                    if !is_over && !content.is_empty() {
                        out.push(content);
                    }
                }
                Ok(())
            }
        }
    }

    /// Ends the body and checks that it is complete. Returns its trailer. Only after this call may
    /// the caller commit the content.
    ///
    /// Fails with `IncompleteBody` if it is not complete, or with the fault of `push`.
    pub fn finish(self) -> Result<Trailers, Fault> {
        if let Some(fault) = self.first_fault {
            return Err(fault);
        }
        let fields = match self.framing {
            Framing::Plain => Vec::new(),
            Framing::Chunked(chunks) => chunks.finish()?,
        };
        // The framing can be complete although the content is shorter than announced.
        if self.expected.is_some_and(|expected| expected != self.received) {
            return Err(Code::IncompleteBody.into());
        }
        Ok(Trailers { fields, content_bytes: self.received })
    }
}

/// Adds the length of `content`, from a body without framing, to `received`, checks the sum against
/// the announced and the maximum length, and passes the content on.
fn accept(
    received: &mut u64,
    expected: Option<u64>,
    bytes_max: u64,
    content: Bytes,
    out: &mut Vec<Bytes>,
) -> Result<(), Fault> {
    // The content is counted before it is passed on, so that no excess byte reaches the caller.
    *received = received.saturating_add(content.len() as u64);
    if expected.is_some_and(|expected| *received > expected) {
        return Err(Code::IncompleteBody.into());
    }
    check_size(*received, bytes_max)?;
    if !content.is_empty() {
        out.push(content);
    }
    Ok(())
}

fn check_size(bytes: u64, bytes_max: u64) -> Result<(), Fault> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Fault::new(Code::EntityTooLarge)
        .with("ProposedSize", bytes.to_string())
        .with("MaxSizeAllowed", bytes_max.to_string()))
}

/// Parses a length: decimal digits only. Repeated headers must be equal.
fn length(headers: &HeaderMap, name: &'static str) -> Result<Option<u64>, Fault> {
    let mut values = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
    let Some(first) = values.next() else { return Ok(None) };
    let digits = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
    let same = values.all(|value| value == first);
    let text = std::str::from_utf8(first).ok().filter(|_| digits && same);
    text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| {
        Fault::because(Code::InvalidArgument, "A length is not a decimal number.")
            .with("ArgumentName", name)
    })
}
