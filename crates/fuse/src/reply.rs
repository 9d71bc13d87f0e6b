//! The answer to one request.
//!
//! Every request is answered exactly once: answering consumes the reply, and one that is dropped
//! answers EIO and is counted. Each method writes what one kind of operation expects; the kernel
//! turns an answer of another kind into EIO for the program.

use std::ffi::OsStr;
use std::fmt;
use std::io::IoSlice;
use std::ops::{BitOr, BitOrAssign};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

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

/// How the kernel treats an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// Reads and writes pass by the page cache. Pages of shared maps are read without the owner of a
    /// lock, and reads that pass by the page cache with it. A kernel before 6.6 refuses shared maps of
    /// such files with `ENODEV`.
    pub const DIRECT_IO: OpenFlags = OpenFlags(1);
    /// Pages that are cached from before are still right.
    pub const KEEP_CACHE: OpenFlags = OpenFlags(1 << 1);
    /// There is no position in the file.
    pub const NONSEEKABLE: OpenFlags = OpenFlags(1 << 2);
    /// The names of the directory may be cached.
    pub const CACHE_DIR: OpenFlags = OpenFlags(1 << 3);
    /// There is no FLUSH at close; then locks of fcntl(2) do not end with it either.
    pub const NOFLUSH: OpenFlags = OpenFlags(1 << 5);
    /// Writes that pass by the page cache may run side by side.
    pub const PARALLEL_DIRECT_WRITES: OpenFlags = OpenFlags(1 << 6);

    /// None of them.
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

/// The answer to one request, still to be given.
#[must_use = "a reply that is dropped answers EIO"]
pub struct Reply {
    channel: Arc<Channel>,
    unique: u64,
    opcode: u32,
    open: bool,
}

impl Reply {
    /// The answer to a request that is in the table.
    pub(crate) fn new(channel: Arc<Channel>, unique: u64, opcode: u32) -> Reply {
        Reply { channel, unique, opcode, open: true }
    }

    /// The number of the request.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Runs the action when the kernel says that the request was interrupted, at once if it has
    /// said so already, and never after the answer. Whoever registers one answers EINTR soon after
    /// it ran. Without one an interrupt is passed over, and the program waits for the answer.
    ///
    /// The action runs on a thread of the session: it must not wait.
    pub fn on_interrupt(&self, action: impl FnOnce() + Send + 'static) {
        self.channel.in_flight.register(self.unique, Box::new(action));
    }

    /// The operation failed.
    pub fn error(self, error: Errno) {
        self.finish(-error.number(), &[]);
    }

    /// The operation succeeded, and there is nothing to say.
    pub fn ok(self) {
        self.finish(0, &[]);
    }

    /// LOOKUP, MKNOD, MKDIR, SYMLINK, LINK: the node. Counts as a lookup of it.
    pub fn entry(self, entry: &NodeEntry) {
        self.value(&entry.encode());
    }

    /// LOOKUP: there is no such name, and the kernel may remember so for this long.
    pub fn no_entry(self, timeout: Duration) {
        let entry_valid = timeout.as_secs();
        let entry_valid_nsec = timeout.subsec_nanos();
        self.value(&EntryOut { entry_valid, entry_valid_nsec, ..EntryOut::default() });
    }

    /// GETATTR, SETATTR: the attributes, and how long the kernel may remember them.
    pub fn attributes(self, attributes: &NodeAttributes, timeout: Duration) {
        self.value(&AttrOut {
            attr_valid: timeout.as_secs(),
            attr_valid_nsec: timeout.subsec_nanos(),
            dummy: 0,
            attr: attributes.encode(),
        });
    }

    /// STATX: the attributes, the time of birth if there is one, and how long the kernel may
    /// remember them.
    pub fn statx(self, attributes: &NodeAttributes, birth: Option<FileTime>, timeout: Duration) {
        self.value(&StatxOut {
            attr_valid: timeout.as_secs(),
            attr_valid_nsec: timeout.subsec_nanos(),
            stat: attributes.encode_statx(birth),
            ..StatxOut::default()
        });
    }

    /// READLINK: where the link points to.
    pub fn target(self, target: &OsStr) {
        self.finish(0, &[IoSlice::new(target.as_bytes())]);
    }

