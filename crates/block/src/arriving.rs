//! Sealed bytes as a store gives them, piece by piece.

use async_trait::async_trait;
use bytes::Bytes;

use crate::BlockError;

/// Sealed bytes on their way from a store.
#[async_trait]
pub trait Arriving: Send {
    /// The next bytes of the range, at least one; `None` after the last.
    ///
    /// # Errors
    /// As [`BlockStore::get`](crate::BlockStore::get) has them. Nothing can be asked for after an error or the end.
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError>;
}

/// Bytes that came at once.
pub(crate) struct AtOnce(pub(crate) Option<Bytes>);

#[async_trait]
impl Arriving for AtOnce {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()))
    }
}
