//! Inodes: what a file or directory is, apart from its name.

use store::{Key, Value};

use crate::codec::{DecodeError, Reader, Writer};
use crate::content::Content;
use crate::name::Kind;
use crate::{Ino, Timestamp};

/// What both views show of any inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, as in `st_mode` without the type.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// When content or name binding last changed: S3's Last-Modified.
    pub changed: Timestamp,
    /// POSIX mtime, which users may set.
    pub modified: Timestamp,
}

/// An entity tag, as bound to one content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// The MD5 of the bytes.
    Md5([u8; 16]),
    /// The MD5 of the parts' MD5s, and how many parts there were.
    Multipart([u8; 16], u16),
    /// Nothing but itself; it changes with every change of content.
    Opaque([u8; 16], u32),
}

impl Tag {
    /// The opaque tag of the first version of a content.
    pub fn opaque(id: [u8; 16]) -> Tag {
        Tag::Opaque(id, 1)
    }
}

/// How a checksum was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// Over all bytes.
    FullObject = 0,
    /// Over the checksums of the parts.
    Composite = 1,
}

impl SumKind {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<SumKind, DecodeError> {
        SumKind::of(from.u8("checksum kind")?)
    }

    fn of(number: u8) -> Result<SumKind, DecodeError> {
        match number {
            0 => Ok(SumKind::FullObject),
            1 => Ok(SumKind::Composite),
            _ => Err(DecodeError::Field("checksum kind")),
        }
    }
}

/// A checksum that S3 clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SumAlgorithm {
    /// CRC-32, 4 bytes.
    Crc32 = 1,
    /// CRC-32C, 4 bytes.
    Crc32c = 2,
    /// CRC-64/NVME, 8 bytes.
    Crc64Nvme = 3,
    /// SHA-1, 20 bytes.
    Sha1 = 4,
    /// SHA-256, 32 bytes.
    Sha256 = 5,
}

impl SumAlgorithm {
    /// Bytes of a sum.
    pub const fn length(self) -> usize {
        match self {
            SumAlgorithm::Crc32 | SumAlgorithm::Crc32c => 4,
            SumAlgorithm::Crc64Nvme => 8,
            SumAlgorithm::Sha1 => 20,
            SumAlgorithm::Sha256 => 32,
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<SumAlgorithm, DecodeError> {
        SumAlgorithm::of(from.u8("checksum algorithm")?)
    }

    fn of(number: u8) -> Result<SumAlgorithm, DecodeError> {
        Ok(match number {
            1 => SumAlgorithm::Crc32,
            2 => SumAlgorithm::Crc32c,
            3 => SumAlgorithm::Crc64Nvme,
            4 => SumAlgorithm::Sha1,
            5 => SumAlgorithm::Sha256,
            _ => return Err(DecodeError::Field("checksum algorithm")),
        })
    }
}

/// A checksum of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// By which algorithm.
    pub algorithm: SumAlgorithm,
    /// Over what.
    pub kind: SumKind,
    /// The sum, [`SumAlgorithm::length`] bytes.
    pub bytes: Vec<u8>,
}

/// A run of equal parts that a file was completed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRun {
    /// How many parts.
    pub count: u32,
    /// Bytes of each.
    pub length: u64,
}

/// The headers that S3 keeps with an object, by what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Header {
    /// `Content-Type`
    ContentType = 1,
    /// `Cache-Control`
    CacheControl = 2,
    /// `Content-Disposition`
    ContentDisposition = 3,
    /// `Content-Encoding`
    ContentEncoding = 4,
    /// `Content-Language`
    ContentLanguage = 5,
    /// `Expires`
    Expires = 6,
    /// `x-amz-website-redirect-location`
    WebsiteRedirect = 7,
    /// `x-amz-storage-class`, when it is not `STANDARD`
    StorageClass = 8,
}

impl Header {
    const ALL: [Header; 8] = [
        Header::ContentType,
        Header::CacheControl,
        Header::ContentDisposition,
        Header::ContentEncoding,
        Header::ContentLanguage,
        Header::Expires,
        Header::WebsiteRedirect,
        Header::StorageClass,
    ];
}

