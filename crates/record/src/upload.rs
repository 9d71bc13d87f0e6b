//! Multipart uploads, their parts, and the checksums that a completed file keeps of them.

use crate::account::AccountId;
use crate::codec::{DecodeError, Reader, Writer, record};
use crate::content::{Slice, read_slices, write_slices};
use crate::headers::{ObjectHeaders, read_pairs, write_pairs};
use crate::sum::{Sum, SumAlgorithm, SumKind, read_sums, write_sums};
use crate::tag::{Tag, read_tag, write_tag};
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
    /// Names its parts' partition. It is drawn at random beyond all numbers that are leased, so
    /// that no two uploads have the same, whatever a store has forgotten; see [`Upload::number`].
    pub ino: Ino,
    /// When it began.
    pub begun: Timestamp,
    /// Owner and group of the file to be.
    pub uid: u32,
    /// See `uid`.
    pub gid: u32,
    /// Permissions that the file to be is not made with.
    pub umask: u32,
    /// The access key that began it.
    pub initiator: String,
    /// The account of that access key.
    pub account: AccountId,
    /// The account that will be the object's writer, where that is not the bucket's.
    pub writer: Option<AccountId>,
    /// Which checksum the client promised, and how the parts' sums combine.
    pub checksum: Option<(SumAlgorithm, SumKind)>,
    /// What S3 keeps with the object to be.
    pub object: ObjectHeaders,
    /// Headers of the request that began the upload, as sent: those that conditions of policies may
    /// ask for. The permission for each part, and for the completion, depends on them.
    pub asked: Vec<(String, String)>,
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

/// Sections of an upload's record besides the object's, which are 2 to 4, 7 and 11.
mod section {
    pub(super) const CHECKSUM: u8 = 1;
    pub(super) const SUMS: u8 = 6;
    pub(super) const USED: u8 = 8;
    pub(super) const REQUEST_HEADERS: u8 = 10;
}

/// Stands for the account that the bucket belongs to.
const NO_WRITER: u64 = AccountId::END;
const OPEN: u8 = 0;
const DONE: u8 = 1;
const ABORTED: u8 = 2;

impl Upload {
    /// The number of an upload, from random bits.
    pub fn number(random: u64) -> Ino {
        // The last number of all has no partition behind it.
        Ino((random | Ino::LEASED_END.0).min(u64::MAX - 1))
    }
}

record!(
    Upload,
    1,
    |this, to| {
        to.fixed(&this.ino.0.to_be_bytes())
            .signed(this.begun.0)
            .varint(u64::from(this.uid))
            .varint(u64::from(this.gid))
            .varint(u64::from(this.umask))
            .bytes(this.initiator.as_bytes())
            .varint(this.account.0)
            .varint(this.writer.map_or(NO_WRITER, |writer| writer.0));
        this.state.write(&mut to);
        to.section(section::CHECKSUM, |to| {
            if let Some((algorithm, kind)) = this.checksum {
                to.u8(algorithm as u8).u8(kind as u8);
            }
        });
        this.object.write(&mut to);
        this.state.write_sections(&mut to);
        to.section(section::REQUEST_HEADERS, |to| write_pairs(to, &this.asked));
    },
    |from| {
        let mut upload = Upload {
            ino: Ino(u64::from_be_bytes(from.fixed("inode")?)),
            begun: Timestamp(from.signed("begun")?),
            uid: from.narrow("uid")?,
            gid: from.narrow("gid")?,
            umask: from.narrow("umask")?,
            initiator: from.string("initiator")?,
            account: AccountId::read(&mut from)?,
            writer: match from.varint("writer")? {
                NO_WRITER => None,
                number if number < AccountId::END => Some(AccountId(number)),
                _ => return Err(DecodeError::Field("writer")),
            },
            state: UploadState::read(&mut from)?,
            checksum: None,
            object: ObjectHeaders::default(),
            asked: Vec::new(),
        };
        while let Some((tag, mut body)) = from.section()? {
            match tag {
                section::CHECKSUM => {
                    let algorithm = SumAlgorithm::read(&mut body)?;
                    upload.checksum = Some((algorithm, SumKind::read(&mut body)?));
                }
                section::REQUEST_HEADERS => upload.asked = read_pairs(&mut body)?,
                section::SUMS | section::USED => upload.state.read_section(tag, &mut body)?,
                _ => upload.object.read_section(tag, &mut body)?,
            }
        }
        upload
    }
);

impl UploadState {
    fn write(&self, to: &mut Writer) {
        match self {
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
    }

    fn read(from: &mut Reader<'_>) -> Result<UploadState, DecodeError> {
        Ok(match from.u8("state")? {
            OPEN => UploadState::Open,
            ABORTED => UploadState::Aborted,
            DONE => UploadState::Done {
                ino: Ino(from.varint("file")?),
                at: Timestamp(from.signed("completed")?),
                tag: read_tag(from)?,
                sums: Vec::new(),
                used: Vec::new(),
            },
            _ => return Err(DecodeError::Field("state")),
        })
    }

    /// Two sections of an upload that is done, each left out when empty.
    fn write_sections(&self, to: &mut Writer) {
        let UploadState::Done { sums, used, .. } = self else { return };
        to.section(section::SUMS, |to| write_sums(to, sums));
        to.section(section::USED, |to| {
            let mut last = 0;
            for ino in used {
                to.varint(ino.0 - last);
                last = ino.0;
            }
        });
    }

    fn read_section(&mut self, tag: u8, section: &mut Reader<'_>) -> Result<(), DecodeError> {
        let UploadState::Done { sums, used, .. } = self else {
            return Err(DecodeError::Format(tag));
        };
        if tag == section::SUMS {
            *sums = read_sums(section)?;
            return Ok(());
        }
        let mut last = 0_u64;
        while !section.is_empty() {
            let next = last.checked_add(section.varint("used")?);
            last = next.ok_or(DecodeError::Field("used"))?;
            used.push(Ino(last));
        }
        Ok(())
    }
}

record!(
    Part,
    1,
    |this, to| {
        let opaque = matches!(this.tag, PartTag::Opaque(_));
        let flags = u8::from(this.shared) | u8::from(opaque) << 1;
        to.varint(this.owner.0)
            .varint(this.size)
            .signed(this.arrived.0)
            .fixed(&this.tag.bytes())
            .u8(flags);
        write_slices(&mut to, &this.slices);
        to.part(|to| write_sums(to, &this.sums));
    },
    |from| {
        let owner = Ino(from.varint("owner")?);
        let size = from.varint("size")?;
        let arrived = Timestamp(from.signed("arrived")?);
        let tag = from.fixed("entity tag")?;
        let flags = from.u8("flags")?;
        if flags > 3 {
            return Err(DecodeError::Field("flags"));
        }
        Part {
            owner,
            size,
            arrived,
            tag: if flags & 2 == 0 { PartTag::Md5(tag) } else { PartTag::Opaque(tag) },
            shared: flags & 1 != 0,
            slices: read_slices(&mut from)?,
            sums: read_sums(&mut from.part("checksums")?)?,
        }
    }
);

record!(
    PartSums,
    1,
    |this, to| {
        to.part(|to| write_sums(to, &this.sums));
    },
    |from| { PartSums { sums: read_sums(&mut from.part("checksums")?)? } }
);
