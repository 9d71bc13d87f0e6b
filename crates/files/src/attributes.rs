//! The attributes of a node as programs see them: `struct stat`. For example, a file of 1 MiB with
//! one block of 4 KiB in it and holes around has a size of 1,048,576 and 8 blocks.

use record::{Ino, InodeBody, InodeHead, Special, SpecialKind, Timestamp};
use volume::FoundNode;

/// The unit of `st_blocks`, in bytes.
const STAT_BLOCK_BYTES: u64 = 512;

/// The type of a node, as in `st_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Character,
    /// A block device.
    Block,
}

impl NodeKind {
    fn of(special: SpecialKind) -> NodeKind {
        match special {
            SpecialKind::Fifo => NodeKind::Fifo,
            SpecialKind::Socket => NodeKind::Socket,
            SpecialKind::Character => NodeKind::Character,
            SpecialKind::Block => NodeKind::Block,
        }
    }
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStat {
    /// The inode number.
    pub ino: Ino,
    /// The type.
    pub kind: NodeKind,
    /// The permission bits.
    pub mode: u32,
    /// The user that owns the node.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The major and minor number of a device node, in the kernel's 32-bit encoding; 0 for other
    /// types.
    pub device: u32,
    /// The size in bytes.
    pub size: u64,
    /// The size of the content without its holes, in units of 512 bytes.
    pub blocks: u64,
    /// The number of names; for a directory 2 plus the number of its subdirectories.
    pub links: u32,
    /// The time of the last read.
    pub accessed: Timestamp,
    /// The time of the last change of the content.
    pub modified: Timestamp,
    /// The time of the last change of the content, a name or an attribute (`st_ctime`).
    pub changed: Timestamp,
    /// The time of creation.
    pub created: Timestamp,
    /// True if these attributes include dirty data (written and not committed) or an attribute
    /// change that is not committed. The commit may set other times, so the kernel must not cache
    /// these attributes.
    pub volatile_attributes: bool,
    /// True if these attributes answer the lookup of a name that other clients bind to new files
    /// faster than the kernel can look it up and open it. The kernel must not cache the name.
    pub volatile_name: bool,
}

impl NodeStat {
    /// Returns the attributes of a node as its committed record has them, without dirty data.
    pub(crate) fn of(node: &FoundNode) -> NodeStat {
        let links = u32::try_from(node.links()).unwrap_or(u32::MAX);
        NodeStat { links, ..NodeStat::of_head(node.ino, &node.inode.head()) }
    }

    /// Returns the attributes in the head of an inode, the first part of its record. The times and
    /// the number of links of a directory are counters outside the record, so those values are not
    /// valid for a directory.
    pub(crate) fn of_head(ino: Ino, head: &InodeHead) -> NodeStat {
        use record::HeadBody;
        let at = &head.attributes;
        let (kind, size, links, device) = match &head.body {
            HeadBody::Directory { .. } => (NodeKind::Directory, 0, 2, 0),
            HeadBody::File(file) => (NodeKind::File, file.size, file.links, 0),
            HeadBody::Symlink { length, links } => (NodeKind::Symlink, *length, *links, 0),
            HeadBody::Special(Special { kind, device, links }) => {
                (NodeKind::of(*kind), 0, *links, *device)
            }
        };
        let taken = match &head.body {
            HeadBody::File(file) => file.bytes_held.min(size),
            HeadBody::Directory { .. } | HeadBody::Symlink { .. } | HeadBody::Special(_) => size,
        };
        NodeStat {
            ino,
            kind,
            mode: at.mode,
            uid: at.uid,
            gid: at.gid,
            device,
            size,
            blocks: taken.div_ceil(STAT_BLOCK_BYTES),
            links,
            accessed: at.accessed,
            modified: at.modified,
            changed: at.status_changed,
            created: at.created,
            volatile_attributes: false,
            volatile_name: false,
        }
    }

    /// Returns these committed attributes as they are for an open file of `size` bytes that has
    /// `dirty_bytes` bytes of dirty data (written and not committed), which are added to the
    /// blocks.
    pub(crate) fn with_dirty_bytes(self, size: u64, dirty_bytes: u64) -> NodeStat {
        let held = self.blocks.saturating_mul(STAT_BLOCK_BYTES).saturating_add(dirty_bytes);
        NodeStat { size, blocks: held.min(size).div_ceil(STAT_BLOCK_BYTES), ..self }
    }
}

/// Returns the target of a symbolic link; `None` for other types.
pub(crate) fn target_of(node: &FoundNode) -> Option<&[u8]> {
    match &node.inode.body {
        InodeBody::Symlink(symlink) => Some(&symlink.target),
        InodeBody::Directory(_) | InodeBody::File(_) | InodeBody::Special(_) => None,
    }
}
