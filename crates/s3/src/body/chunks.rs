//! The `aws-chunked` framing: chunks, then an optional trailer.
//!
//! A chunk is `size[;chunk-signature=…]` CR LF, the content, and CR LF. For example,
//! `5\r\nhello\r\n0\r\n\r\n` is the content `hello` without signatures and without a trailer. The
//! decoder has a state for the next expected item, so it refuses an unexpected byte at once.

use bytes::Bytes;

use super::chain::Chain;
use crate::line::Line;
use crate::{Code, Fault};

/// The maximum length in bytes of a chunk's header line, line end included.
pub const CHUNK_HEADER_BYTES_MAX: usize = 1024;

/// The maximum length in bytes of a trailer, that is, of the header lines after the last chunk,
/// line ends included.
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// The maximum number of lines of a trailer, that is, of header lines after the last chunk.
pub const TRAILER_LINES_MAX: usize = 100;

/// The minimum size in bytes of a signed chunk, except the last chunk with content.
pub const SIGNED_CHUNK_BYTES_MIN: u64 = 8192;

/// The maximum number of hex digits of a chunk size.
const SIZE_DIGITS_MAX: usize = 16;

/// The number of hex digits of a signature.
const SIGNATURE_DIGITS: usize = 64;

const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// The decoder of a body in `aws-chunked` framing: chunks, then an optional trailer of header
/// lines.
#[derive(Debug)]
pub(super) struct Chunks {
    next: Expected,
    line: Line,
    /// The chain of signatures; present if and only if chunks are signed.
    chain: Option<Chain>,
    /// True if a trailer follows the last chunk.
    has_trailer: bool,
    /// The names of the fields that the trailer must have, without others, as the request head
    /// announced them.
    announced_trailers: Vec<String>,
    /// The number of chunks with content so far.
    count: u64,
    /// The size in bytes of the latest chunk with content, if it was below the minimum. If another
    /// chunk with content follows, the body is refused.
    undersized: Option<u64>,
    trailer: Trailer,
}

/// The item of a body with `aws-chunked` framing that the decoder expects next.
///
/// ```text
/// Header -> Content -> ContentEnd -> Header    a chunk with content
/// Header -> Trailer -> End                     the last chunk, if a trailer follows
/// Header -> Close -> End                       the last chunk, if no trailer follows
/// ```
#[derive(Debug)]
enum Expected {
    /// The decoder expects the header line of a chunk.
    Header,
    /// The decoder expects content of the current chunk.
    Content {
        /// The number of bytes of content that the current chunk still has.
        remaining: u64,
        signature: Option<String>,
    },
    /// The decoder expects the line end (CR LF) after the content of a chunk.
    ContentEnd,
    /// The decoder expects a line of the trailer, that is, of the header lines after the last
    /// chunk.
    Trailer,
    /// The decoder expects the line end (CR LF) after the last chunk of a body without a trailer.
    Close,
    /// The body is complete, so the decoder expects nothing and refuses further bytes.
    End,
}

/// The received part of a trailer, that is, of the header lines after the last chunk.
#[derive(Debug, Default)]
struct Trailer {
    fields: Vec<(String, String)>,
    signature: Option<String>,
    bytes: usize,
    lines: usize,
}

impl Chunks {
    pub(super) fn new(
        chain: Option<Chain>,
        has_trailer: bool,
        announced_trailers: &[String],
    ) -> Chunks {
        Chunks {
            next: Expected::Header,
            line: Line::default(),
            chain,
            has_trailer,
            announced_trailers: announced_trailers.to_vec(),
            count: 0,
            undersized: None,
            trailer: Trailer::default(),
        }
    }

