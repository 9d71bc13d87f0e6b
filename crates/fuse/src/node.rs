//! Nodes as the kernel sees them: numbers, attributes, times, and cache timeouts.
//!
//! Invariant: each value can be encoded. For example, a time before 1970 has negative seconds and
//! positive nanoseconds. The meaning of a node's content and permissions is the file system's.

use std::time::Duration;

use crate::abi::{Attr, EntryOut, Statx, SxTime};

/// The number by which the kernel's requests name a node (a file, directory, link or special file).
/// 0 is not a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory of the mount.
    pub const ROOT: NodeId = NodeId(1);
}

/// The number of an open file or directory. The file system chose it in its reply to OPEN, and the
/// kernel sends it with each request on the open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle(pub u64);

/// A time: seconds since 1970, negative before it, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The attributes of a node, as of stat(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAttributes {
    /// The inode number that programs see.
    pub inode: u64,
    /// The size in bytes, at most `i64::MAX`. For a larger one the kernel returns EIO.
    pub size_bytes: u64,
    /// The allocated space in units of 512 bytes.
    pub blocks: u64,
    /// The time of the last access.
    pub atime: FileTime,
    /// The time of the last change of the content.
    pub mtime: FileTime,
    /// The time of the last change of the content, of a name or of an attribute.
    pub ctime: FileTime,
    /// The type and the permission bits, as in `st_mode`.
    pub mode: u32,
    /// The number of names.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of a device node; 0 for other types. Bits 8 to 19 are the major number; the other
    /// bits, below and above them, are the minor number.
    pub rdev: u32,
    /// The preferred size of reads and writes, in bytes.
    pub block_bytes: u32,
}

impl NodeAttributes {
    /// Returns the type of the node as a directory entry has it (`DT_REG` and so on).
    pub fn directory_entry_kind(&self) -> u32 {
        (self.mode & 0o170_000) >> 12
    }

    /// Encodes the attributes as the kernel's protocol has them.
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

    /// Encodes the attributes for statx, with the time of creation if it is known.
    pub(crate) fn encode_statx(&self, birth: Option<FileTime>) -> Statx {
        // statx has 16 bits for type and permissions; the upper bits of `mode` are 0.
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

/// The mask of all fields of stat(2).
const STATX_BASIC_STATS: u32 = 0x7ff;
/// The mask of the time of creation.
const STATX_BTIME: u32 = 0x800;

fn encode_time(time: FileTime) -> SxTime {
    SxTime { tv_sec: time.seconds, tv_nsec: time.nanoseconds, reserved: 0 }
}

/// A node as the answer to a lookup of its name, with the times for which the kernel may cache the
/// name and the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The number of the node.
    pub node: NodeId,
    /// The generation, a number that distinguishes nodes which had the same node number at
    /// different times; 0 if numbers are never reused.
    pub generation: u64,
    /// The attributes of the node.
    pub attributes: NodeAttributes,
    /// The time for which the kernel may cache that the name leads to this node.
    pub entry_timeout: Duration,
    /// The time for which the kernel may cache the attributes of the node.
    pub attributes_timeout: Duration,
}

impl NodeEntry {
    /// Encodes the node, with its cache timeouts, as a reply to a lookup has it.
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

/// The space of a file system, as of statfs(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// The total size, in units of `fragment_bytes`.
    pub blocks: u64,
    /// The free space, in the same units.
    pub blocks_free: u64,
    /// The space that users other than root can allocate, in the same units.
    pub blocks_available: u64,
    /// The maximum number of nodes.
    pub nodes: u64,
    /// The number of nodes that can still be created.
    pub nodes_free: u64,
    /// The preferred size of reads and writes, in bytes.
    pub block_bytes: u32,
    /// The unit of the block counts, in bytes.
    pub fragment_bytes: u32,
    /// The maximum length of a name, in bytes.
    pub name_bytes_max: u32,
}

#[cfg(test)]
mod tests;
