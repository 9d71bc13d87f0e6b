//! The content of replies. The operations return it, and `send` encodes it for the kernel.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use files::HandleId;
use fuse::{
    DirectoryBuffer, FileHandle, FileLock, FileSystemSpace, FileTime, NodeAttributes, NodeEntry,
    NodeId, OpenFlags, Reply,
};
use volume::CacheValidity;

/// The content of a reply. For example, `Answer::Entry` is the reply to LOOKUP and MKDIR.
pub(super) enum Answer {
    /// Success without data.
    Ok,
    Entry(NodeEntry),
    /// The name does not exist, which the kernel may cache for this time.
    NoEntry(CacheValidity),
    Attributes(NodeAttributes, Duration),
    StatX(NodeAttributes, FileTime, Duration),
    /// The target of a symbolic link, or the value of an extended attribute.
    Bytes(Vec<u8>),
    /// The length in bytes of an extended attribute's value, or of the list of names.
    Size(u32),
    Opened(FileHandle, OpenFlags),
    /// A file was opened, as with `Opened`. In addition, the kernel must drop its cached size of
    /// the file, which may be wrong.
    OpenedChanged(NodeId, FileHandle, OpenFlags),
    Created(NodeEntry, HandleId, OpenFlags),
    /// The offset that LSEEK found.
    Position(u64),
    /// The number of bytes that were copied.
    Copied(u64),
    Directory(DirectoryBuffer),
    Lock(FileLock),
    Space(FileSystemSpace),
}

impl Answer {
    /// Sends the reply.
    pub(super) fn send(self, reply: Reply) {
        match self {
            Answer::Ok => reply.ok(),
            Answer::Entry(entry) => reply.entry(&entry),
            Answer::NoEntry(cache_validity) => reply.no_entry(cache_validity.remaining()),
            Answer::Attributes(attributes, timeout) => reply.attributes(&attributes, timeout),
            Answer::StatX(attributes, birth, timeout) => {
                reply.statx(&attributes, Some(birth), timeout);
            }
            Answer::Bytes(bytes) => reply.target(&OsString::from_vec(bytes)),
            Answer::Size(size) => reply.xattr_size(size),
            Answer::Opened(handle, flags) => reply.opened(handle, flags),
            Answer::OpenedChanged(node, handle, flags) => {
                reply.opened_changed(node, handle, flags);
            }
            Answer::Created(entry, handle, flags) => {
                reply.created(&entry, FileHandle(handle.0), flags);
            }
            Answer::Position(offset) => reply.seeked(offset),
            Answer::Copied(bytes) => reply.copied(bytes),
            Answer::Directory(names) => reply.directory(&names),
            Answer::Lock(lock) => reply.lock(&lock),
            Answer::Space(space) => reply.statfs(&space),
        }
    }
}

/// Returns the reply to a request for a value with a buffer of `size` bytes: the value, its length
/// if `size` is 0, or `ERANGE` if the buffer is too small.
pub(super) fn sized(value: Vec<u8>, size: u32) -> Result<Answer, rustix::io::Errno> {
    let length = u32::try_from(value.len()).map_err(|_| rustix::io::Errno::TOOBIG)?;
    match size {
        0 => Ok(Answer::Size(length)),
        size if size < length => Err(rustix::io::Errno::RANGE),
        _ => Ok(Answer::Bytes(value)),
    }
}
