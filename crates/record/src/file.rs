//! Regular files: what an inode says of one.

use store::Value;

use crate::account::AccountId;
use crate::codec::{DecodeError, Reader, Writer};
use crate::content::Content;
use crate::headers::{Header, ObjectHeaders, class_name, class_number};
use crate::object_lock::ObjectLock;
use crate::section;
use crate::sum::{HEAD_SUMS_MAX, Sum, SumAlgorithm, SumKind, read_sums, write_sums};
use crate::tag::{Tag, read_tag, write_tag};

/// A run of equal parts that a file was completed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRun {
    /// How many parts.
    pub count: u32,
    /// Bytes of each.
    pub length: u64,
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
    /// Whether ranges that nothing holds are zeros. Of other files they are damage.
    pub sparse: bool,
    /// Whether the file's one name says that it is self-contained, see
    /// [`Dentry::self_contained`](crate::Dentry::self_contained). Whoever makes that untrue changes
    /// the name in the same plan.
    pub told_by_name: bool,
    /// The entity tag of the content.
    pub tag: Tag,
    /// Checksums of the content.
    pub sums: Vec<Sum>,
    /// The account that wrote it, where that is not the one that the bucket belongs to.
    pub writer: Option<AccountId>,
    /// What S3 keeps with it.
    pub object: ObjectHeaders,
    /// The parts it was completed from, if it was.
    pub parts: Vec<PartRun>,
    /// The request that gave it its name, if that was one that may be sent again.
    pub renamed_by: Option<RenameToken>,
    /// Numbers that pages of its content map have had so far: the next one gets this number, so that
    /// none is used twice.
    pub pages_made: u32,
    /// Where its bytes lie.
    pub content: Content,
}

/// Stands for a request to rename: eight bytes of a digest of what the client calls it, and eight of
/// one of the old key. If the answer is lost, and the request comes again, it is known by this to be
/// done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameToken(pub [u8; 16]);

impl RenameToken {
    /// Whether another request was called the same by the client, whatever it asked for.
    pub fn has_same_client_token(&self, other: &RenameToken) -> bool {
        self.0[..8] == other.0[..8]
    }
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
    /// Whether ranges that nothing holds are zeros.
    pub sparse: bool,
    /// How many of its bytes are held; of a file that is not sparse, all.
    pub bytes_held: u64,
    /// Whether its one name says that it is self-contained.
    pub told_by_name: bool,
    /// The entity tag of the content.
    pub tag: Tag,
    /// The account that wrote it, where that is not the one that the bucket belongs to.
    pub writer: Option<AccountId>,
    /// Its storage class, where that is not `STANDARD`.
    pub class: Option<&'static str>,
    /// How the first checksums of the content were made, in their order.
    pub sums: Vec<(SumAlgorithm, SumKind)>,
}

const SPARSE: u8 = 1;
const TOLD_BY_NAME: u8 = 2;
const HAS_WRITER: u8 = 4;
const HAS_CLASS: u8 = 8;

