//! Directories of which the cache knows all names that may exist.
//!
//! A directory becomes *complete* in one of two ways. A directory that this session has created is
//! empty at first, since its inode number was never used before. A directory that a mount has
//! listed from its first name to its last has the names that the pages returned. While the session
//! is authoritative, names enter it only by batches of this session and by batches of which a peer
//! gave notice, and each name is registered here before its batch is sent. For example, `tar`,
//! `git` and `npm` look up each file that they are about to create: a name that was never
//! registered is absent, and no read is needed.
//!
//! The invariant: if a directory is complete in the generation in which the session is
//! authoritative, `names` contains each dentry of the directory that the store has. The converse
//! does not hold: a registered name may exist or not, and its entry in the cache decides.
//!
//! - A directory that was created is complete only in the generation in which the batch that
//!   created it was decided.
//! - A listing is read page by page, at different times. It is registered when its first page is
//!   learned, and from then on batches register their names. Each page adds its own names, and the
//!   names of batches that were in flight during the read of the page or have an unknown outcome:
//!   the page may lack these. The pages must belong to one generation and must leave no gap.
//! - A page that is read again replaces the names of its part.
//! - A name leaves the set when the verdict of a batch shows that it is absent, if no other batch
//!   raced. Otherwise it stays, also if its batch fails.
//! - The memory is bounded. The directories that were registered first are dropped first, each with
//!   all its names. A listing that needs more than [`LISTING_SHARE`] of the memory is dropped
//!   alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use record::Ino;
use record::key::{self, dentry_to_inode, space};
use store::{Guard, Key, Plan, Write};

use super::currency::{Generation, InFlight};

/// Approximate bytes of a registered name without its key.
const NAME_BYTES: u64 = 56;

/// Approximate bytes of a complete directory without its names.
const DIRECTORY_BYTES: u64 = 160;

/// A listing takes at most one part in this many of the memory for complete directories.
const LISTING_SHARE: u64 = 4;

/// The complete directories, that is, those of which all names that may exist are known. They take
/// about `bytes_max` bytes.
pub(super) struct CompleteDirectories {
    bytes_max: u64,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    directories: HashMap<Ino, Directory>,
    /// Directories by the order in which they were registered.
    ages: BTreeMap<u64, Ino>,
    /// Number of directories that were registered, and so the age of the last one.
    registered: u64,
    bytes: u64,
}

struct Directory {
    age: u64,
    progress: Progress,
    /// The dentries that may exist, as far as the progress says.
    names: BTreeSet<Key>,
    bytes: u64,
}

/// The part of a directory whose names are known.
///
/// ```text
/// Creating ── verdict ──▶ Complete ◀── last page ── Listing ◀── first page
/// ```
enum Progress {
    /// The batch that creates the directory is in flight.
    Creating,
    /// The names before the key `to` are known in this generation, a period in which no other
    /// session changed records without notice.
    Listing { generation: Generation, to: Key },
    /// All names are known in this generation.
    Complete(Generation),
}

/// A page of a directory, as the store returned it.
pub(super) struct ListedPage<'p> {
    /// The first key of the page's part of the directory.
    pub(super) start: &'p Key,
    /// The end of that part, exclusive.
    pub(super) end: Key,
    /// The dentries that the page has, and those that it may lack because a batch raced.
    pub(super) names: Vec<Key>,
    /// The generation in which the page is as it was read.
    pub(super) generation: Generation,
}

impl fmt::Debug for CompleteDirectories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known();
        f.debug_struct("CompleteDirectories")
            .field("directories", &known.directories.len())
            .field("bytes", &known.bytes)
            .finish()
    }
}

