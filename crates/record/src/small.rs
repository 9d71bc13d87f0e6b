//! The small records: the volume, sessions, idempotency slots, orphans, access keys.

use store::{Key, Value};

use crate::account::AccountId;
use crate::codec::{DecodeError, Reader, Writer, record};
use crate::{BlockId, Ino, Timestamp};

/// The volume: made once, read at every start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Random; stands in the backing bucket too, so that two volumes never share a prefix.
    pub id: [u8; 16],
    /// When the volume was made.
    pub made: Timestamp,
    /// The release family whose records stand here; another one than ours is refused.
    pub format: u32,
    /// Counts restores.
    pub generation: u64,
    /// Content bytes of a full block.
    pub block_bytes: u32,
    /// True once the place of its blocks bears its mark. From then on a place without the mark is
    /// another place, and the volume does not open over it.
    pub marked: bool,
}

impl VolumeRecord {
    /// The format that this release writes.
    pub const CURRENT: u32 = 1;
}

record!(
    VolumeRecord,
    1,
    |this, to| {
        to.fixed(&this.id)
            .signed(this.made.0)
            .varint(u64::from(this.format))
            .varint(this.generation)
            .varint(u64::from(this.block_bytes))
            .u8(u8::from(this.marked));
    },
    |from| {
        VolumeRecord {
            id: from.fixed("id")?,
            made: Timestamp(from.signed("made")?),
            format: from.narrow("format")?,
            generation: from.varint("generation")?,
            block_bytes: from.narrow("block bytes")?,
            marked: match from.u8("marked")? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::Field("marked")),
            },
        }
    }
);

/// A record of one number that only grows: the next lease, the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(pub u64);

record!(
    Sequence,
    1,
    |this, to| {
        to.varint(this.0);
    },
    |from| { Sequence(from.varint("number")?) }
);

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// When it began.
    pub began: Timestamp,
    /// Where it runs, for people: host and process.
    pub place: String,
}

record!(
    SessionRecord,
    1,
    |this, to| {
        to.signed(this.began.0).bytes(this.place.as_bytes());
    },
    |from| {
        SessionRecord { began: Timestamp(from.signed("began")?), place: from.string("place")? }
    }
);

/// A session's heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatRecord {
    /// Counts heartbeats.
    pub count: u64,
    /// Every operation of the session that began before this epoch has ended.
    pub passed: u64,
}

record!(
    HeartbeatRecord,
    1,
    |this, to| {
        to.varint(this.count).varint(this.passed);
    },
    |from| { HeartbeatRecord { count: from.varint("count")?, passed: from.varint("passed")? } }
);

/// A session keeps a file's content from being deleted although it may have lost its name: somebody
/// reads it for long, or has it open. The key says which file and which session; it counts only as
/// long as that session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Since when.
    pub since: Timestamp,
    /// What of it is kept.
    pub what: HoldScope,
}

/// What a hold keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldScope {
    /// The file as it is, though it may have lost its last name: somebody has it open.
    File = 0,
    /// What the file was, too: somebody reads one version of it, whatever is written to it meanwhile.
    Versions = 1,
}

record!(
    Hold,
    1,
    |this, to| {
        to.signed(this.since.0).u8(this.what as u8);
    },
    |from| {
        let since = Timestamp(from.signed("since")?);
        let what = match from.u8("what")? {
            0 => HoldScope::File,
            1 => HoldScope::Versions,
            _ => return Err(DecodeError::Field("what")),
        };
        Hold { since, what }
    }
);

/// The proof that a plan was committed, or never will be.
///
/// A session has a number of *idempotency slots*, with one such record each. A plan that is sent in
/// a slot guards the record's value and writes the next one, so the value says which plan was the
/// last to happen. Whoever cannot tell whether a plan happened commits the same step with `aborted`
/// set: then either the plan can never happen, or the record says that it did. A slot is used again
/// only when the outcome of its plan is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Counts the slot's plans.
    pub count: u64,
    /// Whether this step was taken to keep a plan from happening.
    pub aborted: bool,
}

record!(
    SlotRecord,
    1,
    |this, to| {
        to.varint(this.count).u8(u8::from(this.aborted));
    },
    |from| { SlotRecord { count: from.varint("count")?, aborted: from.u8("aborted")? != 0 } }
);

/// What lost its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// A file, or anything else with an inode, which still stands under its number.
    File {
        /// The bucket whose bytes it counts among.
        bucket: Ino,
    },
    /// One that nobody can reach any more: its inode's record, moved here.
    Detached {
        /// The bucket whose bytes it counts among.
        bucket: Ino,
        /// The bytes of its inode's record.
        inode: Value,
    },
    /// A bucket: its uploads go.
    Bucket,
    /// An upload that was completed or aborted: its record's key.
    Upload {
        /// The bytes of the upload's key.
        key: Vec<u8>,
    },
    /// Bytes of a pack that a file named until they were moved to another one. The file lives on;
    /// it only lets go of the pack.
    Moved {
        /// The pack that the bytes were moved from.
        pack: BlockId,
        /// The file that they belong to.
        owner: Ino,
        /// How many bytes they are.
        length: u64,
    },
    /// What a write has hidden of a file that lives on: blocks of which it took names away, the last
    /// ones unless the content says otherwise, and pages of its content map that others have taken the place of.
    Hidden {
        /// The file.
        owner: Ino,
        /// The blocks, each once.
        blocks: Vec<HiddenBlock>,
        /// Numbers of the pages.
        pages: Vec<u32>,
    },
}

