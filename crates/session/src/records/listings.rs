//! Pages that clients list: the names of directories, each with its dentry and the head of its
//! inode.
//!
//! A page of a listing does not read whole inodes, so its records cannot answer other reads. They
//! have a budget of their own: a client that lists millions of keys evicts no record that a writer
//! needs. For example, the first `ListObjectsV2` of a folder reads its pages from the store and
//! keeps them here, and the second one needs no round trip. After a PUT into the folder the new
//! name is answered from the entries of the record cache, and all other names from here.
//!
//! The invariant, for a listing of the generation in which the session is authoritative: `names`
//! contains each dentry before `to` that the store has, and each dentry and head that is kept
//! equals the store's.
//!
//! - A page extends a listing if it leaves no gap behind it. The first page begins a listing.
//! - Before a batch of this session is sent, and when a peer gives notice of one, its names are
//!   registered without their dentries, and the heads of its inodes are dropped. A page that is
//!   read again replaces all names of its part.
//! - A listing takes at most one part in [`LISTING_SHARE`] of the memory. Of a larger directory the
//!   first names are kept.
//! - The listing that was kept first is evicted first. A listing that has answered a read since
//!   then is kept for one more turn, so a scan of many directories evicts its own pages first.
//!
//! This module does not know which reads and batches are in flight: see [`super::pages`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use record::Ino;
use record::key::{self, space};
use store::{Entry, Follow, Key, Target, Value};

use super::currency::Generation;

/// Approximate bytes of a registered name without its key.
const NAME_BYTES: u64 = 96;

/// Approximate bytes that the dentry and the head of a name take, without the bytes of the dentry.
const RECORDS_BYTES: u64 = 160 + record::InodeHead::BYTES_MAX as u64;

/// Approximate bytes of a listing without its names.
const LISTING_BYTES: u64 = 240;

/// A listing takes at most one part in this many of the memory for listings.
const LISTING_SHARE: u64 = 4;

/// The pages of listings that are kept, in about `bytes_max` bytes.
pub(super) struct Listings {
    bytes_max: u64,
    /// The rule by which a listing reads the head of an inode with its dentry.
    to_head: Follow,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    listings: HashMap<Ino, Listing>,
    /// The heads of inodes that names of the listings are bound to.
    heads: HashMap<Ino, Target>,
    /// Directories by the order in which they are evicted.
    turns: BTreeMap<u64, Ino>,
    last_turn: u64,
    bytes: u64,
}

/// The names of a directory from its first name up to `to`.
struct Listing {
    generation: Generation,
    turn: u64,
    /// True if the listing has answered a read in this turn.
    is_used: AtomicBool,
    /// The end of the part that is known, exclusive.
    to: Key,
    /// The dentries that may exist. `None` if the record of a name must be looked up elsewhere.
    names: BTreeMap<Key, Option<Listed>>,
    bytes: u64,
}

/// A dentry as it was read.
struct Listed {
    value: Value,
    /// The inode that the name is bound to.
    ino: Option<Ino>,
}

/// A page of a directory, as the store returned it.
pub(super) struct ListingPage<'p> {
    /// The first key of the page's part of the directory.
    pub(super) start: &'p Key,
    /// The end of that part, exclusive.
    pub(super) end: Key,
    /// The names of batches that raced with the read. The page may lack them.
    pub(super) raced: Vec<Key>,
    /// The dentries of the page. Those that raced are not kept.
    pub(super) entries: &'p [Entry],
    /// The generation in which the page is as it was read.
    pub(super) generation: Generation,
}

/// A name of a page.
pub(super) enum PageName {
    /// A record that exists, with its target if that is known.
    Known { key: Key, value: Value, target: Option<Target> },
    /// A name that may exist or not.
    Registered(Key),
}

impl PageName {
    pub(super) fn key(&self) -> &Key {
        match self {
            PageName::Known { key, .. } | PageName::Registered(key) => key,
        }
    }
}

impl fmt::Debug for Listings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        f.debug_struct("Listings")
            .field("listings", &kept.listings.len())
            .field("bytes", &kept.bytes)
            .finish()
    }
}

impl Listings {
    pub(super) fn new(bytes_max: u64) -> Listings {
        Listings { bytes_max, to_head: key::dentry_to_head(), kept: RwLock::default() }
    }

