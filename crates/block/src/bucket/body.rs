//! A range of an object as it arrives over its connection.
//!
//! The connection is read only when the reader asks for more. So bytes that a slow reader has not
//! taken wait in the buffers of both systems, which slows the bucket down. For example, a client
//! that stops in the middle of a download holds some 100 KiB, not the object. A connection is
//! reused only if its response was read to the end; otherwise it is closed.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::bare::Zipper;
use super::fault::Doing;
use super::objects::IncomingObject;
use crate::{BlockError, BlockErrorKind, ByteSource};

/// The body of a response that is being read.
pub(super) struct Body {
    doing: Doing,
    /// The response; `None` after its end or an error.
    found: Option<IncomingObject>,
    /// The most bytes that may still arrive.
    left: u64,
    /// True if the response announced exactly these bytes.
    announced: bool,
    /// The timeout of the next piece.
    timeout: Duration,
}

impl Body {
    /// Creates the body of a response that may have at most `most` bytes.
    ///
    /// # Errors
    /// Fails with `Unavailable` if the response announces more.
    pub(super) fn new(
        found: IncomingObject,
        most: u64,
        timeout: Duration,
        doing: Doing,
    ) -> Result<Body, BlockError> {
        let announced = found.announced();
        if announced.is_some_and(|announced| announced > most) {
            let error = format!("the response has more than the {most} bytes that were requested");
            return Err(BlockError::with_cause(BlockErrorKind::Unavailable, doing, error));
        }
        let left = announced.unwrap_or(most);
        Ok(Body { doing, found: Some(found), left, announced: announced.is_some(), timeout })
    }

    fn failed(&self, why: String) -> BlockError {
        BlockError::with_cause(BlockErrorKind::Unavailable, self.doing, why)
    }
}

#[async_trait]
impl ByteSource for Body {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        // Taken out for the time of the call: after an error or a dropped call the connection is
        // closed.
        let Some(mut found) = self.found.take() else { return Ok(None) };
        match tokio::time::timeout(self.timeout, found.piece()).await {
            Ok(Ok(Some(piece))) => match self.left.checked_sub(piece.len() as u64) {
                Some(left) => {
                    self.left = left;
                    self.found = Some(found);
                    Ok(Some(piece))
                }
                None => Err(self.failed("more bytes arrived than were requested".to_owned())),
            },
            // A connection that was closed early must not look like the end of the object.
            Ok(Ok(None)) if self.announced && self.left > 0 => {
                Err(self.failed(format!("the last {} bytes did not arrive", self.left)))
            }
            Ok(Ok(None)) => {
                // Only a response that was read to its end returns its connection to the pool.
                found.end().await;
                Ok(None)
            }
            Ok(Err(error)) => Err(self.failed(error.to_string())),
            Err(_) => Err(self.failed(format!("nothing arrived within {:?}", self.timeout))),
        }
    }
}

/// The sealed bytes of a bare block (its object is its content alone) as they arrive: content from
/// the bucket, combined with the checksums.
pub(super) struct Zipped {
    body: Body,
    zipper: Zipper,
    ready: VecDeque<Bytes>,
}

impl Zipped {
    /// Creates the stream of sealed bytes of a bare block from the body of a response and a zipper,
    /// which adds the checksums.
    pub(super) fn new(body: Body, zipper: Zipper) -> Zipped {
        Zipped { body, zipper, ready: VecDeque::new() }
    }
}

#[async_trait]
impl ByteSource for Zipped {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        while self.ready.is_empty() {
            let Some(frame) = self.body.next().await? else { return Ok(None) };
            self.zipper.push(frame, |bytes| self.ready.push_back(bytes));
        }
        Ok(self.ready.pop_front())
    }

    fn arrived(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }
}
