//! Regular files: the part of an inode that only files have.
//!
//! The head of the inode has the fields that a listing shows, and the rest follows it. For example,
//! a listing shows size and entity tag, and never reads the content map.

use store::Value;

use crate::account::AccountId;
use crate::codec::{DecodeError, Reader, Writer};
use crate::content::Content;
use crate::encryption::Encryption;
use crate::headers::{Header, ObjectHeaders, class_name, class_number};
use crate::object_lock::ObjectLock;
use crate::ring::RingNumber;
use crate::section;
use crate::sum::{HEAD_SUMS_MAX, Sum, SumAlgorithm, SumKind, read_sums, write_sums};
use crate::tag::{Tag, read_tag, write_tag};

/// Consecutive parts of equal length in the multipart upload from which a file was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRun {
    /// The number of consecutive parts.
    pub count: u32,
    /// The length of each part, in bytes.
    pub length: u64,
}

/// The part of an inode that only regular files have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The size in bytes.
    pub size: u64,
    /// The number of content changes. Each change of content also replaces the entity tag and
    /// checksums.
    pub data_version: u64,
    /// The number of names: dentries (names in directories) and version records.
    pub links: u32,
    /// True if ranges without a slice are holes (zeros). In other files such a range is damage.
    pub sparse: bool,
    /// True if the file's only dentry has the mark that the file is self-contained, that is, has no
    /// other records: see [`Dentry::self_contained`](crate::Dentry::self_contained). A plan that
    /// makes the mark wrong, for example one that adds a second name, also clears it.
    pub marked_in_dentry: bool,
    /// The entity tag of the content.
    pub tag: Tag,
    /// Checksums of the content.
    pub sums: Vec<Sum>,
    /// The account that wrote the object; `None` if the bucket's owner did.
    pub writer: Option<AccountId>,
    /// The S3 metadata: headers, user metadata, tags, access control list and object lock.
    pub object: ObjectHeaders,
    /// The parts of the multipart upload from which the file was completed; empty for other files.
    pub parts: Vec<PartRun>,
    /// The rename request that gave the file its name, if the client may repeat that request.
    pub renamed_by: Option<RenameToken>,
    /// The number of pages (records with slices) that the content map ever had. The next page gets
    /// this number, so that no number is used twice.
    pub pages_made: u32,
    /// The mode in which the content is encrypted, as a client or the bucket requested it. `None`
    /// if none was requested. Then the content may still be encrypted, because the volume encrypts
    /// everything.
    pub encryption: Option<Encryption>,
    /// The content: inline bytes or block references.
    pub content: Content,
}

/// Identifies a rename request: eight bytes of a digest of the client's token, and eight bytes of a
/// digest of the old key. If the response is lost and the client repeats the request, the gateway
/// finds by this token that the rename was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameToken(pub [u8; 16]);

impl RenameToken {
    /// Returns true if both requests have the same client token. Their keys may differ.
    pub fn has_same_client_token(&self, other: &RenameToken) -> bool {
        self.0[..8] == other.0[..8]
    }
}

/// The fields of a file in the head of its inode; see [`File`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// The size in bytes.
    pub size: u64,
    /// The number of changes of the file's content.
    pub data_version: u64,
    /// The number of names: dentries and version records.
    pub links: u32,
    /// True if ranges without a slice are holes (zeros), and not damage.
    pub sparse: bool,
    /// The number of bytes that are not in holes. For a file that is not sparse, the size.
    pub bytes_held: u64,
    /// True if the file's only dentry has the mark that the file has no other records.
    pub marked_in_dentry: bool,
    /// The entity tag of the content.
    pub tag: Tag,
    /// The account that wrote the object; `None` if the bucket's owner did.
    pub writer: Option<AccountId>,
    /// The storage class; `None` for `STANDARD`.
    pub class: Option<&'static str>,
    /// The algorithm and the input of each checksum that the file has. Their values are behind the
    /// head.
    pub sums: Vec<(SumAlgorithm, SumKind)>,
}

const SPARSE: u8 = 1;
const MARKED_IN_DENTRY: u8 = 2;
const HAS_WRITER: u8 = 4;
const HAS_CLASS: u8 = 8;

