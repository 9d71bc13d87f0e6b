//! Decoding of operations from bytes.
//!
//! Bytes that do not match their header are refused. Nothing here panics or allocates, and each
//! request is decoded independently. For example, a WRITE that announces 8192 bytes of data and has
//! 4096 is refused with "data is missing", and the program gets EIO.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::{
    AttributeChanges, FileLock, FileOperation, Forgotten, LockKind, LockOwner, LockRequest,
    TimeChange,
};
use crate::abi::{self, bits, fattr, opcode};
use crate::node::{FileHandle, FileTime, NodeId};

/// The error for a request of the kernel whose bytes do not match its header. It is answered with
/// EIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the kernel's request {opcode} is malformed: {reason}")]
pub struct MalformedRequest {
    /// The code of the operation in the request's header.
    pub opcode: u32,
    /// The defect of the bytes, as a fragment of text for the log.
    pub reason: &'static str,
}

/// The reason why a request is malformed, as text for the log.
type Reason = &'static str;

/// The bytes of a request's body that are not decoded yet. Each method takes some from the front,
/// and fails with the reason if they are missing or not valid.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Takes a struct of the kernel's protocol.
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Reason> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| "the body is too short")?;
        self.0 = rest;
        Ok(value)
    }

    /// Takes a string that ends with a NUL.
    fn string(&mut self) -> Result<&'a OsStr, Reason> {
        let end =
            self.0.iter().position(|byte| *byte == 0).ok_or("a string has no terminating NUL")?;
        let (string, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(OsStr::from_bytes(string))
    }

    /// Takes a name, which is one component of a path.
    fn name(&mut self) -> Result<&'a OsStr, Reason> {
        match self.string()?.as_bytes() {
            [] => Err("the name is empty"),
            name if name.contains(&b'/') => Err("the name contains a slash"),
            name => Ok(OsStr::from_bytes(name)),
        }
    }

    /// Takes the name of an extended attribute.
    fn attribute(&mut self) -> Result<&'a OsStr, Reason> {
        let name = self.string()?;
        if name.is_empty() { Err("the attribute name is empty") } else { Ok(name) }
    }

    /// Takes `size` bytes.
    fn bytes(&mut self, size: u32) -> Result<&'a [u8], Reason> {
        let size = usize::try_from(size).map_err(|_| "the length is too large")?;
        let (bytes, rest) = self.0.split_at_checked(size).ok_or("data is missing")?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// Decodes the operation of a request from `body`, its bytes after the header. `node` is the node
/// in the header.
pub(crate) fn decode(
    opcode: u32,
    node: NodeId,
    body: &[u8],
) -> Result<FileOperation<'_>, MalformedRequest> {
    let body = Cursor(body);
    // Each group returns `None` for operations of the others. The cursor is a copy, so each begins
    // at the start.
    let decoded = names(opcode, body)
        .or_else(|| nodes(opcode, node, body))
        .or_else(|| files(opcode, body))
        .or_else(|| directories(opcode, body))
        .or_else(|| rest(opcode, body));
    match decoded {
        Some(operation) => operation.map_err(|reason| MalformedRequest { opcode, reason }),
        None => Ok(FileOperation::Unknown { opcode }),
    }
}

/// An operation, or the reason why it is malformed; `None` if the operation code is not one of the
/// group.
type Decoded<'a> = Option<Result<FileOperation<'a>, Reason>>;

