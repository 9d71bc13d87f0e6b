//! Ids, which are never used a second time. For example, the block `0a1b…` of a session that has
//! ended keeps its id, and a new session has another random name, so its blocks have other ids.

use std::fmt;
use std::str::FromStr;

/// The number of an inode: the identity of a file or directory. Never used a second time within a
/// volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The length of an inode number in a key or record, in bytes.
    pub const BYTES: u8 = 8;
    /// The inode number of the root, the directory of all buckets.
    pub const ROOT: Ino = Ino(1);
    /// The first number that a lease can contain. A lease is a range of numbers that a session
    /// takes from the volume for its new inodes. Smaller numbers are reserved for the volume.
    pub const FIRST_LEASED: Ino = Ino(1024);
    /// The end, exclusive, of the numbers that leases can contain. The numbers from here on are
    /// random, and used for uploads.
    pub const LEASED_END: Ino = Ino(1 << 63);
}

/// The random name of a session, which is one run of one gateway or mount.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub [u8; Nonce::BYTES]);

impl Nonce {
    /// The length of a name: 80 random bits are unique without coordination.
    pub const BYTES: usize = 10;
}

/// The id of a block, an immutable run of bytes in the block store: the nonce of the session that
/// wrote it, then a number of 48 bits that the session counts.
///
/// The writer chooses the id, and never the store: a store that was restored to an earlier state
/// cannot assign an id twice. Ids are not secret; no permission depends on them.
///
/// The highest bit of the counter marks a *pack*: a block whose bytes belong to several files from
/// the start. Each owner of bytes in a pack has a record (its *share*), and the id alone shows
/// that. The next bit marks a *bare* block: its object in a bucket consists of its content alone,
/// while other objects also contain a header and checksums. The third bit marks a *secret* block,
/// which the block store encrypts; it may be a pack, and it is never bare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub [u8; BlockId::BYTES]);

impl BlockId {
    /// The length of an id: 128 bits.
    pub const BYTES: usize = 16;
    /// The largest counter of a block within its session, including the bits for marks.
    pub const COUNTER_MAX: u64 = (1 << 48) - 1;

    /// The bit of the counter that marks a pack, that is, a block with the bytes of several files.
    pub const PACK_BIT: u64 = 1 << 47;

    /// The bit of the counter that marks a bare block, that is, one whose object in a bucket
    /// consists of its content alone.
    pub const BARE_BIT: u64 = 1 << 46;

    /// The bit of the counter that marks a secret block, that is, one whose object is encrypted
    /// under a ring key.
    pub const SECRET_BIT: u64 = 1 << 45;

    /// The end, exclusive, of the counters that a session draws. The bits from here on are marks,
    /// or reserved for further marks.
    pub const DRAWN_END: u64 = 1 << 43;

    /// The id of a session's block with this counter. The counter includes the bits for marks.
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

    /// The id of a session's block without marks, with this counter.
    ///
    /// # Panics
    /// If the counter is [`DRAWN_END`](BlockId::DRAWN_END) or more.
    pub fn plain(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, 0)
    }

    /// The id of a session's pack (block with the bytes of several files) with this counter, to
    /// which the bit for packs is added.
    ///
    /// # Panics
    /// As [`plain`](BlockId::plain).
    pub fn pack(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, BlockId::PACK_BIT)
    }

    /// The id of a session's bare block (whose object in a bucket is its content alone) with this
    /// counter, to which the bit for bare blocks is added.
    ///
    /// # Panics
    /// As [`plain`](BlockId::plain).
    pub fn bare(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, BlockId::BARE_BIT)
    }

    /// The id of a session's secret block (which the block store encrypts) with this counter, to
    /// which the bit for secret blocks is added.
    ///
    /// # Panics
    /// As [`plain`](BlockId::plain).
    pub fn secret(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, BlockId::SECRET_BIT)
    }

    /// The id of a session's secret pack (an encrypted block with the bytes of several files) with
    /// this counter, to which both bits are added.
    ///
    /// # Panics
    /// As [`plain`](BlockId::plain).
    pub fn secret_pack(session: Nonce, counter: u64) -> BlockId {
        BlockId::marked(session, counter, BlockId::SECRET_BIT | BlockId::PACK_BIT)
    }

    fn marked(session: Nonce, counter: u64, bits: u64) -> BlockId {
        assert!(counter < BlockId::DRAWN_END, "a session writes fewer than 2^43 blocks");
        BlockId::new(session, counter | bits)
    }

    /// Returns true if the block is a pack, that is, a block with the bytes of several files. Every
    /// owner of bytes in it has a share record.
    pub fn is_pack(self) -> bool {
        self.counter() & BlockId::PACK_BIT != 0
    }

    /// Returns true if the block is bare: its object in a bucket contains only its content, without
    /// a header or checksums.
    pub fn is_bare(self) -> bool {
        self.counter() & BlockId::BARE_BIT != 0
    }

    /// Returns true if the block is secret: its object is encrypted under a ring key.
    pub fn is_secret(self) -> bool {
        self.counter() & BlockId::SECRET_BIT != 0
    }

    /// The session that wrote the block.
    pub fn session(self) -> Nonce {
        let mut nonce = [0; Nonce::BYTES];
        nonce.copy_from_slice(&self.0[..Nonce::BYTES]);
        Nonce(nonce)
    }

    /// The number of the block within its session, including the bits for marks.
    pub fn counter(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&self.0[Nonce::BYTES..]);
        u64::from_be_bytes(bytes)
    }
}

/// The error for a text that is not an id. The number is that of the hexadecimal digits of a
/// correct one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of {0} hexadecimal digits")]
pub struct IdError(pub(crate) usize);

/// Lowercase hexadecimal digits: the form of ids in block names and in texts for operators.
macro_rules! hexadecimal {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $crate::hex::write_hex(f, &self.0)
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