/// A block that a write has hidden of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenBlock {
    /// Which.
    pub block: BlockId,
    /// The block's content, in bytes.
    pub block_length: u32,
}

record!(
    Orphan,
    1,
    |this, to| {
        match this {
            Orphan::File { bucket } => {
                to.u8(1).varint(bucket.0);
            }
            Orphan::Detached { bucket, inode } => {
                to.u8(2).varint(bucket.0).bytes(inode);
            }
            Orphan::Bucket => {
                to.u8(3);
            }
            Orphan::Upload { key } => {
                to.u8(4).bytes(key);
            }
            Orphan::Moved { pack, owner, length } => {
                to.u8(5).fixed(&pack.0).varint(owner.0).varint(*length);
            }
            Orphan::Hidden { owner, blocks, pages } => {
                to.u8(6).varint(owner.0).varint(blocks.len() as u64);
                for HiddenBlock { block, block_length } in blocks {
                    to.fixed(&block.0).varint(u64::from(*block_length));
                }
                to.varint(pages.len() as u64);
                for page in pages {
                    to.varint(u64::from(*page));
                }
            }
        }
    },
    |from| {
        match from.u8("kind")? {
            1 => Orphan::File { bucket: Ino(from.varint("bucket")?) },
            2 => Orphan::Detached {
                bucket: Ino(from.varint("bucket")?),
                inode: Value::copy_from_slice(from.bytes("inode")?),
            },
            3 => Orphan::Bucket,
            4 => Orphan::Upload { key: from.bytes("key")?.into() },
            5 => Orphan::Moved {
                pack: BlockId(from.fixed("pack")?),
                owner: Ino(from.varint("owner")?),
                length: from.varint("length")?,
            },
            6 => {
                let owner = Ino(from.varint("owner")?);
                let count = from.varint("blocks")?;
                let mut block = || {
                    Ok(HiddenBlock {
                        block: BlockId(from.fixed("block")?),
                        block_length: from.narrow("block length")?,
                    })
                };
                let blocks = (0..count).map(|_| block()).collect::<Result<_, _>>()?;
                let count = from.varint("pages")?;
                let pages = (0..count).map(|_| from.narrow("page")).collect::<Result<_, _>>()?;
                Orphan::Hidden { owner, blocks, pages }
            }
            _ => return Err(DecodeError::Field("kind")),
        }
    }
);

/// A completed upload that has nothing left but its answer. Its key says until when it gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The bytes of the upload's key.
    pub upload: Vec<u8>,
}

record!(
    Expiry,
    1,
    |this, to| {
        to.bytes(&this.upload);
    },
    |from| { Expiry { upload: from.bytes("upload")?.into() } }
);

/// An ended session whose blocks a sweep has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweptRecord {
    /// When it was looked at first.
    pub since: Timestamp,
    /// Whether there is no need to look again: a later sweep found what had come after the first.
    pub done: bool,
}

record!(
    SweptRecord,
    1,
    |this, to| {
        to.signed(this.since.0).u8(u8::from(this.done));
    },
    |from| { SweptRecord { since: Timestamp(from.signed("since")?), done: from.u8("done")? != 0 } }
);

/// A record whose existence says everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark;

impl Mark {
    const FORMAT: u8 = 1;

    /// The record's bytes.
    pub fn encode(self, key: &Key) -> Value {
        Writer::new(Mark::FORMAT).finish(key)
    }

    /// The record, if the bytes are one.
    pub fn decode(key: &Key, value: &Value) -> Result<Mark, DecodeError> {
        Reader::new(key, value, Mark::FORMAT)?.finish("end")?;
        Ok(Mark)
    }
}

/// An access key.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The account that it belongs to.
    pub account: AccountId,
    /// The secret, sealed by the key that only gateways hold.
    pub sealed_secret: Vec<u8>,
    /// Whether the key may be used.
    pub enabled: bool,
    /// Whom files belong to.
    pub uid: u32,
    /// See `uid`.
    pub gid: u32,
    /// Permissions that files are not made with.
    pub umask: u32,
    /// Names of policies; with none, everything is denied.
    pub policies: Vec<String>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (enabled, policies) = (self.enabled, &self.policies);
        f.debug_struct("User")
            .field("enabled", &enabled)
            .field("policies", policies)
            .finish_non_exhaustive()
    }
}

record!(
    User,
    1,
    |this, to| {
        to.bytes(&this.sealed_secret)
            .u8(u8::from(this.enabled))
            .varint(u64::from(this.uid))
            .varint(u64::from(this.gid))
            .varint(u64::from(this.umask))
            .varint(this.account.0)
            .varint(this.policies.len() as u64);
        for policy in &this.policies {
            to.bytes(policy.as_bytes());
        }
    },
    |from| {
        let sealed_secret = from.bytes("secret")?.into();
        let enabled = from.u8("enabled")? != 0;
        let (uid, gid) = (from.narrow("uid")?, from.narrow("gid")?);
        let umask = from.narrow("umask")?;
        let account = AccountId::read(&mut from)?;
        let count = from.varint("policies")?;
        let policies = (0..count).map(|_| from.string("policy")).collect::<Result<_, _>>()?;
        User { account, sealed_secret, enabled, uid, gid, umask, policies }
    }
);

/// A named policy: its JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRecord(pub String);

record!(
    PolicyRecord,
    1,
    |this, to| {
        to.bytes(this.0.as_bytes());
    },
    |from| { PolicyRecord(from.string("document")?) }
);
