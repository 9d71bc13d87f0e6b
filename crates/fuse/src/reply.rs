//! The reply to one request.
//!
//! Invariant: each request is answered exactly once. Each method consumes the reply; a reply that
//! is dropped answers EIO and is counted. Each method writes the format of certain operations; if a
//! handler uses another one, the program gets EIO. For example, [`Reply::written`] answers WRITE
//! only.

use std::ffi::OsStr;
use std::fmt;
use std::io::IoSlice;
use std::ops::{BitOr, BitOrAssign};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::{
    AttrOut, CopyFileRangeOut, EntryOut, GetxattrOut, IoctlOut, Kstatfs, LseekOut,
    NotifyInvalInode, OpenOut, RawLock, StatxOut, WriteOut, notice, opcode,
};
use crate::channel::{Channel, count};
use crate::directory::DirectoryBuffer;
use crate::errno::Errno;
use crate::node::{FileHandle, FileSystemSpace, FileTime, NodeAttributes, NodeEntry, NodeId};
use crate::operation::{FileLock, LockKind};

/// Flags in the reply to an open, by which the file system says how the kernel treats the open file
/// or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// Reads and writes bypass the page cache. Pages of shared maps are then read without a lock
    /// owner, and reads that bypass the page cache with one. A kernel before 6.6 refuses shared
    /// maps of such files with `ENODEV`.
    pub const DIRECT_IO: OpenFlags = OpenFlags(1);
    /// The kernel keeps the pages of the file that it has in its cache, because they are still
    /// valid. Without this flag it drops them.
    pub const KEEP_CACHE: OpenFlags = OpenFlags(1 << 1);
    /// The file has no position, so lseek(2) fails.
    pub const NONSEEKABLE: OpenFlags = OpenFlags(1 << 2);
    /// The kernel may cache the names of the directory.
    pub const CACHE_DIR: OpenFlags = OpenFlags(1 << 3);
    /// The kernel sends no FLUSH at close. Then fcntl(2) locks do not end at close either.
    pub const NOFLUSH: OpenFlags = OpenFlags(1 << 5);
    /// Writes that bypass the page cache may run concurrently.
    pub const PARALLEL_DIRECT_WRITES: OpenFlags = OpenFlags(1 << 6);

    /// No flags.
    pub const fn none() -> OpenFlags {
        OpenFlags(0)
    }
}

impl BitOr for OpenFlags {
    type Output = OpenFlags;

    fn bitor(self, other: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | other.0)
    }
}

impl BitOrAssign for OpenFlags {
    fn bitor_assign(&mut self, other: OpenFlags) {
        self.0 |= other.0;
    }
}

/// The reply to one request, not sent yet.
#[must_use = "a reply that is dropped answers EIO"]
pub struct Reply {
    channel: Arc<Channel>,
    unique: u64,
    opcode: u32,
    /// The time at which the request was read.
    begun: Instant,
    open: bool,
}

impl Reply {
    /// Returns the reply to a request that is in the table of requests in flight.
    pub(crate) fn new(channel: Arc<Channel>, unique: u64, opcode: u32) -> Reply {
        Reply { channel, unique, opcode, begun: Instant::now(), open: true }
    }

    /// Returns the number of the request that this reply answers.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Registers an action that runs when the kernel interrupts the request: at once if it has
    /// already done so, and never after the reply. A handler that registers an action must answer
    /// EINTR soon after it ran. Without one, interrupts are ignored and the program waits for the
    /// reply.
    ///
    /// The action runs on a thread of the session and must not wait.
    pub fn on_interrupt(&self, action: impl FnOnce() + Send + 'static) {
        self.channel.in_flight.register(self.unique, Box::new(action));
    }

    /// Replies that the operation failed.
    pub fn error(self, error: Errno) {
        self.finish(-error.number(), &[]);
    }

    /// Replies that the operation succeeded, without data.
    pub fn ok(self) {
        self.finish(0, &[]);
    }

