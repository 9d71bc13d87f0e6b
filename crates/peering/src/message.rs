//! The messages of two peer sessions, and their bytes.
//!
//! The keys of one message share prefixes, as in `store::feed::compact`, because most records of a
//! batch belong to a few parents. For example, the keys `dir1/a` and `dir1/b` are encoded as `0 6
//! dir1/a` and `5 1 b`. This module does not know the meaning of a lease.
//!
//! The bytes of a message are one byte for the kind, a varint (LEB128) for the number, and then the
//! rest: one byte for `fresh`, or the number of keys as a varint and the keys. A key is the length
//! of the prefix that it shares with the key before (one byte), the length of the rest as a varint,
//! and the rest.

use std::sync::Arc;

use bytes::Bytes;
use store::Key;

/// The most keys of one message.
pub const MESSAGE_KEYS_MAX: usize = 65_536;

/// The most bytes of all keys of one message, without the gain by shared prefixes.
pub const MESSAGE_KEY_BYTES_MAX: usize = 4 << 20;

/// The longest encoded message, in bytes: all keys without a shared prefix, with their lengths.
pub const MESSAGE_BYTES_MAX: usize =
    MESSAGE_KEY_BYTES_MAX + MESSAGE_KEYS_MAX * KEY_LENGTHS_BYTES_MAX + 1 + 2 * VARINT_BYTES_MAX;

/// The longest form of the two lengths of a key: one byte, and a varint of at most
/// `MESSAGE_KEY_BYTES_MAX`.
const KEY_LENGTHS_BYTES_MAX: usize = 1 + 4;

/// The longest varint of 64 bits, in bytes.
const VARINT_BYTES_MAX: usize = 10;

/// The memory of a message in a queue beside the bytes of its keys.
const MESSAGE_COST: usize = 64;

/// The memory of a key in a queue beside its bytes.
const KEY_COST: usize = size_of::<Key>();

/// A message of one session to a peer. The reader is the session that answers from memory under a
/// lease, and the writer is the session that promised to notify it.
///
/// For example, the reader sends `Ask`, and the writer answers with `Grant`. Later the writer sends
/// `Notice` before a batch, waits for `Ack`, commits the batch, and sends `Done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The reader requests a lease, counted from before it sent this.
    Ask {
        /// A number of the reader's choice, which the grant repeats.
        number: u64,
        /// True if answers of the reader may be cached outside of its process, for example by the
        /// kernel of a mount. Then the end of the link does not prove that the lease has ended.
        outlives_link: bool,
    },
    /// The writer promises to notify the reader before it changes a record. Notices of the batches
    /// that are in flight precede it.
    Grant {
        /// The number of the `Ask`.
        number: u64,
        /// True if the writer sent a batch without notice since its last promise ended, so the
        /// reader begins a new generation.
        fresh: bool,
    },
    /// The writer's batch will change these records. The reader answers with `Ack` when none of
    /// them is current in its memory.
    Notice {
        /// The writer's number of the batch.
        batch: u64,
        /// The keys of the records and counters that the batch may change, in any order.
        keys: Arc<[Key]>,
    },
    /// The reader has received the notice, and does not answer from its records.
    Ack {
        /// The number of the notice.
        batch: u64,
    },
    /// The outcome of the batch is known. A batch whose outcome stays unknown is never done, so its
    /// records stay hints at the reader.
    Done {
        /// The number of the notice.
        batch: u64,
    },
    /// The sender has given up its leases.
    Bye,
}

/// The reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message has a kind that this release does not know. A handshake between releases with
    /// different messages fails, so an honest peer does not send it.
    #[error("a message has the unknown kind {0}")]
    Kind(u8),
    /// A field ends early, has a value outside its range, or bytes follow the last field.
    #[error("a message is damaged at its field `{0}`")]
    Field(&'static str),
}

/// The first byte of each kind.
mod kind {
    pub(super) const ASK: u8 = 1;
    pub(super) const GRANT: u8 = 2;
    pub(super) const NOTICE: u8 = 3;
    pub(super) const ACK: u8 = 4;
    pub(super) const DONE: u8 = 5;
    pub(super) const BYE: u8 = 6;
}

impl Message {
    /// Returns true if the message is within the limits of its keys. A link does not send a larger
    /// one.
    pub fn fits(&self) -> bool {
        let keys = self.keys();
        let bytes = keys.iter().map(|key| key.as_bytes().len()).sum::<usize>();
        keys.len() <= MESSAGE_KEYS_MAX && bytes <= MESSAGE_KEY_BYTES_MAX
    }

    /// Returns the memory that the message takes in a queue, in bytes. Keys that several messages
    /// share count in each.
    pub(crate) fn cost(&self) -> usize {
        let keys = self.keys();
        let bytes = keys.iter().map(|key| key.as_bytes().len() + KEY_COST).sum::<usize>();
        MESSAGE_COST + bytes
    }

