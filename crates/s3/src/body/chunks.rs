//! The chunked framing of AWS: `size[;chunk-signature=…]`, content, and so on; then a trailer.
//!
//! The state says what must come next, so an unexpected byte is refused at once.

use bytes::Bytes;

use super::chain::Chain;
use crate::line::Line;
use crate::{Code, Fault};

/// A chunk's header line, its line end included, has at most this many bytes.
pub const CHUNK_HEADER_BYTES_MAX: usize = 1024;

/// A trailer has at most this many bytes, line ends included.
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// A trailer has at most this many lines.
pub const TRAILER_LINES_MAX: usize = 100;

/// A signed chunk other than the last has at least this many bytes.
pub const SIGNED_CHUNK_BYTES_MIN: u64 = 8192;

/// The size of a chunk has at most this many hex digits.
const SIZE_DIGITS_MAX: usize = 16;

/// Hex digits of a signature.
const SIGNATURE_DIGITS: usize = 64;

const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// A body in chunks, as far as it has arrived.
#[derive(Debug)]
pub(super) struct Chunks {
    next: Expected,
    line: Line,
    /// Present if and only if chunks are signed.
    chain: Option<Chain>,
    /// Whether a trailer follows the last chunk.
    has_trailer: bool,
    /// Names that the trailer must have, no more and no fewer.
    announced_trailers: Vec<String>,
    /// Chunks with content so far.
    count: u64,
    /// The bytes of a chunk that was so small that it must have been the last with content.
    undersized: Option<u64>,
    trailer: Trailer,
}

