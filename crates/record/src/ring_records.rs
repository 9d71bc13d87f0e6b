//! The records of ring keys.
//!
//! A ring key encrypts blocks and inline content. The store holds it *wrapped*, that is, encrypted
//! under the master key or under a key of a key management service (KMS). For example, a volume
//! begins with key 1, and a rotation makes key 2 current, while the blocks that were encrypted
//! under key 1 keep it.

use std::fmt;

use crate::Timestamp;
use crate::codec::{DecodeError, Reader, record};
use crate::ring::RingNumber;

/// A public name of a master key, which reveals nothing about the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyFingerprint(pub [u8; KeyFingerprint::BYTES]);

impl KeyFingerprint {
    /// The size of a fingerprint in bytes.
    pub const BYTES: usize = 8;
}

/// 16 hexadecimal digits.
impl fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::hex::write_hex(f, &self.0)
    }
}

impl fmt::Debug for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The record of a volume's ring: which keys new content is encrypted under. A volume that never
/// had a ring key has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingState {
    /// The highest number that a ring key has or had; 0 before the first key.
    pub highest: u32,
    /// The key for new content of the volume and of SSE-S3; `None` before the first of its kind.
    pub volume_key: Option<RingNumber>,
    /// True if all new content of the volume is encrypted.
    pub everything: bool,
    /// The number of changes of the master key that have begun so far. Each changes the record, so
    /// that no key is made under the earlier master key after the change.
    pub rewraps: u32,
}

record!(
    RingState,
    1,
    |this, to| {
        to.varint(u64::from(this.highest))
            .varint(this.volume_key.map_or(0, |number| u64::from(number.0)))
            .u8(u8::from(this.everything))
            .varint(u64::from(this.rewraps));
    },
    |from| {
        let highest = from.narrow("highest")?;
        let volume_key: u32 = from.narrow("volume key")?;
        if volume_key > highest {
            return Err(DecodeError::Field("volume key"));
        }
        let volume_key = Some(RingNumber(volume_key)).filter(|number| number.0 != 0);
        let everything = flag(&mut from, "everything")?;
        RingState { highest, volume_key, everything, rewraps: from.narrow("rewraps")? }
    }
);

/// The key that wraps a ring key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingWrapping {
    /// The master key with this fingerprint. The ring key is for the volume and for SSE-S3.
    Master(KeyFingerprint),
    /// The key of the KMS with this name. The ring key is for objects that name it.
    Kms(String),
}

const MASTER: u8 = 0;
const KMS: u8 = 1;

/// The record of a ring key. Its key has the number.
#[derive(Clone, PartialEq, Eq)]
pub struct RingKeyRecord {
    /// The time at which the ring key was made.
    pub made: Timestamp,
    /// The key that wraps this one.
    pub wrapping: RingWrapping,
    /// The wrapped key. Under a master key: 12 bytes of nonce, and the ciphertext of 32 bytes with
    /// its tag of 16 bytes.
    pub wrapped: Vec<u8>,
    /// The permitted use of the key.
    pub state: RingKeyState,
}

/// The permitted use of a ring key.
///
/// ```text
///  Usable ──▶ Retired ──▶ Closed ──▶ removed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKeyState {
    /// Content is written and read under the key.
    Usable,
    /// An operator retires the key: no new file gets it. Files that are being written keep it.
    Retired,
    /// Nothing is written under the key. It is removed when nothing is left under it.
    Closed,
}

const USABLE: u8 = 0;
const RETIRED: u8 = 1;
const CLOSED: u8 = 2;

/// Omits the wrapped key, which does not belong in logs.
impl fmt::Debug for RingKeyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingKeyRecord")
            .field("made", &self.made)
            .field("wrapping", &self.wrapping)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

record!(
    RingKeyRecord,
    1,
    |this, to| {
        to.signed(this.made.0);
        match &this.wrapping {
            RingWrapping::Master(fingerprint) => to.u8(MASTER).fixed(&fingerprint.0),
            RingWrapping::Kms(name) => to.u8(KMS).bytes(name.as_bytes()),
        };
        to.bytes(&this.wrapped).u8(match this.state {
            RingKeyState::Usable => USABLE,
            RingKeyState::Retired => RETIRED,
            RingKeyState::Closed => CLOSED,
        });
    },
    |from| {
        let made = Timestamp(from.signed("made")?);
        let wrapping = match from.u8("wrapping")? {
            MASTER => RingWrapping::Master(KeyFingerprint(from.fixed("fingerprint")?)),
            KMS => RingWrapping::Kms(from.string("KMS name")?),
            _ => return Err(DecodeError::Field("wrapping")),
        };
        let wrapped = from.bytes("wrapped")?.to_vec();
        let state = match from.u8("state")? {
            USABLE => RingKeyState::Usable,
            RETIRED => RingKeyState::Retired,
            CLOSED => RingKeyState::Closed,
            _ => return Err(DecodeError::Field("state")),
        };
        RingKeyRecord { made, wrapping, wrapped, state }
    }
);

/// The record of a change of the master key that is not complete. While it exists, some secrets of
/// the volume are sealed under one master key and some under the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewrapRecord {
    /// The time at which the change began.
    pub began: Timestamp,
    /// The master key before the change.
    pub from: KeyFingerprint,
    /// The master key after the change.
    pub to: KeyFingerprint,
    /// The number of ring keys and of users' secrets that are sealed under the new key so far.
    pub done: u64,
}

record!(
    RewrapRecord,
    1,
    |this, to| {
        to.signed(this.began.0).fixed(&this.from.0).fixed(&this.to.0).varint(this.done);
    },
    |from| {
        RewrapRecord {
            began: Timestamp(from.signed("began")?),
            from: KeyFingerprint(from.fixed("from")?),
            to: KeyFingerprint(from.fixed("to")?),
            done: from.varint("done")?,
        }
    }
);

fn flag(from: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match from.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Field(field)),
    }
}