    fn keys(&self) -> &[Key] {
        match self {
            Message::Notice { keys, .. } => keys,
            Message::Ask { .. }
            | Message::Grant { .. }
            | Message::Ack { .. }
            | Message::Done { .. }
            | Message::Bye => &[],
        }
    }

    /// Appends the bytes of the message to `to`.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Message::Ask { number, outlives_link } => {
                head(to, kind::ASK, *number);
                to.push(u8::from(*outlives_link));
            }
            Message::Grant { number, fresh } => {
                head(to, kind::GRANT, *number);
                to.push(u8::from(*fresh));
            }
            Message::Notice { batch, keys } => {
                head(to, kind::NOTICE, *batch);
                put_keys(to, keys);
            }
            Message::Ack { batch } => head(to, kind::ACK, *batch),
            Message::Done { batch } => head(to, kind::DONE, *batch),
            Message::Bye => to.push(kind::BYE),
        }
    }

    /// Decodes the bytes of one message. All keys of the message share one allocation, which stays
    /// while one of them exists. The memory is at most [`MESSAGE_KEY_BYTES_MAX`] and 32 bytes for
    /// each key.
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        let (&kind, rest) = bytes.split_first().ok_or(MessageError::Field("kind"))?;
        let mut from = Fields { rest };
        let message = match kind {
            kind::ASK => Message::Ask {
                number: from.varint("number")?,
                outlives_link: from.flag("outlives_link")?,
            },
            kind::GRANT => {
                Message::Grant { number: from.varint("number")?, fresh: from.flag("fresh")? }
            }
            kind::NOTICE => Message::Notice { batch: from.varint("batch")?, keys: from.keys()? },
            kind::ACK => Message::Ack { batch: from.varint("batch")? },
            kind::DONE => Message::Done { batch: from.varint("batch")? },
            kind::BYE => Message::Bye,
            unknown => return Err(MessageError::Kind(unknown)),
        };
        if from.rest.is_empty() { Ok(message) } else { Err(MessageError::Field("end")) }
    }
}

fn head(to: &mut Vec<u8>, kind: u8, number: u64) {
    to.push(kind);
    put_varint(to, number);
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    // Seven bits in each byte. The high bit is set in all bytes but the last.
    while value >= 0x80 {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}

fn put_keys(to: &mut Vec<u8>, keys: &[Key]) {
    put_varint(to, keys.len() as u64);
    let mut before: &[u8] = &[];
    for key in keys {
        let key = key.as_bytes();
        let alike = key.iter().zip(before).take_while(|(a, b)| a == b).count();
        let shared = u8::try_from(alike).unwrap_or(u8::MAX);
        let rest = key.get(usize::from(shared)..).unwrap_or_default();
        to.push(shared);
        put_varint(to, rest.len() as u64);
        to.extend_from_slice(rest);
        before = key;
    }
}

/// The bytes of a message that are not decoded yet.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn byte(&mut self, field: &'static str) -> Result<u8, MessageError> {
        let (&byte, rest) = self.rest.split_first().ok_or(MessageError::Field(field))?;
        self.rest = rest;
        Ok(byte)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, MessageError> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            2.. => Err(MessageError::Field(field)),
        }
    }

    fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MessageError::Field(field))?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self, field: &'static str) -> Result<u64, MessageError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(field)?;
            let group = u64::from(byte & 0x7f);
            // The tenth byte has only one bit within 64 bits. A larger value is damage.
            if group << shift >> shift != group {
                break;
            }
            value |= group << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MessageError::Field(field))
    }

    fn length(&mut self, field: &'static str) -> Result<usize, MessageError> {
        usize::try_from(self.varint(field)?).map_err(|_| MessageError::Field(field))
    }

    fn keys(&mut self) -> Result<Arc<[Key]>, MessageError> {
        let count = self.length("keys")?;
        // Each key has at least two bytes, so a false count does not cause an allocation.
        if count > MESSAGE_KEYS_MAX || count > self.rest.len() / 2 {
            return Err(MessageError::Field("keys"));
        }
        // One allocation for the bytes of all keys, instead of one for each.
        let mut joined: Vec<u8> = Vec::with_capacity(self.rest.len());
        let mut lengths: Vec<usize> = Vec::with_capacity(count);
        let mut before = 0..0;
        for _ in 0..count {
            let shared = usize::from(self.byte("shared prefix")?);
            let length = self.length("key")?;
            let rest = self.take(length, "key")?;
            let start = joined.len();
            let bytes = shared + rest.len();
            if shared > before.len()
                || bytes < Key::PREFIX_BYTES
                || start + bytes > MESSAGE_KEY_BYTES_MAX
            {
                return Err(MessageError::Field("key"));
            }
            joined.extend_from_within(before.start..before.start + shared);
            joined.extend_from_slice(rest);
            before = start..joined.len();
            lengths.push(bytes);
        }
        let mut joined = Bytes::from(joined);
        Ok(lengths.into_iter().map(|length| Key::from_bytes(joined.split_to(length))).collect())
    }
}

#[cfg(test)]
mod tests;
