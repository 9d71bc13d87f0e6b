//! A request body of buffers that are in memory already, sent without a copy.
//!
//! For example, the body of a sealed block of 16 MiB has a header and 256 sub-blocks with
//! checksums.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body of any number of pieces, none of them empty.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Bytes>,
    /// The bytes in all of them.
    left: u64,
}

impl Pieces {
    /// The bytes that are still to be sent.
    pub(super) fn length(&self) -> u64 {
        self.left
    }
}

impl FromIterator<Bytes> for Pieces {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Pieces {
        // An empty piece would be a write without bytes.
        let full = |piece: &Bytes| !piece.is_empty();
        let pieces: VecDeque<Bytes> = pieces.into_iter().filter(full).collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Pieces { pieces, left }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests;