/// What must come next.
#[derive(Debug)]
enum Expected {
    Header,
    Content {
        remaining: u64,
        signature: Option<String>,
    },
    ContentEnd,
    Trailer,
    /// The line end that closes a body without a trailer.
    Close,
    End,
}

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

    /// Decodes `input` up to the next content in it, which may be empty; `None` at the end of
    /// `input`.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Fault> {
        if input.is_empty() {
            return Ok(None);
        }
        match &mut self.next {
            Expected::Header => {
                let line = self.line.take(input, CHUNK_HEADER_BYTES_MAX).map_err(|_| broken())?;
                if let Some(line) = line {
                    self.next = self.after_header(&line)?;
                }
            }
            Expected::Content { remaining, signature } => {
                let take = usize::try_from(*remaining)
                    .map_or(input.len(), |remaining| remaining.min(input.len()));
                let content = input.split_to(take);
                *remaining -= content.len() as u64;
                if let Some(chain) = &mut self.chain {
                    chain.update(&content);
                }
                if *remaining == 0 {
                    if let Some(chain) = &mut self.chain {
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
            Expected::End if self.has_trailer => {
                return Err(malformed("Bytes follow the trailer."));
            }
            Expected::End => return Err(broken()),
        }
        Ok(Some(Bytes::new()))
    }

    /// Whether a chunk has ended, and the next has not begun.
    pub(super) fn is_at_chunk_header(&self) -> bool {
        matches!(self.next, Expected::Header)
    }

    /// Bytes of content that are remaining of the current chunk.
    pub(super) fn chunk_remaining(&self) -> u64 {
        match self.next {
            Expected::Content { remaining, .. } => remaining,
            _ => 0,
        }
    }

    /// The trailer of a body that is whole. Fault: `IncompleteBody` when it is not.
    pub(super) fn finish(self) -> Result<Vec<(String, String)>, Fault> {
        match self.next {
            Expected::End => Ok(self.trailer.fields),
            _ => Err(broken()),
        }
    }

    fn after_header(&mut self, line: &[u8]) -> Result<Expected, Fault> {
        let (size, signature) = parse_header(line, self.chain.is_some()).ok_or_else(broken)?;
        signature.as_deref().map(check_signature_length).transpose()?;
        if size == 0 {
            if let Some(chain) = &mut self.chain {
                chain.check_last_chunk(signature.as_deref().unwrap_or_default())?;
            }
            return Ok(if self.has_trailer { Expected::Trailer } else { Expected::Close });
        }
        self.count += 1;
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

    fn take_line_end(&mut self, input: &mut Bytes) -> Result<bool, Fault> {
        match self.line.take(input, b"\r\n".len()) {
            Ok(Some(line)) if line.is_empty() => Ok(true),
            Ok(None) => Ok(false),
            Ok(Some(_)) | Err(_) => Err(broken()),
        }
    }

    fn take_trailer(&mut self, input: &mut Bytes) -> Result<(), Fault> {
        let remaining = TRAILER_BYTES_MAX.saturating_sub(self.trailer.bytes);
        let line = self.line.take(input, remaining).map_err(|_| malformed("It is too long."))?;
        let Some(line) = line else { return Ok(()) };
        self.trailer.bytes += line.len() + b"\r\n".len();
        if line.is_empty() {
            self.check_trailer()?;
            self.next = Expected::End;
            return Ok(());
        }
        self.trailer.lines += 1;
        if self.trailer.lines > TRAILER_LINES_MAX {
            return Err(malformed("It has too many lines."));
        }
        // Some clients end a line with LF, and then once more with CR LF.
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if line.contains(&b'\r') {
            return Err(broken());
        }
        let has_all_fields = self.trailer.fields.len() >= self.announced_trailers.len().max(1);
        self.trailer.add(line, self.chain.is_some(), has_all_fields)
    }

    /// The trailer has exactly the names announced, and is signed if the chunks are.
    fn check_trailer(&mut self) -> Result<(), Fault> {
        let Trailer { fields, signature, .. } = &self.trailer;
        let mut sent: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let mut announced: Vec<&str> = self.announced_trailers.iter().map(String::as_str).collect();
        sent.sort_unstable();
        announced.sort_unstable();
        if sent != announced {
            return Err(malformed("Its names are not those in x-amz-trailer."));
        }
        let Some(chain) = &mut self.chain else { return Ok(()) };
        let Some(signature) = signature else { return Err(malformed("It has no signature.")) };
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
    /// `has_all_fields` says that all names that were announced have come. Then only the signature can
    /// follow, if there is one.
    fn add(&mut self, line: &[u8], is_signed: bool, has_all_fields: bool) -> Result<(), Fault> {
        let line = std::str::from_utf8(line).map_err(|_| malformed("It is not UTF-8 text."))?;
        let (name, value) =
            line.split_once(':').ok_or_else(|| malformed("A line lacks a colon."))?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(malformed("A name in it is not one."));
        }
        if value.chars().any(char::is_control) {
            return Err(malformed("A value in it has control characters."));
        }
        if self.signature.is_some() {
            return Err(malformed("A line follows its signature."));
        }
        if name == TRAILER_SIGNATURE && is_signed {
            check_signature_length(value)?;
            self.signature = Some(value.to_owned());
        } else if is_signed && has_all_fields {
            return Err(broken());
        } else {
            self.fields.push((name, value.to_owned()));
        }
        Ok(())
    }
}

/// Splits a chunk's header into size and signature.
fn parse_header(line: &[u8], is_signed: bool) -> Option<(u64, Option<String>)> {
    let line = std::str::from_utf8(line).ok()?;
    let (size, signature) = if is_signed {
        let (size, extension) = line.split_once(';')?;
        (size, Some(extension.strip_prefix("chunk-signature=")?.to_owned()))
    } else {
        (line, None)
    };
    let digits = size.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || size.is_empty() || size.len() > SIZE_DIGITS_MAX {
        return None;
    }
    Some((u64::from_str_radix(size, 16).ok()?, signature))
}

/// What has not the length of a signature is none, but a line that lacks its end.
fn check_signature_length(signature: &str) -> Result<(), Fault> {
    if signature.len() == SIGNATURE_DIGITS { Ok(()) } else { Err(broken()) }
}

fn broken() -> Fault {
    Fault::because(Code::IncompleteBody, "The request body terminated unexpectedly")
}

fn malformed(why: &'static str) -> Fault {
    Fault::new(Code::MalformedTrailerError).detail(why)
}
