//! Locks of programs on files, and the place where a volume keeps them.
//!
//! If one mount alone uses locks, they are in its memory, and the record [`LockKeeping`] names it
//! as the granter. For example, when a second mount uses locks, the granter publishes its locks as
//! records: then [`LockKeeping`] names both as sharers, and each locked file has a record
//! [`FileLocks`].

use crate::Nonce;
use crate::codec::{DecodeError, record};

/// The most locks of one file at a time, so that its record stays small enough.
pub const LOCKS_PER_FILE_MAX: usize = 1_024;

/// The kind of a lock of a program on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RangeLockKind {
    /// Any number of owners may hold such a lock at the same time (a read lock).
    Shared,
    /// Only one owner may hold such a lock, and no other owner a shared one (a write lock).
    Exclusive,
}

/// A lock of a program on a range of a file, held or requested.
///
/// A lock of fcntl(2) belongs to a process, and one of flock(2) to an open file. The two do not
/// conflict with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RangeLock {
    /// The position of the first byte of the range.
    pub start: u64,
    /// The position of the last byte of the range, inclusive.
    pub last: u64,
    /// The kind.
    pub kind: RangeLockKind,
    /// The number of the owner that holds or requests the lock, unique within a session.
    pub owner: u64,
    /// The id of the process, which `F_GETLK` returns.
    pub pid: u32,
    /// True for a lock of flock(2), and false for one of fcntl(2).
    pub flock: bool,
}

impl RangeLock {
    /// Returns true if two different owners cannot hold both locks at the same time: the ranges
    /// overlap, one lock is exclusive, and both are of the same system call.
    pub fn excludes(&self, other: &RangeLock) -> bool {
        // The two kinds of locks are independent of each other on Linux.
        self.flock == other.flock
            && self.start <= other.last
            && other.start <= self.last
            && (self.kind == RangeLockKind::Exclusive || other.kind == RangeLockKind::Exclusive)
    }
}

/// A lock that a program of a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The session of the program that holds the lock. If it has ended, the lock does not count.
    pub session: Nonce,
    /// The lock.
    pub lock: RangeLock,
}

/// The session that wrote a record of locks, and the number of the write. It makes the bytes of
/// every write different, so the guard of a plan that arrives late never matches bytes of another
/// write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The session that wrote the record.
    pub by: Nonce,
    /// The number of the write within the session.
    pub count: u64,
}

/// The record of the locks of a file, if the volume keeps locks in records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocks {
    /// The session and the number of the last write of this record.
    pub written: Written,
    /// The locks that programs hold on the file.
    pub held: Vec<HeldLock>,
}

/// Bits of a lock's flags.
const EXCLUSIVE: u8 = 1;
const FLOCK: u8 = 2;

record!(
    FileLocks,
    1,
    |this, to| {
        // The writer and its number make the bytes of each write unique.
        to.fixed(&this.written.by.0).varint(this.written.count).varint(this.held.len() as u64);
        for HeldLock { session, lock } in &this.held {
            // One byte has the kind of the lock and the system call that it belongs to.
            let exclusive = if lock.kind == RangeLockKind::Exclusive { EXCLUSIVE } else { 0 };
            let flags = exclusive | if lock.flock { FLOCK } else { 0 };
            to.fixed(&session.0).u8(flags).fixed(&lock.owner.to_be_bytes());
            to.varint(u64::from(lock.pid)).varint(lock.start).varint(lock.last);
        }
    },
    |from| {
        let by = Nonce(from.fixed("writer")?);
        let written = Written { by, count: from.varint("count")? };
        let count = from.varint("locks")?;
        let mut lock = || {
            let session = Nonce(from.fixed("session")?);
            let flags = from.u8("flags")?;
            if flags & !(EXCLUSIVE | FLOCK) != 0 {
                return Err(DecodeError::Field("flags"));
            }
            let exclusive = flags & EXCLUSIVE != 0;
            let kind = if exclusive { RangeLockKind::Exclusive } else { RangeLockKind::Shared };
            let owner = u64::from_be_bytes(from.fixed("owner")?);
            let pid = from.narrow("pid")?;
            let (start, last) = (from.varint("start")?, from.varint("last")?);
            let flock = flags & FLOCK != 0;
            Ok(HeldLock { session, lock: RangeLock { start, last, kind, owner, pid, flock } })
        };
        let held = (0..count).map(|_| lock()).collect::<Result<_, _>>()?;
        FileLocks { written, held }
    }
);

/// The place where a volume keeps the locks of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockPlace {
    /// The memory of one session, the granter, which alone uses locks.
    Memory {
        /// The session that has the locks in its memory.
        granter: Nonce,
        /// The sessions that wait for the granter to publish its locks as records, because their
        /// programs want locks, too.
        asked: Vec<Nonce>,
    },
    /// Records, one for each locked file, which these sessions share.
    Records {
        /// All sessions that may hold locks, each of which reads and writes these records.
        sharers: Vec<Nonce>,
    },
}

/// The record that names the place where a volume keeps the locks of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKeeping {
    /// The session and the number of the last write of this record.
    pub written: Written,
    /// The place: the memory of one session, or records.
    pub place: LockPlace,
}

record!(
    LockKeeping,
    1,
    |this, to| {
        // As in [`FileLocks`]: the bytes of each write are unique.
        to.fixed(&this.written.by.0).varint(this.written.count);
        let sessions = match &this.place {
            LockPlace::Memory { granter, asked } => {
                to.u8(1).fixed(&granter.0);
                asked
            }
            LockPlace::Records { sharers } => {
                to.u8(2);
                sharers
            }
        };
        to.varint(sessions.len() as u64);
        for session in sessions {
            to.fixed(&session.0);
        }
    },
    |from| {
        let by = Nonce(from.fixed("writer")?);
        let written = Written { by, count: from.varint("count")? };
        let granter = match from.u8("place")? {
            1 => Some(Nonce(from.fixed("granter")?)),
            2 => None,
            _ => return Err(DecodeError::Field("place")),
        };
        let count = from.varint("sessions")?;
        let sessions =
            (0..count).map(|_| from.fixed("session").map(Nonce)).collect::<Result<_, _>>()?;
        let place = match granter {
            Some(granter) => LockPlace::Memory { granter, asked: sessions },
            None => LockPlace::Records { sharers: sessions },
        };
        LockKeeping { written, place }
    }
);
