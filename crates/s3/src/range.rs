//! Byte ranges: `Range` headers, and the bytes that they select in an object of a given size.
//!
//! For example, `bytes=5-20` selects the last 5 bytes of an object of 10 bytes.

use http::header::CONTENT_RANGE;

use crate::{Code, Fault};

/// The byte range in a `Range` header. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// `bytes=first-last`: both ends included, `first <= last`.
    Between {
        /// The offset of the first byte.
        first: u64,
        /// The offset of the last byte; it may be past the object's end.
        last: u64,
    },
    /// `bytes=first-`: all bytes from this offset.
    From(u64),
    /// `bytes=-length`: this number of bytes at the end of the object.
    Last(u64),
}

/// The bytes that a range selects in an object of known size: never empty, never past the object's
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub first: u64,
    /// The length in bytes, at least one.
    pub length: u64,
    /// The size of the whole object in bytes.
    pub size: u64,
}

impl Range {
    /// Parses a `Range` header. `None` if it is malformed or has several ranges; then the response
    /// is the whole object. White space is malformed, although the RFC allows it between ranges.
    pub fn parse(header: &str) -> Option<Range> {
        let (unit, range) = header.split_once('=')?;
        // An unknown unit is ignored, as RFC 9110 requires.
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        match range.split_once('-')? {
            ("", length) => Some(Range::Last(number(length)?)),
            (first, "") => Some(Range::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Range::Between { first, last })
            }
        }
    }

    /// Parses `x-amz-copy-source-range`, which must be `bytes=first-last`.
    ///
    /// Fails with `InvalidArgument`.
    pub fn parse_strict(header: &str) -> Result<Range, Fault> {
        let strict = header.strip_prefix("bytes=").and_then(|range| {
            let (first, last) = range.split_once('-')?;
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Range::Between { first, last })
        });
        strict.ok_or_else(|| {
            Fault::because(
                Code::InvalidArgument,
                "The x-amz-copy-source-range value must be of the form bytes=first-last where \
                 first and last are the zero-based offsets of the first and last bytes to copy",
            )
            .with("ArgumentName", "x-amz-copy-source-range")
            .with("ArgumentValue", header)
        })
    }

    /// Returns the bytes that the range selects in an object of `size` bytes, cut at its end.
    /// `None` for the last bytes of an empty object: then the response is the whole, empty object.
    ///
    /// Fails with `InvalidRange` and a `Content-Range` if the range selects no byte.
    pub fn resolve(self, size: u64) -> Result<Option<Span>, Fault> {
        // The last bytes of an empty object are the whole object, so this is not an error.
        if size == 0 && matches!(self, Range::Last(1..)) {
            return Ok(None);
        }
        self.within(size).map(Some)
    }

    fn within(self, size: u64) -> Result<Span, Fault> {
        let span = match self {
            Range::Between { first, last } if first < size => {
                Some((first, last.min(size - 1) - first + 1))
            }
            Range::From(first) if first < size => Some((first, size - first)),
            Range::Last(length) if length > 0 && size > 0 => {
                let length = length.min(size);
                Some((size - length, length))
            }
            Range::Between { .. } | Range::From(_) | Range::Last(_) => None,
        };
        match span {
            Some((first, length)) => Ok(Span { first, length, size }),
            None => Err(Fault::new(Code::InvalidRange)
                .with("RangeRequested", self.to_string())
                .with("ActualObjectSize", size.to_string())
                .with_header(CONTENT_RANGE, &format!("bytes */{size}"))),
        }
    }

    /// Returns the bytes that the range selects in the source of a part copy. Such a range is never
    /// cut.
    ///
    /// Fails with `InvalidArgument` if it begins or ends past the end.
    pub fn resolve_source(self, size: u64) -> Result<Span, Fault> {
        let refused = || {
            let why = format!("Range specified is not valid for source object of size: {size}");
            Fault::because(Code::InvalidArgument, why)
                .with("ArgumentName", "x-amz-copy-source-range")
                .with("ArgumentValue", self.to_string())
        };
        match self {
            // A copied part must have exactly the requested bytes.
            Range::Between { last, .. } if last >= size => Err(refused()),
            Range::Between { .. } | Range::From(_) | Range::Last(_) => {
                self.within(size).map_err(|_| refused())
            }
        }
    }
}

impl Span {
    /// Returns the offset of the last byte.
    pub const fn last(&self) -> u64 {
        // A span has at least one byte and ends within the object, so this does not overflow.
        self.first + self.length.saturating_sub(1)
    }

    /// Returns the value of the response header `Content-Range`: `bytes 0-4/10`.
    pub fn content_range(&self) -> String {
        format!("bytes {}-{}/{}", self.first, self.last(), self.size)
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Range::Between { first, last } => write!(f, "bytes={first}-{last}"),
            Range::From(first) => write!(f, "bytes={first}-"),
            Range::Last(length) => write!(f, "bytes=-{length}"),
        }
    }
}

/// Parses a number that consists of decimal digits only. `u64::from_str` would also accept a plus
/// sign.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
