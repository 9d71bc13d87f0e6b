//! Every operation that the kernel asks for, as values.
//!
//! What was decoded is well-formed: names are not empty, have neither `/` nor NUL, and lie in the
//! request's own buffer; data has the length that was announced. Whether a node or a handle exists
//! is for the file system to say.

pub(crate) mod decode;

use std::ffi::OsStr;

use crate::abi::ForgetOne;
use crate::node::{FileHandle, FileTime, NodeId};

pub use decode::MalformedRequest;

/// Who holds a lock, or whose locks end with a close: a number that the kernel made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// What a lock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Held by any number of readers.
    Shared,
    /// Held by one writer.
    Exclusive,
    /// Not held; asks to let go.
    Unlocked,
}

/// A lock on a range of a file. A whole file is `0..=u64::MAX >> 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// The first byte.
    pub start: u64,
    /// The last byte, itself a part of the range.
    pub end: u64,
    /// What it allows.
    pub kind: LockKind,
    /// The process that asks or holds, as this mount sees it.
    pub pid: u32,
}

/// A lock that is asked for or asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The open file.
    pub handle: FileHandle,
    /// Who asks.
    pub owner: LockOwner,
    /// The range and kind.
    pub lock: FileLock,
    /// The lock of flock(2), of the open file and the whole of it; else one of fcntl(2).
    pub flock: bool,
}

/// A time that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// The server's present time.
    Now,
    /// This time.
    At(FileTime),
}

/// What SETATTR changes. `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// Permissions, and the kind that the node has anyway.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size_bytes: Option<u64>,
    /// Last access.
    pub atime: Option<TimeChange>,
    /// Last change of the content.
    pub mtime: Option<TimeChange>,
    /// Last change of the node.
    pub ctime: Option<FileTime>,
    /// The open file through which it is asked, of ftruncate(2) for one.
    pub handle: Option<FileHandle>,
    /// Whose locks a truncation respects.
    pub lock_owner: Option<LockOwner>,
    /// Clear the set-user-id bit, and the set-group-id bit if the group may execute.
    pub kill_suidgid: bool,
}

/// Nodes that the kernel forgot, each with the number of lookups that it forgot of it.
#[derive(Clone, Debug)]
pub struct Forgotten<'a> {
    first: Option<(NodeId, u64)>,
    rest: &'a [u8],
}

impl Iterator for Forgotten<'_> {
    type Item = (NodeId, u64);

    fn next(&mut self) -> Option<(NodeId, u64)> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let (one, rest) = <ForgetOne as zerocopy::FromBytes>::read_from_prefix(self.rest).ok()?;
        self.rest = rest;
        Some((NodeId(one.nodeid), one.nlookup))
    }
}

