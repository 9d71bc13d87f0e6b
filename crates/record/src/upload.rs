//! Multipart uploads, their parts, and the checksums of parts that a completed file keeps.
//!
//! For example, the 10,000 parts of a completed upload have ten pages of [`PartSums`].

use crate::account::AccountId;
use crate::codec::{DecodeError, Reader, Writer, record};
use crate::content::{Slice, read_slices, write_slices};
use crate::encryption::Encryption;
use crate::headers::{ObjectHeaders, read_pairs, write_pairs};
use crate::sum::{Sum, SumAlgorithm, SumKind, read_sums, write_sums};
use crate::tag::{Tag, read_tag, write_tag};
use crate::{Ino, Timestamp};

/// The state of a multipart upload.
///
/// ```text
///  Open ──▶ Done
///  Open ──▶ Aborted
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadState {
    /// The upload accepts parts.
    Open,
    /// The upload is completed. The fields answer a repeated request to complete it.
    Done {
        /// The inode number of the file that the upload has become.
        ino: Ino,
        /// The entity tag of the file.
        tag: Tag,
        /// The checksums of the file.
        sums: Vec<Sum>,
        /// The parts whose blocks the file owns now, in ascending order. The reaper must not delete
        /// those blocks.
        used: Vec<Ino>,
        /// The time of completion.
        at: Timestamp,
    },
    /// The upload was aborted. The reaper, a background task, deletes its parts.
    Aborted,
}

/// The record of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The number of the partition of its parts. It is random and greater than all leased numbers,
    /// so that no two uploads have the same number, even if the store was restored to an earlier
    /// state; see [`Upload::number`].
    pub ino: Ino,
    /// The time at which the upload was started.
    pub begun: Timestamp,
    /// The user that will own the file.
    pub uid: u32,
    /// The group of the file.
    pub gid: u32,
    /// Permission bits that the file does not get.
    pub umask: u32,
    /// The access key that started the upload.
    pub initiator: String,
    /// The account of that access key.
    pub account: AccountId,
    /// The account that will be the object's writer; `None` for the bucket's owner.
    pub writer: Option<AccountId>,
    /// The checksum that the client announced for the object, and whether it is over the object's
    /// bytes or over the parts' checksums. `None` if it announced none.
    pub checksum: Option<(SumAlgorithm, SumKind)>,
    /// The S3 metadata of the object.
    pub object: ObjectHeaders,
    /// Headers of the request that started the upload, as sent: those to which conditions of
    /// policies may refer. The permission for each part, and for the completion, depends on them.
    pub asked: Vec<(String, String)>,
    /// The mode in which the content of the parts, and of the object, is encrypted.
    pub encryption: Option<Encryption>,
    /// The state of the upload: open, completed or aborted.
    pub state: UploadState,
}

/// The record of one transmission of a part of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number under which the part owns blocks. No file and no other part has it.
    pub owner: Ino,
    /// The size of the part in bytes.
    pub size: u64,
    /// The time at which the part arrived.
    pub arrived: Timestamp,
    /// The entity tag.
    pub tag: PartTag,
    /// The checksums of the part.
    pub sums: Vec<Sum>,
    /// True if the part was copied by reference, so that other owners use its blocks, too. Then
    /// each owner of a block has a share record.
    pub shared: bool,
    /// The content of the part as slices, that is, runs of bytes of blocks. Their positions count
    /// from the start of the part.
    pub slices: Vec<Slice>,
}

/// The entity tag of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartTag {
    /// The MD5 of the part's bytes. A part that was copied by reference has a substitute.
    Md5([u8; 16]),
    /// Random bytes, because no MD5 of the part was computed.
    Opaque([u8; 16]),
}

impl PartTag {
    /// The bytes from which the entity tag of the object is computed.
    pub fn bytes(&self) -> [u8; 16] {
        let (PartTag::Md5(bytes) | PartTag::Opaque(bytes)) = *self;
        bytes
    }

    /// The tag of the part in the form of an object's entity tag.
    pub fn tag(&self) -> Tag {
        match *self {
            PartTag::Md5(md5) => Tag::Md5(md5),
            PartTag::Opaque(id) => Tag::opaque(id),
        }
    }
}

/// The record of a page of the checksums of the parts from which a file was completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSums {
    /// The checksums, in the order of the parts.
    pub sums: Vec<Sum>,
}

/// The number of parts of one page of [`PartSums`].
pub const PART_SUMS_PAGE: u32 = 1_000;

/// Sections of an upload's record in addition to those of the object, which are 2 to 4, 7 and 11.
mod section {
    pub(super) const CHECKSUM: u8 = 1;
    pub(super) const SUMS: u8 = 6;
    pub(super) const USED: u8 = 8;
    pub(super) const REQUEST_HEADERS: u8 = 10;
    pub(super) const ENCRYPTION: u8 = crate::section::ENCRYPTION;
}

/// The value in a record for an object without another writer: it belongs to the account that owns
/// the bucket.
const NO_WRITER: u64 = AccountId::END;
const OPEN: u8 = 0;
const DONE: u8 = 1;
const ABORTED: u8 = 2;

impl Upload {
    /// The number of a new upload, made of random bits. It is above all numbers that inodes have.
    pub fn number(random: u64) -> Ino {
        // The largest number has no partition behind it, so it is not used.
        Ino((random | Ino::LEASED_END.0).min(u64::MAX - 1))
    }
}

record!(
    Upload,
    1,
    |this, to| {
        // The number is above 2^63, for which a varint would be longer than eight bytes.
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
        to.section(section::ENCRYPTION, |to| {
            if let Some(mode) = &this.encryption {
                mode.write(to);
            }
        });
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
            encryption: None,
        };
        while let Some((tag, mut body)) = from.section()? {
            match tag {
                section::CHECKSUM => {
                    let algorithm = SumAlgorithm::read(&mut body)?;
                    upload.checksum = Some((algorithm, SumKind::read(&mut body)?));
                }
                section::REQUEST_HEADERS => upload.asked = read_pairs(&mut body)?,
                section::ENCRYPTION => upload.encryption = Some(Encryption::read(&mut body)?),
                // These sections belong to the state, and all others to the object.
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

    /// Writes two sections of a completed upload. An empty one is left out.
    fn write_sections(&self, to: &mut Writer) {
        let UploadState::Done { sums, used, .. } = self else { return };
        to.section(section::SUMS, |to| write_sums(to, sums));
        to.section(section::USED, |to| {
            // The numbers ascend, so their differences are shorter varints.
            let mut last = 0;
            for ino in used {
                to.varint(ino.0 - last);
                last = ino.0;
            }
        });
    }

    fn read_section(&mut self, tag: u8, section: &mut Reader<'_>) -> Result<(), DecodeError> {
        // Only a completed upload has these sections.
        let UploadState::Done { sums, used, .. } = self else {
            return Err(DecodeError::Format(tag));
        };
        if tag == section::SUMS {
            *sums = read_sums(section)?;
            return Ok(());
        }
        let mut last = 0_u64;
        while !section.is_empty() {
            // A damaged difference must not overflow.
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
        // The two kinds of tags have the same length, so one flag bit is enough.
        let opaque = matches!(this.tag, PartTag::Opaque(_));
        let flags = u8::from(this.shared) | u8::from(opaque) << 1;
        to.varint(this.owner.0)
            .varint(this.size)
            .signed(this.arrived.0)
            .fixed(&this.tag.bytes())
            .u8(flags);
        write_slices(&mut to, &this.slices);
        // The checksums have a length before them, so that a later format can add fields behind.
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
