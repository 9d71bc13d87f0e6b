//! Decodes bodies as they arrive: bytes go in, slices of them come out, and nothing is copied.
//!
//! One decoder serves all payload modes. It keeps no content, only the beginning of a line, so its
//! memory is bounded by the longest line, however large chunks are. The content that it passes on
//! is not verified yet: only [`BodyDecoder::finish`] says that length, framing and signatures were
//! right, and nothing may be committed before.
//!
//! Checksums are verified elsewhere. HTTP's own trailers do not come here.

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

/// The largest body of `PutObject` and `UploadPart`: 5 GiB of content.
pub const UPLOAD_BYTES_MAX: u64 = 5 << 30;

/// Bytes that a chunk may go beyond the announced content until its end is looked at. They are
/// dropped.
const EXCESS_BYTES_MAX: u64 = 1024;

/// What a request's head says about the length and the trailer of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyHead {
    /// Bytes on the wire, framing included.
    content_length: Option<u64>,
    /// Bytes of content, in chunked modes.
    decoded_length: Option<u64>,
    /// Whether the transport marks the end of a body whose length was not sent.
    self_delimited: bool,
    /// The names in `x-amz-trailer`, in lower case.
    trailers: Vec<String>,
}

impl BodyHead {
    /// Reads `Content-Length`, `Transfer-Encoding`, `x-amz-decoded-content-length` and
    /// `x-amz-trailer`.
    ///
    /// Faults: `InvalidArgument` for a length that is no number; `InvalidRequest` for more than
    /// one trailer, since a trailer's only use is the one checksum of a body.
    pub fn parse(version: Version, headers: &HeaderMap) -> Result<BodyHead, Fault> {
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
            // What is no length says as little as nothing.
            decoded_length: length(headers, "x-amz-decoded-content-length").unwrap_or_default(),
            self_delimited: !http1 || headers.contains_key("transfer-encoding"),
            trailers,
        })
    }

    /// Requires that the request states a length or frames its body, as uploads must.
    ///
    /// Fault: `MissingContentLength`.
    pub fn require_length(&self) -> Result<(), Fault> {
        if self.content_length.is_none() && !self.self_delimited {
            return Err(Code::MissingContentLength.into());
        }
        Ok(())
    }

    /// The names announced in `x-amz-trailer`, in lower case.
    pub fn trailers(&self) -> &[String] {
        &self.trailers
    }

    /// How many bytes of content the body must have; `None` if the head does not say.
    fn content_bytes(&self, mode: PayloadMode) -> Result<Option<u64>, Fault> {
        if mode.is_chunked() {
            return self.decoded_length.map(Some).ok_or_else(|| {
                Fault::new(Code::MissingContentLength)
                    .detail("It must provide x-amz-decoded-content-length, too.")
            });
        }
        match self.content_length {
            Some(bytes) => Ok(Some(bytes)),
            None if self.self_delimited => Ok(None),
            None => Ok(Some(0)),
        }
    }
}

/// What followed a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    fields: Vec<(String, String)>,
    content_bytes: u64,
}

impl Trailers {
    /// The value of a trailer. Names are in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// How many bytes of content the body had.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }
}

/// Decodes one body.
#[derive(Debug)]
pub struct BodyDecoder {
    framing: Framing,
    /// Bytes of content that the head announced.
    expected: Option<u64>,
    /// Bytes of content passed on.
    received: u64,
    bytes_max: u64,
    /// The first fault; after it nothing more is decoded.
    broken: Option<Fault>,
}

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
    /// A decoder for the body of a request whose sender is known.
    ///
    /// Faults: `MissingContentLength` when a chunked body does not say how much it decodes to;
    /// `EntityTooLarge` for more than `bytes_max` bytes of content; `InvalidRequest` for a
    /// trailer announced where none can follow.
    pub fn new(verified: &Verified, head: &BodyHead, bytes_max: u64) -> Result<BodyDecoder, Fault> {
        let mode = verified.payload();
        let expected = head.content_bytes(mode)?;
        check_size(expected.unwrap_or(0), bytes_max)?;
        let framing = match mode {
            PayloadMode::Hashed(_) | PayloadMode::Unsigned => Framing::Plain,
            PayloadMode::SignedChunks { trailer } => {
                // `verify` returns a seed with this mode, so a missing one is a mistake of ours.
                let seed = verified.seed().ok_or(Code::InternalError)?;
                Framing::chunked(Some(Chain::new(seed)), trailer, head)
            }
            PayloadMode::UnsignedTrailer => Framing::chunked(None, true, head),
        };
        let takes_trailer = matches!(
            mode,
            PayloadMode::SignedChunks { trailer: true } | PayloadMode::UnsignedTrailer
        );
        if !takes_trailer && !head.trailers.is_empty() {
            let why = "x-amz-trailer announces a trailer that this kind of body cannot have.";
            return Err(Fault::because(Code::InvalidRequest, why));
        }
        Ok(BodyDecoder { framing, expected, received: 0, bytes_max, broken: None })
    }

    /// How many bytes of content will come, when that is known.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// How many bytes of content came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Takes bytes as they arrived, and appends the content among them to `out`.
    ///
    /// Faults: `IncompleteBody` for wrong lengths and broken framing, `InvalidChunkSizeError`,
    /// `SignatureDoesNotMatch`, `MalformedTrailerError`, `EntityTooLarge`. The first one is final.
    pub fn push(&mut self, input: Bytes, out: &mut Vec<Bytes>) -> Result<(), Fault> {
        if let Some(fault) = &self.broken {
            return Err(fault.clone());
        }
        let outcome = self.decode(input, out);
        if let Err(fault) = &outcome {
            self.broken = Some(fault.clone());
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
                    // A chunk that announces far too much is refused before its bytes arrive. One
                    // that runs over by little has perhaps only a wrong size, which shows at its
                    // end.
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

    /// Ends the body, and verifies that it is complete.
    ///
    /// Faults: `IncompleteBody` when it is not, and whatever `push` found.
    pub fn finish(self) -> Result<Trailers, Fault> {
        if let Some(fault) = self.broken {
            return Err(fault);
        }
        let fields = match self.framing {
            Framing::Plain => Vec::new(),
            Framing::Chunked(chunks) => chunks.finish()?,
        };
        if self.expected.is_some_and(|expected| expected != self.received) {
            return Err(Code::IncompleteBody.into());
        }
        Ok(Trailers { fields, content_bytes: self.received })
    }
}

/// Counts content and passes it on.
fn accept(
    received: &mut u64,
    expected: Option<u64>,
    bytes_max: u64,
    content: Bytes,
    out: &mut Vec<Bytes>,
) -> Result<(), Fault> {
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

/// A length in decimal digits, and nothing else.
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
