//! Locks that sessions share: the cost of each step, and that no two sessions hold conflicting
//! locks, even if plans are delivered late and sessions end.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use namespace::{
    BeginLocking, ConflictSearch, EndLocking, Env, FindLock, FindLockRequests, ForgetLocks,
    FsError, LOCK_SHARERS_MAX, LockUse, Next, NoHints, Planner, PublishLocks, Run, SetLocks,
    SetLocksResult,
};
use proptest::prelude::*;
use record::{
    Ino, LOCKS_PER_FILE_MAX, LockKeeping, LockPlace, Nonce, RangeLock, RangeLockKind, SessionFacts,
    SessionRecord, SocketSecret, Timestamp, Written, key, key::space,
};
use store::{Guard, MemoryStore, MetaStore, Plan, Verdict, Write};

use crate::memory::Memory;
use crate::world::{Cost, answers, decision, drive};

const FILE: Ino = Ino(2_000);

fn session(number: u8) -> Nonce {
    Nonce([number; 10])
}

fn env(session: Nonce) -> Env {
    Env { now: Timestamp(1), earliest_now: Timestamp(1), session, random: 7 }
}

fn commit(store: &MemoryStore, guards: Vec<Guard>, writes: Vec<Write>) -> bool {
    let verdicts = block_on(store.commit(&[Plan { guards, writes }])).unwrap();
    verdicts == [Verdict::Committed]
}

fn begin(store: &MemoryStore, session: Nonce) {
    let at = key::session(session);
    let record = SessionRecord {
        began: Timestamp(1),
        place: String::new(),
        reach: Vec::new(),
        socket_secret: SocketSecret::NONE,
        facts: SessionFacts::default(),
    }
    .encode(&at);
    assert!(commit(store, Vec::new(), vec![Write::Put(at, record)]));
}

fn end(store: &MemoryStore, session: Nonce) {
    assert!(commit(store, Vec::new(), vec![Write::Delete(key::session(session))]));
}

fn lock(owner: u64, start: u64, last: u64, kind: RangeLockKind) -> RangeLock {
    RangeLock { start, last, kind, owner, pid: 1, flock: false }
}

fn exclusive() -> RangeLock {
    lock(1, 0, 9, RangeLockKind::Exclusive)
}

fn shared() -> RangeLock {
    lock(1, 0, 9, RangeLockKind::Shared)
}

/// A store with sessions. Each session caches the records that it has read.
struct Bench {
    store: MemoryStore,
    memories: BTreeMap<Nonce, Memory>,
}

impl Bench {
    fn new(sessions: u8) -> Bench {
        let (store, numbers) = (MemoryStore::new(), 1..=sessions);
        numbers.clone().for_each(|number| begin(&store, session(number)));
        let memories = numbers.map(|number| (session(number), Memory::default())).collect();
        Bench { store, memories }
    }

    fn run<O: Planner>(&self, number: u8, operation: &O) -> (O::Output, Cost)
    where
        O::Output: std::fmt::Debug,
    {
        let memory = &self.memories[&session(number)];
        let (answer, cost) =
            drive(&self.store, operation, env(session(number)), memory, Some(memory));
        (answer.unwrap(), cost)
    }

    fn begin(&self, number: u8) -> LockUse {
        self.run(number, &BeginLocking { count: 1 }).0
    }

    fn set(
        &self,
        number: u8,
        own: &[RangeLock],
        asked: Option<&RangeLock>,
    ) -> (SetLocksResult, Cost) {
        self.run(number, &SetLocks { ino: FILE, own, requested: asked, count: 2 })
    }

    /// Two sessions that share their locks.
    fn sharing() -> Bench {
        let bench = Bench::new(2);
        assert_eq!((bench.begin(1), bench.begin(2)), (LockUse::InMemory, LockUse::Requested));
        assert!(bench.run(1, &PublishLocks { files: &[], last: true, count: 3 }).0);
        assert_eq!(bench.begin(2), LockUse::InRecords);
        bench
    }

    fn records(&self, space: store::Space) -> usize {
        block_on(self.store.walk(space, None, 1_000)).unwrap().records.len()
    }
}

