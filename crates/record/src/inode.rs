//! Inodes: files, directories and other nodes, apart from their names.
//!
//! A record begins with a *head* of at most [`InodeHead::BYTES_MAX`] bytes with a checksum of its
//! own. A listing of 1,000 keys reads only the heads. For example, the record of an inline file of
//! 200 KiB is long, and its listing reads 160 bytes of it.

use store::{Key, Value};

use crate::codec::{DecodeError, Reader, Writer};
use crate::file::{File, FileHead};
use crate::name::Kind;
use crate::sum::HEAD_SUMS_MAX;
use crate::xattr::Xattr;
use crate::{Ino, RingNumber, Timestamp, section, xattr};

/// The attributes that inodes of all kinds have: permissions, owner and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The permission bits: `st_mode` without the file type.
    pub mode: u32,
    /// The user that owns the node.
    pub uid: u32,
    /// The group of the node.
    pub gid: u32,
    /// The time of the last change of content or name: Last-Modified of S3.
    pub changed: Timestamp,
    /// The time of the last change of content, which users may set (POSIX mtime).
    pub modified: Timestamp,
    /// The time of the last read, which users may set (POSIX atime).
    pub accessed: Timestamp,
    /// The time of the last change of the inode (POSIX ctime).
    pub status_changed: Timestamp,
    /// The time of creation.
    pub created: Timestamp,
}

impl Attributes {
    /// The attributes of a node that is created now.
    pub const fn new(mode: u32, uid: u32, gid: u32, now: Timestamp) -> Attributes {
        Attributes {
            mode,
            uid,
            gid,
            changed: now,
            modified: now,
            accessed: now,
            status_changed: now,
            created: now,
        }
    }

    /// The same attributes with all times set to `now`.
    #[must_use]
    pub const fn at(self, now: Timestamp) -> Attributes {
        Attributes::new(self.mode, self.uid, self.gid, now)
    }

    fn write(&self, to: &mut Writer) {
        to.varint(u64::from(self.mode))
            .varint(u64::from(self.uid))
            .varint(u64::from(self.gid))
            .signed(self.changed.0);
        // Times are usually close to `changed`, so their differences are shorter varints.
        for time in [self.modified, self.accessed, self.status_changed, self.created] {
            to.signed(time.0.wrapping_sub(self.changed.0));
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Attributes, DecodeError> {
        let (mode, uid, gid) = (from.narrow("mode")?, from.narrow("uid")?, from.narrow("gid")?);
        // The differences wrap, so every pair of times can be written.
        let changed = from.signed("changed")?;
        let mut time =
            |field| from.signed(field).map(|since| Timestamp(changed.wrapping_add(since)));
        Ok(Attributes {
            mode,
            uid,
            gid,
            changed: Timestamp(changed),
            modified: time("modified")?,
            accessed: time("accessed")?,
            status_changed: time("status changed")?,
            created: time("created")?,
        })
    }
}

/// The part of an inode that only directories have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The inode number of the parent directory (`..`).
    pub parent: Ino,
    /// Its name in the parent directory, so that its path can be found; empty for the root.
    pub name: Vec<u8>,
}

/// The part of an inode that only symbolic links have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symlink {
    /// The target path.
    pub target: Vec<u8>,
    /// The number of names that the link has.
    pub links: u32,
}

/// The kind of a special node, which only mounts show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    /// A FIFO.
    Fifo = 1,
    /// A socket.
    Socket = 2,
    /// A character device.
    Character = 3,
    /// A block device.
    Block = 4,
}

/// The part of an inode that only FIFOs, sockets and devices have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// The kind.
    pub kind: SpecialKind,
    /// The device number in the 32 bits of the kernel's `st_rdev`; 0 for a FIFO or socket.
    pub device: u32,
    /// The number of names that the node has.
    pub links: u32,
}

/// The part of an inode that depends on its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InodeBody {
    /// The fields of a directory.
    Directory(Directory),
    /// The fields of a regular file.
    File(Box<File>),
    /// The fields of a symbolic link.
    Symlink(Symlink),
    /// The fields of a FIFO, socket or device.
    Special(Special),
}

/// The record of a node: a file, directory, symbolic link or special file, apart from its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The attributes.
    pub attributes: Attributes,
    /// The inode number of its bucket: that of the bucket itself for a bucket's directory, and the
    /// root for the root. It never changes, because no node moves to another bucket.
    pub bucket: Ino,
    /// The extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
    /// The part that depends on the kind.
    pub body: InodeBody,
}

/// The first part of an inode's record: the fields that a listing shows. It has a checksum of its
/// own, so it can be read and verified without the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeHead {
    /// The attributes.
    pub attributes: Attributes,
    /// The inode number of the bucket to which the node belongs; see [`Inode::bucket`].
    pub bucket: Ino,
    /// True if the inode has extended attributes, including access control lists. They are not in
    /// the head.
    pub has_xattrs: bool,
    /// The part that depends on the kind.
    pub body: HeadBody,
}

