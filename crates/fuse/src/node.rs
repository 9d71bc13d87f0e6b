//! What the kernel knows of a node: its numbers, its attributes, its times, and how long it may
//! remember them.
//!
//! Values here are always ones that the wire can carry; encoding cannot fail. Where a node's
//! content lies and who may do what with it is not known here.

use std::time::Duration;

use crate::abi::{Attr, EntryOut, Statx, SxTime};

/// The number by which the kernel names a node of the mount. 0 names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The directory that is mounted.
    pub const ROOT: NodeId = NodeId(1);
}

/// The number by which the kernel names an open file. The server chose it when the file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle(pub u64);

/// Seconds since 1970, negative before it, and nanoseconds after that second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds after them, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What stat(2) tells of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAttributes {
    /// The inode number that programs see.
    pub inode: u64,
    /// Length in bytes, at most `i64::MAX`: the kernel takes a larger one for an I/O error.
    pub size_bytes: u64,
    /// Space that is taken, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: FileTime,
    /// Last change of the content.
    pub mtime: FileTime,
    /// Last change of the node.
    pub ctime: FileTime,
    /// Kind and permissions, as in `st_mode`.
    pub mode: u32,
    /// Names of the node.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device that a device file stands for, as 12 bits of major between 8 and 12 of minor.
    pub rdev: u32,
    /// The size that reads and writes should have.
    pub block_bytes: u32,
}

impl NodeAttributes {
    /// The kind of the node as a directory entry has it (`DT_REG` and so on).
    pub fn directory_entry_kind(&self) -> u32 {
        (self.mode & 0o170_000) >> 12
    }

    pub(crate) fn encode(&self) -> Attr {
        Attr {
            ino: self.inode,
            size: self.size_bytes,
            blocks: self.blocks,
            atime: self.atime.seconds.cast_unsigned(),
            mtime: self.mtime.seconds.cast_unsigned(),
            ctime: self.ctime.seconds.cast_unsigned(),
            atimensec: self.atime.nanoseconds,
            mtimensec: self.mtime.nanoseconds,
            ctimensec: self.ctime.nanoseconds,
            mode: self.mode,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            blksize: self.block_bytes,
            flags: 0,
        }
    }

    /// The same as statx has it, with the time of birth if there is one.
    pub(crate) fn encode_statx(&self, birth: Option<FileTime>) -> Statx {
        let low_mode = self.mode.to_le_bytes();
        Statx {
            mask: STATX_BASIC_STATS | if birth.is_some() { STATX_BTIME } else { 0 },
            blksize: self.block_bytes,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            mode: u16::from_le_bytes([low_mode[0], low_mode[1]]),
            ino: self.inode,
            size: self.size_bytes,
            blocks: self.blocks,
            atime: encode_time(self.atime),
            btime: encode_time(birth.unwrap_or_default()),
            ctime: encode_time(self.ctime),
            mtime: encode_time(self.mtime),
            rdev_major: (self.rdev >> 8) & 0xfff,
            rdev_minor: (self.rdev & 0xff) | ((self.rdev >> 12) & 0x000f_ff00),
            ..Statx::default()
        }
    }
}

/// All that stat(2) tells.
const STATX_BASIC_STATS: u32 = 0x7ff;
/// The time of birth.
const STATX_BTIME: u32 = 0x800;

fn encode_time(time: FileTime) -> SxTime {
    SxTime { tv_sec: time.seconds, tv_nsec: time.nanoseconds, reserved: 0 }
}

/// A name's node, and for how long the kernel may remember both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node.
    pub node: NodeId,
    /// Tells apart nodes that had the same number one after the other; 0 where numbers are never
    /// used again.
    pub generation: u64,
    /// The node's attributes.
    pub attributes: NodeAttributes,
    /// How long the name may be taken to be bound to this node.
    pub entry_timeout: Duration,
    /// How long the attributes may be taken to be these.
    pub attributes_timeout: Duration,
}

impl NodeEntry {
    pub(crate) fn encode(&self) -> EntryOut {
        EntryOut {
            nodeid: self.node.0,
            generation: self.generation,
            entry_valid: self.entry_timeout.as_secs(),
            attr_valid: self.attributes_timeout.as_secs(),
            entry_valid_nsec: self.entry_timeout.subsec_nanos(),
            attr_valid_nsec: self.attributes_timeout.subsec_nanos(),
            attr: self.attributes.encode(),
        }
    }
}

/// What statfs(2) tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// All of it, in units of `fragment_bytes`.
    pub blocks: u64,
    /// What is free, in the same units.
    pub blocks_free: u64,
    /// What is free for users, in the same units.
    pub blocks_available: u64,
    /// Nodes that there can be.
    pub nodes: u64,
    /// Nodes that can still be made.
    pub nodes_free: u64,
    /// The size that reads and writes should have.
    pub block_bytes: u32,
    /// The unit of the first three.
    pub fragment_bytes: u32,
    /// Bytes that a name can have.
    pub name_bytes_max: u32,
}

#[cfg(test)]
mod tests;
