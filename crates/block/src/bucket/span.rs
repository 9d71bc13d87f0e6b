//! The range of an object that a request asks for, and whether an answer brings it.

use std::fmt;

use http::header::CONTENT_RANGE;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;

/// Bytes of an object, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Where it begins.
    pub(super) first: u64,
    /// The last byte, not before the first.
    pub(super) last: u64,
}

/// What an answer says that it brings: `bytes first-last/whole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Brought {
    span: Span,
    /// Bytes of the object, if the answer tells.
    whole: Option<u64>,
}

impl Span {
    /// Whether an answer brings this range, cut where the object ends.
    ///
    /// # Errors
    /// What it brings instead.
    pub(super) fn check<B: Body>(&self, answer: &Response<B>) -> Result<(), String> {
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            // The whole object has come, which is right only if the range begins where it does.
            return match self.first {
                0 => Ok(()),
                _ => Err(format!("all of the object came instead of {self}")),
            };
        }
        // Some servers leave this out. The length is checked when the body has come.
        let Some(said) = answer.headers().get(CONTENT_RANGE) else {
            return Ok(());
        };
        let brought = said.to_str().ok().and_then(parse);
        let length = answer.body().size_hint().exact();
        match brought {
            Some(brought) if self.is_brought(brought, length) => Ok(()),
            _ => Err(format!("{said:?} came instead of {self}")),
        }
    }

    fn is_brought(self, Brought { span, whole }: Brought, length: Option<u64>) -> bool {
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

/// Bytes of the object of which an answer brings a part, if it tells.
pub(super) fn whole(headers: &HeaderMap) -> Option<u64> {
    parse(headers.get(CONTENT_RANGE)?.to_str().ok()?)?.whole
}

fn parse(text: &str) -> Option<Brought> {
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let span = Span { first: first.parse().ok()?, last: last.parse().ok()? };
    let whole = if whole == "*" { None } else { Some(whole.parse().ok()?) };
    (span.first <= span.last).then_some(Brought { span, whole })
}

#[cfg(test)]
mod tests;
