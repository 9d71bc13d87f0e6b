//! Locks of programs on files (fcntl and flock), shared by sessions.
//!
//! One record of the volume, [`LockKeeping`], says where locks are: in the memory of one session
//! (the *granter*), or in records that several sessions share, one record for each file. Every plan
//! that sets or moves locks guards this record, so two sessions never use different places. Locks
//! of a session that has ended do not count. A [`SetLocks`] removes those that conflict with its
//! lock, and [`ForgetLocks`] removes all of a file.
//!
//! ```text
//!             BeginLocking of the first session
//!  no record ─────────────────────────────────▶ Memory { granter }
//!  Memory    ── BeginLocking of another session ─▶ Memory { granter, asked: [other] }
//!            ── PublishLocks of the granter ─────▶ Records { sharers }
//!            ── BeginLocking, the granter ended ─▶ Memory { granter: this session }
//!  Records   ── BeginLocking, all others ended ──▶ Memory { granter: this session }
//!            ── BeginLocking, another is alive ──▶ Records { sharers, and this session }
//!  any       ── EndLocking, all sessions ended ──▶ no record
//! ```
//!
//! For example, one mount uses locks: it keeps them in memory, which needs no round trip. A second
//! mount requests a lock: the first one publishes its locks as records, and both then use records.
//!
//! Two rules make retries safe. A session always writes all locks that it holds on a file, so if
//! the outcome of a plan is unknown, the next plan repairs it. And no two plans write the same
//! bytes (see [`Written`]), so a plan that arrives late does nothing if the record was written
//! since.
//!
//! This module does not know which programs wait for a lock.

use record::{
    FileLocks, HeldLock, Ino, LOCKS_PER_FILE_MAX, LockKeeping, LockPlace, Nonce, RangeLock,
    Written, key,
};
use store::{Guard, Key, Plan, Value, Write};

use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// The most sessions that may share the locks of a volume.
pub const LOCK_SHARERS_MAX: usize = 256;

/// The place of a volume's locks, for a session that wants to use them: in the memory of one
/// session (their granter), or in records that several sessions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockUse {
    /// In the memory of this session, which is now their granter. It may grant locks without a
    /// round trip.
    InMemory,
    /// In records, which this session shares with others. It sets each lock with `SetLocks`.
    InRecords,
    /// In the memory of another session, which now has a request to publish them as records. This
    /// session waits and asks again.
    Requested,
    /// [`LOCK_SHARERS_MAX`] sessions use locks already, so this session cannot use any.
    TooMany,
}

/// The result of a [`SetLocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetLocksResult {
    /// The session now holds the locks that it wanted to set.
    Done,
    /// This lock of another session conflicts with the requested one. Nothing was changed.
    Conflict(HeldLock),
    /// The file would have more than [`LOCKS_PER_FILE_MAX`] locks. Nothing was changed.
    TooMany,
    /// Locks are not in records that this session shares: they are in the memory of one session, or
    /// this session has not begun to use locks. Nothing was changed. The caller finds their place
    /// with `BeginLocking`.
    Elsewhere,
}

/// The result of a [`FindLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictSearch {
    /// No lock of another session conflicts.
    Free,
    /// This lock of another session conflicts with the requested one.
    Conflict(HeldLock),
    /// Locks are not in records that this session shares. The caller finds their place with
    /// `BeginLocking`.
    Elsewhere,
}

/// The record of the place of locks (the memory of one session, or records), as a plan sees it.
/// Without a record no session uses locks.
struct Keeping {
    key: Key,
    value: Option<Value>,
    place: Option<LockPlace>,
}

impl Keeping {
    fn find(view: &mut View<'_>) -> Result<Keeping, Halt> {
        let key = key::lock_keeping();
        let value = view.record(&key)?;
        let place = value
            .as_ref()
            .map(|value| decode(&key, value, LockKeeping::decode).map(|keeping| keeping.place))
            .transpose()?;
        Ok(Keeping { key, value, place })
    }

    fn guard(&self) -> Guard {
        match &self.value {
            Some(value) => Guard::Equals(self.key.clone(), value.clone()),
            None => Guard::Absent(self.key.clone()),
        }
    }

    fn put(&self, written: Written, place: LockPlace) -> Write {
        let keeping = LockKeeping { written, place };
        Write::Put(self.key.clone(), keeping.encode(&self.key))
    }

