//! The operations of the kernel's requests, as values.
//!
//! Invariant: a decoded operation is well-formed. Names are not empty, contain neither `/` nor NUL,
//! and refer to the request's buffer. Data has the announced length. The file system decides
//! whether a node or handle exists. For example, a WRITE of 4096 bytes is a
//! [`FileOperation::Write`] whose `data` is a slice of the buffer.

pub(crate) mod decode;

use std::ffi::OsStr;

use crate::abi::ForgetOne;
use crate::node::{FileHandle, FileTime, NodeId};

pub use decode::MalformedRequest;

/// The owner of file locks, such as a process or an open file: a number that the kernel assigns.
/// Locks of one owner do not conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Many owners can hold it: a read lock.
    Shared,
    /// One owner can hold it: a write lock.
    Exclusive,
    /// No lock: a request to release.
    Unlocked,
}

/// A lock on a range of bytes of a file. A lock on the whole file has the range `0..=u64::MAX >>
/// 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// The first byte.
    pub start: u64,
    /// The last byte, inclusive.
    pub end: u64,
    /// The mode.
    pub kind: LockKind,
    /// The process that requests or holds the lock, by its number in the mount's PID name space.
    pub pid: u32,
}

/// A lock that a program requests, tests or releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The open file.
    pub handle: FileHandle,
    /// The owner of the lock.
    pub owner: LockOwner,
    /// The range and the mode.
    pub lock: FileLock,
    /// True for a lock of flock(2), which is on the whole open file; false for one of fcntl(2).
    pub flock: bool,
}

/// A new value of a time attribute of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// The present time of the server.
    Now,
    /// This time.
    At(FileTime),
}

/// The changes of attributes that a SETATTR request makes. `None` keeps the present value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// The permission bits, together with the unchanged type.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size in bytes.
    pub size_bytes: Option<u64>,
    /// The time of the last access.
    pub atime: Option<TimeChange>,
    /// The time of the last change of the content.
    pub mtime: Option<TimeChange>,
    /// The time of the last change of the node.
    pub ctime: Option<FileTime>,
    /// The open file through which the program asks, for example with ftruncate(2); `None` if it
    /// has none.
    pub handle: Option<FileHandle>,
    /// The owner whose locks a truncation must respect.
    pub lock_owner: Option<LockOwner>,
    /// Clear the set-user-ID bit, and the set-group-ID bit if the group may execute the file.
    pub kill_suidgid: bool,
}

/// The nodes that the kernel dropped from its cache. Each comes with a number of lookups: the
/// kernel counts a lookup for each reply that gave it the node, and takes back this many.
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

