//! Directories of which the cache knows all names that may exist.
//!
//! A directory that this session has created is empty at first, since its inode number was never
//! used before. While the session is authoritative, names enter it only by batches of this session
//! and by batches of which a peer gave notice, and each is registered here before it is sent. So the directory is *complete*: a
//! name that was never registered is absent, and no read is needed. For example, `tar`, `git` and
//! `npm` look up each file that they are about to create.
//!
//! - A directory is complete only in the generation in which the batch that created it was decided.
//! - Names are registered when they are sent. They stay registered if the batch fails or the name
//!   is removed: a registered name may exist or not.
//! - Only the hash of a name is kept. If two names have one hash, a read of the absent one is not
//!   saved.
//! - The memory is bounded. The directories that were created first are dropped first, each with
//!   all its names.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quick_cache::DefaultHashBuilder;
use record::Ino;
use record::key::{dentry_to_inode, space};
use store::{Guard, Key, Plan, Write};

use super::currency::Generation;

/// Approximate bytes of a registered name: its hash, in a table that is half full.
const NAME_BYTES: u64 = 16;

/// Approximate bytes of a complete directory without its names.
const DIRECTORY_BYTES: u64 = 160;

/// The complete directories, that is, those of which all names that may exist are known. They take
/// about `bytes_max` bytes.
pub(super) struct CompleteDirectories {
    hasher: DefaultHashBuilder,
    bytes_max: u64,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    directories: HashMap<Ino, Directory>,
    /// Directories by the order in which they were created.
    ages: BTreeMap<u64, Ino>,
    /// Number of directories that were registered, and so the age of the last one.
    registered: u64,
    bytes: u64,
}

struct Directory {
    age: u64,
    /// The generation (the period without other sessions) in which the directory is complete;
    /// [`Generation::NONE`] while the batch that creates it is in flight.
    complete_in: Generation,
    /// Hashes of all names in the directory that were ever sent to the store.
    names: HashSet<u64>,
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
        let hasher = DefaultHashBuilder::default();
        CompleteDirectories { hasher, bytes_max, known: RwLock::default() }
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
            && self.known().directories.get(&Ino(key.partition())).is_some_and(|directory| {
                let name = self.hasher.hash_one(key.suffix());
                directory.complete_in == generation && !directory.names.contains(&name)
            })
    }

    /// Registers the directories that these plans create, and then the names that they bind, before
    /// the plans are sent.
    pub(super) fn sending(&self, plans: &[Plan]) {
        let mut known = self.changed();
        for plan in plans {
            new_directories(plan).for_each(|ino| known.begin(ino));
            for write in &plan.writes {
                match write {
                    Write::Put(key, _) if key.space() == space::DENTRY => {
                        let name = self.hasher.hash_one(key.suffix());
                        known.add(Ino(key.partition()), name);
                    }
                    Write::Delete(key) if key.space() == space::INODE => {
                        known.remove(Ino(key.partition()));
                    }
                    _ => {}
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
        for key in names {
            known.add(Ino(key.partition()), self.hasher.hash_one(key.suffix()));
        }
        known.evict_to(self.bytes_max);
    }

    /// Handles the verdict of a batch that wrote the record `inode`, which is current in
    /// `known_in`. If the batch created a directory of that number, the directory is complete from
    /// now on; with [`Generation::NONE`] it is dropped.
    pub(super) fn decided(&self, inode: &Key, known_in: Generation) {
        let ino = Ino(inode.partition());
        let is_pending = |known: &Known| {
            known.directories.get(&ino).is_some_and(|it| it.complete_in == Generation::NONE)
        };
        if inode.space() != space::INODE || !is_pending(&self.known()) {
            return;
        }
        let mut known = self.changed();
        if known_in == Generation::NONE {
            known.remove(ino);
        } else if let Some(directory) = known.directories.get_mut(&ino) {
            directory.complete_in = known_in;
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
    /// Registers a directory that is about to be created, without names.
    fn begin(&mut self, ino: Ino) {
        self.remove(ino);
        self.registered += 1;
        let (age, names) = (self.registered, HashSet::new());
        self.directories.insert(ino, Directory { age, complete_in: Generation::NONE, names });
        self.ages.insert(age, ino);
        self.bytes += DIRECTORY_BYTES;
    }

    fn add(&mut self, directory: Ino, name: u64) {
        if let Some(directory) = self.directories.get_mut(&directory)
            && directory.names.insert(name)
        {
            self.bytes += NAME_BYTES;
        }
    }

    fn remove(&mut self, ino: Ino) {
        if let Some(Directory { age, names, .. }) = self.directories.remove(&ino) {
            self.ages.remove(&age);
            self.bytes -= DIRECTORY_BYTES + NAME_BYTES * names.len() as u64;
        }
    }

    fn evict_to(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max {
            let Some((_, first)) = self.ages.first_key_value() else { return };
            self.remove(*first);
        }
    }
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
