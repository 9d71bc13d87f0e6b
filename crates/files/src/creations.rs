//! The table of creations that are not committed, and the rule for other requests.
//!
//! Invariant: a request that could observe a creation, or change a name on which it rests, waits
//! until the creation is committed. Each request says how far it reaches ([`Reach`]). For example,
//! a lookup of `d/f` waits for the creation of `d/f`, a listing of `d` for all creations in `d`,
//! and a rename for all creations of the mount.
//!
//! A creation takes a *place* in the table before it reads the records that decide about it. If a
//! request that changes names begins before the creation is entered into its place, the decision
//! may rest on old names. Such a creation is committed before it is answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;
use tokio::sync::Notify;
use volume::NodeName;

use crate::open::OpenFile;

/// The maximum number of creations that are not committed. Further files are created at once.
const CREATIONS_MAX: usize = 256;

/// The names and nodes on which the result of a request depends, as far as creations of files can
/// change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// The request does not depend on names, or uses a file that is open.
    Nothing,
    /// One name in a directory.
    Name(Ino, &'a [u8]),
    /// The names and attributes of a directory.
    Directory(Ino),
    /// The record of a node; of a directory also its names.
    Node(Ino),
    /// Any name. The request may change names itself.
    All,
}

impl Reach<'_> {
    /// Returns true if a request with this reach depends on the creation of `name`, whose file is
    /// `ino` if that is known.
    fn covers(self, name: &NodeName, ino: Option<Ino>) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Name(directory, other) => name.directory == directory && name.name == other,
            Reach::Directory(directory) => name.directory == directory,
            Reach::Node(node) => name.directory == node || ino == Some(node),
            Reach::All => true,
        }
    }
}

/// The creations of the mount that are not committed.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    table: Mutex<Table>,
    /// The number of places in the table. Most requests find 0, and need not lock the table.
    count: AtomicUsize,
    /// Notified when a creation is entered.
    pub(crate) entered: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// The places by name, each with the open file once the creation is decided.
    places: HashMap<NodeName, Option<Arc<OpenFile>>>,
    /// The number of requests in progress that may change names.
    changing: usize,
    /// Grows with each request that may change names or that meets an undecided creation.
    generation: u64,
}

/// The place of a creation in the table, until the creation is decided. Dropped before that, it is
/// free again.
#[derive(Debug)]
pub(crate) struct Place<'c> {
    creations: &'c Creations,
    name: NodeName,
    generation: u64,
    is_entered: bool,
}

/// A request in progress that may change names. No creation begins without a commit meanwhile.
#[derive(Debug)]
#[must_use = "creations are held back until this is dropped"]
pub struct NameChange<'c>(Option<&'c Creations>);

impl Drop for NameChange<'_> {
    fn drop(&mut self) {
        if let Some(creations) = self.0 {
            creations.table().changing -= 1;
        }
    }
}

impl Creations {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for the creation of `name`. Returns `None` if the file must be created at
    /// once: another request may change names now, or has the same name, or the table is full.
    pub(crate) fn reserve(&self, name: &NodeName) -> Option<Place<'_>> {
        let mut table = self.table();
        let is_free = table.changing == 0
            && table.places.len() < CREATIONS_MAX
            && !table.places.contains_key(name);
        if !is_free {
            return None;
        }
        table.places.insert(name.clone(), None);
        self.count.store(table.places.len(), Ordering::SeqCst);
        let generation = table.generation;
        Some(Place { creations: self, name: name.clone(), generation, is_entered: false })
    }

    /// Enters the creation of a file that an earlier worker (process of the mount) has begun.
    pub(crate) fn insert(&self, name: &NodeName, file: &Arc<OpenFile>) {
        let mut table = self.table();
        table.places.insert(name.clone(), Some(Arc::clone(file)));
        self.count.store(table.places.len(), Ordering::SeqCst);
    }

    /// Removes the creation of the file `ino`, because it is committed or lost. Another creation of
    /// this name stays.
    pub(crate) fn remove(&self, name: &NodeName, ino: Ino) {
        self.remove_if(name, |file| file.as_ref().is_some_and(|file| file.ino == ino));
    }

    fn remove_if(&self, name: &NodeName, is_meant: impl FnOnce(&Option<Arc<OpenFile>>) -> bool) {
        let mut table = self.table();
        if table.places.get(name).is_some_and(is_meant) {
            table.places.remove(name);
        }
        self.count.store(table.places.len(), Ordering::SeqCst);
    }

    /// Begins a request with this reach. Returns the files whose creation must be committed before
    /// it, and a guard to hold until the request has ended.
    pub(crate) fn begin(&self, reach: Reach<'_>) -> (Vec<Arc<OpenFile>>, NameChange<'_>) {
        let changes = reach == Reach::All;
        if !changes && (reach == Reach::Nothing || self.count.load(Ordering::SeqCst) == 0) {
            return (Vec::new(), NameChange(None));
        }
        let mut table = self.table();
        let (mut files, mut meets_undecided) = (Vec::new(), false);
        for (name, file) in &table.places {
            if reach.covers(name, file.as_ref().map(|file| file.ino)) {
                files.extend(file.clone());
                meets_undecided |= file.is_none();
            }
        }
        if changes || meets_undecided {
            table.generation += 1;
        }
        if changes {
            table.changing += 1;
        }
        drop(table);
        (files, NameChange(changes.then_some(self)))
    }

    /// Returns true if no creation waits for its commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Returns the files of all creations.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        self.table().places.values().flatten().cloned().collect()
    }
}

impl Place<'_> {
    /// Enters the decided creation of `file`. Returns false if it must be committed before it is
    /// answered, because a request that changes names has begun since the place was taken.
    pub(crate) fn enter(mut self, file: &Arc<OpenFile>) -> bool {
        self.is_entered = true;
        let mut table = self.creations.table();
        table.places.insert(self.name.clone(), Some(Arc::clone(file)));
        let holds = table.generation == self.generation;
        drop(table);
        self.creations.entered.notify_one();
        holds
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_entered {
            self.creations.remove_if(&self.name, Option::is_none);
        }
    }
}

#[cfg(test)]
mod tests;
