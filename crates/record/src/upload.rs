//! Multipart uploads, their parts, and the checksums that a completed file keeps of them.

use store::{Key, Value};

use crate::codec::{DecodeError, Reader, Writer};
use crate::content::{Slice, read_slices, write_slices};
use crate::inode::{
    ObjectHeaders, Sum, SumAlgorithm, SumKind, Tag, read_sums, read_tag, write_sums, write_tag,
};
use crate::{Ino, Timestamp};

/// How far an upload has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadState {
    /// Parts may arrive.
    Open,
    /// It was completed: what a repeated Complete answers, and what the reaper must not take.
    Done {
        /// The file that the parts became.
        ino: Ino,
        /// Its entity tag.
        tag: Tag,
        /// Its checksums.
        sums: Vec<Sum>,
        /// The parts whose blocks the file now owns, in ascending order.
        used: Vec<Ino>,
        /// When it was completed.
        at: Timestamp,
    },
    /// It was given up.
    Aborted,
}

/// A multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Names its parts' partition. It is drawn at random beyond all numbers that are leased, so that
    /// no two uploads have the same, whatever a store has forgotten; see [`Upload::number`].
    pub ino: Ino,
    /// When it began.
    pub begun: Timestamp,
    /// Owner and group of the file to be.
    pub uid: u32,
    /// See `uid`.
    pub gid: u32,
    /// The access key that began it.
    pub initiator: String,
    /// Which checksum the client promised, and how the parts' sums combine.
    pub checksum: Option<(SumAlgorithm, SumKind)>,
    /// What S3 keeps with the object to be.
    pub object: ObjectHeaders,
    /// How far it has come.
    pub state: UploadState,
}

/// One transmission of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number under which it owns blocks: no other file or part has it.
    pub owner: Ino,
    /// Bytes.
    pub size: u64,
    /// When it arrived.
    pub arrived: Timestamp,
    /// Its entity tag.
    pub tag: PartTag,
    /// Its checksums.
    pub sums: Vec<Sum>,
    /// Whether its blocks have share records, because the part was copied by reference.
    pub shared: bool,
    /// Its bytes; positions count from the part's beginning.
    pub slices: Vec<Slice>,
}

/// The entity tag of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartTag {
    /// The MD5 of its bytes; of a part that was copied by reference, what stands for it.
    Md5([u8; 16]),
    /// Random bytes: its MD5 was not computed.
    Opaque([u8; 16]),
}

impl PartTag {
    /// The bytes that the tag of the whole is made from.
    pub fn bytes(&self) -> [u8; 16] {
        let (PartTag::Md5(bytes) | PartTag::Opaque(bytes)) = *self;
        bytes
    }

    /// The tag as that of an object.
    pub fn tag(&self) -> Tag {
        match *self {
            PartTag::Md5(md5) => Tag::Md5(md5),
            PartTag::Opaque(id) => Tag::opaque(id),
        }
    }
}

/// A page of the checksums of the parts that a file was completed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSums {
    /// One for each part, in order.
    pub sums: Vec<Sum>,
}

/// Parts of one page of [`PartSums`].
pub const PART_SUMS_PAGE: u32 = 1_000;

/// Sections of an upload's record besides the object's, which are 2 to 4.
mod section {
    pub(super) const CHECKSUM: u8 = 1;
    pub(super) const SUMS: u8 = 6;
    pub(super) const USED: u8 = 7;
}

const OPEN: u8 = 0;
const DONE: u8 = 1;
const ABORTED: u8 = 2;

impl Upload {
    const FORMAT: u8 = 1;

    /// The number of an upload, from random bits.
    pub fn number(random: u64) -> Ino {
        // The last number of all has no partition behind it.
        Ino((random | Ino::LEASED_END.0).min(u64::MAX - 1))
    }

    /// The record's bytes.
    pub fn encode(&self, key: &Key) -> Value {
        let mut to = Writer::new(Upload::FORMAT);
        to.fixed(&self.ino.0.to_be_bytes())
            .signed(self.begun.0)
            .varint(u64::from(self.uid))
            .varint(u64::from(self.gid))
            .bytes(self.initiator.as_bytes());
        match &self.state {
            UploadState::Open => {
                to.u8(OPEN);
            }
            UploadState::Aborted => {
                to.u8(ABORTED);
            }
            UploadState::Done { ino, tag, at, .. } => {
                write_tag(to.u8(DONE).varint(ino.0).signed(at.0), tag);
            }
        }
        to.section(section::CHECKSUM, |to| {
            if let Some((algorithm, kind)) = self.checksum {
                to.u8(algorithm as u8).u8(kind as u8);
            }
        });
        self.object.write(&mut to);
        if let UploadState::Done { sums, used, .. } = &self.state {
            to.section(section::SUMS, |to| write_sums(to, sums));
            to.section(section::USED, |to| {
                let mut last = 0;
                for ino in used {
                    to.varint(ino.0 - last);
                    last = ino.0;
                }
            });
        }
        to.finish(key)
    }