#[test]
fn first_session_keeps_locks_in_memory_and_the_second_requests_them() {
    let bench = Bench::new(3);
    assert_eq!(bench.begin(1), LockUse::InMemory);
    assert!(!bench.run(1, &FindLockRequests).0);
    assert_eq!(
        (bench.begin(2), bench.begin(2), bench.begin(3)),
        (LockUse::Requested, LockUse::Requested, LockUse::Requested)
    );
    assert!(bench.run(1, &FindLockRequests).0 && !bench.run(2, &FindLockRequests).0);
    assert_eq!(bench.set(2, &[shared()], Some(&shared())).0, SetLocksResult::Elsewhere);
    assert_eq!(bench.begin(1), LockUse::InMemory, "it still is");
    let publish = PublishLocks { files: &[(FILE, vec![exclusive()])], last: true, count: 3 };
    assert!(!bench.run(2, &publish).0, "only the granter may publish");
    assert!(bench.run(1, &publish).0);
    assert!(!bench.run(1, &publish).0, "nor the granter twice");
    for number in 1..=3 {
        assert_eq!(bench.begin(number), LockUse::InRecords);
    }
    let held = match bench.set(2, &[shared()], Some(&shared())).0 {
        SetLocksResult::Conflict(held) => held,
        other => panic!("{other:?}"),
    };
    assert_eq!((held.session, held.lock), (session(1), exclusive()));
    assert_eq!(bench.set(1, &[], None).0, SetLocksResult::Done);
    assert_eq!(bench.records(space::LOCKS), 0);
    assert_eq!(bench.set(2, &[shared()], Some(&shared())).0, SetLocksResult::Done);
}

#[test]
fn lock_takes_one_commit_if_its_record_is_cached() {
    let bench = Bench::sharing();
    let (_, first) = bench.set(1, &[shared()], Some(&shared()));
    assert_eq!(first, Cost { reads: 0, commits: 1 }, "nothing is there, as remembered");
    let other = lock(2, 0, 9, RangeLockKind::Shared);
    let again = bench.set(1, &[shared(), other], Some(&other)).1;
    assert_eq!(again, Cost { reads: 0, commits: 1 });
    assert_eq!(bench.set(1, &[shared()], None).1, Cost { reads: 0, commits: 1 });
    // The session does not know the record of the other one, and is refused once.
    assert_eq!(bench.set(2, &[shared()], Some(&shared())).1, Cost { reads: 0, commits: 2 });
    // An answer is read in one snapshot with the sessions that are alive.
    assert_eq!(bench.set(2, &[exclusive()], Some(&exclusive())).1, Cost { reads: 1, commits: 0 });
    let find = bench.run(2, &FindLock { ino: FILE, requested: &exclusive() });
    assert!(matches!(find.0, ConflictSearch::Conflict(held) if held.session == session(1)));
    assert_eq!(find.1, Cost { reads: 1, commits: 0 });
    assert_eq!(bench.run(2, &FindLock { ino: FILE, requested: &shared() }).0, ConflictSearch::Free);
}

#[test]
fn locks_of_an_ended_session_do_not_conflict() {
    let bench = Bench::sharing();
    assert_eq!(bench.set(1, &[exclusive()], Some(&exclusive())).0, SetLocksResult::Done);
    end(&bench.store, session(1));
    let found = bench.run(2, &FindLock { ino: FILE, requested: &shared() }).0;
    assert_eq!(found, ConflictSearch::Free);
    assert_eq!(bench.set(2, &[exclusive()], Some(&exclusive())).0, SetLocksResult::Done);
    bench.run(2, &EndLocking);
    assert_eq!(bench.records(space::LOCK_KEEPING), 1, "one of those who share is there");
    assert_eq!(bench.begin(2), LockUse::InMemory, "the other one is alone");
    end(&bench.store, session(2));
    let bench = Bench { memories: [(session(3), Memory::default())].into(), ..bench };
    begin(&bench.store, session(3));
    bench.run(3, &ForgetLocks { ino: FILE, count: 9 });
    bench.run(3, &EndLocking);
    assert_eq!((bench.records(space::LOCKS), bench.records(space::LOCK_KEEPING)), (0, 0));
}

#[test]
fn next_session_replaces_an_ended_granter() {
    let bench = Bench::new(2);
    assert_eq!((bench.begin(1), bench.begin(2)), (LockUse::InMemory, LockUse::Requested));
    end(&bench.store, session(1));
    assert_eq!(bench.begin(2), LockUse::InMemory);
    assert!(!bench.run(2, &FindLockRequests).0);
}