    /// Returns true if locks are in records that this session shares.
    fn is_shared_by(&self, session: Nonce) -> bool {
        let shared = self.place.as_ref();
        shared.is_some_and(
            |place| matches!(place, LockPlace::Records { sharers } if sharers.contains(&session)),
        )
    }
}

/// Returns those of the sessions that have not ended, that is, whose session records exist. Guards
/// that the records of the others are absent.
fn alive_sessions(
    view: &mut View<'_>,
    sessions: &[Nonce],
    plan: &mut Plan,
) -> Result<Vec<Nonce>, Halt> {
    let keys: Vec<Key> = sessions.iter().map(|session| key::session(*session)).collect();
    let found = view.many(&keys)?;
    let mut alive = Vec::new();
    for ((session, key), record) in sessions.iter().zip(keys).zip(found) {
        match record {
            Some(_) => alive.push(*session),
            None => plan.guards.push(Guard::Absent(key)),
        }
    }
    Ok(alive)
}

/// Finds the place of the volume's locks, for a session that wants to use some. If no other live
/// session uses locks, they are in this session's memory from then on. If another session has them
/// in its memory, this session's request to publish them is recorded. The record of the place is
/// written for each answer `InMemory`, so no earlier plan of this session can change it later.
#[derive(Clone, Debug)]
pub struct BeginLocking {
    /// A number that this session has not used for another write of lock records.
    pub count: u64,
}

impl Planner for BeginLocking {
    type Output = LockUse;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<LockUse>, Halt> {
        let own = env.session;
        let written = Written { by: own, count: self.count };
        let keeping = Keeping::find(view)?;
        let mut plan = Plan { guards: vec![keeping.guard()], writes: Vec::new() };
        let answer = |plan: &mut Plan, place, answer| {
            plan.writes.push(keeping.put(written, place));
            Ok(Step::Commit(std::mem::take(plan), answer))
        };
        match keeping.place.clone() {
            None => {
                let place = LockPlace::Memory { granter: own, asked: Vec::new() };
                answer(&mut plan, place, LockUse::InMemory)
            }
            Some(place @ LockPlace::Memory { granter, .. }) if granter == own => {
                answer(&mut plan, place, LockUse::InMemory)
            }
            // The memory of a granter that has ended is lost, and so are its locks. This session
            // takes its place.
            Some(LockPlace::Memory { granter, mut asked }) => {
                if alive_sessions(view, &[granter], &mut plan)?.is_empty() {
                    asked.retain(|session| *session != own);
                    let place = LockPlace::Memory { granter: own, asked };
                    return answer(&mut plan, place, LockUse::InMemory);
                }
                if asked.contains(&own) {
                    return Ok(Step::Done(LockUse::Requested));
                }
                if asked.len() + 1 >= LOCK_SHARERS_MAX {
                    return Ok(Step::Done(LockUse::TooMany));
                }
                asked.push(own);
                answer(&mut plan, LockPlace::Memory { granter, asked }, LockUse::Requested)
            }
            // If all other sharers have ended, no other lock counts. This session then uses its
            // memory, which needs no round trips.
            Some(LockPlace::Records { mut sharers }) => {
                let is_sharer = sharers.contains(&own);
                sharers.retain(|session| *session != own);
                let mut sharers = alive_sessions(view, &sharers, &mut plan)?;
                if sharers.is_empty() {
                    let place = LockPlace::Memory { granter: own, asked: Vec::new() };
                    return answer(&mut plan, place, LockUse::InMemory);
                }
                if is_sharer {
                    return Ok(Step::Done(LockUse::InRecords));
                }
                if sharers.len() >= LOCK_SHARERS_MAX {
                    return Ok(Step::Done(LockUse::TooMany));
                }
                sharers.push(own);
                answer(&mut plan, LockPlace::Records { sharers }, LockUse::InRecords)
            }
        }
    }
}

/// Returns true if this session keeps the volume's locks in memory and another session waits for it
/// to publish them as records.
#[derive(Clone, Debug)]
pub struct FindLockRequests;

impl Planner for FindLockRequests {
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<bool>, Halt> {
        let keeping = Keeping::find(view)?;
        let asked = matches!(
            keeping.place,
            Some(LockPlace::Memory { granter, ref asked })
                if granter == env.session && !asked.is_empty()
        );
        Ok(Step::Done(asked))
    }
}