/// The part of an inode's head, the fields that a listing shows, that depends on the kind of the
/// node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadBody {
    /// A directory.
    Directory {
        /// The inode number of the parent directory.
        parent: Ino,
    },
    /// A regular file.
    File(FileHead),
    /// A symbolic link.
    Symlink {
        /// The length of the target path, in bytes.
        length: u64,
        /// The number of names.
        links: u32,
    },
    /// A FIFO, socket or device.
    Special(Special),
}

/// The bit next to the kind that marks an inode with extended attributes.
const HAS_XATTRS: u8 = 0x80;

impl InodeHead {
    /// The number of bytes of a record in which its head always ends, with the format and length
    /// before the head and the checksum behind it. A read of this many bytes is enough for a
    /// listing.
    pub const BYTES_MAX: u32 = 160;
}

/// The length of the longest head in bytes: format, length and checksum; kind, attributes and
/// bucket; then the fields of a file with entity tag and checksums.
const LONGEST_HEAD: usize = (1 + 2 + 4)
    + (1 + 3 * 5 + 5 * 10 + 10)
    + (2 * 10 + 5 + 1 + 6 + 1 + (1 + 16 + 5) + HEAD_SUMS_MAX);
const _: () = assert!(LONGEST_HEAD <= InodeHead::BYTES_MAX as usize, "a head is cut");

impl Inode {
    /// The format of a record whose bytes are stored as they are.
    const FORMAT: u8 = 1;
    /// The format of a record that is encrypted on its way to the store. It names the ring key
    /// behind the head. Only this process sees it.
    pub(crate) const OPEN_FORMAT: u8 = 2;
    /// The format of such a record in the store: see [`SealedInode`](crate::SealedInode).
    pub(crate) const SEALED_FORMAT: u8 = 3;

    /// The file; `None` for other kinds.
    pub fn file(&self) -> Option<&File> {
        match &self.body {
            InodeBody::File(file) => Some(file),
            InodeBody::Directory(_) | InodeBody::Symlink(_) | InodeBody::Special(_) => None,
        }
    }

    /// The kind of the node.
    pub fn kind(&self) -> Kind {
        match &self.body {
            InodeBody::Directory(_) => Kind::Directory,
            InodeBody::File(_) => Kind::File,
            InodeBody::Symlink(_) => Kind::Symlink,
            InodeBody::Special(_) => Kind::Special,
        }
    }

    /// The number of names that the node has. A directory has one.
    pub fn links(&self) -> u32 {
        match &self.body {
            InodeBody::Directory(_) => 1,
            InodeBody::File(file) => file.links,
            InodeBody::Symlink(symlink) => symlink.links,
            InodeBody::Special(special) => special.links,
        }
    }

    /// A mutable reference to the number of names; `None` for a directory.
    pub fn links_mut(&mut self) -> Option<&mut u32> {
        match &mut self.body {
            InodeBody::Directory(_) => None,
            InodeBody::File(file) => Some(&mut file.links),
            InodeBody::Symlink(symlink) => Some(&mut symlink.links),
            InodeBody::Special(special) => Some(&mut special.links),
        }
    }

    /// The head of the record: the fields that a listing shows.
    pub fn head(&self) -> InodeHead {
        let body = match &self.body {
            InodeBody::Directory(Directory { parent, .. }) => {
                HeadBody::Directory { parent: *parent }
            }
            InodeBody::File(file) => HeadBody::File(file.head()),
            InodeBody::Symlink(Symlink { target, links }) => {
                HeadBody::Symlink { length: target.len() as u64, links: *links }
            }
            InodeBody::Special(special) => HeadBody::Special(*special),
        };
        let (attributes, has_xattrs) = (self.attributes, !self.xattrs.is_empty());
        InodeHead { attributes, bucket: self.bucket, has_xattrs, body }
    }

    /// Returns the bytes of the record.
    pub fn encode(&self, key: &Key) -> Value {
        let ring = self.file().and_then(|file| file.content.inline_ring());
        let mut to = Writer::new(ring.map_or(Inode::FORMAT, |_| Inode::OPEN_FORMAT));
        // The head comes first and has a checksum, so a read of the first bytes is enough for a
        // listing.
        to.part(|to| self.write_head(to)).end_head(key);
        if let Some(RingNumber(ring)) = ring {
            to.fixed(&ring.to_be_bytes());
        }
        match &self.body {
            InodeBody::Directory(Directory { name, .. }) => {
                to.bytes(name);
            }
            InodeBody::Symlink(Symlink { target, .. }) => {
                to.bytes(target);
            }
            InodeBody::Special(_) => {}
            InodeBody::File(file) => file.write(&mut to),
        }
        to.section(section::XATTRS, |to| xattr::write(to, &self.xattrs));
        to.finish(key)
    }