    /// Decodes `input` up to the next piece of content. Returns the piece, which may be empty, or
    /// `None` at the end of `input`.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Fault> {
        if input.is_empty() {
            return Ok(None);
        }
        match &mut self.next {
            Expected::Header => {
                let line =
                    self.line.take(input, CHUNK_HEADER_BYTES_MAX).map_err(|_| incomplete_body())?;
                if let Some(line) = line {
                    self.next = self.after_header(&line)?;
                }
            }
            Expected::Content { remaining, signature } => {
                // The slice shares the memory of the input, so content is never copied.
                let take = usize::try_from(*remaining)
                    .map_or(input.len(), |remaining| remaining.min(input.len()));
                let content = input.split_to(take);
                *remaining -= content.len() as u64;
                if let Some(chain) = &mut self.chain {
                    chain.update(&content);
                }
                if *remaining == 0 {
                    if let Some(chain) = &mut self.chain {
                        // The signature is in the chunk header, but covers the content, so it is
                        // checked at the end of the content. The caller commits nothing before.
                        chain.check_chunk(signature.as_deref().unwrap_or_default())?;
                    }
                    self.next = Expected::ContentEnd;
                }
                return Ok(Some(content));
            }
            Expected::ContentEnd => {
                if self.take_line_end(input)? {
                    self.next = Expected::Header;
                }
            }
            Expected::Trailer => self.take_trailer(input)?,
            Expected::Close => {
                if self.take_line_end(input)? {
                    self.next = Expected::End;
                }
            }
            // S3 has different faults for bytes after a trailer and after a body without one.
            Expected::End if self.has_trailer => {
                return Err(malformed("Bytes follow the trailer."));
            }
            Expected::End => return Err(incomplete_body()),
        }
        Ok(Some(Bytes::new()))
    }

    /// Returns true if the decoder expects the header line of a chunk next.
    pub(super) fn is_at_chunk_header(&self) -> bool {
        matches!(self.next, Expected::Header)
    }

    /// Returns the bytes of content that the current chunk still has.
    pub(super) fn chunk_remaining(&self) -> u64 {
        match self.next {
            Expected::Content { remaining, .. } => remaining,
            Expected::Header
            | Expected::ContentEnd
            | Expected::Trailer
            | Expected::Close
            | Expected::End => 0,
        }
    }

    /// Returns the trailer of a complete body. Fails with `IncompleteBody` if the body is not
    /// complete.
    pub(super) fn finish(self) -> Result<Vec<(String, String)>, Fault> {
        match self.next {
            Expected::End => Ok(self.trailer.fields),
            Expected::Header
            | Expected::Content { .. }
            | Expected::ContentEnd
            | Expected::Trailer
            | Expected::Close => Err(incomplete_body()),
        }
    }

    /// Parses a chunk header and returns the next expected item.
    fn after_header(&mut self, line: &[u8]) -> Result<Expected, Fault> {
        let (size, signature) =
            parse_header(line, self.chain.is_some()).ok_or_else(incomplete_body)?;
        // S3 reports a line that was cut as an incomplete body, not as a wrong signature.
        signature.as_deref().map(check_signature_length).transpose()?;
        if size == 0 {
            if let Some(chain) = &mut self.chain {
                chain.check_last_chunk(signature.as_deref().unwrap_or_default())?;
            }
            return Ok(if self.has_trailer { Expected::Trailer } else { Expected::Close });
        }
        self.count += 1;
        // Only when another chunk with content begins is it known that the undersized one was not
        // the last.
        if self.chain.is_some()
            && let Some(bytes) = self.undersized
        {
            return Err(Fault::new(Code::InvalidChunkSizeError)
                .with("Chunk", self.count.to_string())
                .with("BadChunkSize", bytes.to_string()));
        }
        self.undersized = (size < SIGNED_CHUNK_BYTES_MIN).then_some(size);
        Ok(Expected::Content { remaining: size, signature })
    }

    /// Takes the bytes of a line end (CR LF) from `input`. Returns true if the line end is
    /// complete, and false if more input is needed.
    fn take_line_end(&mut self, input: &mut Bytes) -> Result<bool, Fault> {
        match self.line.take(input, b"\r\n".len()) {
            Ok(Some(line)) if line.is_empty() => Ok(true),
            Ok(None) => Ok(false),
            Ok(Some(_)) | Err(_) => Err(incomplete_body()),
        }
    }

    /// Takes the next line of the trailer.
    fn take_trailer(&mut self, input: &mut Bytes) -> Result<(), Fault> {
        // The limit applies to the whole trailer, so each line may use only the rest.
        let remaining = TRAILER_BYTES_MAX.saturating_sub(self.trailer.bytes);
        let line =
            self.line.take(input, remaining).map_err(|_| malformed("The trailer is too long."))?;
        let Some(line) = line else { return Ok(()) };
        self.trailer.bytes += line.len() + b"\r\n".len();
        if line.is_empty() {
            self.check_trailer()?;
            self.next = Expected::End;
            return Ok(());
        }
        self.trailer.lines += 1;
        if self.trailer.lines > TRAILER_LINES_MAX {
            return Err(malformed("The trailer has too many lines."));
        }
        // Some clients end a line with LF and then with CR LF.
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if line.contains(&b'\r') {
            return Err(incomplete_body());
        }
        let has_all_fields = self.trailer.fields.len() >= self.announced_trailers.len().max(1);
        self.trailer.add(line, self.chain.is_some(), has_all_fields)
    }

    /// Checks that the trailer has exactly the announced names, and verifies its signature if the
    /// chunks are signed.
    fn check_trailer(&mut self) -> Result<(), Fault> {
        let Trailer { fields, signature, .. } = &self.trailer;
        let mut sent: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let mut announced: Vec<&str> = self.announced_trailers.iter().map(String::as_str).collect();
        // The order of the names does not matter, but each must occur exactly once.
        sent.sort_unstable();
        announced.sort_unstable();
        if sent != announced {
            return Err(malformed("The trailer names differ from those in x-amz-trailer."));
        }
        let Some(chain) = &mut self.chain else { return Ok(()) };
        let Some(signature) = signature else {
            return Err(malformed("The trailer has no signature."));
        };
        // The signature covers the names in lower case and the trimmed values, one line each.
        let mut signed = String::new();
        for (name, value) in fields {
            signed.push_str(name);
            signed.push(':');
            signed.push_str(value);
            signed.push('\n');
        }
        chain.check_trailer(&signed, signature)
    }
}

