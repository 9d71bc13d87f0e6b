//! Errors of writing and reading content.
//!
//! For example, a body for which no memory is granted in time fails with `Overloaded`, and its
//! client may retry.

/// The reason why content could not be written or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ContentError {
    /// The block store cannot be reached, or did not answer in time. Nothing was published; blocks
    /// that were put are deleted. A retry may succeed.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The block store has no space for more blocks. Nothing was published. The operator must free
    /// space.
    #[error("no space for blocks: {0}")]
    Full(String),
    /// The byte budget granted no memory within the deadline, because other requests hold it. A
    /// retry may succeed.
    #[error("overloaded: no memory was granted within the timeout")]
    Overloaded,
    /// The key of the content is refused, for example because it was disabled in its key management
    /// service. An operator must enable it.
    #[error("the key is refused: {0}")]
    KeyRefused(String),
    /// A block, or the record that references it, does not hold the bytes that were written. An
    /// operator must investigate.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The content is encrypted under a key of the client (SSE-C), and the reader or writer has not
    /// given that key.
    #[error("the content is encrypted under a key of the client, which was not given")]
    NeedsCustomerKey,
}

/// The error of a request for memory that was not granted within its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory was granted within the timeout")]
pub struct Overloaded;

impl From<Overloaded> for ContentError {
    fn from(Overloaded: Overloaded) -> ContentError {
        ContentError::Overloaded
    }
}