#[test]
fn locks_of_a_file_and_sharers_of_a_volume_are_limited() {
    let bench = Bench::sharing();
    let byte = |at: u64| lock(1, 2 * at, 2 * at, RangeLockKind::Exclusive);
    let half = LOCKS_PER_FILE_MAX as u64 / 2;
    let (mine, theirs): (Vec<_>, Vec<_>) =
        ((0..half).map(byte).collect(), (half..2 * half).map(byte).collect());
    assert_eq!(bench.set(1, &mine, mine.last()).0, SetLocksResult::Done);
    assert_eq!(bench.set(2, &theirs, theirs.last()).0, SetLocksResult::Done);
    let more = [&theirs[..], &[byte(2 * half)]].concat();
    assert_eq!(bench.set(2, &more, more.last()).0, SetLocksResult::TooMany);
    end(&bench.store, session(1));
    assert_eq!(bench.set(2, &more, more.last()).0, SetLocksResult::Done);
    let sharers: Vec<Nonce> = (0..LOCK_SHARERS_MAX)
        .map(|number| {
            let mut bytes = [9; 10];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            Nonce(bytes)
        })
        .collect();
    sharers.iter().for_each(|session| begin(&bench.store, *session));
    let at = key::lock_keeping();
    let place = LockPlace::Records { sharers };
    let record = LockKeeping { written: Written { by: session(1), count: 1 }, place }.encode(&at);
    assert!(commit(&bench.store, Vec::new(), vec![Write::Put(at, record)]));
    let begun = drive(&bench.store, &BeginLocking { count: 1 }, env(session(2)), &NoHints, None).0;
    assert_eq!(begun, Ok(LockUse::TooMany));
}

/// The place of locks, as a session knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unknown,
    Memory,
    Records,
}

#[derive(Debug)]
struct Sim {
    nonce: Nonce,
    place: Place,
    held: BTreeMap<Ino, RangeLock>,
    /// Files that may have a record with locks of this session.
    in_records: BTreeSet<Ino>,
}

/// The result of an operation; `None` if it is unknown.
type Known<T> = Option<Result<T, FsError>>;

/// Sessions, some of which end, over a store that commits some plans late.
struct Sims {
    store: MemoryStore,
    all: Vec<Sim>,
    late: Vec<Plan>,
    next: u8,
    count: u64,
}

impl Sims {
    fn new() -> Sims {
        let mut sims = Sims {
            store: MemoryStore::new(),
            all: Vec::new(),
            late: Vec::new(),
            next: 0,
            count: 0,
        };
        (0..3).for_each(|_| sims.join());
        sims
    }

    fn join(&mut self) {
        self.next += 1;
        let nonce = session(self.next);
        begin(&self.store, nonce);
        let (place, held) = (Place::Unknown, BTreeMap::new());
        self.all.push(Sim { nonce, place, held, in_records: BTreeSet::new() });
    }

    /// Runs an operation as a session does: its plans guard that the session is alive, and the
    /// outcome of some plans is unknown.
    fn drive<O: Planner>(&mut self, nonce: Nonce, operation: &O, doubt: bool) -> Known<O::Output> {
        let mut run = Run::new(operation, env(nonce));
        loop {
            match run.advance(&NoHints) {
                Next::Done(answer) => return Some(answer),
                Next::Corrupt(key, error) => panic!("{key:?}: {error}"),
                Next::Read(reads) => {
                    let found = answers(&self.store, &reads);
                    run.learn(reads, found);
                }
                Next::Commit(mut plan, output) => {
                    plan.guards.push(Guard::Present(key::session(nonce)));
                    if doubt {
                        self.late.push(plan);
                        return None;
                    }
                    match decision(&self.store, &plan) {
                        Verdict::Refused { guard, found } => {
                            run.refused(&plan.guards[guard], found);
                        }
                        _ => return Some(Ok(output)),
                    }
                }
            }
        }
    }

    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn find_place(&mut self, at: usize, doubt: bool) {
        let (nonce, count) = (self.all[at].nonce, self.count());
        let before = self.all[at].place;
        if before == Place::Memory {
            return;
        }
        let begun = self.drive(nonce, &BeginLocking { count }, doubt);
        self.all[at].place = match begun {
            Some(Ok(LockUse::InMemory)) => Place::Memory,
            Some(Ok(LockUse::InRecords)) => Place::Records,
            _ => Place::Unknown,
        };
        if before == Place::Unknown && self.all[at].place == Place::Records {
            let Sim { held, in_records, .. } = &mut self.all[at];
            in_records.extend(held.keys());
            // Records of unknown outcome are corrected before anything else.
            for ino in std::mem::take(in_records) {
                self.write(at, ino, None, false);
            }
        }
    }

    /// Writes all locks of a session on a file, and a lock that it requests.
    fn write(&mut self, at: usize, ino: Ino, asked: Option<RangeLock>, doubt: bool) -> bool {
        let (nonce, count) = (self.all[at].nonce, self.count());
        let own: Vec<RangeLock> =
            asked.or_else(|| self.all[at].held.get(&ino).copied()).into_iter().collect();
        self.all[at].in_records.insert(ino);
        let set = SetLocks { ino, own: &own, requested: asked.as_ref(), count };
        match self.drive(nonce, &set, doubt) {
            Some(Ok(SetLocksResult::Done)) => true,
            Some(Ok(SetLocksResult::Elsewhere)) => {
                self.all[at].place = Place::Unknown;
                false
            }
            _ => false,
        }
    }