/// Writes locks from this session's memory into records, so that other sessions see them. The last
/// call also changes the place of locks to records. Returns false, and writes nothing, if this
/// session is not the granter, that is, the session that keeps the locks in memory.
#[derive(Clone, Debug)]
pub struct PublishLocks<'a> {
    /// Files, each with all locks that the session holds on it. An empty list removes a record of
    /// an earlier attempt.
    pub files: &'a [(Ino, Vec<RangeLock>)],
    /// True for the last call, which also changes the place of locks to records.
    pub last: bool,
    /// A number that this session has not used for another write of lock records.
    pub count: u64,
}

impl Planner for PublishLocks<'_> {
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<bool>, Halt> {
        let own = env.session;
        let written = Written { by: own, count: self.count };
        let keeping = Keeping::find(view)?;
        let Some(LockPlace::Memory { granter, asked }) = &keeping.place else {
            return Ok(Step::Done(false));
        };
        if *granter != own {
            return Ok(Step::Done(false));
        }
        let mut plan = Plan { guards: vec![keeping.guard()], writes: Vec::new() };
        for (ino, locks) in self.files {
            // While a session is the granter, no other live session has locks in records. So the
            // record is replaced without being read.
            plan.writes.push(write(&key::locks(*ino), written, held(own, locks)));
        }
        if self.last {
            let sharers = std::iter::once(own).chain(asked.iter().copied()).collect();
            plan.writes.push(keeping.put(written, LockPlace::Records { sharers }));
        }
        Ok(Step::Commit(plan, true))
    }
}

fn held(session: Nonce, locks: &[RangeLock]) -> Vec<HeldLock> {
    locks.iter().map(|lock| HeldLock { session, lock: *lock }).collect()
}

fn write(key: &Key, written: Written, held: Vec<HeldLock>) -> Write {
    if held.is_empty() {
        return Write::Delete(key.clone());
    }
    Write::Put(key.clone(), FileLocks { written, held }.encode(key))
}

/// The locks of a file, from its record. Without a record there are none.
struct Recorded {
    key: Key,
    value: Option<Value>,
    held: Vec<HeldLock>,
}

impl Recorded {
    fn of(key: Key, value: Option<Value>) -> Result<Recorded, Halt> {
        let held = match &value {
            Some(value) => decode(&key, value, FileLocks::decode)?.held,
            None => Vec::new(),
        };
        Ok(Recorded { key, value, held })
    }

    fn guard(&self) -> Guard {
        match &self.value {
            Some(value) => Guard::Equals(self.key.clone(), value.clone()),
            None => Guard::Absent(self.key.clone()),
        }
    }

    /// Removes the locks of sessions that have ended, among those for which `suspects` returns
    /// true.
    fn without_ended(
        &mut self,
        view: &mut View<'_>,
        plan: &mut Plan,
        suspects: impl Fn(&HeldLock) -> bool,
    ) -> Result<(), Halt> {
        // Only the sessions of these locks are looked up, to keep the reads few.
        let mut sessions: Vec<Nonce> =
            self.held.iter().filter(|held| suspects(held)).map(|held| held.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let alive = alive_sessions(view, &sessions, plan)?;
        self.held.retain(|held| !sessions.contains(&held.session) || alive.contains(&held.session));
        Ok(())
    }
}

/// Replaces all locks that this session holds on a file, in the file's lock record. One round trip
/// if the record is cached and no lock of another session conflicts. Only for a session that shares
/// the records; see `BeginLocking`.
#[derive(Clone, Debug)]
pub struct SetLocks<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// All locks that the session holds on the file afterwards. Those of its earlier locks that are
    /// not among them are released.
    pub own: &'a [RangeLock],
    /// The lock among them that is new and may conflict; `None` if locks are only released.
    pub requested: Option<&'a RangeLock>,
    /// A number that this session has not used for another write of lock records.
    pub count: u64,
}

