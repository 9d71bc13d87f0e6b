//! A range of an object as it comes over its connection.
//!
//! The connection is read only as the reader asks for more. So what a slow reader has not taken waits in
//! the buffers of both systems and holds the bucket back. A connection is reused only if its answer was
//! read to the end; otherwise it is closed.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::bare::Zipper;
use super::fault::Doing;
use super::objects::IncomingObject;
use crate::{Arriving, BlockError, BlockErrorKind};

/// The rest of an answer.
pub(super) struct Body {
    doing: Doing,
    /// `None` after the end, and after an error.
    found: Option<IncomingObject>,
    /// Bytes that may still come.
    left: u64,
    /// Whether all of those were announced.
    announced: bool,
    /// How long to wait for the next piece.
    patience: Duration,
}

impl Body {
    /// The body of an answer that should have at most `most` bytes.
    ///
    /// # Errors
    /// `Unavailable` if it says that it has more.
    pub(super) fn new(
        found: IncomingObject,
        most: u64,
        patience: Duration,
        doing: Doing,
    ) -> Result<Body, BlockError> {
        let announced = found.announced();
        if announced.is_some_and(|announced| announced > most) {
            let error = format!("more than the {most} bytes asked for came");
            return Err(BlockError::because(BlockErrorKind::Unavailable, doing, error));
        }
        let left = announced.unwrap_or(most);
        Ok(Body { doing, found: Some(found), left, announced: announced.is_some(), patience })
    }

    fn failed(&self, why: String) -> BlockError {
        BlockError::because(BlockErrorKind::Unavailable, self.doing, why)
    }
}

#[async_trait]
impl Arriving for Body {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        let Some(mut found) = self.found.take() else { return Ok(None) };
        match tokio::time::timeout(self.patience, found.piece()).await {
            Ok(Ok(Some(piece))) => match self.left.checked_sub(piece.len() as u64) {
                Some(left) => {
                    self.left = left;
                    self.found = Some(found);
                    Ok(Some(piece))
                }
                None => Err(self.failed("more came than was asked for".to_owned())),
            },
            Ok(Ok(None)) if self.announced && self.left > 0 => {
                Err(self.failed(format!("the last {} bytes did not come", self.left)))
            }
            Ok(Ok(None)) => {
                found.end().await;
                Ok(None)
            }
            Ok(Err(error)) => Err(self.failed(error.to_string())),
            Err(_) => Err(self.failed(format!("nothing came within {:?}", self.patience))),
        }
    }
}

/// Sealed bytes of a bare block on their way.
pub(super) struct Zipped {
    body: Body,
    zipper: Zipper,
    ready: VecDeque<Bytes>,
}

impl Zipped {
    /// What a zipper makes of a body.
    pub(super) fn new(body: Body, zipper: Zipper) -> Zipped {
        Zipped { body, zipper, ready: VecDeque::new() }
    }
}

#[async_trait]
impl Arriving for Zipped {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        while self.ready.is_empty() {
            let Some(frame) = self.body.next().await? else { return Ok(None) };
            self.zipper.push(frame, |bytes| self.ready.push_back(bytes));
        }
        Ok(self.ready.pop_front())
    }
}