/// Decodes operations on names.
fn names(opcode: u32, mut body: Cursor<'_>) -> Decoded<'_> {
    Some(match opcode {
        opcode::LOOKUP => body.name().map(|name| FileOperation::Lookup { name }),
        opcode::UNLINK => body.name().map(|name| FileOperation::Unlink { name }),
        opcode::RMDIR => body.name().map(|name| FileOperation::RmDir { name }),
        opcode::SYMLINK => (|| {
            let (name, target) = (body.name()?, body.string()?);
            Ok(FileOperation::Symlink { name, target })
        })(),
        opcode::MKNOD => (|| {
            let abi::MknodIn { mode, rdev, umask, .. } = body.take()?;
            Ok(FileOperation::MkNod { name: body.name()?, mode, rdev, umask })
        })(),
        opcode::MKDIR => (|| {
            let abi::MkdirIn { mode, umask } = body.take()?;
            Ok(FileOperation::MkDir { name: body.name()?, mode, umask })
        })(),
        opcode::RENAME => (|| {
            let abi::RenameIn { newdir } = body.take()?;
            rename(newdir, 0, body)
        })(),
        opcode::RENAME2 => (|| {
            let abi::Rename2In { newdir, flags, .. } = body.take()?;
            rename(newdir, flags, body)
        })(),
        opcode::LINK => (|| {
            let abi::LinkIn { oldnodeid } = body.take()?;
            Ok(FileOperation::Link { target: NodeId(oldnodeid), name: body.name()? })
        })(),
        opcode::CREATE => (|| {
            let abi::CreateIn { flags, mode, umask, open_flags } = body.take()?;
            let kill_suidgid = open_flags & bits::OPEN_KILL_SUIDGID != 0;
            Ok(FileOperation::Create { name: body.name()?, flags, mode, umask, kill_suidgid })
        })(),
        opcode::TMPFILE => body.take().map(|abi::CreateIn { flags, mode, umask, .. }| {
            // A name follows that is not valid: the kernel sends "/". Ignore it.
            FileOperation::TmpFile { flags, mode, umask }
        }),
        _ => return None,
    })
}

fn rename(newdir: u64, flags: u32, mut body: Cursor<'_>) -> Result<FileOperation<'_>, Reason> {
    let (name, new_name) = (body.name()?, body.name()?);
    Ok(FileOperation::Rename { name, new_parent: NodeId(newdir), new_name, flags })
}

/// Decodes operations on nodes.
fn nodes(opcode: u32, node: NodeId, mut body: Cursor<'_>) -> Decoded<'_> {
    Some(match opcode {
        opcode::FORGET => body.take().map(|abi::ForgetIn { nlookup }| FileOperation::Forget {
            nodes: Forgotten { first: Some((node, nlookup)), rest: &[] },
        }),
        opcode::BATCH_FORGET => (|| {
            let abi::BatchForgetIn { count, .. } = body.take()?;
            // A node and its number of lookups are 16 bytes.
            let size = count.checked_mul(16).ok_or("the list of nodes is too long")?;
            let nodes = Forgotten { first: None, rest: body.bytes(size)? };
            Ok(FileOperation::Forget { nodes })
        })(),
        opcode::GETATTR => body.take().map(|abi::GetattrIn { getattr_flags, fh, .. }| {
            FileOperation::GetAttr { handle: handle_if(getattr_flags & bits::GETATTR_FH, fh) }
        }),
        opcode::STATX => body.take().map(|fields: abi::StatxIn| FileOperation::StatX {
            handle: handle_if(fields.getattr_flags & bits::GETATTR_FH, fields.fh),
            flags: fields.sx_flags,
            mask: fields.sx_mask,
        }),
        opcode::SETATTR => body.take().map(|fields| FileOperation::SetAttr(changes(&fields))),
        opcode::READLINK => Ok(FileOperation::ReadLink),
        opcode::ACCESS => {
            body.take().map(|abi::AccessIn { mask, .. }| FileOperation::Access { mask })
        }
        opcode::SETXATTR => set_xattr(body),
        opcode::GETXATTR => (|| {
            let abi::GetxattrIn { size, .. } = body.take()?;
            Ok(FileOperation::GetXattr { name: body.attribute()?, size })
        })(),
        opcode::LISTXATTR => {
            body.take().map(|abi::GetxattrIn { size, .. }| FileOperation::ListXattr { size })
        }
        opcode::REMOVEXATTR => body.attribute().map(|name| FileOperation::RemoveXattr { name }),
        _ => return None,
    })
}

/// Decodes SETXATTR in both formats. Without `SETXATTR_EXT`, two fields are missing. The first of
/// them has at most one bit set. In the short format, the name begins at its place, so the formats
/// can be distinguished.
fn set_xattr(mut body: Cursor<'_>) -> Result<FileOperation<'_>, Reason> {
    let mut long = body;
    let ext: abi::SetxattrIn = match long.take() {
        Ok(ext) => ext,
        Err(_) => return set_xattr_short(body),
    };
    // Other bits here are the first characters of a name, so the format is the short one.
    if ext.setxattr_flags & !bits::SETXATTR_ACL_KILL_SGID != 0 {
        return set_xattr_short(body);
    }
    body = long;
    let (name, value) = (body.attribute()?, body.bytes(ext.size)?);
    let acl_kill_sgid = ext.setxattr_flags != 0;
    Ok(FileOperation::SetXattr { name, value, flags: ext.flags, acl_kill_sgid })
}

fn set_xattr_short(mut body: Cursor<'_>) -> Result<FileOperation<'_>, Reason> {
    let [size, flags]: [u32; 2] = body.take()?;
    let (name, value) = (body.attribute()?, body.bytes(size)?);
    Ok(FileOperation::SetXattr { name, value, flags, acl_kill_sgid: false })
}

/// Decodes operations on open files.
fn files(opcode: u32, mut body: Cursor<'_>) -> Decoded<'_> {
    Some(match opcode {
        opcode::OPEN => body.take().map(|abi::OpenIn { flags, open_flags }| {
            let kill_suidgid = open_flags & bits::OPEN_KILL_SUIDGID != 0;
            FileOperation::Open { flags, kill_suidgid }
        }),
        opcode::READ => body.take().map(|fields: abi::ReadIn| FileOperation::Read {
            handle: FileHandle(fields.fh),
            offset: fields.offset,
            size: fields.size,
            flags: fields.flags,
            lock_owner: owner_if(fields.read_flags & bits::READ_LOCKOWNER, fields.lock_owner),
        }),
        opcode::WRITE => write(body),
        opcode::RELEASE => body.take().map(|fields: abi::ReleaseIn| FileOperation::Release {
            handle: FileHandle(fields.fh),
            flags: fields.flags,
            lock_owner: LockOwner(fields.lock_owner),
            flush: fields.release_flags & bits::RELEASE_FLUSH != 0,
            flock_unlock: fields.release_flags & bits::RELEASE_FLOCK_UNLOCK != 0,
        }),
        opcode::FLUSH => body.take().map(|fields: abi::FlushIn| FileOperation::Flush {
            handle: FileHandle(fields.fh),
            lock_owner: LockOwner(fields.lock_owner),
        }),
        opcode::FSYNC => body.take().map(|fields: abi::FsyncIn| FileOperation::FSync {
            handle: FileHandle(fields.fh),
            data_only: fields.fsync_flags & bits::FSYNC_FDATASYNC != 0,
        }),
        opcode::FALLOCATE => body.take().map(|fields: abi::FallocateIn| FileOperation::FAllocate {
            handle: FileHandle(fields.fh),
            offset: fields.offset,
            length: fields.length,
            mode: fields.mode,
        }),
        opcode::LSEEK => body.take().map(|fields: abi::LseekIn| FileOperation::LSeek {
            handle: FileHandle(fields.fh),
            offset: fields.offset,
            whence: fields.whence,
        }),
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
            body.take().map(|fields| copy_file_range(&fields))
        }
        opcode::IOCTL => ioctl(body),
        _ => return None,
    })
}

fn write(mut body: Cursor<'_>) -> Result<FileOperation<'_>, Reason> {
    let fields: abi::WriteIn = body.take()?;
    Ok(FileOperation::Write {
        handle: FileHandle(fields.fh),
        offset: fields.offset,
        data: body.bytes(fields.size)?,
        flags: fields.flags,
        lock_owner: owner_if(fields.write_flags & bits::WRITE_LOCKOWNER, fields.lock_owner),
        from_page_cache: fields.write_flags & bits::WRITE_CACHE != 0,
        kill_suidgid: fields.write_flags & bits::WRITE_KILL_SUIDGID != 0,
    })
}

fn ioctl(mut body: Cursor<'_>) -> Result<FileOperation<'_>, Reason> {
    let fields: abi::IoctlIn = body.take()?;
    Ok(FileOperation::IoCtl {
        handle: FileHandle(fields.fh),
        flags: fields.flags,
        command: fields.cmd,
        argument: fields.arg,
        input: body.bytes(fields.in_size)?,
        output_size: fields.out_size,
    })
}

fn copy_file_range(fields: &abi::CopyFileRangeIn) -> FileOperation<'static> {
    FileOperation::CopyFileRange {
        handle: FileHandle(fields.fh_in),
        offset: fields.off_in,
        target: NodeId(fields.nodeid_out),
        target_handle: FileHandle(fields.fh_out),
        target_offset: fields.off_out,
        length: fields.len,
        flags: fields.flags,
    }
}

/// Decodes operations on open directories.
fn directories(opcode: u32, mut body: Cursor<'_>) -> Decoded<'_> {
    Some(match opcode {
        opcode::OPENDIR => {
            body.take().map(|abi::OpenIn { flags, .. }| FileOperation::OpenDir { flags })
        }
        opcode::READDIR => body.take().map(|fields: abi::ReadIn| FileOperation::ReadDir {
            handle: FileHandle(fields.fh),
            offset: fields.offset,
            size: fields.size,
        }),
        opcode::READDIRPLUS => body.take().map(|fields: abi::ReadIn| FileOperation::ReadDirPlus {
            handle: FileHandle(fields.fh),
            offset: fields.offset,
            size: fields.size,
        }),
        opcode::RELEASEDIR => body.take().map(|fields: abi::ReleaseIn| FileOperation::ReleaseDir {
            handle: FileHandle(fields.fh),
            flags: fields.flags,
        }),
        opcode::FSYNCDIR => body.take().map(|fields: abi::FsyncIn| FileOperation::FSyncDir {
            handle: FileHandle(fields.fh),
            data_only: fields.fsync_flags & bits::FSYNC_FDATASYNC != 0,
        }),
        _ => return None,
    })
}

/// Decodes locks and operations on the whole mount.
fn rest(opcode: u32, mut body: Cursor<'_>) -> Decoded<'_> {
    Some(match opcode {
        opcode::GETLK => lock(body).map(FileOperation::GetLk),
        opcode::SETLK => lock(body).map(FileOperation::SetLk),
        opcode::SETLKW => lock(body).map(FileOperation::SetLkW),
        opcode::STATFS => Ok(FileOperation::StatFs),
        opcode::SYNCFS => Ok(FileOperation::SyncFs),
        opcode::INIT => Ok(FileOperation::Init),
        opcode::DESTROY => Ok(FileOperation::Destroy),
        opcode::INTERRUPT => {
            body.take().map(|abi::InterruptIn { unique }| FileOperation::Interrupt { unique })
        }
        _ => return None,
    })
}

fn lock(mut body: Cursor<'_>) -> Result<LockRequest, Reason> {
    let abi::LkIn { fh, owner, lk, lk_flags, .. } = body.take()?;
    // `F_RDLCK`, `F_WRLCK` and `F_UNLCK` of Linux.
    let kind = match lk.kind {
        0 => LockKind::Shared,
        1 => LockKind::Exclusive,
        2 => LockKind::Unlocked,
        _ => return Err("the lock type is unknown"),
    };
    if lk.start > lk.end {
        return Err("the lock ends before it starts");
    }
    Ok(LockRequest {
        handle: FileHandle(fh),
        owner: LockOwner(owner),
        lock: FileLock { start: lk.start, end: lk.end, kind, pid: lk.pid },
        flock: lk_flags & bits::LK_FLOCK != 0,
    })
}

fn changes(fields: &abi::SetattrIn) -> AttributeChanges {
    let has = |bit| fields.valid & bit != 0;
    let time = |now, set, seconds: u64, nanoseconds| {
        let at = FileTime { seconds: seconds.cast_signed(), nanoseconds };
        match (has(now), has(set)) {
            (true, _) => Some(TimeChange::Now),
            (false, true) => Some(TimeChange::At(at)),
            (false, false) => None,
        }
    };
    AttributeChanges {
        mode: has(fattr::MODE).then_some(fields.mode),
        uid: has(fattr::UID).then_some(fields.uid),
        gid: has(fattr::GID).then_some(fields.gid),
        size_bytes: has(fattr::SIZE).then_some(fields.size),
        atime: time(fattr::ATIME_NOW, fattr::ATIME, fields.atime, fields.atimensec),
        mtime: time(fattr::MTIME_NOW, fattr::MTIME, fields.mtime, fields.mtimensec),
        ctime: has(fattr::CTIME).then_some(FileTime {
            seconds: fields.ctime.cast_signed(),
            nanoseconds: fields.ctimensec,
        }),
        handle: handle_if(fields.valid & fattr::FH, fields.fh),
        lock_owner: owner_if(fields.valid & fattr::LOCKOWNER, fields.lock_owner),
        kill_suidgid: has(fattr::KILL_SUIDGID),
    }
}

fn handle_if(bit: u32, fh: u64) -> Option<FileHandle> {
    (bit != 0).then_some(FileHandle(fh))
}

fn owner_if(bit: u32, owner: u64) -> Option<LockOwner> {
    (bit != 0).then_some(LockOwner(owner))
}

#[cfg(test)]
mod tests;