impl Trailer {
    /// Adds a line `name:value` to the trailer. `has_all_fields` is true if all announced names
    /// have arrived; then only the signature may follow.
    fn add(&mut self, line: &[u8], is_signed: bool, has_all_fields: bool) -> Result<(), Fault> {
        let line =
            std::str::from_utf8(line).map_err(|_| malformed("The trailer is not UTF-8 text."))?;
        let (name, value) =
            line.split_once(':').ok_or_else(|| malformed("A trailer line has no colon."))?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(malformed("A trailer name is invalid."));
        }
        if value.chars().any(char::is_control) {
            return Err(malformed("A trailer value has control characters."));
        }
        if self.signature.is_some() {
            return Err(malformed("A trailer line follows the trailer signature."));
        }
        if name == TRAILER_SIGNATURE && is_signed {
            check_signature_length(value)?;
            self.signature = Some(value.to_owned());
        } else if is_signed && has_all_fields {
            return Err(incomplete_body());
        } else {
            self.fields.push((name, value.to_owned()));
        }
        Ok(())
    }
}

/// Splits the header line of a chunk into the size of its content in bytes and its signature.
/// Returns `None` if it is malformed.
fn parse_header(line: &[u8], is_signed: bool) -> Option<(u64, Option<String>)> {
    let line = std::str::from_utf8(line).ok()?;
    let (size, signature) = if is_signed {
        let (size, extension) = line.split_once(';')?;
        (size, Some(extension.strip_prefix("chunk-signature=")?.to_owned()))
    } else {
        (line, None)
    };
    // `from_str_radix` also accepts a plus sign.
    let digits = size.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || size.is_empty() || size.len() > SIZE_DIGITS_MAX {
        return None;
    }
    Some((u64::from_str_radix(size, 16).ok()?, signature))
}

/// Checks the length of a signature. A signature of another length is a line that was cut, so the
/// fault is that of an incomplete body.
fn check_signature_length(signature: &str) -> Result<(), Fault> {
    if signature.len() == SIGNATURE_DIGITS { Ok(()) } else { Err(incomplete_body()) }
}

fn incomplete_body() -> Fault {
    Fault::because(Code::IncompleteBody, "The request body terminated unexpectedly")
}

fn malformed(why: &'static str) -> Fault {
    Fault::new(Code::MalformedTrailerError).detail(why)
}