/// What the kernel asks for. The node that it is about, and who asks, is in the request.
#[derive(Clone, Debug)]
pub enum FileOperation<'a> {
    /// Which node a name of this directory is bound to.
    Lookup {
        /// The name.
        name: &'a OsStr,
    },
    /// Nodes that the kernel no longer remembers, one or many. Nobody waits for an answer.
    Forget {
        /// The nodes.
        nodes: Forgotten<'a>,
    },
    /// The attributes of the node.
    GetAttr {
        /// The open file through which it is asked.
        handle: Option<FileHandle>,
    },
    /// Changes of the node's attributes; answered with the new ones.
    SetAttr(AttributeChanges),
    /// Where the symbolic link points to.
    ReadLink,
    /// Makes a symbolic link in this directory.
    Symlink {
        /// Its name.
        name: &'a OsStr,
        /// Where it points to.
        target: &'a OsStr,
    },
    /// Makes a file, a device, a socket or a FIFO in this directory.
    MkNod {
        /// Its name.
        name: &'a OsStr,
        /// Kind and permissions, the umask not yet applied.
        mode: u32,
        /// The device it stands for.
        rdev: u32,
        /// The caller's umask.
        umask: u32,
    },
    /// Makes a directory in this directory.
    MkDir {
        /// Its name.
        name: &'a OsStr,
        /// Permissions, the umask not yet applied.
        mode: u32,
        /// The caller's umask.
        umask: u32,
    },
    /// Removes a name that is not a directory's.
    Unlink {
        /// The name.
        name: &'a OsStr,
    },
    /// Removes an empty directory.
    RmDir {
        /// Its name.
        name: &'a OsStr,
    },
    /// Moves a name of this directory.
    Rename {
        /// The name.
        name: &'a OsStr,
        /// The directory to move it to.
        new_parent: NodeId,
        /// The name there.
        new_name: &'a OsStr,
        /// `RENAME_NOREPLACE`, `RENAME_EXCHANGE`, `RENAME_WHITEOUT`.
        flags: u32,
    },
    /// Gives a node one more name, in this directory.
    Link {
        /// The node.
        target: NodeId,
        /// The new name.
        name: &'a OsStr,
    },
    /// Opens the node.
    Open {
        /// As of open(2), `O_TRUNC` included, `O_CREAT` and `O_EXCL` not.
        flags: u32,
        /// With `O_TRUNC`: clear the set-user-id bit and the like.
        kill_suidgid: bool,
    },
    /// Reads; fewer bytes than asked for mean the end of the file.
    Read {
        /// The open file.
        handle: FileHandle,
        /// Where.
        offset: u64,
        /// How many bytes.
        size: u32,
        /// As of open(2).
        flags: u32,
        /// Whose locks to respect.
        lock_owner: Option<LockOwner>,
    },
    /// Writes.
    Write {
        /// The open file.
        handle: FileHandle,
        /// Where, in the kernel's opinion: with `O_APPEND` the server knows the end better.
        offset: u64,
        /// What.
        data: &'a [u8],
        /// As of open(2).
        flags: u32,
        /// Whose locks to respect.
        lock_owner: Option<LockOwner>,
        /// Written back from the page cache of a mapping; the handle is a guess.
        from_page_cache: bool,
        /// Clear the set-user-id bit and the like.
        kill_suidgid: bool,
    },
    /// How much space there is.
    StatFs,
    /// The last descriptor of an open file was closed. Nobody waits for it.
    Release {
        /// The open file.
        handle: FileHandle,
        /// As of open(2).
        flags: u32,
        /// Whose locks end.
        lock_owner: LockOwner,
        /// Flush as well.
        flush: bool,
        /// The lock of flock(2) ends.
        flock_unlock: bool,
    },
    /// Makes the file durable.
    FSync {
        /// The open file.
        handle: FileHandle,
        /// As of fdatasync(2).
        data_only: bool,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// Its name.
        name: &'a OsStr,
        /// Its value.
        value: &'a [u8],
        /// `XATTR_CREATE`, `XATTR_REPLACE`.
        flags: u32,
        /// An access control list is set by one who is not of the group: clear set-group-id.
        acl_kill_sgid: bool,
    },
    /// The value of an extended attribute.
    GetXattr {
        /// Its name.
        name: &'a OsStr,
        /// How many bytes fit; 0 asks for the length.
        size: u32,
    },
    /// The names of all extended attributes, each with a NUL behind it.
    ListXattr {
        /// How many bytes fit; 0 asks for the length.
        size: u32,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// Its name.
        name: &'a OsStr,
    },
    /// A descriptor was closed; errors of writing are its last chance. Locks of fcntl(2) end.
    Flush {
        /// The open file.
        handle: FileHandle,
        /// Whose locks end.
        lock_owner: LockOwner,
    },
    /// The first words. The session answers them.
    Init,
    /// Opens a directory.
    OpenDir {
        /// As of open(2).
        flags: u32,
    },
    /// Names of a directory.
    ReadDir {
        /// The open directory.
        handle: FileHandle,
        /// The cookie of the last name that the kernel has, 0 for none.
        offset: u64,
        /// How many bytes of entries fit.
        size: u32,
    },
    /// Names of a directory, each with a lookup.
    ReadDirPlus {
        /// The open directory.
        handle: FileHandle,
        /// The cookie of the last name that the kernel has, 0 for none.
        offset: u64,
        /// How many bytes of entries fit.
        size: u32,
    },
    /// The last descriptor of an open directory was closed.
    ReleaseDir {
        /// The open directory.
        handle: FileHandle,
        /// As of open(2).
        flags: u32,
    },
    /// Makes the directory durable.
    FSyncDir {
        /// The open directory.
        handle: FileHandle,
        /// As of fdatasync(2).
        data_only: bool,
    },
    /// Which lock stands in the way of this one.
    GetLk(LockRequest),
    /// Takes or lets go of a lock, or fails with EAGAIN.
    SetLk(LockRequest),
    /// Takes a lock, and waits for it.
    SetLkW(LockRequest),
    /// Whether the caller may read, write or execute the node.
    Access {
        /// `R_OK`, `W_OK`, `X_OK`.
        mask: u32,
    },
    /// Makes a file in this directory and opens it, or opens the one that is there.
    Create {
        /// Its name.
        name: &'a OsStr,
        /// As of open(2), `O_EXCL` included.
        flags: u32,
        /// Permissions, the umask not yet applied.
        mode: u32,
        /// The caller's umask.
        umask: u32,
        /// With `O_TRUNC`: clear the set-user-id bit and the like.
        kill_suidgid: bool,
    },
    /// Makes a file without a name in this directory and opens it.
    TmpFile {
        /// As of open(2).
        flags: u32,
        /// Permissions, the umask not yet applied.
        mode: u32,
        /// The caller's umask.
        umask: u32,
    },
    /// Somebody lost patience with a request. The session handles it.
    Interrupt {
        /// The request.
        unique: u64,
    },
    /// An ioctl(2).
    IoCtl {
        /// The open file.
        handle: FileHandle,
        /// `FUSE_IOCTL_…`.
        flags: u32,
        /// The command.
        command: u32,
        /// Its argument.
        argument: u64,
        /// What comes with it.
        input: &'a [u8],
        /// How many bytes may go back.
        output_size: u32,
    },
    /// Reserves space, punches a hole or zeroes a range.
    FAllocate {
        /// The open file.
        handle: FileHandle,
        /// Where.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// As of fallocate(2).
        mode: u32,
    },
    /// The next data or hole.
    LSeek {
        /// The open file.
        handle: FileHandle,
        /// From where on.
        offset: u64,
        /// `SEEK_DATA` (3) or `SEEK_HOLE` (4).
        whence: u32,
    },
    /// Copies from this node to another.
    CopyFileRange {
        /// The open file to read.
        handle: FileHandle,
        /// From where.
        offset: u64,
        /// The node to write.
        target: NodeId,
        /// The open file to write.
        target_handle: FileHandle,
        /// To where.
        target_offset: u64,
        /// How many bytes.
        length: u64,
        /// As of `copy_file_range`(2).
        flags: u64,
    },
    /// Attributes, the time of birth among them.
    StatX {
        /// The open file through which it is asked.
        handle: Option<FileHandle>,
        /// `AT_STATX_…`.
        flags: u32,
        /// `STATX_…`.
        mask: u32,
    },
    /// Makes everything durable.
    SyncFs,
    /// The last words. The session answers them.
    Destroy,
    /// An operation that is not known here. The session answers ENOSYS.
    Unknown {
        /// Its number.
        opcode: u32,
    },
}
