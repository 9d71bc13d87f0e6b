//! Writers of content, and the keys under which they encrypt it.
//!
//! The caller names the mode of the content: that of the request, of the bucket, or of the file
//! that is written. The current ring key of this mode is taken before the writer is made, so a
//! rotation takes effect with the next body. For example, a PUT into a bucket with SSE-S3 gets a
//! writer under the current key of the volume.

use content::{ContentKeys, ContentWriter};
use keyring::Protection;
use namespace::FsError;
use record::Encryption;

use super::ObjectMode;
use crate::{Volume, VolumeError};

impl Volume {
    /// Returns the keys under which new content in this mode is encrypted now.
    ///
    /// # Errors
    /// [`VolumeError::Encryption`] if the mode has no usable key; [`FsError::NeedsCustomerKey`] for
    /// a mode that needs a key of the client: see [`Volume::object_keys`].
    pub async fn content_keys(
        &self,
        encryption: Option<&Encryption>,
    ) -> Result<ContentKeys, VolumeError> {
        if matches!(encryption, Some(Encryption::Customer(_))) {
            return Err(FsError::NeedsCustomerKey.into());
        }
        Ok(ContentKeys { ring: self.rings.current(&protection(encryption)).await?, object: None })
    }

    /// As [`Volume::content_keys`], for an object that may have a key of its own.
    ///
    /// # Errors
    /// [`VolumeError::Encryption`] if the mode has no usable ring key.
    pub async fn object_keys(&self, mode: &ObjectMode) -> Result<ContentKeys, VolumeError> {
        let ring = self.rings.current(&protection(mode.encryption())).await?;
        Ok(ContentKeys { ring, object: mode.key().cloned() })
    }

    /// Returns a writer for the body of a new file, under these keys. `None` stores the body as it
    /// is. `size_hint` is the expected size in bytes.
    pub fn writer(&self, keys: Option<&ContentKeys>, size_hint: Option<u64>) -> ContentWriter {
        under(ContentWriter::new(&self.writers, size_hint), keys)
    }

    /// As [`Volume::writer`], for bytes that must be in blocks even if they are few: the parts of
    /// an upload, and runs that are written into a file, maybe between bytes that stay.
    pub fn block_writer(
        &self,
        keys: Option<&ContentKeys>,
        size_hint: Option<u64>,
    ) -> ContentWriter {
        under(ContentWriter::in_blocks(&self.writers, size_hint), keys)
    }
}

fn under(writer: ContentWriter, keys: Option<&ContentKeys>) -> ContentWriter {
    match keys {
        Some(keys) => writer.under(keys),
        None => writer,
    }
}

/// Returns the ring keys that content in this mode needs. Content under a client's key needs none
/// of its own, so it is encrypted as content without a mode.
fn protection(encryption: Option<&Encryption>) -> Protection {
    match encryption {
        None | Some(Encryption::Customer(_)) => Protection::Volume,
        Some(Encryption::S3) => Protection::S3,
        Some(Encryption::Kms(name)) => Protection::Kms(name.clone()),
    }
}