/// An operation that the kernel requests. The node that it refers to ("the node" or "this
/// directory" below) and its caller are in the [`Request`](crate::Request).
#[derive(Clone, Debug)]
pub enum FileOperation<'a> {
    /// Looks up a name of this directory.
    Lookup {
        /// The name.
        name: &'a OsStr,
    },
    /// Reports nodes that the kernel dropped from its cache. Has no reply.
    Forget {
        /// The nodes.
        nodes: Forgotten<'a>,
    },
    /// Reads the attributes of the node.
    GetAttr {
        /// The open file through which the program asks; `None` if it has none.
        handle: Option<FileHandle>,
    },
    /// Changes attributes of the node. The reply has the new ones.
    SetAttr(AttributeChanges),
    /// Reads the target of the symbolic link.
    ReadLink,
    /// Creates a symbolic link in this directory.
    Symlink {
        /// Its name.
        name: &'a OsStr,
        /// The target.
        target: &'a OsStr,
    },
    /// Creates a file, device, socket or FIFO in this directory.
    MkNod {
        /// Its name.
        name: &'a OsStr,
        /// The type and the permission bits, before the umask.
        mode: u32,
        /// The device number.
        rdev: u32,
        /// The umask of the caller.
        umask: u32,
    },
    /// Creates a directory in this directory.
    MkDir {
        /// Its name.
        name: &'a OsStr,
        /// The permission bits, before the umask.
        mode: u32,
        /// The umask of the caller.
        umask: u32,
    },
    /// Removes a name of a node that is not a directory.
    Unlink {
        /// The name.
        name: &'a OsStr,
    },
    /// Removes an empty directory.
    RmDir {
        /// Its name.
        name: &'a OsStr,
    },
    /// Renames a name of this directory.
    Rename {
        /// The name.
        name: &'a OsStr,
        /// The new directory.
        new_parent: NodeId,
        /// The new name.
        new_name: &'a OsStr,
        /// The flags of renameat2(2): `RENAME_NOREPLACE`, `RENAME_EXCHANGE`, `RENAME_WHITEOUT`.
        flags: u32,
    },
    /// Adds a name to a node, in this directory.
    Link {
        /// The node.
        target: NodeId,
        /// The new name.
        name: &'a OsStr,
    },
    /// Opens the node.
    Open {
        /// The flags of open(2), including `O_TRUNC`, without `O_CREAT` and `O_EXCL`.
        flags: u32,
        /// With `O_TRUNC`: clear the set-user-ID and set-group-ID bits.
        kill_suidgid: bool,
    },
    /// Reads bytes of an open file. A reply with fewer bytes than requested means the end of the
    /// file.
    Read {
        /// The open file.
        handle: FileHandle,
        /// The position in the file, in bytes.
        offset: u64,
        /// The number of bytes.
        size: u32,
        /// The flags of open(2) with which the program opened it.
        flags: u32,
        /// The owner whose locks the operation respects; `None` if the kernel names none.
        lock_owner: Option<LockOwner>,
    },
    /// Writes bytes to an open file.
    Write {
        /// The open file.
        handle: FileHandle,
        /// The position as the kernel knows it. With `O_APPEND`, the file system knows the end of
        /// the file better.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
        /// The flags of open(2) with which the program opened it.
        flags: u32,
        /// The owner whose locks the operation respects; `None` if the kernel names none.
        lock_owner: Option<LockOwner>,
        /// True if the kernel writes back a page of its cache that a program changed through a
        /// memory map. Then the handle is any one of the file that may write.
        from_page_cache: bool,
        /// Clear the set-user-ID and set-group-ID bits.
        kill_suidgid: bool,
    },
    /// Reads the space of the file system.
    StatFs,
    /// Ends an open file after its last descriptor and map were closed. No program waits for the
    /// reply.
    Release {
        /// The open file.
        handle: FileHandle,
        /// The flags of open(2) with which the program opened it.
        flags: u32,
        /// The owner whose locks end.
        lock_owner: LockOwner,
        /// True if the file must be flushed too, as for a FLUSH.
        flush: bool,
        /// True if the flock(2) lock ends.
        flock_unlock: bool,
    },
    /// Makes the file durable.
    FSync {
        /// The open file.
        handle: FileHandle,
        /// True for fdatasync(2): without the attributes that reads do not need.
        data_only: bool,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// Its name.
        name: &'a OsStr,
        /// The value.
        value: &'a [u8],
        /// The condition: `XATTR_CREATE` if the attribute must not exist, `XATTR_REPLACE` if it
        /// must, 0 if either is fine.
        flags: u32,
        /// True if a caller outside the group sets an access control list: clear the set-group-ID
        /// bit.
        acl_kill_sgid: bool,
    },
    /// Reads an extended attribute.
    GetXattr {
        /// Its name.
        name: &'a OsStr,
        /// The caller's capacity in bytes; 0 asks for the length.
        size: u32,
    },
    /// Lists the names of extended attributes, each with a NUL after it.
    ListXattr {
        /// The caller's capacity in bytes; 0 asks for the length.
        size: u32,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// Its name.
        name: &'a OsStr,
    },
    /// Reports that a program closes a descriptor. If the reply is an error, close(2) returns it,
    /// and it is the last one that the program can see. The owner's fcntl(2) locks end.
    Flush {
        /// The open file.
        handle: FileHandle,
        /// The owner whose locks end.
        lock_owner: LockOwner,
    },
    /// Starts the session. Handled by the session.
    Init,
    /// Opens a directory.
    OpenDir {
        /// The flags of open(2) with which the program opens it.
        flags: u32,
    },
    /// Reads entries of a directory.
    ReadDir {
        /// The open directory.
        handle: FileHandle,
        /// The cookie of the last entry that the kernel has, 0 for none.
        offset: u64,
        /// The kernel's capacity in bytes.
        size: u32,
    },
    /// Reads entries of a directory, each with the node of its name. Each node counts as a lookup.
    ReadDirPlus {
        /// The open directory.
        handle: FileHandle,
        /// The cookie of the last entry that the kernel has, 0 for none.
        offset: u64,
        /// The kernel's capacity in bytes.
        size: u32,
    },
    /// Closes a directory after its last descriptor was closed.
    ReleaseDir {
        /// The open directory.
        handle: FileHandle,
        /// The flags of open(2) with which the program opened it.
        flags: u32,
    },
    /// Makes the directory durable.
    FSyncDir {
        /// The open directory.
        handle: FileHandle,
        /// True for fdatasync(2).
        data_only: bool,
    },
    /// Tests if another owner holds a lock that conflicts with this one.
    GetLk(LockRequest),
    /// Takes or releases a lock without waiting. Fails with EAGAIN if another owner holds a
    /// conflicting one.
    SetLk(LockRequest),
    /// Takes a lock, and waits while another owner holds a conflicting one.
    SetLkW(LockRequest),
    /// Tests whether the caller may read, write or execute the node.
    Access {
        /// The kinds of access, as bits `R_OK`, `W_OK` and `X_OK` of access(2).
        mask: u32,
    },
    /// Creates a file in this directory and opens it, or opens the existing one.
    Create {
        /// Its name.
        name: &'a OsStr,
        /// The flags of open(2), including `O_EXCL`.
        flags: u32,
        /// The permission bits, before the umask.
        mode: u32,
        /// The umask of the caller.
        umask: u32,
        /// With `O_TRUNC`: clear the set-user-ID and set-group-ID bits.
        kill_suidgid: bool,
    },
    /// Creates a file without a name in this directory and opens it.
    TmpFile {
        /// The flags of open(2) with which the program opens it.
        flags: u32,
        /// The permission bits, before the umask.
        mode: u32,
        /// The umask of the caller.
        umask: u32,
    },
    /// Interrupts a request that is in flight, because its program got a signal. Handled by the
    /// session.
    Interrupt {
        /// The number of the request to interrupt.
        unique: u64,
    },
    /// An ioctl(2).
    IoCtl {
        /// The open file.
        handle: FileHandle,
        /// Flags of the kernel's protocol, `FUSE_IOCTL_…`.
        flags: u32,
        /// The command.
        command: u32,
        /// The argument of the command.
        argument: u64,
        /// The input data.
        input: &'a [u8],
        /// The capacity for output data, in bytes.
        output_size: u32,
    },
    /// Reserves space, punches a hole or zeroes a range.
    FAllocate {
        /// The open file.
        handle: FileHandle,
        /// The position in the file, in bytes.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The mode of fallocate(2).
        mode: u32,
    },
    /// Finds the next position with data, or the next hole, in an open file.
    LSeek {
        /// The open file.
        handle: FileHandle,
        /// The position from which to search.
        offset: u64,
        /// `SEEK_DATA` (3) or `SEEK_HOLE` (4).
        whence: u32,
    },
    /// Copies bytes from this node to another one.
    CopyFileRange {
        /// The open file to read.
        handle: FileHandle,
        /// The position to read from.
        offset: u64,
        /// The node to write.
        target: NodeId,
        /// The open file to write.
        target_handle: FileHandle,
        /// The position to write to.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
        /// The flags of `copy_file_range`(2).
        flags: u64,
    },
    /// Reads the attributes of the node, with the time of creation.
    StatX {
        /// The open file through which the program asks; `None` if it has none.
        handle: Option<FileHandle>,
        /// The flags of statx(2), `AT_STATX_…`: how current the attributes must be.
        flags: u32,
        /// The attributes that the program wants, as bits `STATX_…` of statx(2).
        mask: u32,
    },
    /// Makes the whole file system durable.
    SyncFs,
    /// Ends the session. Handled by the session.
    Destroy,
    /// An operation that this version does not know. The session replies ENOSYS.
    Unknown {
        /// The operation code.
        opcode: u32,
    },
}
