//! Ids: what is named once and never again.

use std::fmt;
use std::str::FromStr;

/// The identity of a file or directory. Never reused within a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// Bytes of a number in a key or record.
    pub const BYTES: u8 = 8;
    /// The directory that holds the buckets.
    pub const ROOT: Ino = Ino(1);
    /// The first number that leases hand out; those below are the volume's own.
    pub const FIRST_LEASED: Ino = Ino(1024);
    /// Leases end here; the numbers behind are those of uploads, which are drawn at random.
    pub const LEASED_END: Ino = Ino(1 << 63);
}

/// The random name of a session: one run of one gateway or mount.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub [u8; Nonce::BYTES]);

impl Nonce {
    /// 80 bits: unique without asking anyone.
    pub const BYTES: usize = 10;
}

/// The name of a block: its session's nonce, then a counter of 48 bits.
///
/// Drawn by the writer, never by a store: a store that was rolled back cannot hand one out again.
/// Ids are not secrets; no permission rests on knowing one.
///
/// The counter's highest bit says whether the block is a *pack*: one whose bytes belong to several
/// files from the start. So whoever meets an id knows what rules its owners follow. The next one
/// says whether the block is *bare*: a bucket keeps its content as an object without anything else
/// in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub [u8; BlockId::BYTES]);

impl BlockId {
    /// 128 bits.
    pub const BYTES: usize = 16;
    /// The largest counter.
    pub const COUNTER_MAX: u64 = (1 << 48) - 1;

    /// The counter's bit that marks a pack.
    pub const PACK_BIT: u64 = 1 << 47;

    /// The counter's bit that marks a bare block.
    pub const BARE_BIT: u64 = 1 << 46;

    /// The block of a session with this counter, marks included.
    ///
    /// # Panics
    /// If the counter has more than 48 bits.
    pub fn new(session: Nonce, counter: u64) -> BlockId {
        assert!(counter <= BlockId::COUNTER_MAX, "a session writes fewer than 2^48 blocks");
        let mut bytes = [0; BlockId::BYTES];
        bytes[..Nonce::BYTES].copy_from_slice(&session.0);
        bytes[Nonce::BYTES..].copy_from_slice(&counter.to_be_bytes()[2..]);
        BlockId(bytes)
    }

    /// The `counter`th block of a session, as a pack.
    ///
    /// # Panics
    /// If the counter has more than 46 bits.
    pub fn pack(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, BlockId::PACK_BIT)
    }

    /// The `counter`th block of a session, bare.
    ///
    /// # Panics
    /// If the counter has more than 46 bits.
    pub fn bare(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, BlockId::BARE_BIT)
    }

    fn marked(session: Nonce, counter: u64, bit: u64) -> BlockId {
        assert!(counter < BlockId::BARE_BIT, "a session writes fewer than 2^46 blocks");
        BlockId::new(session, counter | bit)
    }

    /// Whether the block is a pack: every owner of bytes in it has a share record.
    pub fn is_pack(self) -> bool {
        self.counter() & BlockId::PACK_BIT != 0
    }

    /// Whether a bucket keeps nothing but content in the block's object.
    pub fn is_bare(self) -> bool {
        self.counter() & BlockId::BARE_BIT != 0
    }

    /// The session that wrote the block.
    pub fn session(self) -> Nonce {
        let mut nonce = [0; Nonce::BYTES];
        nonce.copy_from_slice(&self.0[..Nonce::BYTES]);
        Nonce(nonce)
    }

    /// The block's number within its session, mark of packs included.
    pub fn counter(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&self.0[Nonce::BYTES..]);
        u64::from_be_bytes(bytes)
    }
}

/// Text that is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of {0} hexadecimal digits")]
pub struct IdError(pub(crate) usize);

/// Lowercase hexadecimal, as ids stand in block names and in what operators read.
macro_rules! hexadecimal {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $id {
            type Err = IdError;

            fn from_str(text: &str) -> Result<$id, IdError> {
                let error = IdError(2 * $id::BYTES);
                let digits = text.as_bytes();
                if digits.len() != 2 * $id::BYTES {
                    return Err(error);
                }
                let mut bytes = [0; $id::BYTES];
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    let digit = |d: u8| match d {
                        b'0'..=b'9' => Ok(d - b'0'),
                        b'a'..=b'f' => Ok(d - b'a' + 10),
                        _ => Err(error),
                    };
                    *byte = digit(pair[0])? << 4 | digit(pair[1])?;
                }
                Ok($id(bytes))
            }
        }
    };
}

pub(crate) use hexadecimal;

hexadecimal!(Nonce);
hexadecimal!(BlockId);
