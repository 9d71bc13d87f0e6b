//! Sealed bytes as a store returns them, piece by piece.
//!
//! For example, the body of a GET response is a stream of frames of some 64 KiB.

use async_trait::async_trait;
use bytes::Bytes;

use crate::BlockError;

/// A stream of sealed bytes from a store.
#[async_trait]
pub trait ByteSource: Send {
    /// Returns the next bytes of the range, at least one; `None` after the last.
    ///
    /// # Errors
    /// As [`BlockStore::get`](crate::BlockStore::get). After an error or the end, the stream must
    /// not be used.
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError>;
}

/// Bytes that arrived at once.
pub(crate) struct AtOnce(pub(crate) Option<Bytes>);

#[async_trait]
impl ByteSource for AtOnce {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()))
    }
}
