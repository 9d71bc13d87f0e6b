//! What a program sees of a node: `struct stat`.

use record::{Ino, InodeBody, InodeHead, Special, SpecialKind, Timestamp};
use volume::FoundNode;

/// Bytes of a block as `st_blocks` counts them.
const STAT_BLOCK_BYTES: u64 = 512;

/// What a node is, as the bits of `st_mode` tell it.
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
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device its number, as in the kernel's 32 bits.
    pub device: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes that its content takes, holes not counted.
    pub blocks: u64,
    /// Names that bind it; of a directory two more than there are directories in it.
    pub links: u32,
    /// When it was last read.
    pub accessed: Timestamp,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When anything about it last changed.
    pub changed: Timestamp,
    /// When it was made.
    pub created: Timestamp,
    /// Whether this is of something written that is not the file's content yet: its times may turn
    /// out others.
    pub volatile_attributes: bool,
    /// Whether the name that it was found by leads elsewhere again and again: nobody is to remember
    /// where it leads.
    pub volatile_name: bool,
}

impl NodeStat {
    /// Those of a node as it was found.
    pub(crate) fn of(node: &FoundNode) -> NodeStat {
        let links = u32::try_from(node.links()).unwrap_or(u32::MAX);
        NodeStat { links, ..NodeStat::of_head(node.ino, &node.inode.head()) }
    }

    /// Those that stand in the head of an inode. A directory's times and links do not.
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
            _ => size,
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

    /// The same with another size, and with bytes written that are not its content yet.
    pub(crate) fn written_to(self, size: u64, unwritten: u64) -> NodeStat {
        let held = self.blocks.saturating_mul(STAT_BLOCK_BYTES).saturating_add(unwritten);
        NodeStat { size, blocks: held.min(size).div_ceil(STAT_BLOCK_BYTES), ..self }
    }
}

/// What a symbolic link says.
pub(crate) fn target_of(node: &FoundNode) -> Option<&[u8]> {
    match &node.inode.body {
        InodeBody::Symlink(symlink) => Some(&symlink.target),
        _ => None,
    }
}
