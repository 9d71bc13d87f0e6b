//! Small records: the volume, sessions, idempotency slots and orphans.
//!
//! For example, a session, which is one run of a gateway or mount, writes a [`SessionRecord`] when
//! it starts, a [`HeartbeatRecord`] every two seconds, and a [`SlotRecord`] with each commit.

use std::fmt;

use store::{Key, Value};

use crate::codec::{DecodeError, Reader, Writer, record};
use crate::{BlockId, Ino, Timestamp};

/// The record of the volume itself: read at every start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// The random id of the volume. It is also stored in the backing bucket, so that two volumes
    /// never share a prefix.
    pub id: [u8; 16],
    /// The time of the volume's creation.
    pub made: Timestamp,
    /// The format of the volume's records. A release refuses a volume of another format.
    pub format: u32,
    /// A number for restores of the volume from a copy. It is 1 in every volume so far, because no
    /// release implements a restore.
    pub generation: u64,
    /// The content length of a full block, in bytes, fixed when the volume is created.
    pub block_bytes: u32,
    /// The random id of the block location that has the mark of this volume; `None` until a start
    /// has marked one. From then on the volume refuses to open with a location whose mark has
    /// another id, or that has no mark, because that is another location.
    pub place: Option<[u8; 16]>,
}

impl VolumeRecord {
    /// The format of volumes that this release writes, and the only one that it opens.
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
            .varint(u64::from(this.block_bytes));
        optional(&mut to, this.place.as_ref());
    },
    |from| {
        VolumeRecord {
            id: from.fixed("id")?,
            made: Timestamp(from.signed("made")?),
            format: from.narrow("format")?,
            generation: from.varint("generation")?,
            block_bytes: from.narrow("block bytes")?,
            place: read_optional(&mut from, "place")?,
        }
    }
);

/// Writes 0 for `None`, and 1 and the bytes otherwise.
fn optional<const N: usize>(to: &mut Writer, bytes: Option<&[u8; N]>) {
    match bytes {
        None => to.u8(0),
        Some(bytes) => to.u8(1).fixed(bytes),
    };
}

/// Reads what [`optional`] writes.
fn read_optional<const N: usize>(
    from: &mut Reader<'_>,
    field: &'static str,
) -> Result<Option<[u8; N]>, DecodeError> {
    match from.u8(field)? {
        0 => Ok(None),
        1 => from.fixed(field).map(Some),
        _ => Err(DecodeError::Field(field)),
    }
}

/// A number that only grows: the next inode number to lease, or the readers' epoch.
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

/// The kind of process of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKind {
    /// A command of an operator.
    #[default]
    Command,
    /// `ashlar serve`.
    Gateway,
    /// `ashlar mount`.
    Mount,
}

impl SessionKind {
    /// All kinds.
    pub const ALL: [SessionKind; 3] =
        [SessionKind::Command, SessionKind::Gateway, SessionKind::Mount];

    /// Returns the name of the kind, as APIs show it.
    pub const fn name(self) -> &'static str {
        match self {
            SessionKind::Command => "command",
            SessionKind::Gateway => "gateway",
            SessionKind::Mount => "mount",
        }
    }

    const fn code(self) -> u8 {
        match self {
            SessionKind::Command => 0,
            SessionKind::Gateway => 1,
            SessionKind::Mount => 2,
        }
    }
}

/// Facts about the process of a session, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// The kind of process.
    pub kind: SessionKind,
    /// The version of the program; empty for a command.
    pub version: String,
    /// The addresses at which it serves clients, as URLs.
    pub addresses: Vec<String>,
    /// The folder on which it mounts the volume; empty if it mounts nothing.
    pub folder: String,
    /// The directory of the volume that the mount shows; empty for the whole volume.
    pub subdirectory: String,
}

/// The secret of a session for connections through its socket file, at random. A process that knows
/// it can read the session's record. The debug form shows nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketSecret(pub [u8; SocketSecret::BYTES]);

impl SocketSecret {
    /// The length of a secret, in bytes.
    pub const BYTES: usize = 16;

    /// The value of a session without a socket file.
    pub const NONE: SocketSecret = SocketSecret([0; SocketSecret::BYTES]);
}

impl fmt::Debug for SocketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocketSecret")
    }
}

/// The record of a live session, which is one run of a gateway or mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The time at which the session started.
    pub began: Timestamp,
    /// The host and process, for operators.
    pub place: String,
    /// The addresses at which other sessions reach this one, the fastest first: `unix:UID:PATH` or
    /// `tcp:HOST:PORT`. None if the session neither gives nor takes leases.
    pub reach: Vec<String>,
    /// The secret of its socket file.
    pub socket_secret: SocketSecret,
    /// Facts about the process.
    pub facts: SessionFacts,
}

record!(
    SessionRecord,
    1,
    |this, to| {
        to.signed(this.began.0).bytes(this.place.as_bytes()).varint(this.reach.len() as u64);
        for address in &this.reach {
            to.bytes(address.as_bytes());
        }
        to.fixed(&this.socket_secret.0);
        let SessionFacts { kind, version, addresses, folder, subdirectory } = &this.facts;
        to.u8(kind.code()).bytes(version.as_bytes()).varint(addresses.len() as u64);
        for address in addresses {
            to.bytes(address.as_bytes());
        }
        to.bytes(folder.as_bytes()).bytes(subdirectory.as_bytes());
    },
    |from| {
        let (began, place) = (Timestamp(from.signed("began")?), from.string("place")?);
        // No capacity is reserved by a number that may be damaged.
        let mut reach = Vec::new();
        for _ in 0..from.varint("addresses")? {
            reach.push(from.string("reach")?);
        }
        let socket_secret = SocketSecret(from.fixed("socket_secret")?);
        let kind = from.u8("kind")?;
        let kind = SessionKind::ALL.into_iter().find(|known| known.code() == kind);
        let kind = kind.ok_or(DecodeError::Field("kind"))?;
        let (version, mut addresses) = (from.string("version")?, Vec::new());
        for _ in 0..from.varint("addresses")? {
            addresses.push(from.string("address")?);
        }
        let (folder, subdirectory) = (from.string("folder")?, from.string("subdirectory")?);
        let facts = SessionFacts { kind, version, addresses, folder, subdirectory };
        SessionRecord { began, place, reach, socket_secret, facts }
    }
);