fn read_class(from: &mut Reader<'_>) -> Result<&'static str, DecodeError> {
    class_name(from.u8("storage class")?).ok_or(DecodeError::Field("storage class"))
}

impl FileHead {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<FileHead, DecodeError> {
        let (size, data_version) = (from.varint("size")?, from.varint("data version")?);
        let (links, flags) = (from.narrow("links")?, from.u8("flags")?);
        if flags & !(SPARSE | TOLD_BY_NAME | HAS_WRITER | HAS_CLASS) != 0 {
            return Err(DecodeError::Field("flags"));
        }
        let sparse = flags & SPARSE != 0;
        let mut file = FileHead {
            size,
            data_version,
            links,
            sparse,
            bytes_held: if sparse { from.varint("bytes held")? } else { size },
            told_by_name: flags & TOLD_BY_NAME != 0,
            writer: (flags & HAS_WRITER != 0).then(|| AccountId::read(from)).transpose()?,
            class: (flags & HAS_CLASS != 0).then(|| read_class(from)).transpose()?,
            tag: read_tag(from)?,
            sums: Vec::new(),
        };
        while !from.is_empty() {
            file.sums.push(SumKind::read_with_algorithm(from)?);
        }
        if file.sums.len() > HEAD_SUMS_MAX {
            return Err(DecodeError::Field("checksum"));
        }
        Ok(file)
    }
}

impl File {
    /// A file of the first version of its content, with one name and nothing else that is kept with
    /// it.
    pub const fn new(size: u64, tag: Tag, content: Content) -> File {
        File {
            size,
            data_version: 1,
            links: 1,
            sparse: false,
            told_by_name: false,
            tag,
            sums: Vec::new(),
            writer: None,
            object: ObjectHeaders {
                lock: ObjectLock { retention: None, legal_hold: None },
                headers: Vec::new(),
                user: Vec::new(),
                tags: Vec::new(),
                acl: None,
            },
            parts: Vec::new(),
            renamed_by: None,
            pages_made: 0,
            content,
        }
    }

    fn bytes_held(&self) -> u64 {
        if self.sparse { self.content.bytes() } else { self.size }
    }

    /// The number of its storage class, where that is not `STANDARD`.
    fn class(&self) -> Option<u8> {
        self.object.header(Header::StorageClass).and_then(class_number)
    }

    pub(crate) fn head(&self) -> FileHead {
        let sums = self.sums.iter().map(|sum| (sum.algorithm, sum.kind));
        FileHead {
            size: self.size,
            data_version: self.data_version,
            links: self.links,
            sparse: self.sparse,
            bytes_held: self.bytes_held(),
            told_by_name: self.told_by_name,
            writer: self.writer,
            class: self.class().and_then(class_name),
            tag: self.tag,
            sums: sums.take(HEAD_SUMS_MAX).collect(),
        }
    }

    pub(crate) fn write_head(&self, to: &mut Writer) {
        let sparse = if self.sparse { SPARSE } else { 0 };
        let told = if self.told_by_name { TOLD_BY_NAME } else { 0 };
        let writer = if self.writer.is_some() { HAS_WRITER } else { 0 };
        let class = if self.class().is_some() { HAS_CLASS } else { 0 };
        to.varint(self.size)
            .varint(self.data_version)
            .varint(u64::from(self.links))
            .u8(sparse | told | writer | class);
        if self.sparse {
            to.varint(self.bytes_held());
        }
        if let Some(writer) = self.writer {
            to.varint(writer.0);
        }
        if let Some(class) = self.class() {
            to.u8(class);
        }
        write_tag(to, &self.tag);
        for sum in self.sums.iter().take(HEAD_SUMS_MAX) {
            to.u8(sum.algorithm as u8 | (sum.kind as u8) << 4);
        }
    }

    /// What does not stand in the head.
    pub(crate) fn write(&self, to: &mut Writer) {
        self.content.write(to);
        to.section(section::SUMS, |to| write_sums(to, &self.sums));
        self.object.write(to);
        to.section(section::PARTS, |to| {
            for run in &self.parts {
                to.varint(u64::from(run.count)).varint(run.length);
            }
        });
        to.section(section::PAGES_MADE, |to| {
            if self.pages_made > 0 {
                to.varint(u64::from(self.pages_made));
            }
        });
        to.section(section::RENAMED_BY, |to| {
            if let Some(RenameToken(token)) = self.renamed_by {
                to.fixed(&token);
            }
        });
    }

    /// What stands between the head and the sections.
    pub(crate) fn read(
        head: &FileHead,
        from: &mut Reader<'_>,
        record: &Value,
    ) -> Result<File, DecodeError> {
        Ok(File {
            size: head.size,
            data_version: head.data_version,
            links: head.links,
            sparse: head.sparse,
            told_by_name: head.told_by_name,
            writer: head.writer,
            tag: head.tag,
            content: Content::read(from, record)?,
            sums: Vec::new(),
            object: ObjectHeaders::default(),
            parts: Vec::new(),
            renamed_by: None,
            pages_made: 0,
        })
    }

    pub(crate) fn read_section(
        &mut self,
        tag: u8,
        section: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        match tag {
            section::SUMS => self.sums = read_sums(section)?,
            section::PARTS => {
                while !section.is_empty() {
                    let count = section.narrow("parts")?;
                    let length = section.varint("part length")?;
                    self.parts.push(PartRun { count, length });
                }
            }
            section::PAGES_MADE => self.pages_made = section.narrow("pages made")?,
            section::RENAMED_BY => {
                self.renamed_by = Some(RenameToken(section.fixed("rename token")?));
            }
            _ => self.object.read_section(tag, section)?,
        }
        Ok(())
    }
}