/// What S3 keeps with an object besides its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeaders {
    /// Content headers, each at most once.
    pub headers: Vec<(Header, String)>,
    /// User metadata: the names behind `x-amz-meta-`, in lowercase, and their values.
    pub user: Vec<(String, String)>,
    /// Object tags.
    pub tags: Vec<(String, String)>,
}

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Bytes.
    pub size: u64,
    /// Counts commits of content; an entity tag or checksum never outlives it.
    pub data_version: u64,
    /// Names that bind the file.
    pub links: u32,
    /// The entity tag of the content.
    pub tag: Tag,
    /// Checksums of the content.
    pub sums: Vec<Sum>,
    /// What S3 keeps with it.
    pub object: ObjectHeaders,
    /// The parts it was completed from, if it was.
    pub parts: Vec<PartRun>,
    /// Where its bytes lie.
    pub content: Content,
}

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InodeBody {
    /// A directory, and the directory that holds it.
    Directory {
        /// Where `..` leads.
        parent: Ino,
    },
    /// A regular file.
    File(Box<File>),
    /// A symbolic link.
    Symlink {
        /// What it says.
        target: Vec<u8>,
    },
}

/// A file's or directory's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// What both views show.
    pub attributes: Attributes,
    /// What it is.
    pub body: InodeBody,
}

/// What a listing shows of a file or directory: the first part of its record, which has a checksum
/// of its own, so that it can be read and verified without the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeHead {
    /// What both views show.
    pub attributes: Attributes,
    /// What it is.
    pub body: HeadBody,
}

/// What an inode is, as far as its head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadBody {
    /// A directory, and the directory that holds it.
    Directory {
        /// Where `..` leads.
        parent: Ino,
    },
    /// A regular file.
    File(FileHead),
    /// A symbolic link.
    Symlink,
}

/// What the head says of a file; see [`File`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// Bytes.
    pub size: u64,
    /// Counts commits of content.
    pub data_version: u64,
    /// Names that bind the file.
    pub links: u32,
    /// The entity tag of the content.
    pub tag: Tag,
    /// How the first checksums of the content were made, in their order.
    pub sums: Vec<(SumAlgorithm, SumKind)>,
}

/// The most checksums that a head tells of: more than a file has, which has each at most once.
const HEAD_SUMS_MAX: usize = 10;

impl InodeHead {
    /// No record's head, with all that stands before it and its checksum, has more bytes.
    pub const BYTES_MAX: u32 = 128;
}

/// Format, length and checksum; kind and attributes; numbers, entity tag and checksums of a file.
const LONGEST_HEAD: usize =
    (1 + 1 + 4) + (1 + 3 * 5 + 2 * 10) + (2 * 10 + 5 + (1 + 16 + 5) + HEAD_SUMS_MAX);
const _: () = assert!(LONGEST_HEAD <= InodeHead::BYTES_MAX as usize, "a head is cut");

/// Sections of a file's record. A section that this release does not know is refused. Everything
/// before the sections, in the head or behind it, grows by formats.
mod section {
    pub(super) const SUMS: u8 = 1;
    pub(super) const HEADERS: u8 = 2;
    pub(super) const USER: u8 = 3;
    pub(super) const TAGS: u8 = 4;
    pub(super) const PARTS: u8 = 5;
}

impl Inode {
    const FORMAT: u8 = 1;

    /// The file, if it is one.
    pub fn file(&self) -> Option<&File> {
        match &self.body {
            InodeBody::File(file) => Some(file),
            InodeBody::Directory { .. } | InodeBody::Symlink { .. } => None,
        }
    }

    /// The record's bytes.
    pub fn encode(&self, key: &Key) -> Value {
        let mut to = Writer::new(Inode::FORMAT);
        to.part(|to| self.write_head(to)).end_head(key);
        match &self.body {
            InodeBody::Directory { .. } => {}
            InodeBody::Symlink { target } => {
                to.bytes(target);
            }
            InodeBody::File(file) => file.write(&mut to),
        }
        to.finish(key)
    }