    /// Replies to LOOKUP, MKNOD, MKDIR, SYMLINK, LINK: the node. Counts as a lookup of it, which
    /// the kernel takes back with a FORGET.
    pub fn entry(self, entry: &NodeEntry) {
        self.value(&entry.encode());
    }

    /// Replies to LOOKUP that the name does not exist. The kernel may cache that for `timeout`.
    pub fn no_entry(self, timeout: Duration) {
        let entry_valid = timeout.as_secs();
        let entry_valid_nsec = timeout.subsec_nanos();
        let entry = EntryOut { entry_valid, entry_valid_nsec, ..EntryOut::default() };
        // The kernel takes it for a success, and the program gets ENOENT.
        self.finish_as(0, -Errno::ENOENT.number(), &[IoSlice::new(entry.as_bytes())]);
    }

    /// Replies to GETATTR, SETATTR: the attributes, and the time for which the kernel may cache
    /// them.
    pub fn attributes(self, attributes: &NodeAttributes, timeout: Duration) {
        self.value(&AttrOut {
            attr_valid: timeout.as_secs(),
            attr_valid_nsec: timeout.subsec_nanos(),
            dummy: 0,
            attr: attributes.encode(),
        });
    }

    /// Replies to STATX: the attributes, the time of creation (`birth`) if it is known, and the
    /// time for which the kernel may cache them.
    pub fn statx(self, attributes: &NodeAttributes, birth: Option<FileTime>, timeout: Duration) {
        self.value(&StatxOut {
            attr_valid: timeout.as_secs(),
            attr_valid_nsec: timeout.subsec_nanos(),
            stat: attributes.encode_statx(birth),
            ..StatxOut::default()
        });
    }

    /// Replies to READLINK: the target of the link.
    pub fn target(self, target: &OsStr) {
        self.finish(0, &[IoSlice::new(target.as_bytes())]);
    }

    /// Replies to OPEN, OPENDIR: the number of the new handle, and how the kernel treats it.
    pub fn opened(self, handle: FileHandle, flags: OpenFlags) {
        self.value(&open_out(handle, flags));
    }

    /// Replies to OPEN of a file that may differ from the kernel's cache: invalidates the
    /// attributes of the opened `node` first, and then sends the handle.
    ///
    /// Without that, the kernel would read up to the old size. Unlike other notifications, this one
    /// cannot block: the request itself keeps the node in the kernel, and no page is accessed.
    pub fn opened_changed(self, node: NodeId, handle: FileHandle, flags: OpenFlags) {
        // A negative offset keeps the pages, so this needs no page lock.
        let forget = NotifyInvalInode { ino: node.0, off: -1, len: 0 };
        let forget = [IoSlice::new(forget.as_bytes())];
        if let Err(error) = self.channel.send(0, notice::INVAL_INODE, &forget) {
            tracing::debug!(%error, "cannot notify the kernel that a file has changed");
        }
        self.opened(handle, flags);
    }

    /// Replies to CREATE, TMPFILE: the node and the handle. Counts as a lookup of the node.
    pub fn created(self, entry: &NodeEntry, handle: FileHandle, flags: OpenFlags) {
        let (entry, opened) = (entry.encode(), open_out(handle, flags));
        self.finish(0, &[IoSlice::new(entry.as_bytes()), IoSlice::new(opened.as_bytes())]);
    }

