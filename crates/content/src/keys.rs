//! The keys of one content. For example, the parts of an upload with SSE-S3 are written under the
//! ring key that is current when each of them begins.

use std::sync::Arc;

use keyring::ObjectEncryptionKey;
use record::RingNumber;

/// The keys under which a new content is encrypted.
#[derive(Clone, Debug, Default)]
pub struct ContentKeys {
    /// The ring key of blocks and inline bytes; `None` stores them as they are.
    pub ring: Option<RingNumber>,
    /// The key of the object, if a client's key protects it (SSE-C). The writer encrypts the bytes
    /// under it before they enter a block or a record.
    pub object: Option<Arc<ObjectEncryptionKey>>,
}