fn read_class(from: &mut Reader<'_>) -> Result<&'static str, DecodeError> {
    class_name(from.u8("storage class")?).ok_or(DecodeError::Field("storage class"))
}

impl FileHead {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<FileHead, DecodeError> {
        let (size, data_version) = (from.varint("size")?, from.varint("data version")?);
        let (links, flags) = (from.narrow("links")?, from.u8("flags")?);
        if flags & !(SPARSE | MARKED_IN_DENTRY | HAS_WRITER | HAS_CLASS) != 0 {
            return Err(DecodeError::Field("flags"));
        }
        // Only sparse files have `bytes_held`: for all others it is the size.
        let sparse = flags & SPARSE != 0;
        let mut file = FileHead {
            size,
            data_version,
            links,
            sparse,
            bytes_held: if sparse { from.varint("bytes held")? } else { size },
            marked_in_dentry: flags & MARKED_IN_DENTRY != 0,
            writer: (flags & HAS_WRITER != 0).then(|| AccountId::read(from)).transpose()?,
            class: (flags & HAS_CLASS != 0).then(|| read_class(from)).transpose()?,
            tag: read_tag(from)?,
            sums: Vec::new(),
        };
        // The checksums are the last field of the head, so they need no count.
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
    /// Returns true if only a request with a key of the client (SSE-C) can read the content.
    pub fn needs_customer_key(&self) -> bool {
        matches!(self.encryption, Some(Encryption::Customer(_)))
    }

    /// Returns a file with its first content, one name, and no metadata.
    pub const fn new(size: u64, tag: Tag, content: Content) -> File {
        File {
            size,
            data_version: 1,
            links: 1,
            sparse: false,
            marked_in_dentry: false,
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
            encryption: None,
            content,
        }
    }

    fn bytes_held(&self) -> u64 {
        // For a file without holes the reader uses the size.
        if self.sparse { self.content.bytes() } else { self.size }
    }

    /// Returns the number of the storage class; `None` for `STANDARD`.
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
            marked_in_dentry: self.marked_in_dentry,
            writer: self.writer,
            class: self.class().and_then(class_name),
            tag: self.tag,
            sums: sums.take(HEAD_SUMS_MAX).collect(),
        }
    }

    pub(crate) fn write_head(&self, to: &mut Writer) {
        let sparse = if self.sparse { SPARSE } else { 0 };
        let self_contained = if self.marked_in_dentry { MARKED_IN_DENTRY } else { 0 };
        let writer = if self.writer.is_some() { HAS_WRITER } else { 0 };
        let class = if self.class().is_some() { HAS_CLASS } else { 0 };
        to.varint(self.size)
            .varint(self.data_version)
            .varint(u64::from(self.links))
            .u8(sparse | self_contained | writer | class);
        if self.sparse {
            to.varint(self.bytes_held());
        }
        if let Some(writer) = self.writer {
            to.varint(writer.0);
        }
        // A class that is not in the list is only in the sections.
        if let Some(class) = self.class() {
            to.u8(class);
        }
        write_tag(to, &self.tag);
        for sum in self.sums.iter().take(HEAD_SUMS_MAX) {
            to.u8(sum.algorithm as u8 | (sum.kind as u8) << 4);
        }
    }

    /// Writes the part of a file that is not in the head: its content, and the sections with
    /// optional fields.
    pub(crate) fn write(&self, to: &mut Writer) {
        // The content comes before the sections, because each file has one.
        self.content.write(to);
        to.section(section::SUMS, |to| write_sums(to, &self.sums));
        self.object.write(to);
        // Runs of equal parts: nearly all uploads have one or two of them.
        to.section(section::PARTS, |to| {
            for run in &self.parts {
                to.varint(u64::from(run.count)).varint(run.length);
            }
        });
        to.section(section::PAGES_MADE, |to| {
            // Most files never have pages, and need no section for their number.
            if self.pages_made > 0 {
                to.varint(u64::from(self.pages_made));
            }
        });
        to.section(section::RENAMED_BY, |to| {
            if let Some(RenameToken(token)) = self.renamed_by {
                to.fixed(&token);
            }
        });
        to.section(section::ENCRYPTION, |to| {
            if let Some(mode) = &self.encryption {
                mode.write(to);
            }
        });
    }

    /// Reads the fields between the head and the sections (tagged optional fields), and adds them
    /// to those of the head.
    pub(crate) fn read(
        head: &FileHead,
        from: &mut Reader<'_>,
        record: &Value,
        ring: Option<RingNumber>,
    ) -> Result<File, DecodeError> {
        Ok(File {
            size: head.size,
            data_version: head.data_version,
            links: head.links,
            sparse: head.sparse,
            marked_in_dentry: head.marked_in_dentry,
            writer: head.writer,
            tag: head.tag,
            content: Content::read(from, record, ring)?,
            sums: Vec::new(),
            object: ObjectHeaders::default(),
            parts: Vec::new(),
            renamed_by: None,
            pages_made: 0,
            encryption: None,
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
            section::ENCRYPTION => self.encryption = Some(Encryption::read(section)?),
            _ => self.object.read_section(tag, section)?,
        }
        Ok(())
    }
}
