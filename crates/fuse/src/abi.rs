//! Structs and constants of the kernel's protocol, as in `<linux/fuse.h>` of ABI 7.45.
//!
//! Each struct has the layout of C without padding, so it can be read from bytes and written as
//! bytes. For example, `InHeader` is 40 bytes. A golden table of sizes and offsets, printed from
//! the C header, is compared in a test.
//!
//! The meaning of the fields is in the modules that decode and encode them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol's major version.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version that is supported.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version that is supported. Since then, replies have had their present sizes.
pub(crate) const MINOR_MIN: u32 = 31;

/// The minimum size of the buffer of a read, in bytes, as the kernel requires it.
pub(crate) const READ_BUFFER_MIN: usize = 8192;

/// Defines structs of the protocol, all with the same derived traits.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }
        )*
    };
}

structs! {
    /// The header in front of each request of the kernel.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    /// The header in front of each reply and notification to the kernel.
    OutHeader { len: u32, error: i32, unique: u64, }
    /// The attributes of a node.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    /// A timestamp of statx.
    SxTime { tv_sec: i64, tv_nsec: u32, reserved: i32, }
    /// The attributes of a node for statx.
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: SxTime,
        btime: SxTime, ctime: SxTime, mtime: SxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    /// Reply to STATFS.
    Kstatfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    /// A range lock.
    RawLock { start: u64, end: u64, kind: u32, pid: u32, }
    /// Reply to LOOKUP and to each operation that creates a node.
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    /// FORGET.
    ForgetIn { nlookup: u64, }
    /// One node in the list of a `BATCH_FORGET`.
    ForgetOne { nodeid: u64, nlookup: u64, }
    /// `BATCH_FORGET`.
    BatchForgetIn { count: u32, dummy: u32, }
    /// GETATTR.
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64, }
    /// Reply to GETATTR and SETATTR.
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    /// STATX.
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32, }
    /// Reply to STATX.
    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx, }
    /// MKNOD.
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, }
    /// MKDIR.
    MkdirIn { mode: u32, umask: u32, }
    /// RENAME.
    RenameIn { newdir: u64, }
    /// RENAME2.
    Rename2In { newdir: u64, flags: u32, padding: u32, }
    /// LINK.
    LinkIn { oldnodeid: u64, }
    /// SETATTR.
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64,
        ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    /// OPEN and OPENDIR.
    OpenIn { flags: u32, open_flags: u32, }
    /// CREATE and TMPFILE.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    /// Reply to OPEN and OPENDIR, and, after an entry, to CREATE and TMPFILE.
    OpenOut { fh: u64, open_flags: u32, backing_id: i32, }
    /// RELEASE and RELEASEDIR.
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    /// FLUSH.
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64, }
    /// READ, READDIR and READDIRPLUS.
    ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    /// WRITE.
    WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    /// Reply to WRITE and `COPY_FILE_RANGE`.
    WriteOut { size: u32, padding: u32, }
    /// FSYNC and FSYNCDIR.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, }
    /// SETXATTR.
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32, }
    /// GETXATTR and LISTXATTR.
    GetxattrIn { size: u32, padding: u32, }
    /// Reply to GETXATTR and LISTXATTR of size 0.
    GetxattrOut { size: u32, padding: u32, }
    /// GETLK, SETLK and SETLKW.
    LkIn { fh: u64, owner: u64, lk: RawLock, lk_flags: u32, padding: u32, }
    /// ACCESS.
    AccessIn { mask: u32, padding: u32, }
    /// INIT.
    InitIn {
        major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11],
    }
    /// Reply to INIT.
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    /// INTERRUPT.
    InterruptIn { unique: u64, }
    /// IOCTL.
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    /// Reply to IOCTL.
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    /// FALLOCATE.
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    /// One entry of READDIR, without the bytes of its name.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32, }
    /// LSEEK.
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, }
    /// Reply to LSEEK.
    LseekOut { offset: u64, }
    /// `COPY_FILE_RANGE` and `COPY_FILE_RANGE_64`.
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    /// Reply to `COPY_FILE_RANGE_64`.
    CopyFileRangeOut { bytes_copied: u64, }
    /// Notification: invalidate the cached attributes and pages of a node.
    NotifyInvalInode { ino: u64, off: i64, len: i64, }
    /// Notification: invalidate a name.
    NotifyInvalEntry { parent: u64, namelen: u32, flags: u32, }
    /// Notification: a name was removed.
    NotifyDelete { parent: u64, child: u64, namelen: u32, padding: u32, }
}

/// Operation codes of requests.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const SYNCFS: u32 = 50;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;
    pub(crate) const COPY_FILE_RANGE_64: u32 = 53;
}

/// Feature flags that are negotiated in INIT.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const HAS_RESEND: u64 = 1 << 39;
}

/// Flags in a SETATTR. Each says that the request has a value for the field of this name;
/// `KILL_SUIDGID` asks to clear the set-user-ID and set-group-ID bits.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const LOCKOWNER: u32 = 1 << 9;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flags of other requests.
pub(crate) mod bits {
    pub(crate) const GETATTR_FH: u32 = 1;
    pub(crate) const LK_FLOCK: u32 = 1;
    pub(crate) const READ_LOCKOWNER: u32 = 1 << 1;
    pub(crate) const WRITE_CACHE: u32 = 1;
    pub(crate) const WRITE_LOCKOWNER: u32 = 1 << 1;
    pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
    pub(crate) const RELEASE_FLUSH: u32 = 1;
    pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
    pub(crate) const FSYNC_FDATASYNC: u32 = 1;
    pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
    pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
    pub(crate) const EXPIRE_ONLY: u32 = 1;
    pub(crate) const UNIQUE_RESEND: u64 = 1 << 63;
}

/// Codes of notifications, which the file system sends to the kernel without a request.
pub(crate) mod notice {
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const INVAL_ENTRY: i32 = 3;
    pub(crate) const DELETE: i32 = 6;
    pub(crate) const RESEND: i32 = 7;
    pub(crate) const INC_EPOCH: i32 = 8;
}

#[cfg(test)]
mod tests;
