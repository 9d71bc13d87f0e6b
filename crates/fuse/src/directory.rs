//! The names of a directory, as READDIR and READDIRPLUS want them.
//!
//! The buffer never holds more bytes than the kernel has room for. A name that does not fit stays
//! outside, and the kernel asks for it next time by the cookie of the last one that did. Cookies are
//! the file system's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::IntoBytes;

use crate::abi::{Dirent, EntryOut};
use crate::node::NodeEntry;

/// The most that is reserved at once, whatever room the kernel claims to have.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// One name, as a program reads it.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryName<'a> {
    /// The inode number that programs see; not 0.
    pub inode: u64,
    /// Where to go on after this name. Not 0, which is the beginning.
    pub cookie: u64,
    /// The kind as `DT_…`: [`NodeAttributes::directory_entry_kind`].
    ///
    /// [`NodeAttributes::directory_entry_kind`]: crate::NodeAttributes::directory_entry_kind
    pub kind: u32,
    /// The name, of at most 1024 bytes.
    pub name: &'a OsStr,
}

/// Names that go into one reply.
#[derive(Clone, Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    capacity: usize,
}

impl DirectoryBuffer {
    /// Room for as many bytes as READDIR or READDIRPLUS asked for.
    pub fn new(size: u32) -> DirectoryBuffer {
        let capacity = usize::try_from(size).unwrap_or(usize::MAX);
        DirectoryBuffer { bytes: Vec::with_capacity(capacity.min(RESERVED_BYTES_MAX)), capacity }
    }

    /// Adds a name for READDIR. Returns false, and adds nothing, if it does not fit.
    #[must_use]
    pub fn push(&mut self, name: DirectoryName<'_>) -> bool {
        self.append(None, name)
    }

    /// Adds a name for READDIRPLUS. Returns false, and adds nothing, if it does not fit. An entry
    /// counts as a lookup of its node; `.` and `..` have none.
    #[must_use]
    pub fn push_plus(&mut self, entry: Option<&NodeEntry>, name: DirectoryName<'_>) -> bool {
        let entry = entry.map(NodeEntry::encode).unwrap_or_default();
        self.append(Some(entry), name)
    }

    /// Whether nothing was added. An empty reply is the end of the directory.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn append(&mut self, entry: Option<EntryOut>, name: DirectoryName<'_>) -> bool {
        let bytes = name.name.as_bytes();
        let Ok(namelen) = u32::try_from(bytes.len()) else { return false };
        let entry_bytes = entry.as_ref().map_or(&[][..], |entry| entry.as_bytes());
        let unpadded = entry_bytes.len() + size_of::<Dirent>() + bytes.len();
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