impl CompleteDirectories {
    pub(super) fn new(bytes_max: u64) -> CompleteDirectories {
        CompleteDirectories { bytes_max, known: RwLock::default() }
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a record is certainly absent, because it would be a name in a directory that
    /// is complete in `generation` and does not have it.
    pub(super) fn lacks(&self, key: &Key, generation: Generation) -> bool {
        key.space() == space::DENTRY
            && self
                .known()
                .complete(key, generation)
                .is_some_and(|directory| !directory.names.contains(key))
    }

    /// Returns the first `count` dentries that may exist in `start..end`, which belongs to one
    /// directory. Returns `None` if that directory is not complete in `generation`.
    pub(super) fn names(
        &self,
        (start, end): (&Key, &Key),
        count: usize,
        generation: Generation,
    ) -> Option<Vec<Key>> {
        if start.space() != space::DENTRY {
            return None;
        }
        let known = self.known();
        let directory = known.complete(start, generation)?;
        if start >= end {
            return Some(Vec::new());
        }
        Some(directory.names.range(start..end).take(count).cloned().collect())
    }

    /// Registers the directories that these plans create, and then the names that they bind, before
    /// the plans are sent. `in_flight` has the batches that were sent before.
    pub(super) fn sending(&self, plans: &[Plan], in_flight: &InFlight) {
        let mut known = self.changed();
        for plan in plans {
            for ino in new_directories(plan) {
                known.begin(ino, Progress::Creating);
                // No batch before this one binds a name in the directory if its number is new. If
                // one does, it may still commit after the directory is created.
                let (start, end) = key::dentries(ino);
                in_flight.unsettled_keys(&start, &end).for_each(|name| known.add(name));
            }
            for write in &plan.writes {
                match write {
                    Write::Put(key, _) if key.space() == space::DENTRY => known.add(key),
                    Write::Delete(key) if key.space() == space::INODE => {
                        known.remove(Ino(key.partition()));
                    }
                    Write::Put(..)
                    | Write::Delete(_)
                    | Write::Add(..)
                    | Write::Max(..)
                    | Write::Set(..)
                    | Write::Clear(_) => {}
                }
            }
        }
        known.evict_to(self.bytes_max);
    }

    /// Registers the names among these keys, which a batch of a peer writes. A complete directory
    /// stays complete, because a registered name may exist or not.
    pub(super) fn add_names(&self, keys: &[Key]) {
        let is_name = |key: &&Key| key.space() == space::DENTRY;
        let mut names = keys.iter().filter(is_name).peekable();
        if names.peek().is_none() {
            return;
        }
        let mut known = self.changed();
        names.for_each(|key| known.add(key));
        known.evict_to(self.bytes_max);
    }

    /// Learns a page of a directory. Returns false if the directory is not kept, because its
    /// earlier pages are not known or because it has too many names.
    pub(super) fn learn_page(&self, page: ListedPage<'_>) -> bool {
        let mut known = self.changed();
        let kept = known.learn_page(page, self.bytes_max / LISTING_SHARE);
        known.evict_to(self.bytes_max);
        kept
    }

    /// Handles the verdict of a batch that wrote the record `inode`, which is current in
    /// `known_in`. If the batch created a directory of that number, the directory is complete from
    /// now on; with [`Generation::NONE`] it is dropped.
    pub(super) fn decided(&self, inode: &Key, known_in: Generation) {
        let ino = Ino(inode.partition());
        let is_creating = |known: &Known| {
            let directory = known.directories.get(&ino);
            directory.is_some_and(|it| matches!(it.progress, Progress::Creating))
        };
        if inode.space() != space::INODE || !is_creating(&self.known()) {
            return;
        }
        let mut known = self.changed();
        if known_in == Generation::NONE {
            known.remove(ino);
        } else if let Some(directory) = known.directories.get_mut(&ino) {
            directory.progress = Progress::Complete(known_in);
        }
    }

    /// Removes a name that is certainly absent, until a later batch registers it again. The caller
    /// guarantees that no other batch that writes it is in flight.
    pub(super) fn removed(&self, key: &Key) {
        if key.space() == space::DENTRY {
            self.changed().remove_name(key);
        }
    }

    /// Drops the directory of a record that another session has changed, so that its names are read
    /// from the store again.
    pub(super) fn forget(&self, key: &Key) {
        if key.space() == space::DENTRY || key.space() == space::INODE {
            self.changed().remove(Ino(key.partition()));
        }
    }

    /// Drops all directories.
    pub(super) fn clear(&self) {
        *self.changed() = Known::default();
    }

    /// Returns the approximate bytes in use.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.known().bytes
    }
}