    /// Replies to READ: the bytes, in any number of buffers, together at most the requested size.
    pub fn data(self, parts: &[IoSlice<'_>]) {
        self.channel.meters.count_read(parts.iter().map(|part| part.len()).sum());
        self.finish(0, parts);
    }

    /// Replies to WRITE: the number of bytes written.
    pub fn written(self, size: u32) {
        self.channel.meters.count_written(size);
        self.value(&WriteOut { size, padding: 0 });
    }

    /// Replies to `COPY_FILE_RANGE`: the number of bytes copied.
    pub fn copied(self, bytes: u64) {
        // The reply has the format of the operation that the kernel chose.
        if self.opcode == opcode::COPY_FILE_RANGE_64 {
            self.value(&CopyFileRangeOut { bytes_copied: bytes });
        } else {
            // The 32-bit operation never asks for more than fits into 32 bits.
            let size = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.value(&WriteOut { size, padding: 0 });
        }
    }

    /// Replies to GETXATTR, LISTXATTR of size 0, which ask for the length alone: the length in
    /// bytes.
    pub fn xattr_size(self, size: u32) {
        self.value(&GetxattrOut { size, padding: 0 });
    }

    /// Replies to GETXATTR, LISTXATTR: the value, or the names with a NUL after each. If they do
    /// not fit, use `error` with ERANGE.
    pub fn xattr(self, value: &[u8]) {
        self.finish(0, &[IoSlice::new(value)]);
    }

    /// Replies to STATFS: the size and the free space of the file system.
    pub fn statfs(self, space: &FileSystemSpace) {
        self.value(&Kstatfs {
            blocks: space.blocks,
            bfree: space.blocks_free,
            bavail: space.blocks_available,
            files: space.nodes,
            ffree: space.nodes_free,
            bsize: space.block_bytes,
            namelen: space.name_bytes_max,
            frsize: space.fragment_bytes,
            ..Kstatfs::default()
        });
    }

    /// Replies to GETLK: the conflicting lock, or one of kind `Unlocked` if there is none.
    pub fn lock(self, lock: &FileLock) {
        let kind = match lock.kind {
            LockKind::Shared => 0,
            LockKind::Exclusive => 1,
            LockKind::Unlocked => 2,
        };
        self.value(&RawLock { start: lock.start, end: lock.end, kind, pid: lock.pid });
    }

    /// Replies to LSEEK: the position of the data or hole that was found.
    pub fn seeked(self, offset: u64) {
        self.value(&LseekOut { offset });
    }

    /// Replies to READDIR, READDIRPLUS: the entries. No entries mean the end of the directory.
    pub fn directory(self, names: &DirectoryBuffer) {
        self.finish(0, &[IoSlice::new(names.bytes())]);
    }

    /// Replies to IOCTL: the value that ioctl(2) returns, and the output data.
    pub fn ioctl(self, result: i32, output: &[u8]) {
        let header = IoctlOut { result, ..IoctlOut::default() };
        self.finish(0, &[IoSlice::new(header.as_bytes()), IoSlice::new(output)]);
    }

    fn value(self, value: &(impl IntoBytes + Immutable)) {
        self.finish(0, &[IoSlice::new(value.as_bytes())]);
    }

    fn finish(self, error: i32, parts: &[IoSlice<'_>]) {
        self.finish_as(error, error, parts);
    }

    /// Sends the reply, and counts it with the error that the program gets.
    fn finish_as(mut self, error: i32, of_program: i32, parts: &[IoSlice<'_>]) {
        // So that dropping the reply below does not answer a second time.
        self.open = false;
        self.channel.finish(self.unique, error, parts);
        // After the write, which copies the bytes of a READ.
        self.channel.meters.count(self.opcode, of_program, self.begun.elapsed());
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.open {
            count(&self.channel.counts.unanswered);
            warn!(
                opcode = self.opcode,
                unique = self.unique,
                "the handler dropped a reply; the request fails with EIO"
            );
            let error = -Errno::EIO.number();
            self.channel.finish(self.unique, error, &[]);
            self.channel.meters.count(self.opcode, error, self.begun.elapsed());
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("unique", &format_args!("{:#x}", self.unique))
            .field("opcode", &self.opcode)
            .finish_non_exhaustive()
    }
}

fn open_out(handle: FileHandle, flags: OpenFlags) -> OpenOut {
    OpenOut { fh: handle.0, open_flags: flags.0, backing_id: 0 }
}
