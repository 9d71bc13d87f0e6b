//! What requests are answered.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use files::HandleId;
use fuse::{
    DirectoryBuffer, FileHandle, FileLock, FileSystemSpace, FileTime, NodeAttributes, NodeEntry,
    NodeId, OpenFlags, Reply,
};
use volume::CacheValidity;

/// What a request is answered.
pub(super) enum Answer {
    Ok,
    Entry(NodeEntry),
    NoEntry(CacheValidity),
    Attributes(NodeAttributes, Duration),
    StatX(NodeAttributes, FileTime, Duration),
    Bytes(Vec<u8>),
    Size(u32),
    Opened(FileHandle, OpenFlags),
    /// And the kernel may remember wrongly how long the file is.
    OpenedChanged(NodeId, FileHandle, OpenFlags),
    Created(NodeEntry, HandleId, OpenFlags),
    Position(u64),
    Copied(u64),
    Directory(DirectoryBuffer),
    Lock(FileLock),
    Space(FileSystemSpace),
}

impl Answer {
    pub(super) fn send(self, reply: Reply) {
        match self {
            Answer::Ok => reply.ok(),
            Answer::Entry(entry) => reply.entry(&entry),
            Answer::NoEntry(cache_validity) => reply.no_entry(cache_validity.left()),
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

/// A value, or how long it is, as it was asked for.
pub(super) fn sized(value: Vec<u8>, size: u32) -> Result<Answer, rustix::io::Errno> {
    let length = u32::try_from(value.len()).map_err(|_| rustix::io::Errno::TOOBIG)?;
    match size {
        0 => Ok(Answer::Size(length)),
        size if size < length => Err(rustix::io::Errno::RANGE),
        _ => Ok(Answer::Bytes(value)),
    }
}