/// The sign of life of a session, which it writes again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRecord {
    /// The number of heartbeats so far. If it does not change, the session may be dead.
    pub count: u64,
    /// An epoch of the volume, a number that the reaper raises before it deletes blocks. All
    /// operations of the session that started before this epoch have ended, so they read no block
    /// any more.
    pub passed: u64,
    /// The place from which the session answers reads, for operators. For example, `leased (2
    /// peers)`.
    pub reads: String,
}

record!(
    HeartbeatRecord,
    1,
    |this, to| {
        to.varint(this.count).varint(this.passed).bytes(this.reads.as_bytes());
    },
    |from| {
        HeartbeatRecord {
            count: from.varint("count")?,
            passed: from.varint("passed")?,
            reads: from.string("reads")?,
        }
    }
);

/// A session's protection of a file's content from deletion, although the file may have no name any
/// more: a program has it open, or a client reads it for long. The key has the file and the
/// session. A hold counts only while its session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The time at which the hold was written.
    pub since: Timestamp,
    /// The protected content: the current one, or earlier ones, too.
    pub scope: HoldScope,
}

/// The content of a file that a session protects from deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldScope {
    /// The current content of the file, even if the file has no name: a program has it open.
    File = 0,
    /// Also earlier contents: a client reads one content while others may write to the file.
    Versions = 1,
}

record!(
    Hold,
    1,
    |this, to| {
        to.signed(this.since.0).u8(this.scope as u8);
    },
    |from| {
        let since = Timestamp(from.signed("since")?);
        let scope = match from.u8("scope")? {
            0 => HoldScope::File,
            1 => HoldScope::Versions,
            _ => return Err(DecodeError::Field("scope")),
        };
        Hold { since, scope }
    }
);

/// The state of an idempotency slot: the proof that a plan was committed, or never will be.
///
/// A session has a number of *idempotency slots*, each with one such record. A plan that is sent in
/// a slot guards the record's value and writes the next value, so the value shows which plan was
/// the last to commit. If the outcome of a plan is unknown, the session commits the same step with
/// `aborted` set. Then either the plan can never commit, or the record shows that it did. A slot is
/// used again only when the outcome of its plan is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// The number of steps of the slot, that is, of plans and aborts that were committed in it.
    pub count: u64,
    /// True if the last step was written to prevent the commit of a plan whose outcome was unknown.
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

/// The record of something that was removed and still has blocks or other records. The reaper, a
/// background task, deletes these and then the orphan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// A file or another inode that is not a directory, without a name. Its record still exists
    /// under its number.
    File {
        /// The inode number of the bucket whose counter has the file's bytes.
        bucket: Ino,
    },
    /// An inode that no program can reach any more, so that its record was moved here.
    Detached {
        /// The inode number of the bucket whose counter has the inode's bytes.
        bucket: Ino,
        /// The bytes of the inode's record.
        inode: Value,
    },
    /// A removed bucket. The reaper removes its uploads.
    Bucket,
    /// A multipart upload that was completed or aborted. The reaper deletes its parts, except
    /// blocks that the completed file owns.
    Upload {
        /// The bytes of the upload's key.
        key: Vec<u8>,
    },
    /// References that a write, or a move of bytes to another block, has removed from a file:
    /// blocks and pages of the content map. The file itself stays, and its content may still
    /// reference some of the blocks elsewhere.
    Hidden {
        /// The inode number of the file from which the references were removed.
        owner: Ino,
        /// The blocks that the file referenced, each once.
        blocks: Vec<HiddenBlock>,
        /// The numbers of the content map's pages (records with slices) that the file referenced.
        pages: Vec<u32>,
    },
}

/// A block that a file referenced before a write or a move of bytes removed the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenBlock {
    /// The block.
    pub block: BlockId,
    /// The length of the block's content, in bytes.
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
                // The complete inode is kept, because its key is deleted and the reaper needs the
                // content map.
                to.u8(2).varint(bucket.0).bytes(inode);
            }
            Orphan::Bucket => {
                to.u8(3);
            }
            Orphan::Upload { key } => {
                to.u8(4).bytes(key);
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

/// The record of a completed upload that only answers repeated requests. Its key has the time until
/// which it answers.
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

/// The record of an ended session whose blocks a sweep, the search for blocks without a record, has
/// checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweptRecord {
    /// The time of the first check of the session's blocks.
    pub since: Timestamp,
    /// True if no further check is needed: a later sweep (search for blocks without a record) has
    /// also found the blocks that were written after the first check.
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

/// A record without fields: its existence is the information, for example that a block waits for
/// deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark;

impl Mark {
    const FORMAT: u8 = 1;

    /// Returns the bytes of the record.
    pub fn encode(self, key: &Key) -> Value {
        Writer::new(Mark::FORMAT).finish(key)
    }

    /// Decodes the record. Fails if the bytes are not a mark.
    pub fn decode(key: &Key, value: &Value) -> Result<Mark, DecodeError> {
        Reader::new(key, value, Mark::FORMAT)?.finish("end")?;
        Ok(Mark)
    }
}
