//! Locks of programs on files, shared by sessions.
//!
//! A volume has one record that says where its locks are: in the memory of one session, or in
//! records that some sessions share, one for each file. Every plan about locks guards that record, so
//! no two sessions ever go by two answers. Locks of a session that has ended count for nothing, and
//! whoever meets them leaves them out.
//!
//! What a session says of a file is always all that it holds of it, so that a plan which nobody
//! knows the outcome of is mended by the next one. And no two plans write the same bytes, so that
//! one which comes late does nothing where anything was written since.
//!
//! Knows nothing of who waits.

use record::{
    FileLocks, HeldLock, Ino, LOCKS_PER_FILE_MAX, LockKeeping, LockPlace, Nonce, RangeLock,
    Written, key,
};
use store::{Guard, Key, Plan, Value, Write};

use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// Sessions that may share the locks of a volume.
pub const LOCK_SHARERS_MAX: usize = 256;

/// Where the locks of a volume are, for a session that wants to use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockUse {
    /// In this session's memory from now on.
    InMemory,
    /// In records.
    InRecords,
    /// In another session's memory. It has been asked to publish them.
    Asked,
    /// There are [`LOCK_SHARERS_MAX`] sessions already.
    TooMany,
}

/// What came of changing what a session holds of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetLocksResult {
    /// It holds this.
    Done,
    /// Another session's lock is in the way.
    Conflict(HeldLock),
    /// The file has as many locks as there may be.
    TooMany,
    /// Locks are not in records that this session shares. Nothing was changed.
    Elsewhere,
}

/// What a session finds who asks for the lock in the way of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictSearch {
    /// None of another session.
    Free,
    /// This one.
    Conflict(HeldLock),
    /// Locks are not in records that this session shares.
    Elsewhere,
}

/// The record of where locks are.
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

    /// Whether a session shares locks with others in records.
    fn is_shared_by(&self, session: Nonce) -> bool {
        let shared = self.place.as_ref();
        shared.is_some_and(
            |place| matches!(place, LockPlace::Records { sharers } if sharers.contains(&session)),
        )
    }
}

/// Those of some sessions that live, and guards that the others have ended.
fn living(view: &mut View<'_>, sessions: &[Nonce], plan: &mut Plan) -> Result<Vec<Nonce>, Halt> {
    let keys: Vec<Key> = sessions.iter().map(|session| key::session(*session)).collect();
    let found = view.many(&keys)?;
    let mut living = Vec::new();
    for ((session, key), record) in sessions.iter().zip(keys).zip(found) {
        match record {
            Some(_) => living.push(*session),
            None => plan.guards.push(Guard::Absent(key)),
        }
    }
    Ok(living)
}

/// Finds out where the locks of a volume are, for a session that wants some. If nobody else who lives
/// uses any they are in its memory from then on, and it is certain that no plan of its own can say
/// otherwise later: the record was written for this very answer.
#[derive(Clone, Debug)]
pub struct BeginLocking {
    /// How this write is told from others.
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
            Some(LockPlace::Memory { granter, mut asked }) => {
                if living(view, &[granter], &mut plan)?.is_empty() {
                    asked.retain(|session| *session != own);
                    let place = LockPlace::Memory { granter: own, asked };
                    return answer(&mut plan, place, LockUse::InMemory);
                }
                if asked.contains(&own) {
                    return Ok(Step::Done(LockUse::Asked));
                }
                if asked.len() + 1 >= LOCK_SHARERS_MAX {
                    return Ok(Step::Done(LockUse::TooMany));
                }
                asked.push(own);
                answer(&mut plan, LockPlace::Memory { granter, asked }, LockUse::Asked)
            }
            Some(LockPlace::Records { mut sharers }) => {
                let is_one = sharers.contains(&own);
                sharers.retain(|session| *session != own);
                let mut sharers = living(view, &sharers, &mut plan)?;
                if sharers.is_empty() {
                    let place = LockPlace::Memory { granter: own, asked: Vec::new() };
                    return answer(&mut plan, place, LockUse::InMemory);
                }
                if is_one {
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

/// Whether somebody waits for this session to publish the locks that it keeps in memory.
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

/// Writes locks that this session keeps in memory into records; and with the last of them says that
/// they are there from now on. Answers whether this session was their granter: else nothing is written.
#[derive(Clone, Debug)]
pub struct PublishLocks<'a> {
    /// Files, each with all that the session holds of it, also if that is nothing any more.
    pub files: &'a [(Ino, Vec<RangeLock>)],
    /// Whether these are the last ones.
    pub last: bool,
    /// How this write is told from others.
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
            // While a session is the granter nobody else who lives has a lock in a record.
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

/// The locks of a file as its record says.
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

    /// Leaves out the locks of sessions that have ended, of those that `suspects` says.
    fn without_ended(
        &mut self,
        view: &mut View<'_>,
        plan: &mut Plan,
        suspects: impl Fn(&HeldLock) -> bool,
    ) -> Result<(), Halt> {
        let mut sessions: Vec<Nonce> =
            self.held.iter().filter(|held| suspects(held)).map(|held| held.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let living = living(view, &sessions, plan)?;
        self.held
            .retain(|held| !sessions.contains(&held.session) || living.contains(&held.session));
        Ok(())
    }
}

/// Sets what this session holds of a file: one round trip if the record is remembered and no lock of
/// another session is in the way.
#[derive(Clone, Debug)]
pub struct SetLocks<'a> {
    /// The file.
    pub ino: Ino,
    /// All that the session holds of it then.
    pub own: &'a [RangeLock],
    /// The lock among them that it has not held before.
    pub asked: Option<&'a RangeLock>,
    /// How this write is told from others.
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
        recorded.held.retain(|held| held.session != own);
        let mut plan = Plan { guards: vec![keeping.guard(), recorded.guard()], writes: Vec::new() };
        if let Some(asked) = self.asked {
            recorded.without_ended(view, &mut plan, |held| held.lock.excludes(asked))?;
            if let Some(held) = recorded.held.iter().find(|held| held.lock.excludes(asked)) {
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

/// The lock of another session that is in the way of one.
#[derive(Clone, Debug)]
pub struct FindLock<'a> {
    /// The file.
    pub ino: Ino,
    /// The lock that somebody would like.
    pub asked: &'a RangeLock,
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
        recorded.held.retain(|held| held.session != env.session && held.lock.excludes(self.asked));
        recorded.without_ended(view, &mut Plan::default(), |_| true)?;
        let first = recorded.held.first().copied();
        Ok(Step::Done(first.map_or(ConflictSearch::Free, ConflictSearch::Conflict)))
    }
}

/// Takes locks of sessions that have ended from a file's record.
#[derive(Clone, Debug)]
pub struct ForgetLocks {
    /// The file.
    pub ino: Ino,
    /// How this write is told from others.
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

/// Takes away the record of where locks are, if every session that it names has ended.
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
        if !living(view, &sessions, &mut plan)?.is_empty() {
            return Ok(Step::Done(()));
        }
        plan.writes.push(Write::Delete(keeping.key.clone()));
        Ok(Step::Commit(plan, ()))
    }
}