    fn lock(&mut self, at: usize, ino: Ino, lock: RangeLock, doubt: bool) {
        let granted = match self.all[at].place {
            Place::Unknown => return self.find_place(at, doubt),
            Place::Memory => true,
            Place::Records => self.write(at, ino, Some(lock), doubt),
        };
        if !granted {
            return;
        }
        for other in (0..self.all.len()).filter(|other| *other != at) {
            let held = self.all[other].held.get(&ino);
            assert!(
                held.is_none_or(|held| !held.excludes(&lock)),
                "{:?} and {:?} hold {ino:?}",
                self.all[at],
                self.all[other]
            );
        }
        self.all[at].held.insert(ino, lock);
    }

    fn unlock(&mut self, at: usize, ino: Ino, doubt: bool) {
        self.all[at].held.remove(&ino);
        if self.all[at].place == Place::Records && !self.write(at, ino, None, doubt) {
            // The outcome may be unknown, so the record is written again.
            self.write(at, ino, None, false);
        }
    }

    fn publish(&mut self, at: usize, doubt: bool) {
        let nonce = self.all[at].nonce;
        if self.drive(nonce, &FindLockRequests, false) != Some(Ok(true)) {
            return;
        }
        if self.all[at].place != Place::Memory {
            self.all[at].place = Place::Unknown;
            self.find_place(at, false);
        }
        let Sim { held, in_records, .. } = &mut self.all[at];
        in_records.extend(held.keys());
        let files: Vec<(Ino, Vec<RangeLock>)> = in_records
            .iter()
            .map(|ino| (*ino, held.get(ino).copied().into_iter().collect()))
            .collect();
        let count = self.count();
        let publish = PublishLocks { files: &files, last: true, count };
        let published = self.drive(nonce, &publish, doubt);
        let place = if published == Some(Ok(true)) { Place::Records } else { Place::Unknown };
        self.all[at].place = place;
    }

    fn late(&mut self, index: usize) {
        if !self.late.is_empty() {
            let plan = self.late.remove(index % self.late.len());
            decision(&self.store, &plan);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock(usize, u64, bool, bool),
    Unlock(usize, u64, bool),
    Publish(usize, bool),
    Late(usize),
    End(usize),
    Tidy(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (at, doubt) = (0_usize..3, prop::bool::weighted(0.15));
    prop_oneof![
        8 => (at.clone(), 0_u64..2, any::<bool>(), doubt).prop_map(|(at, ino, shared, doubt)| Step::Lock(at, ino, shared, doubt)),
        4 => (at.clone(), 0_u64..2, doubt).prop_map(|(at, ino, doubt)| Step::Unlock(at, ino, doubt)),
        3 => (at.clone(), doubt).prop_map(|(at, doubt)| Step::Publish(at, doubt)),
        3 => any::<usize>().prop_map(Step::Late),
        1 => at.clone().prop_map(Step::End),
        1 => at.prop_map(Step::Tidy),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_two_sessions_hold_conflicting_locks(
        steps in prop::collection::vec(any_step(), 1..150),
    ) {
        let mut sims = Sims::new();
        for step in steps {
            match step {
                Step::Lock(at, ino, reads, doubt) => {
                    let lock = if reads { shared() } else { exclusive() };
                    sims.lock(at, Ino(FILE.0 + ino), lock, doubt);
                }
                Step::Unlock(at, ino, doubt) => sims.unlock(at, Ino(FILE.0 + ino), doubt),
                Step::Publish(at, doubt) => sims.publish(at, doubt),
                Step::Late(index) => sims.late(index),
                Step::End(at) => {
                    end(&sims.store, sims.all.remove(at).nonce);
                    sims.join();
                }
                Step::Tidy(at) => {
                    let (nonce, count) = (sims.all[at].nonce, sims.count());
                    sims.drive(nonce, &ForgetLocks { ino: FILE, count }, false);
                    sims.drive(nonce, &EndLocking, false);
                }
            }
        }
    }
}

#[test]
fn granter_with_an_unknown_outcome_publishes_again() {
    let mut sims = Sims::new();
    sims.find_place(0, false);
    sims.find_place(1, false);
    sims.lock(0, FILE, shared(), false);
    sims.publish(0, true);
    assert_eq!(sims.all[0].place, Place::Unknown);
    sims.find_place(0, false);
    assert_eq!(sims.all[0].place, Place::Memory);
    sims.lock(0, FILE, exclusive(), false);
    sims.late(0);
    sims.find_place(1, false);
    assert_eq!(sims.all[1].place, Place::Unknown, "what came late said nothing");
}
