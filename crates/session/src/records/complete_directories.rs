//! Directories of which no name can be that is not known.
//!
//! A directory that this session has made is empty then: its number was never used before. Names come
//! into it by batches of this session alone, as long as nobody else changes anything, and each passes
//! by here before it is sent. So the directory is known *whole*: what never passed by is not there, and
//! nobody need ask. Programs ask that of each file that they are about to make: tar, git, npm.
//!
//! - A directory is whole in the generation in which its batch was decided, and in no other one.
//! - Names are noted when they are sent, whatever becomes of them, and stay noted when they are
//!   removed: of what is noted nothing is known here.
//! - Of a name only its hash is noted. Of two names with one hash, one is asked for in vain.
//! - Memory is bounded: directories go that were made first, each as a whole.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quick_cache::DefaultHashBuilder;
use record::Ino;
use record::key::{dentry_to_inode, space};
use store::{Guard, Key, Plan, Write};

use super::currency::Generation;

/// What a name costs, about: its hash, in a table that is half full.
const NAME_BYTES: u64 = 16;

/// What a directory costs besides.
const DIRECTORY_BYTES: u64 = 160;

/// The directories that are known whole, in about so many bytes.
pub(super) struct CompleteDirectories {
    hasher: DefaultHashBuilder,
    bytes_max: u64,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    directories: HashMap<Ino, Directory>,
    /// In the order in which they were made.
    ages: BTreeMap<u64, Ino>,
    made: u64,
    bytes: u64,
}

struct Directory {
    age: u64,
    /// [`Generation::NONE`] while it is being made.
    complete_in: Generation,
    /// Hashes of all names that were ever sent.
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

    /// Whether a record is certainly absent, because it would be a name of a directory that is whole in
    /// this generation.
    pub(super) fn lacks(&self, key: &Key, generation: Generation) -> bool {
        key.space() == space::DENTRY
            && self.known().directories.get(&Ino(key.partition())).is_some_and(|directory| {
                let name = self.hasher.hash_one(key.suffix());
                directory.complete_in == generation && !directory.names.contains(&name)
            })
    }

    /// Plans are about to be sent: notes the directories that they make, and then the names.
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

    /// A batch that wrote an inode was decided, and what is known of that is so in this generation. If
    /// the inode is that of a directory that it made, this one is whole from now on.
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

    /// Somebody else has changed a record.
    pub(super) fn forget(&self, key: &Key) {
        if key.space() == space::DENTRY || key.space() == space::INODE {
            self.changed().remove(Ino(key.partition()));
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *self.changed() = Known::default();
    }

    /// Bytes that are taken up, about.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.known().bytes
    }
}

impl Known {
    /// A directory is about to be made.
    fn begin(&mut self, ino: Ino) {
        self.remove(ino);
        self.made += 1;
        let (age, names) = (self.made, HashSet::new());
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

/// The directories that a plan makes: it binds their names, under a guard that nothing had their
/// numbers.
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