    fn write_head(&self, to: &mut Writer) {
        let kind = match &self.body {
            InodeBody::Directory { .. } => Kind::Directory,
            InodeBody::File(_) => Kind::File,
            InodeBody::Symlink { .. } => Kind::Symlink,
        };
        let at = &self.attributes;
        to.u8(kind as u8)
            .varint(u64::from(at.mode))
            .varint(u64::from(at.uid))
            .varint(u64::from(at.gid))
            .signed(at.changed.0)
            .signed(at.modified.0.wrapping_sub(at.changed.0));
        match &self.body {
            InodeBody::Directory { parent } => {
                to.varint(parent.0);
            }
            InodeBody::Symlink { .. } => {}
            InodeBody::File(file) => {
                to.varint(file.size).varint(file.data_version).varint(u64::from(file.links));
                write_tag(to, &file.tag);
                for sum in file.sums.iter().take(HEAD_SUMS_MAX) {
                    to.u8(sum.algorithm as u8 | (sum.kind as u8) << 4);
                }
            }
        }
    }

    /// The record, if the bytes are one.
    pub fn decode(key: &Key, value: &Value) -> Result<Inode, DecodeError> {
        let mut from = Reader::new(key, value, Inode::FORMAT)?;
        let InodeHead { attributes, body } = InodeHead::decode(key, value)?;
        from.bytes("head")?;
        from.fixed::<4>("head")?;
        let body = match body {
            HeadBody::Directory { parent } => InodeBody::Directory { parent },
            HeadBody::Symlink => InodeBody::Symlink { target: from.bytes("target")?.into() },
            HeadBody::File(head) => InodeBody::File(Box::new(File::read(head, &mut from, value)?)),
        };
        from.finish("inode")?;
        Ok(Inode { attributes, body })
    }
}

impl InodeHead {
    /// The head, if a record begins with these bytes; [`InodeHead::BYTES_MAX`] are enough.
    pub fn decode(key: &Key, first_bytes: &[u8]) -> Result<InodeHead, DecodeError> {
        let mut from = Reader::head(key, first_bytes, Inode::FORMAT)?;
        let kind = from.u8("kind")?;
        let (mode, uid, gid) = (from.narrow("mode")?, from.narrow("uid")?, from.narrow("gid")?);
        let changed = from.signed("changed")?;
        let modified = changed.wrapping_add(from.signed("modified")?);
        let attributes = Attributes {
            mode,
            uid,
            gid,
            changed: Timestamp(changed),
            modified: Timestamp(modified),
        };
        let body = match kind {
            k if k == Kind::Directory as u8 => {
                HeadBody::Directory { parent: Ino(from.varint("parent")?) }
            }
            k if k == Kind::Symlink as u8 => HeadBody::Symlink,
            k if k == Kind::File as u8 => HeadBody::File(FileHead::read(&mut from)?),
            _ => return Err(DecodeError::Field("kind")),
        };
        from.finish("head")?;
        Ok(InodeHead { attributes, body })
    }

    /// The file, if it is one.
    pub fn file(&self) -> Option<&FileHead> {
        match &self.body {
            HeadBody::File(file) => Some(file),
            HeadBody::Directory { .. } | HeadBody::Symlink => None,
        }
    }
}

impl FileHead {
    fn read(from: &mut Reader<'_>) -> Result<FileHead, DecodeError> {
        let mut file = FileHead {
            size: from.varint("size")?,
            data_version: from.varint("data version")?,
            links: from.narrow("links")?,
            tag: read_tag(from)?,
            sums: Vec::new(),
        };
        while !from.is_empty() {
            let mark = from.u8("checksum")?;
            file.sums.push((SumAlgorithm::of(mark & 0x0f)?, SumKind::of(mark >> 4)?));
        }
        if file.sums.len() > HEAD_SUMS_MAX {
            return Err(DecodeError::Field("checksum"));
        }
        Ok(file)
    }
}

impl File {
    /// What does not stand in the head.
    fn write(&self, to: &mut Writer) {
        self.content.write(to);
        to.section(section::SUMS, |to| write_sums(to, &self.sums));
        self.object.write(to);
        to.section(section::PARTS, |to| {
            for run in &self.parts {
                to.varint(u64::from(run.count)).varint(run.length);
            }
        });
    }

