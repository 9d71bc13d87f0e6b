//! Locks of programs on files, and who keeps them where.

use crate::Nonce;
use crate::codec::{DecodeError, record};

/// The most locks of one file that are held at a time: what its record holds.
pub const LOCKS_PER_FILE_MAX: usize = 1_024;

/// What a lock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RangeLockKind {
    /// Held by any number of readers.
    Shared,
    /// Held by one writer.
    Exclusive,
}

/// A lock on a range of a file.
///
/// A lock of fcntl(2) belongs to a process, one of flock(2) to an open file; the two kinds do not see
/// each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RangeLock {
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub last: u64,
    /// What it allows.
    pub kind: RangeLockKind,
    /// Who holds it, or asks for it, among those of one session.
    pub owner: u64,
    /// The process, for those who ask who is in the way.
    pub pid: u32,
    /// Whether it is one of flock(2).
    pub flock: bool,
}

impl RangeLock {
    /// Whether two locks of different owners cannot be held at a time.
    pub fn excludes(&self, other: &RangeLock) -> bool {
        self.flock == other.flock
            && self.start <= other.last
            && other.start <= self.last
            && (self.kind == RangeLockKind::Exclusive || other.kind == RangeLockKind::Exclusive)
    }
}

/// A lock that a session's program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The session. When it has ended, so has the lock.
    pub session: Nonce,
    /// The lock.
    pub lock: RangeLock,
}

/// Who wrote a record, and as which of its writes. So no two writes leave the same bytes: a plan that
/// comes late never takes what stands for what it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The session.
    pub by: Nonce,
    /// Counts what it wrote.
    pub count: u64,
}

/// The locks that are held of a file, as far as no session keeps them in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocks {
    /// Who wrote this.
    pub written: Written,
    /// The locks.
    pub held: Vec<HeldLock>,
}

/// Bits of a lock's flags.
const EXCLUSIVE: u8 = 1;
const FLOCK: u8 = 2;

record!(
    FileLocks,
    1,
    |this, to| {
        to.fixed(&this.written.by.0).varint(this.written.count).varint(this.held.len() as u64);
        for HeldLock { session, lock } in &this.held {
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

/// Where the locks of a volume are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockPlace {
    /// In the memory of one session.
    Memory {
        /// That session.
        granter: Nonce,
        /// Sessions that want locks, too, and wait for the granter to publish its own.
        asked: Vec<Nonce>,
    },
    /// In records that these sessions share.
    Records {
        /// All that may hold locks.
        sharers: Vec<Nonce>,
    },
}

/// Where the locks of a volume are kept, as somebody has written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKeeping {
    /// Who wrote this.
    pub written: Written,
    /// Where.
    pub place: LockPlace,
}

record!(
    LockKeeping,
    1,
    |this, to| {
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
