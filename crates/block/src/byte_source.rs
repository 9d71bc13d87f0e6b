//! Sealed bytes as a store returns them, piece by piece.
//!
//! For example, the body of a GET response is a stream of frames of some 64 KiB.

use async_trait::async_trait;
use bytes::Bytes;

use crate::BlockError;

/// A stream of a block's sealed bytes (content, header and checksums) from a store.
#[async_trait]
pub trait ByteSource: Send {
    /// Returns the next bytes of the requested range, at least one; `None` after the last.
    ///
    /// # Errors
    /// As [`BlockStore::get`](crate::BlockStore::get). After an error or the end, the stream must
    /// not be used.
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError>;

    /// Returns the next bytes of the requested range, at least one, if they have arrived already.
    /// Returns `None` if the caller has to wait for them with [`next`](ByteSource::next), and at
    /// the end. A source that returns `None` always is slower and correct.
    fn arrived(&mut self) -> Option<Bytes> {
        None
    }
}

/// The bytes of a range that were read at once, as a stream. `None` after they were returned.
pub(crate) struct AtOnce(pub(crate) Option<Bytes>);

#[async_trait]
impl ByteSource for AtOnce {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()))
    }
}