    fn kept(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_mut(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a record is certainly absent, because it would be a name in a part of a
    /// directory whose names are known in `generation`.
    pub(super) fn lacks(&self, key: &Key, generation: Generation) -> bool {
        key.space() == space::DENTRY
            && self
                .kept()
                .listing(key, generation)
                .is_some_and(|listing| *key < listing.to && !listing.names.contains_key(key))
    }

    /// Returns the first `count` names that may exist in `start..end`, which belongs to one
    /// directory, with the targets that `follow` asks for. Returns `None` if the names are not
    /// known in `generation`.
    pub(super) fn names(
        &self,
        (start, end): (&Key, &Key),
        count: usize,
        follow: Option<&Follow>,
        generation: Generation,
    ) -> Option<Vec<PageName>> {
        if start.space() != space::DENTRY {
            return None;
        }
        let kept = self.kept();
        let listing = kept.listing(start, generation)?;
        let to = end.min(&listing.to);
        let mut names = Vec::new();
        if start < to {
            let is_head = follow == Some(&self.to_head);
            let found = listing.names.range(start..to).take(count);
            names.extend(found.map(|(key, listed)| match listed {
                Some(listed) => {
                    let target = match listed.ino.filter(|_| is_head) {
                        Some(ino) => kept.heads.get(&ino).cloned(),
                        None => follow.is_none().then_some(Target::Absent),
                    };
                    PageName::Known { key: key.clone(), value: listed.value.clone(), target }
                }
                None => PageName::Registered(key.clone()),
            }));
        }
        let is_known = *end <= listing.to || names.len() == count;
        is_known.then(|| {
            listing.is_used.store(true, Ordering::Relaxed);
            names
        })
    }

    /// Handles a batch, of this session or of a peer, that writes these records and is not sent
    /// yet: registers its names, and drops the records that it changes.
    pub(super) fn sending(&self, keys: &[Key]) {
        let concerns = |kept: &Kept, key: &Key| match key.space() {
            space::DENTRY => kept.listings.contains_key(&Ino(key.partition())),
            space::INODE => kept.heads.contains_key(&Ino(key.partition())),
            _ => false,
        };
        {
            // Most batches concern no listing. The check needs only the read lock, so reads of
            // pages do not wait.
            let kept = self.kept();
            if !keys.iter().any(|key| concerns(&kept, key)) {
                return;
            }
        }
        let mut kept = self.kept_mut();
        for key in keys {
            match key.space() {
                space::DENTRY => kept.register(key, self.bytes_max / LISTING_SHARE),
                space::INODE => drop(kept.heads.remove(&Ino(key.partition()))),
                _ => {}
            }
        }
        kept.evict_to(self.bytes_max, None);
    }

    /// Keeps a page, unless an earlier part of its directory is unknown or the listing has become
    /// too large. `is_current` returns true if the record of a key is as it was read.
    pub(super) fn learn_page(&self, page: ListingPage<'_>, is_current: impl Fn(&Key) -> bool) {
        let listed = |entry: &Entry| {
            let inode = self.to_head.target(&entry.value);
            let head = inode.as_ref().filter(|inode| is_current(inode)).map(|_| &entry.target);
            let ino = inode.map(|inode| Ino(inode.partition()));
            let listed = is_current(&entry.key).then(|| Listed { value: entry.value.clone(), ino });
            (listed, head.filter(|head| head.first_bytes().is_some()).cloned())
        };
        let generation = page.generation;
        let mut kept = self.kept_mut();
        kept.learn_page(page, self.bytes_max / LISTING_SHARE, listed);
        kept.evict_to(self.bytes_max, Some(generation));
    }

    /// Removes a name that is certainly absent, until a later batch registers it again. The caller
    /// guarantees that no other batch that writes it is in flight.
    pub(super) fn removed(&self, key: &Key) {
        if key.space() == space::DENTRY && self.kept().listings.contains_key(&Ino(key.partition()))
        {
            self.kept_mut().remove_name(key);
        }
    }

    /// Drops everything that depends on a record that another session has changed without notice.
    pub(super) fn forget(&self, key: &Key) {
        let ino = Ino(key.partition());
        if key.space() == space::DENTRY || key.space() == space::INODE {
            let mut kept = self.kept_mut();
            kept.remove(ino);
            if key.space() == space::INODE {
                kept.heads.remove(&ino);
            }
        }
    }

    /// Drops all listings.
    pub(super) fn clear(&self) {
        *self.kept_mut() = Kept::default();
    }

    /// Returns the approximate bytes in use, and the number of heads.
    #[cfg(test)]
    pub(super) fn weight(&self) -> (u64, usize) {
        let kept = self.kept();
        (kept.bytes, kept.heads.len())
    }
}

impl Kept {
    /// Returns the listing of the directory of a dentry if it belongs to `generation`.
    fn listing(&self, key: &Key, generation: Generation) -> Option<&Listing> {
        let listing = self.listings.get(&Ino(key.partition()));
        listing.filter(|listing| listing.generation == generation)
    }

    fn learn_page(
        &mut self,
        page: ListingPage<'_>,
        listing_bytes_max: u64,
        listed: impl Fn(&Entry) -> (Option<Listed>, Option<Target>),
    ) {
        let ListingPage { start, end, raced, entries, generation } = page;
        let ino = Ino(start.partition());
        let first = key::dentries(ino).0;
        match self.listing(start, generation) {
            Some(listing) if *start > listing.to => return,
            Some(listing) => {
                let read = entries.iter().map(|it| RECORDS_BYTES + key_bytes(&it.key));
                let bytes = listing.bytes + read.sum::<u64>();
                if end > listing.to && bytes > listing_bytes_max {
                    return;
                }
            }
            None if *start == first => self.begin(ino, generation, first),
            None => return,
        }
        let Some(listing) = self.listings.get(&ino) else { return };
        let replaced = listing.names.range(start..&end).map(|(key, _)| key.clone());
        let replaced: Vec<Key> = replaced.collect();
        replaced.iter().for_each(|name| self.remove_name(name));
        for entry in entries {
            let (listed, head) = listed(entry);
            if let Some(ino) = listed.as_ref().and_then(|listed| listed.ino) {
                match head {
                    Some(head) => drop(self.heads.insert(ino, head)),
                    None => drop(self.heads.remove(&ino)),
                }
            }
            self.set_name(&entry.key, listed);
        }
        // After the entries, so that a name which raced keeps no record.
        raced.iter().for_each(|name| self.set_name(name, None));
        let Some(listing) = self.listings.get_mut(&ino) else { return };
        if listing.to < end {
            listing.to = end;
        }
        if listing.bytes > listing_bytes_max {
            self.remove(ino);
        }
    }

    /// Begins a listing without names.
    fn begin(&mut self, ino: Ino, generation: Generation, first: Key) {
        self.remove(ino);
        self.last_turn += 1;
        self.turns.insert(self.last_turn, ino);
        self.bytes += LISTING_BYTES;
        let (turn, is_used, bytes) = (self.last_turn, AtomicBool::new(false), LISTING_BYTES);
        let names = BTreeMap::new();
        let listing = Listing { generation, turn, is_used, to: first, names, bytes };
        self.listings.insert(ino, listing);
    }

    /// Registers a name that may change, if it is in the known part of a listing.
    fn register(&mut self, key: &Key, listing_bytes_max: u64) {
        let ino = Ino(key.partition());
        if self.listings.get(&ino).is_some_and(|listing| *key < listing.to) {
            self.remove_name(key);
            self.set_name(key, None);
        }
        if self.listings.get(&ino).is_some_and(|listing| listing.bytes > listing_bytes_max) {
            self.remove(ino);
        }
    }

    /// Adds a name, or replaces its record.
    fn set_name(&mut self, key: &Key, listed: Option<Listed>) {
        let Some(listing) = self.listings.get_mut(&Ino(key.partition())) else { return };
        let added = name_bytes(key, listed.as_ref());
        let before = listing.names.insert(key.clone(), listed);
        let removed = before.map_or(0, |before| name_bytes(key, before.as_ref()));
        listing.bytes = listing.bytes + added - removed;
        self.bytes = self.bytes + added - removed;
    }

    /// Removes a name and the head of its inode.
    fn remove_name(&mut self, key: &Key) {
        let Some(listing) = self.listings.get_mut(&Ino(key.partition())) else { return };
        let Some(listed) = listing.names.remove(key) else { return };
        let bytes = name_bytes(key, listed.as_ref());
        listing.bytes -= bytes;
        self.bytes -= bytes;
        if let Some(ino) = listed.and_then(|listed| listed.ino) {
            self.heads.remove(&ino);
        }
    }

    /// Removes a listing and the heads of its inodes.
    fn remove(&mut self, ino: Ino) {
        let Some(Listing { turn, names, bytes, .. }) = self.listings.remove(&ino) else { return };
        self.turns.remove(&turn);
        self.bytes -= bytes;
        for ino in names.into_values().flatten().filter_map(|listed| listed.ino) {
            self.heads.remove(&ino);
        }
    }

    /// Evicts listings beyond `bytes_max`. A listing that has answered a read in its turn gets
    /// another turn. If `generation` is given, only a listing of this generation does.
    fn evict_to(&mut self, bytes_max: u64, generation: Option<Generation>) {
        while self.bytes > bytes_max {
            let Some((turn, ino)) = self.turns.pop_first() else { return };
            let Some(listing) = self.listings.get_mut(&ino) else { continue };
            let is_usable = generation.is_none_or(|generation| generation == listing.generation);
            if std::mem::take(listing.is_used.get_mut()) && is_usable {
                self.last_turn += 1;
                listing.turn = self.last_turn;
                self.turns.insert(self.last_turn, ino);
            } else {
                debug_assert_eq!(turn, listing.turn, "a listing has one turn");
                self.remove(ino);
            }
        }
    }
}

fn key_bytes(key: &Key) -> u64 {
    NAME_BYTES + key.as_bytes().len() as u64
}

/// Returns the approximate bytes of a name with its dentry and the head of its inode.
fn name_bytes(key: &Key, listed: Option<&Listed>) -> u64 {
    key_bytes(key) + listed.map_or(0, |listed| RECORDS_BYTES + listed.value.len() as u64)
}