    fn write_head(&self, to: &mut Writer) {
        // The head has only a flag for extended attributes, so that its length is limited.
        to.u8(self.kind() as u8 | if self.xattrs.is_empty() { 0 } else { HAS_XATTRS });
        self.attributes.write(to);
        to.varint(self.bucket.0);
        match &self.body {
            InodeBody::Directory(Directory { parent, .. }) => {
                to.varint(parent.0);
            }
            InodeBody::Symlink(Symlink { target, links }) => {
                to.varint(target.len() as u64).varint(u64::from(*links));
            }
            InodeBody::Special(Special { kind, device, links }) => {
                to.u8(*kind as u8).varint(u64::from(*device)).varint(u64::from(*links));
            }
            InodeBody::File(file) => file.write_head(to),
        }
    }

    /// Decodes a record. Inline content shares the memory of `value`.
    pub fn decode(key: &Key, value: &Value) -> Result<Inode, DecodeError> {
        // The head is decoded by itself, and skipped here with its checksum.
        let mut from = Reader::new(key, value, Inode::SEALED_FORMAT)?;
        let InodeHead { attributes, bucket, has_xattrs, body } = InodeHead::decode(key, value)?;
        from.bytes("head")?;
        from.fixed::<4>("head")?;
        let ring = if from.since(Inode::OPEN_FORMAT) { Some(from.ring_number()?) } else { None };
        if let (Some(ring), true) = (ring, from.since(Inode::SEALED_FORMAT)) {
            return Err(DecodeError::Sealed(ring));
        }
        // Only files have inline content.
        if ring.is_some() && !matches!(body, HeadBody::File(_)) {
            return Err(DecodeError::Field("ring key"));
        }
        let sums = match &body {
            HeadBody::File(head) => head.sums.clone(),
            HeadBody::Directory { .. } | HeadBody::Symlink { .. } | HeadBody::Special(_) => {
                Vec::new()
            }
        };
        let mut body = match body {
            HeadBody::Directory { parent } => {
                InodeBody::Directory(Directory { parent, name: from.bytes("name")?.into() })
            }
            HeadBody::Symlink { length, links } => {
                let target: Vec<u8> = from.bytes("target")?.into();
                // The length in the head is a copy for listings, and must be right.
                if target.len() as u64 != length {
                    return Err(DecodeError::Field("target"));
                }
                InodeBody::Symlink(Symlink { target, links })
            }
            HeadBody::Special(special) => InodeBody::Special(special),
            HeadBody::File(head) => {
                InodeBody::File(Box::new(File::read(&head, &mut from, value, ring)?))
            }
        };
        let mut xattrs = Vec::new();
        while let Some((tag, mut section)) = from.section()? {
            match (tag, &mut body) {
                (section::XATTRS, _) => xattrs = xattr::read(&mut section)?,
                (_, InodeBody::File(file)) => file.read_section(tag, &mut section)?,
                _ => return Err(DecodeError::Format(tag)),
            }
        }
        from.finish("inode")?;
        // Head and rest have separate checksums. These checks find a head that does not belong to
        // the rest.
        if has_xattrs == xattrs.is_empty() {
            return Err(DecodeError::Field("extended attributes"));
        }
        if let InodeBody::File(file) = &body
            && file.head().sums != sums
        {
            return Err(DecodeError::Field("checksum"));
        }
        Ok(Inode { attributes, bucket, xattrs, body })
    }
}

impl InodeHead {
    /// Decodes the head from the first bytes of a record. [`InodeHead::BYTES_MAX`] bytes are
    /// enough.
    pub fn decode(key: &Key, first_bytes: &[u8]) -> Result<InodeHead, DecodeError> {
        let mut from = Reader::head(key, first_bytes, Inode::SEALED_FORMAT)?;
        let kind = from.u8("kind")?;
        let (kind, has_xattrs) = (kind & !HAS_XATTRS, kind & HAS_XATTRS != 0);
        let attributes = Attributes::read(&mut from)?;
        let bucket = Ino(from.varint("bucket")?);
        let body = match kind {
            k if k == Kind::Directory as u8 => {
                HeadBody::Directory { parent: Ino(from.varint("parent")?) }
            }
            k if k == Kind::Symlink as u8 => {
                HeadBody::Symlink { length: from.varint("length")?, links: from.narrow("links")? }
            }
            k if k == Kind::Special as u8 => HeadBody::Special(Special {
                kind: match from.u8("special kind")? {
                    1 => SpecialKind::Fifo,
                    2 => SpecialKind::Socket,
                    3 => SpecialKind::Character,
                    4 => SpecialKind::Block,
                    _ => return Err(DecodeError::Field("special kind")),
                },
                device: from.narrow("device")?,
                links: from.narrow("links")?,
            }),
            k if k == Kind::File as u8 => HeadBody::File(FileHead::read(&mut from)?),
            _ => return Err(DecodeError::Field("kind")),
        };
        from.finish("head")?;
        Ok(InodeHead { attributes, bucket, has_xattrs, body })
    }

    /// The file; `None` for other kinds.
    pub fn file(&self) -> Option<&FileHead> {
        match &self.body {
            HeadBody::File(file) => Some(file),
            HeadBody::Directory { .. } | HeadBody::Symlink { .. } | HeadBody::Special(_) => None,
        }
    }
}
