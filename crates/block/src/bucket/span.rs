//! The requested range of an object, and the check that a response has it.
//!
//! For example, a response `Content-Range: bytes 0-9/100` to a request of `bytes=0-19` is refused,
//! because the object has more bytes than it returned.

use std::fmt;

use http::header::CONTENT_RANGE;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;

/// A range of an object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The position of the first byte.
    pub(super) first: u64,
    /// The position of the last byte, at least `first`.
    pub(super) last: u64,
}

/// The range that a response says it contains: `bytes first-last/whole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReturnedRange {
    span: Span,
    /// The size of the whole object; `None` if the response omits it.
    whole: Option<u64>,
}

impl Span {
    /// Checks that a response contains this range, cut at the object's end.
    ///
    /// # Errors
    /// Fails with a description of the range that it contains.
    pub(super) fn check<B: Body>(&self, answer: &Response<B>) -> Result<(), String> {
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            // The response has the whole object, which is right only if the range begins at its
            // start.
            return match self.first {
                0 => Ok(()),
                _ => Err(format!("the whole object arrived instead of {self}")),
            };
        }
        // Some servers omit the header. The length is checked when the body has arrived.
        let Some(header) = answer.headers().get(CONTENT_RANGE) else {
            return Ok(());
        };
        let returned = header.to_str().ok().and_then(parse);
        let length = answer.body().size_hint().exact();
        match returned {
            Some(returned) if self.is_returned(returned, length) => Ok(()),
            _ => Err(format!("{header:?} arrived instead of {self}")),
        }
    }

    fn is_returned(
        self,
        ReturnedRange { span, whole }: ReturnedRange,
        length: Option<u64>,
    ) -> bool {
        // A range that extends beyond the object is cut at its end.
        let end = whole.and_then(|whole| whole.checked_sub(1)).unwrap_or(span.last);
        let bytes = (span.last - span.first).checked_add(1);
        span.first == self.first
            && span.last == end.min(self.last)
            && (length.is_none() || length == bytes)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes={}-{}", self.first, self.last)
    }
}

/// Returns the size of the whole object from a response with a part of it; `None` if the response
/// omits it.
pub(super) fn whole(headers: &HeaderMap) -> Option<u64> {
    parse(headers.get(CONTENT_RANGE)?.to_str().ok()?)?.whole
}

fn parse(text: &str) -> Option<ReturnedRange> {
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let span = Span { first: first.parse().ok()?, last: last.parse().ok()? };
    let whole = if whole == "*" { None } else { Some(whole.parse().ok()?) };
    (span.first <= span.last).then_some(ReturnedRange { span, whole })
}

#[cfg(test)]
mod tests;
