//! Random concurrent listings and batches over a slow store, of this session and of a peer that
//! gives notice: a page shows each group of names as of one instant, no earlier than the commits
//! that were acknowledged before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use record::{Dentry, Ino, Kind, key};
use runtime::Tasks;
use store::{Entry, Guard, Key, MetaStore, Plan, Read, ReadResult, StoreErrorKind, Verdict, Write};
use tokio::sync::Mutex;

use super::super::{Basis, Pages, RecordCache};
use super::behind;
use super::currency::for_long;
use crate::cached_store::CachedStore;
use crate::slow_store::Slow;

const LISTED: Ino = Ino(5);

/// Groups of three names that are always written together. With few groups batches race more.
const GROUPS: [u64; 2] = [2, 6];

const TASKS: u64 = 6;

/// The steps of each task.
const STEPS: u64 = 300;

/// The number of a group grows with each commit. The name `c` is always there from the first
/// commit on, the names `a` and `b` only while the number is odd. The number is in the inodes.
struct Group {
    names: [Key; 3],
    inodes: [Key; 3],
    acknowledged: AtomicU64,
}

impl Group {
    fn new(n: u64) -> Group {
        let name = |at: u8| key::dentry(LISTED, format!("{n:02}{}", char::from(at)).as_bytes());
        let inode = |at: u8| key::inode(Ino(1_000 + 10 * n + u64::from(at)));
        let acknowledged = AtomicU64::new(0);
        Group { names: [b'a', b'b', b'c'].map(name), inodes: [0, 1, 2].map(inode), acknowledged }
    }

    /// Writes the next number, if the present one is still `was`.
    fn plan(&self, was: u64) -> Plan {
        let next = was + 1;
        let value = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
        let is_there = |at: usize| at == 2 || next % 2 == 1;
        let writes =
            self.names.iter().zip(&self.inodes).enumerate().flat_map(|(at, (name, inode))| {
                if !is_there(at) {
                    return vec![Write::Delete(name.clone()), Write::Delete(inode.clone())];
                }
                let record = Write::Put(inode.clone(), value(next));
                // The name stays, and its inode changes.
                if at == 2 && was > 0 {
                    return vec![record];
                }
                let dentry = Dentry::of(Ino(inode.partition()), Kind::File).encode(name);
                vec![Write::Put(name.clone(), dentry), record]
            });
        let guard = match was {
            0 => Guard::Absent(self.inodes[2].clone()),
            was => Guard::Equals(self.inodes[2].clone(), value(was)),
        };
        Plan { guards: vec![guard], writes: writes.collect() }
    }