    /// OPEN, OPENDIR: the handle.
    pub fn opened(self, handle: FileHandle, flags: OpenFlags) {
        self.value(&open_out(handle, flags));
    }

    /// OPEN of a file that is not as the kernel may remember it: it forgets the attributes of `node`,
    /// the one that was opened, before it has the handle.
    ///
    /// Without that it reads as much as the file held before. Unlike other notices this one waits for
    /// no lock that a request may hold: the kernel keeps the node for the sake of the request, and
    /// looks at no page.
    pub fn opened_changed(self, node: NodeId, handle: FileHandle, flags: OpenFlags) {
        let forget = NotifyInvalInode { ino: node.0, off: -1, len: 0 };
        let forget = [IoSlice::new(forget.as_bytes())];
        if let Err(error) = self.channel.send(0, notice::INVAL_INODE, &forget) {
            tracing::debug!(%error, "the kernel was not told that a file has changed");
        }
        self.opened(handle, flags);
    }

    /// CREATE, TMPFILE: the node and the handle. Counts as a lookup of the node.
    pub fn created(self, entry: &NodeEntry, handle: FileHandle, flags: OpenFlags) {
        let (entry, opened) = (entry.encode(), open_out(handle, flags));
        self.finish(0, &[IoSlice::new(entry.as_bytes()), IoSlice::new(opened.as_bytes())]);
    }

    /// READ: the bytes, from as many buffers as hold them, together at most what was asked for.
    pub fn data(self, parts: &[IoSlice<'_>]) {
        self.finish(0, parts);
    }

    /// WRITE: how many bytes were written.
    pub fn written(self, size: u32) {
        self.value(&WriteOut { size, padding: 0 });
    }

    /// `COPY_FILE_RANGE`: how many bytes were copied.
    pub fn copied(self, bytes: u64) {
        if self.opcode == opcode::COPY_FILE_RANGE_64 {
            self.value(&CopyFileRangeOut { bytes_copied: bytes });
        } else {
            // The older operation is never asked for more than 32 bits hold.
            let size = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.value(&WriteOut { size, padding: 0 });
        }
    }

    /// GETXATTR, LISTXATTR that asked for a length: the length.
    pub fn xattr_size(self, size: u32) {
        self.value(&GetxattrOut { size, padding: 0 });
    }

    /// GETXATTR, LISTXATTR that asked for bytes: the bytes; ERANGE is said with `error`.
    pub fn xattr(self, value: &[u8]) {
        self.finish(0, &[IoSlice::new(value)]);
    }

    /// STATFS: how much space there is.
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

    /// GETLK: the lock that stands in the way, or one of kind `Unlocked` if none does.
    pub fn lock(self, lock: &FileLock) {
        let kind = match lock.kind {
            LockKind::Shared => 0,
            LockKind::Exclusive => 1,
            LockKind::Unlocked => 2,
        };
        self.value(&RawLock { start: lock.start, end: lock.end, kind, pid: lock.pid });
    }

    /// LSEEK: the position.
    pub fn seeked(self, offset: u64) {
        self.value(&LseekOut { offset });
    }

    /// READDIR, READDIRPLUS: the names. None is the end of the directory.
    pub fn directory(self, names: &DirectoryBuffer) {
        self.finish(0, &[IoSlice::new(names.bytes())]);
    }

    /// IOCTL: what it returns, and its output.
    pub fn ioctl(self, result: i32, output: &[u8]) {
        let header = IoctlOut { result, ..IoctlOut::default() };
        self.finish(0, &[IoSlice::new(header.as_bytes()), IoSlice::new(output)]);
    }

    fn value(self, value: &(impl IntoBytes + Immutable)) {
        self.finish(0, &[IoSlice::new(value.as_bytes())]);
    }

    fn finish(mut self, error: i32, parts: &[IoSlice<'_>]) {
        self.open = false;
        self.channel.finish(self.unique, error, parts);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.open {
            count(&self.channel.counts.unanswered);
            warn!(opcode = self.opcode, unique = self.unique, "a request was not answered: EIO");
            self.channel.finish(self.unique, -Errno::EIO.number(), &[]);
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