impl Known {
    /// Returns the directory of a dentry if it is complete in `generation`.
    fn complete(&self, key: &Key, generation: Generation) -> Option<&Directory> {
        let directory = self.directories.get(&Ino(key.partition()))?;
        match directory.progress {
            Progress::Complete(complete_in) if complete_in == generation => Some(directory),
            Progress::Complete(_) | Progress::Listing { .. } | Progress::Creating => None,
        }
    }

    /// Registers a directory without names.
    fn begin(&mut self, ino: Ino, progress: Progress) {
        self.remove(ino);
        self.registered += 1;
        let (age, names) = (self.registered, BTreeSet::new());
        let bytes = DIRECTORY_BYTES;
        self.directories.insert(ino, Directory { age, progress, names, bytes });
        self.ages.insert(age, ino);
        self.bytes += bytes;
    }

    fn add(&mut self, name: &Key) {
        if let Some(directory) = self.directories.get_mut(&Ino(name.partition()))
            && directory.names.insert(name.clone())
        {
            directory.bytes += bytes_of(name);
            self.bytes += bytes_of(name);
        }
    }

    fn remove_name(&mut self, name: &Key) {
        if let Some(directory) = self.directories.get_mut(&Ino(name.partition()))
            && directory.names.remove(name)
        {
            directory.bytes -= bytes_of(name);
            self.bytes -= bytes_of(name);
        }
    }

    fn remove(&mut self, ino: Ino) {
        if let Some(Directory { age, bytes, .. }) = self.directories.remove(&ino) {
            self.ages.remove(&age);
            self.bytes -= bytes;
        }
    }

    /// Learns a page. Returns false if the directory is not kept.
    fn learn_page(&mut self, page: ListedPage<'_>, listing_bytes_max: u64) -> bool {
        let ino = Ino(page.start.partition());
        let (first, last) = key::dentries(ino);
        let is_first = *page.start == first;
        let extends = self.directories.get(&ino).is_some_and(|it| match &it.progress {
            Progress::Creating => false,
            Progress::Listing { generation, to } => {
                *generation == page.generation && page.start <= to
            }
            Progress::Complete(generation) => *generation == page.generation,
        });
        if !extends {
            let is_creating = |it: &Directory| matches!(it.progress, Progress::Creating);
            if !is_first || self.directories.get(&ino).is_some_and(is_creating) {
                return false;
            }
            let (generation, to) = (page.generation, first);
            self.begin(ino, Progress::Listing { generation, to });
        }
        let Some(directory) = self.directories.get(&ino) else { return false };
        let replaced: Vec<Key> = directory.names.range(page.start..&page.end).cloned().collect();
        replaced.iter().for_each(|name| self.remove_name(name));
        page.names.iter().for_each(|name| self.add(name));
        let Some(directory) = self.directories.get_mut(&ino) else { return false };
        if let Progress::Listing { generation, to } = &mut directory.progress {
            if directory.bytes > listing_bytes_max {
                self.remove(ino);
                return false;
            }
            if *to < page.end {
                *to = page.end;
            }
            if *to == last {
                directory.progress = Progress::Complete(*generation);
            }
        }
        true
    }

    fn evict_to(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max {
            let Some((_, first)) = self.ages.first_key_value() else { return };
            self.remove(*first);
        }
    }
}

/// Returns the approximate bytes of a registered name.
fn bytes_of(name: &Key) -> u64 {
    NAME_BYTES + name.as_bytes().len() as u64
}

/// Returns the directories that a plan creates: it binds their names under the guard that no inode
/// has their numbers.
fn new_directories(plan: &Plan) -> impl Iterator<Item = Ino> {
    plan.writes.iter().filter_map(|write| {
        let Write::Put(key, value) = write else { return None };
        let is_directory = key.space() == space::DENTRY && key.suffix().len() > 1;
        let is_directory = is_directory && key.suffix().ends_with(b"/");
        let inode = is_directory.then(|| dentry_to_inode().target(value))??;
        let is_new = |guard: &Guard| matches!(guard, Guard::Absent(key) if *key == inode);
        plan.guards.iter().any(is_new).then(|| Ino(inode.partition()))
    })
}