    /// Checks the names of the group on a page that shows all of them.
    fn check(&self, entries: &[Entry], least: u64) {
        let numbers = self.names.each_ref().map(|name| {
            let entry = entries.iter().find(|entry| entry.key == *name)?;
            Some(number(entry.target.whole().expect("a name has an inode")))
        });
        let now = numbers[2].unwrap_or(0);
        let expected = (now % 2 == 1).then_some(now);
        assert_eq!(
            numbers[..2],
            [expected, expected],
            "the names were never like this: {numbers:?}"
        );
        assert!(now >= least, "{now} is older than {least}, which was acknowledged");
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

struct World {
    store: Arc<Slow>,
    cache: Arc<RecordCache>,
    cached: CachedStore,
    groups: Vec<Group>,
    /// Held while the session has no authority.
    without_authority: Mutex<()>,
}

impl World {
    /// Reads some pages and checks them. Returns the number of pages that the memory answered.
    async fn list(&self, random: &mut SmallRng) -> u64 {
        let least: Vec<u64> =
            self.groups.iter().map(|it| it.acknowledged.load(Ordering::SeqCst)).collect();
        let (mut start, end) = key::dentries(LISTED);
        if random.random_bool(0.3) {
            start = self.groups[random.random_range(0..self.groups.len())].names[0].clone();
        }
        let limit = if random.random_bool(0.5) { 100 } else { random.random_range(1..8) };
        let mut remembered = 0;
        // As a mount or as an S3 client.
        let (pages, follow) = if random.random_bool(0.5) {
            (Pages::Nodes, key::dentry_to_inode())
        } else {
            (Pages::Heads, key::dentry_to_head())
        };
        loop {
            let follow = Some(follow.clone());
            let reads = [Read::Range { start: start.clone(), end: end.clone(), limit, follow }];
            let found = match self.cache.answer(&reads) {
                Some(found) => {
                    remembered += 1;
                    found
                }
                None => {
                    let reading = self.cache.begin_read();
                    let found = self.cached.read(&reads).await.expect("reads do not fail");
                    reading.found_pages(&reads, &found, pages);
                    found
                }
            };
            let [ReadResult::Range(entries)] = &found[..] else { panic!("{found:?} is no page") };
            let is_last = entries.len() < usize::try_from(limit).expect("small");
            let final_key = entries.last().map(|entry| entry.key.clone());
            for (group, least) in self.groups.iter().zip(&least) {
                let ends = is_last || final_key.as_ref().is_some_and(|key| *key >= group.names[2]);
                if start <= group.names[0] && ends {
                    group.check(entries, *least);
                }
            }
            match final_key {
                Some(key) if !is_last => start = super::super::pages::after(&key),
                _ => return remembered,
            }
        }
    }

    /// Commits the next number of a group, in this session or in a peer.
    async fn write(&self, group: &Group, by_peer: bool) {
        let reads = [Read::Record { key: group.inodes[2].clone(), follow: None }];
        let found = self.cached.read(&reads).await.expect("reads do not fail");
        let was = crate::state::value(found.first()).map_or(0, |value| number(&value));
        let plans = [group.plan(was)];
        let verdicts = if by_peer {
            self.commit_by_peer(&plans).await
        } else {
            self.cached.commit(&plans).await.ok()
        };
        if verdicts.is_some_and(|verdicts| verdicts[..] == [Verdict::Committed]) {
            group.acknowledged.fetch_max(was + 1, Ordering::SeqCst);
        }
    }

    /// Ends the authority for a while, in which a session without notice changes a group.
    async fn lapse(&self, group: &Group) {
        let _alone = self.without_authority.lock().await;
        self.cache.end_authority();
        let reads = [Read::Record { key: group.inodes[2].clone(), follow: None }];
        let found = self.store.read(&reads).await.expect("reads do not fail");
        let was = crate::state::value(found.first()).map_or(0, |value| number(&value));
        if self.store.commit_at_once(&[group.plan(was)]).await[..] == [Verdict::Committed] {
            group.acknowledged.fetch_max(was + 1, Ordering::SeqCst);
        }
        self.cache.extend_authority(for_long(), Basis::Leases);
    }

    /// Commits plans as a peer that gives notice. An unknown outcome never ends.
    async fn commit_by_peer(&self, plans: &[Plan]) -> Option<Vec<Verdict>> {
        let keys = plans.iter().flat_map(|plan| &plan.writes).map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => key.clone(),
            write => panic!("{write:?} is of no group"),
        });
        let keys: Vec<Key> = keys.collect();
        self.cache.peer_batch_sent(&keys);
        match self.store.commit(plans).await {
            Ok(verdicts) => {
                self.cache.peer_batch_ended(&keys);
                Some(verdicts)
            }
            Err(error) => {
                if error.kind() != StoreErrorKind::Unknown {
                    self.cache.peer_batch_ended(&keys);
                }
                None
            }
        }
    }
}

/// Returns the number of pages that the memory answered.
async fn play(seed: u64) -> u64 {
    let spawner = Tasks::new();
    let store = Arc::new(Slow::new(seed, spawner.clone()));
    // Room for some of the records only, in some of the games.
    let cache = RecordCache::new(if seed.is_multiple_of(3) { 24 << 10 } else { 1 << 20 }, true);
    cache.extend_authority(for_long(), Basis::Leases);
    let cached = behind(&cache, store.clone());
    let groups = (0..GROUPS[usize::from(seed.is_multiple_of(2))]).map(Group::new).collect();
    let world =
        Arc::new(World { store, cache, cached, groups, without_authority: Mutex::default() });
    let tasks = (0..TASKS).map(|task| {
        let (world, mut random) = (world.clone(), SmallRng::seed_from_u64(seed * TASKS + task));
        spawner.spawn("player", async move {
            let mut remembered = 0;
            for _ in 0..STEPS {
                let group = &world.groups[random.random_range(0..world.groups.len())];
                match random.random_range(0..100) {
                    0..8 => world.write(group, false).await,
                    8..12 => world.write(group, true).await,
                    12 => world.lapse(group).await,
                    _ => remembered += world.list(&mut random).await,
                }
                tokio::task::yield_now().await;
            }
            remembered
        })
    });
    let mut remembered = 0;
    for task in tasks.collect::<Vec<_>>() {
        remembered += task.await.expect("no task panics");
    }
    remembered
}

#[tokio::test]
async fn pages_show_acknowledged_names_at_one_instant() {
    let mut remembered = 0;
    for seed in 0..60 {
        remembered += play(seed).await;
    }
    assert!(remembered > 10_000, "the memory answered {remembered} pages only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_on_two_threads_show_acknowledged_names() {
    for seed in 100..120 {
        play(seed).await;
    }
}