impl Planner for SetLocks<'_> {
    type Output = SetLocksResult;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<SetLocksResult>, Halt> {
        let own = env.session;
        let keeping = Keeping::find(view)?;
        if !keeping.is_shared_by(own) {
            return Ok(Step::Done(SetLocksResult::Elsewhere));
        }
        let at = key::locks(self.ino);
        let value = view.guess(&at, None);
        let mut recorded = Recorded::of(at, value)?;
        // This session writes all of its locks anew.
        recorded.held.retain(|held| held.session != own);
        let mut plan = Plan { guards: vec![keeping.guard(), recorded.guard()], writes: Vec::new() };
        // A session is looked up only if its lock conflicts, or if the file has too many locks. A
        // release conflicts with nothing.
        if let Some(requested) = self.requested {
            recorded.without_ended(view, &mut plan, |held| held.lock.excludes(requested))?;
            if let Some(held) = recorded.held.iter().find(|held| held.lock.excludes(requested)) {
                return Ok(Step::Done(SetLocksResult::Conflict(*held)));
            }
            if recorded.held.len() + self.own.len() > LOCKS_PER_FILE_MAX {
                recorded.without_ended(view, &mut plan, |_| true)?;
            }
            if recorded.held.len() + self.own.len() > LOCKS_PER_FILE_MAX {
                return Ok(Step::Done(SetLocksResult::TooMany));
            }
        }
        let mut all = recorded.held;
        all.extend(held(own, self.own));
        if all.is_empty() && recorded.value.is_none() {
            return Ok(Step::Done(SetLocksResult::Done));
        }
        let written = Written { by: own, count: self.count };
        plan.writes.push(write(&recorded.key, written, all));
        Ok(Step::Commit(plan, SetLocksResult::Done))
    }
}

/// Finds a lock of another live session that conflicts with a requested lock (`F_GETLK`).
#[derive(Clone, Debug)]
pub struct FindLock<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// The lock that a program requests, for which conflicts are searched.
    pub requested: &'a RangeLock,
}

impl Planner for FindLock<'_> {
    type Output = ConflictSearch;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<ConflictSearch>, Halt> {
        let keeping = Keeping::find(view)?;
        if !keeping.is_shared_by(env.session) {
            return Ok(Step::Done(ConflictSearch::Elsewhere));
        }
        let at = key::locks(self.ino);
        let value = view.record(&at)?;
        let mut recorded = Recorded::of(at, value)?;
        recorded
            .held
            .retain(|held| held.session != env.session && held.lock.excludes(self.requested));
        recorded.without_ended(view, &mut Plan::default(), |_| true)?;
        let first = recorded.held.first().copied();
        Ok(Step::Done(first.map_or(ConflictSearch::Free, ConflictSearch::Conflict)))
    }
}

/// Removes locks of sessions that have ended from the record of a file.
#[derive(Clone, Debug)]
pub struct ForgetLocks {
    /// The inode number of the file.
    pub ino: Ino,
    /// A number that this session has not used for another write of lock records.
    pub count: u64,
}

impl Planner for ForgetLocks {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let at = key::locks(self.ino);
        let value = view.record(&at)?;
        let mut recorded = Recorded::of(at, value)?;
        let mut plan = Plan { guards: vec![recorded.guard()], writes: Vec::new() };
        let before = recorded.held.len();
        recorded.without_ended(view, &mut plan, |held| held.session != env.session)?;
        if recorded.held.len() == before {
            return Ok(Step::Done(()));
        }
        let written = Written { by: env.session, count: self.count };
        plan.writes.push(write(&recorded.key, written, recorded.held));
        Ok(Step::Commit(plan, ()))
    }
}

/// Removes the record of the place of locks, if all sessions that it names have ended. Does nothing
/// if one of them is alive.
#[derive(Clone, Debug)]
pub struct EndLocking;

impl Planner for EndLocking {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let keeping = Keeping::find(view)?;
        let mut sessions = match keeping.place.clone() {
            None => return Ok(Step::Done(())),
            Some(LockPlace::Memory { granter, mut asked }) => {
                asked.push(granter);
                asked
            }
            Some(LockPlace::Records { sharers }) => sharers,
        };
        sessions.sort_unstable();
        sessions.dedup();
        let mut plan = Plan { guards: vec![keeping.guard()], writes: Vec::new() };
        if !alive_sessions(view, &sessions, &mut plan)?.is_empty() {
            return Ok(Step::Done(()));
        }
        plan.writes.push(Write::Delete(keeping.key.clone()));
        Ok(Step::Commit(plan, ()))
    }
}
