//! Comparison with a golden table, which `tests/golden/abi.c` printed from the kernel's header.

use std::collections::BTreeMap;
use std::mem::offset_of;

use super::*;

const GOLDEN: &str = include_str!("../../tests/golden/abi.txt");

/// The sizes and offsets of the structs in this crate.
macro_rules! layout {
    ($table:ident; $($name:ident { $($field:ident)* })*) => {
        $(
            $table.insert(stringify!($name).to_owned(), size_of::<$name>() as u64);
            $($table.insert(
                format!("{}.{}", stringify!($name), stringify!($field)),
                offset_of!($name, $field) as u64,
            );)*
        )*
    };
}

/// The values of the constants in this crate.
macro_rules! numbers {
    ($table:ident; $($module:ident { $($name:ident)* })*) => {
        $($($table.insert(
            format!("{}::{}", stringify!($module), stringify!($name)),
            u64::try_from($module::$name).unwrap(),
        );)*)*
    };
}

fn golden() -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, number) = line.split_once(' ').unwrap();
        (name.to_owned(), number.parse().unwrap())
    };
    GOLDEN.lines().map(line).collect()
}

#[test]
fn struct_layouts_match_the_kernel_header() {
    let mut ours = BTreeMap::new();
    layout! { ours;
    InHeader { len opcode unique nodeid uid gid pid total_extlen padding }
    OutHeader { len error unique }
        Attr {
            ino size blocks atime mtime ctime atimensec mtimensec ctimensec mode nlink uid gid rdev
            blksize flags
        }
    SxTime { tv_sec tv_nsec reserved }
        Statx {
            mask blksize attributes nlink uid gid mode spare0 ino size blocks attributes_mask atime
            btime ctime mtime rdev_major rdev_minor dev_major dev_minor spare2
        }
    Kstatfs { blocks bfree bavail files ffree bsize namelen frsize padding spare }
    RawLock { start end kind pid }
    EntryOut { nodeid generation entry_valid attr_valid entry_valid_nsec attr_valid_nsec attr }
    ForgetIn { nlookup }
    ForgetOne { nodeid nlookup }
    BatchForgetIn { count dummy }
    GetattrIn { getattr_flags dummy fh }
    AttrOut { attr_valid attr_valid_nsec dummy attr }
    StatxIn { getattr_flags reserved fh sx_flags sx_mask }
    StatxOut { attr_valid attr_valid_nsec flags spare stat }
    MknodIn { mode rdev umask padding }
    MkdirIn { mode umask }
    RenameIn { newdir }
    Rename2In { newdir flags padding }
    LinkIn { oldnodeid }
        SetattrIn {
            valid padding fh size lock_owner atime mtime ctime atimensec mtimensec ctimensec mode
            unused4 uid gid unused5
        }
    OpenIn { flags open_flags }
    CreateIn { flags mode umask open_flags }
    OpenOut { fh open_flags backing_id }
    ReleaseIn { fh flags release_flags lock_owner }
    FlushIn { fh unused padding lock_owner }
    ReadIn { fh offset size read_flags lock_owner flags padding }
    WriteIn { fh offset size write_flags lock_owner flags padding }
    WriteOut { size padding }
    FsyncIn { fh fsync_flags padding }
    SetxattrIn { size flags setxattr_flags padding }
    GetxattrIn { size padding }
    GetxattrOut { size padding }
    LkIn { fh owner lk lk_flags padding }
    AccessIn { mask padding }
    InitIn { major minor max_readahead flags flags2 unused }
        InitOut {
            major minor max_readahead flags max_background congestion_threshold max_write time_gran
            max_pages map_alignment flags2 max_stack_depth request_timeout unused
        }
    InterruptIn { unique }
    IoctlIn { fh flags cmd arg in_size out_size }
    IoctlOut { result flags in_iovs out_iovs }
    FallocateIn { fh offset length mode padding }
    Dirent { ino off namelen kind }
    LseekIn { fh offset whence padding }
    LseekOut { offset }
    CopyFileRangeIn { fh_in off_in nodeid_out fh_out off_out len flags }
    CopyFileRangeOut { bytes_copied }
    NotifyInvalInode { ino off len }
    NotifyInvalEntry { parent namelen flags }
    NotifyDelete { parent child namelen padding }
    }
    let golden = golden().into_iter().filter(|(name, _)| !name.contains("::"));
    assert_eq!(ours, golden.collect());
}

#[test]
fn constants_match_the_kernel_header() {
    let mut ours = BTreeMap::new();
    numbers! { ours;
        opcode {
            LOOKUP FORGET GETATTR SETATTR READLINK SYMLINK MKNOD MKDIR UNLINK RMDIR RENAME LINK OPEN
            READ WRITE STATFS RELEASE FSYNC SETXATTR GETXATTR LISTXATTR REMOVEXATTR FLUSH INIT
            OPENDIR READDIR RELEASEDIR FSYNCDIR GETLK SETLK SETLKW ACCESS CREATE INTERRUPT DESTROY
            IOCTL BATCH_FORGET FALLOCATE READDIRPLUS RENAME2 LSEEK COPY_FILE_RANGE
            SYNCFS TMPFILE STATX COPY_FILE_RANGE_64
        }
        init {
            ASYNC_READ POSIX_LOCKS ATOMIC_O_TRUNC EXPORT_SUPPORT BIG_WRITES DONT_MASK FLOCK_LOCKS AUTO_INVAL_DATA
            DO_READDIRPLUS READDIRPLUS_AUTO ASYNC_DIO PARALLEL_DIROPS POSIX_ACL MAX_PAGES
            CACHE_SYMLINKS HANDLE_KILLPRIV_V2 SETXATTR_EXT INIT_EXT HAS_EXPIRE_ONLY HAS_RESEND
            DIRECT_IO_ALLOW_MMAP
        }
    fattr { MODE UID GID SIZE ATIME MTIME FH ATIME_NOW MTIME_NOW LOCKOWNER CTIME KILL_SUIDGID }
        bits {
            GETATTR_FH LK_FLOCK READ_LOCKOWNER WRITE_CACHE WRITE_LOCKOWNER WRITE_KILL_SUIDGID
            RELEASE_FLUSH RELEASE_FLOCK_UNLOCK FSYNC_FDATASYNC OPEN_KILL_SUIDGID
            SETXATTR_ACL_KILL_SGID EXPIRE_ONLY UNIQUE_RESEND
        }
    notice { INVAL_INODE INVAL_ENTRY DELETE RESEND INC_EPOCH }
    }
    let golden = golden().into_iter().filter(|(name, _)| name.contains("::"));
    assert_eq!(ours, golden.collect());
}