    fn read(head: FileHead, from: &mut Reader<'_>, record: &Value) -> Result<File, DecodeError> {
        let mut file = File {
            size: head.size,
            data_version: head.data_version,
            links: head.links,
            tag: head.tag,
            content: Content::read(from, record)?,
            sums: Vec::new(),
            object: ObjectHeaders::default(),
            parts: Vec::new(),
        };
        while let Some((tag, mut section)) = from.section()? {
            match tag {
                section::SUMS => file.sums = read_sums(&mut section)?,
                section::PARTS => {
                    while !section.is_empty() {
                        let count = section.narrow("parts")?;
                        let length = section.varint("part length")?;
                        file.parts.push(PartRun { count, length });
                    }
                }
                _ => file.object.read_section(tag, &mut section)?,
            }
        }
        let made = file.sums.iter().map(|sum| (sum.algorithm, sum.kind));
        if made.take(HEAD_SUMS_MAX).eq(head.sums) {
            Ok(file)
        } else {
            Err(DecodeError::Field("checksum"))
        }
    }
}

impl ObjectHeaders {
    /// Three sections, each left out when empty.
    pub(crate) fn write(&self, to: &mut Writer) {
        to.section(section::HEADERS, |to| {
            for (header, value) in &self.headers {
                to.u8(*header as u8).bytes(value.as_bytes());
            }
        });
        for (tag, pairs) in [(section::USER, &self.user), (section::TAGS, &self.tags)] {
            to.section(tag, |to| write_pairs(to, pairs));
        }
    }

    pub(crate) fn read_section(
        &mut self,
        tag: u8,
        section: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        match tag {
            section::HEADERS => {
                while !section.is_empty() {
                    let id = section.u8("header")?;
                    let header = Header::ALL.into_iter().find(|header| *header as u8 == id);
                    let header = header.ok_or(DecodeError::Field("header"))?;
                    self.headers.push((header, section.string("header")?));
                }
            }
            section::USER => self.user = read_pairs(section)?,
            section::TAGS => self.tags = read_pairs(section)?,
            _ => return Err(DecodeError::Format(tag)),
        }
        Ok(())
    }

    /// A header's value.
    pub fn header(&self, header: Header) -> Option<&str> {
        self.headers.iter().find(|(h, _)| *h == header).map(|(_, value)| value.as_str())
    }
}

pub(crate) fn write_pairs(to: &mut Writer, pairs: &[(String, String)]) {
    for (name, value) in pairs {
        to.bytes(name.as_bytes()).bytes(value.as_bytes());
    }
}

pub(crate) fn read_pairs(from: &mut Reader<'_>) -> Result<Vec<(String, String)>, DecodeError> {
    let mut pairs = Vec::new();
    while !from.is_empty() {
        pairs.push((from.string("name")?, from.string("value")?));
    }
    Ok(pairs)
}

const TAG_MD5: u8 = 1;
const TAG_MULTIPART: u8 = 2;
const TAG_OPAQUE: u8 = 3;

pub(crate) fn write_tag(to: &mut Writer, tag: &Tag) {
    match tag {
        Tag::Md5(md5) => to.u8(TAG_MD5).fixed(md5),
        Tag::Multipart(md5, parts) => to.u8(TAG_MULTIPART).fixed(md5).varint(u64::from(*parts)),
        Tag::Opaque(id, version) => to.u8(TAG_OPAQUE).fixed(id).varint(u64::from(*version)),
    };
}

pub(crate) fn read_tag(from: &mut Reader<'_>) -> Result<Tag, DecodeError> {
    let kind = from.u8("entity tag")?;
    let bytes = from.fixed("entity tag")?;
    match kind {
        TAG_MD5 => Ok(Tag::Md5(bytes)),
        TAG_MULTIPART => Ok(Tag::Multipart(bytes, from.narrow("entity tag")?)),
        TAG_OPAQUE => Ok(Tag::Opaque(bytes, from.narrow("entity tag")?)),
        _ => Err(DecodeError::Field("entity tag")),
    }
}

pub(crate) fn write_sums(to: &mut Writer, sums: &[Sum]) {
    for sum in sums {
        assert_eq!(sum.bytes.len(), sum.algorithm.length(), "a sum has its algorithm's length");
        to.u8(sum.algorithm as u8).u8(sum.kind as u8).fixed(&sum.bytes);
    }
}

pub(crate) fn read_sums(from: &mut Reader<'_>) -> Result<Vec<Sum>, DecodeError> {
    let mut sums = Vec::new();
    while !from.is_empty() {
        let algorithm = SumAlgorithm::read(from)?;
        let kind = SumKind::read(from)?;
        let bytes = from.take(algorithm.length(), "checksum")?.to_vec();
        sums.push(Sum { algorithm, kind, bytes });
    }
    Ok(sums)
}