    /// The record, if the bytes are one.
    pub fn decode(key: &Key, value: &Value) -> Result<Upload, DecodeError> {
        let mut from = Reader::new(key, value, Upload::FORMAT)?;
        let mut upload = Upload {
            ino: Ino(u64::from_be_bytes(from.fixed("inode")?)),
            begun: Timestamp(from.signed("begun")?),
            uid: from.narrow("uid")?,
            gid: from.narrow("gid")?,
            initiator: from.string("initiator")?,
            checksum: None,
            object: ObjectHeaders::default(),
            state: match from.u8("state")? {
                OPEN => UploadState::Open,
                ABORTED => UploadState::Aborted,
                DONE => UploadState::Done {
                    ino: Ino(from.varint("file")?),
                    at: Timestamp(from.signed("completed")?),
                    tag: read_tag(&mut from)?,
                    sums: Vec::new(),
                    used: Vec::new(),
                },
                _ => return Err(DecodeError::Field("state")),
            },
        };
        while let Some((tag, mut body)) = from.section()? {
            match (tag, &mut upload.state) {
                (section::CHECKSUM, _) => {
                    let algorithm = SumAlgorithm::read(&mut body)?;
                    let kind = match body.u8("checksum kind")? {
                        0 => SumKind::FullObject,
                        1 => SumKind::Composite,
                        _ => return Err(DecodeError::Field("checksum kind")),
                    };
                    upload.checksum = Some((algorithm, kind));
                }
                (section::SUMS, UploadState::Done { sums, .. }) => *sums = read_sums(&mut body)?,
                (section::USED, UploadState::Done { used, .. }) => {
                    let mut last = 0_u64;
                    while !body.is_empty() {
                        let next = last.checked_add(body.varint("used")?);
                        last = next.ok_or(DecodeError::Field("used"))?;
                        used.push(Ino(last));
                    }
                }
                _ => upload.object.read_section(tag, &mut body)?,
            }
        }
        Ok(upload)
    }
}

impl Part {
    const FORMAT: u8 = 1;

    /// The record's bytes.
    pub fn encode(&self, key: &Key) -> Value {
        let mut to = Writer::new(Part::FORMAT);
        let opaque = matches!(self.tag, PartTag::Opaque(_));
        let flags = u8::from(self.shared) | u8::from(opaque) << 1;
        to.varint(self.owner.0)
            .varint(self.size)
            .signed(self.arrived.0)
            .fixed(&self.tag.bytes())
            .u8(flags);
        write_slices(&mut to, &self.slices);
        write_sums(&mut to, &self.sums);
        to.finish(key)
    }

    /// The record, if the bytes are one.
    pub fn decode(key: &Key, value: &Value) -> Result<Part, DecodeError> {
        let mut from = Reader::new(key, value, Part::FORMAT)?;
        let owner = Ino(from.varint("owner")?);
        let size = from.varint("size")?;
        let arrived = Timestamp(from.signed("arrived")?);
        let tag = from.fixed("entity tag")?;
        let flags = from.u8("flags")?;
        if flags > 3 {
            return Err(DecodeError::Field("flags"));
        }
        Ok(Part {
            owner,
            size,
            arrived,
            tag: if flags & 2 == 0 { PartTag::Md5(tag) } else { PartTag::Opaque(tag) },
            shared: flags & 1 != 0,
            slices: read_slices(&mut from)?,
            sums: read_sums(&mut from)?,
        })
    }
}

impl PartSums {
    const FORMAT: u8 = 1;

    /// The record's bytes.
    pub fn encode(&self, key: &Key) -> Value {
        let mut to = Writer::new(PartSums::FORMAT);
        write_sums(&mut to, &self.sums);
        to.finish(key)
    }

    /// The record, if the bytes are one.
    pub fn decode(key: &Key, value: &Value) -> Result<PartSums, DecodeError> {
        let mut from = Reader::new(key, value, PartSums::FORMAT)?;
        Ok(PartSums { sums: read_sums(&mut from)? })
    }
}
