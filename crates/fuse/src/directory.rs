//! Directory entries in the format of READDIR and READDIRPLUS.
//!
//! The buffer never has more bytes than the kernel asked for. If an entry does not fit, it is left
//! out, and the kernel asks for it with the cookie of the last entry that fitted. The file system
//! chooses the cookies. For example, with cookies 1, 2, 3 and capacity for two entries, the next
//! READDIR has offset 2.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::IntoBytes;

use crate::abi::{Dirent, EntryOut};
use crate::node::NodeEntry;

/// The maximum number of bytes that are allocated at once, even if the kernel asks for more.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// One directory entry, as the kernel gets it.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryName<'a> {
    /// The inode number that programs see; not 0.
    pub inode: u64,
    /// The position after this entry, for the next READDIR. Not 0, which is the beginning.
    pub cookie: u64,
    /// The type as `DT_…`; see [`NodeAttributes::directory_entry_kind`].
    ///
    /// [`NodeAttributes::directory_entry_kind`]: crate::NodeAttributes::directory_entry_kind
    pub kind: u32,
    /// The name, at most 1024 bytes.
    pub name: &'a OsStr,
}

/// The entries of a directory for one reply to READDIR or READDIRPLUS, in the kernel's format.
#[derive(Clone, Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    capacity: usize,
}

impl DirectoryBuffer {
    /// Returns an empty buffer with the capacity that READDIR or READDIRPLUS asked for, in bytes.
    pub fn new(size: u32) -> DirectoryBuffer {
        let capacity = usize::try_from(size).unwrap_or(usize::MAX);
        DirectoryBuffer { bytes: Vec::with_capacity(capacity.min(RESERVED_BYTES_MAX)), capacity }
    }

    /// Adds an entry for a reply to READDIR. Returns false, and adds nothing, if it does not fit;
    /// reply then, and the kernel asks for the rest.
    #[must_use]
    pub fn push(&mut self, name: DirectoryName<'_>) -> bool {
        self.append(None, name)
    }

    /// Adds an entry for a reply to READDIRPLUS, which has the node of each name. Returns false,
    /// and adds nothing, if it does not fit; reply then, and the kernel asks for the rest. An
    /// `entry` counts as a lookup of its node, which the kernel takes back with a FORGET. Pass
    /// `None` for `.` and `..`.
    #[must_use]
    pub fn push_plus(&mut self, entry: Option<&NodeEntry>, name: DirectoryName<'_>) -> bool {
        let entry = entry.map(NodeEntry::encode).unwrap_or_default();
        self.append(Some(entry), name)
    }

    /// Returns true if the buffer has no entries. As a reply, it means the end of the directory.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the entries in the format of the reply.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn append(&mut self, entry: Option<EntryOut>, name: DirectoryName<'_>) -> bool {
        let bytes = name.name.as_bytes();
        let Ok(namelen) = u32::try_from(bytes.len()) else { return false };
        // READDIRPLUS has a node in front of each name, READDIR has none.
        let entry_bytes = entry.as_ref().map_or(&[][..], |entry| entry.as_bytes());
        let unpadded = entry_bytes.len() + size_of::<Dirent>() + bytes.len();
        // The kernel expects each entry at a multiple of 8 bytes.
        let padded = unpadded.next_multiple_of(8);
        if self.bytes.len() + padded > self.capacity {
            return false;
        }
        let dirent = Dirent { ino: name.inode, off: name.cookie, namelen, kind: name.kind };
        self.bytes.extend_from_slice(entry_bytes);
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len() + padded - unpadded, 0);
        true
    }
}

#[cfg(test)]
mod tests;
