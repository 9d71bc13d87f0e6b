//! Frames: the encrypted messages on a connection.
//!
//! A frame is the length of the rest in four bytes (big-endian), the encrypted message, and a tag
//! of 16 bytes. The length is the associated data, and the number of the frame in its direction is
//! the nonce of AES-256-GCM. So a frame that is changed, repeated, left out or moved does not
//! open. For example, the frame of `Bye` has 21 bytes.
//!
//! The length is known before the frame is verified. It only decides how many bytes the reader
//! waits for, at most [`FRAME_BYTES_MAX`], and memory grows with the bytes that arrive.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::message::{MESSAGE_BYTES_MAX, Message, MessageError};

/// The length of the field at the start of each frame, in bytes.
pub const HEADER_BYTES: usize = 4;

/// The length of the tag at the end of each frame, in bytes.
pub(crate) const TAG_BYTES: usize = 16;

/// The longest frame without its header, in bytes.
pub const FRAME_BYTES_MAX: usize = MESSAGE_BYTES_MAX + TAG_BYTES;

/// The reason why bytes are not the next frame of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header has a length that no frame has.
    #[error("a frame has the impossible length {0}")]
    Length(u32),
    /// The frame was changed on its way, or is not the next one.
    #[error("a frame is not authentic")]
    Forged,
    /// The peer sent a frame that is authentic and has no valid message.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// Makes the frames of one direction of a connection.
#[derive(Debug)]
pub struct FrameSealer {
    key: LessSafeKey,
    next: u64,
}

impl FrameSealer {
    pub(crate) fn new(key: UnboundKey) -> FrameSealer {
        FrameSealer { key: LessSafeKey::new(key), next: 0 }
    }

    /// Appends the frame of a message to `to`.
    ///
    /// # Panics
    /// If the message does not fit ([`Message::fits`]), which a link has checked.
    pub fn seal(&mut self, message: &Message, to: &mut Vec<u8>) {
        self.seal_with(to, |to| message.encode(to));
    }

    /// Appends the frame of the bytes that `write` appends.
    pub(crate) fn seal_with(&mut self, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = to.len();
        to.extend_from_slice(&[0; HEADER_BYTES]);
        write(to);
        let length = to.len() - start - HEADER_BYTES + TAG_BYTES;
        assert!(length <= FRAME_BYTES_MAX, "a link checks the size of its messages");
        let header = u32::try_from(length).expect("a frame is shorter than 4 GiB").to_be_bytes();
        to[start..start + HEADER_BYTES].copy_from_slice(&header);
        let nonce = counted(&mut self.next);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut to[start + HEADER_BYTES..])
            .expect("AES-GCM encrypts each message of this size");
        to.extend_from_slice(tag.as_ref());
    }
}

/// Verifies and decrypts the frames of one direction of a connection, in their order.
#[derive(Debug)]
pub struct FrameOpener {
    key: LessSafeKey,
    next: u64,
}

impl FrameOpener {
    pub(crate) fn new(key: UnboundKey) -> FrameOpener {
        FrameOpener { key: LessSafeKey::new(key), next: 0 }
    }

    /// Returns the length of the frame that begins with these bytes, with its header, or `None` if
    /// there are too few bytes to know. Fails with `Length` if no frame has this length.
    pub fn frame_bytes(received: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(header) = received.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*header);
        match usize::try_from(length) {
            // A message has at least one byte.
            Ok(bytes) if (TAG_BYTES + 1..=FRAME_BYTES_MAX).contains(&bytes) => {
                Ok(Some(HEADER_BYTES + bytes))
            }
            _ => Err(FrameError::Length(length)),
        }
    }

    /// Verifies and decodes one whole frame, whose bytes change.
    pub fn open(&mut self, frame: &mut [u8]) -> Result<Message, FrameError> {
        Ok(Message::decode(self.open_bytes(frame)?)?)
    }

    /// Verifies one whole frame and returns its content.
    pub(crate) fn open_bytes<'a>(&mut self, frame: &'a mut [u8]) -> Result<&'a [u8], FrameError> {
        let (header, sealed) =
            frame.split_first_chunk_mut::<HEADER_BYTES>().ok_or(FrameError::Forged)?;
        let opened = self.key.open_in_place(counted(&mut self.next), Aad::from(*header), sealed);
        Ok(opened.map_err(|_| FrameError::Forged)?)
    }
}

/// Returns the nonce of the next frame.
fn counted(next: &mut u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&next.to_be_bytes());
    *next = next.checked_add(1).expect("a connection has fewer than 2^64 frames");
    Nonce::assume_unique_for_key(bytes)
}

/// The length of a key of frames, in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// Returns a key from its bytes.
pub(crate) fn frame_key(bytes: &[u8; KEY_BYTES]) -> UnboundKey {
    UnboundKey::new(&AES_256_GCM, bytes).expect("AES-256 has keys of 32 bytes")
}

#[cfg(test)]
mod tests;
