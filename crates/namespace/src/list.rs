//! Listing: a walk over dentries in the order of object keys.
//!
//! Depth first, the dentries of a bucket stand in the order of its keys, so a page begins anywhere,
//! from the last key alone, and no listing keeps state. [`ListStart`] finds where a page begins and
//! reads the first names there, all in one snapshot; [`Walk`] goes on from there, asking for the
//! children of many directories at once, until the page is full.

use std::collections::VecDeque;

use bytes::Bytes;
use record::{Dentry, Ino, InodeHead, Kind, Origin, Skey, key};
use store::{Entry, Found, Key, Read, Target, Value};

use crate::object::after;
use crate::path::{self, Unknown, is_implied};
use crate::run::{Env, Operation, Step};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// What the keys begin with.
    pub prefix: Vec<u8>,
    /// Keys that hold this behind the prefix are rolled up to there. Never empty.
    pub delimiter: Option<Vec<u8>>,
    /// Only what sorts behind this: the last key or common prefix of the page before.
    pub after: Option<Vec<u8>>,
    /// The most keys and common prefixes of the page.
    pub limit: usize,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListEntry {
    /// An object.
    Object {
        /// Its key.
        key: Vec<u8>,
        /// What its inode is; a directory's for an empty directory that somebody made.
        inode: InodeHead,
    },
    /// What several keys have in common, up to and with the delimiter.
    Prefix(Vec<u8>),
}

impl ListEntry {
    /// The key or the common prefix.
    pub fn key(&self) -> &[u8] {
        match self {
            ListEntry::Object { key, .. } | ListEntry::Prefix(key) => key,
        }
    }
}

/// A page of a listing, in the order of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Keys and common prefixes.
    pub entries: Vec<ListEntry>,
    /// Whether there is more behind them.
    pub truncated: bool,
}

/// The most ranges that one round trip of a walk asks for.
pub const WAVE_RANGES: usize = 256;

/// The least names that a walk asks of a directory it has not seen yet.
const RANGE_NAMES_MIN: usize = 16;

/// The most names that a walk asks of one directory at once.
const RANGE_NAMES_MAX: usize = 1_001;

/// Some names of a directory that are not read yet.
#[derive(Clone, Debug)]
struct Unread {
    directory: Ino,
    /// The directory's own key, with its slash; empty for a bucket.
    prefix: Bytes,
    start: Key,
    end: Key,
    /// The directory's inode, if somebody made the directory and nothing of it was read yet: if
    /// nothing is in it, it is an object itself.
    made: Target,
}

/// A piece of the walk, in the order of keys.
#[derive(Clone, Debug)]
enum Piece {
    Unread(Unread),
    Name { prefix: Bytes, entry: Entry },
}

/// A listing under way.
#[derive(Clone, Debug)]
pub struct Walk {
    query: ListQuery,
    pieces: VecDeque<Piece>,
    page: Listing,
    /// Where in `pieces` the answers to the last reads belong, with the limit each was asked with.
    asked: Vec<(usize, usize)>,
    done: bool,
}

/// What the driver of a [`Walk`] must do next.
#[derive(Debug)]
pub enum WalkStep {
    /// Read these in one round trip, then call [`Walk::learn`].
    Read(Vec<Read>),
    /// The page.
    Page(Listing),
}

/// Finds where a page begins, and reads the first names there.
#[derive(Clone, Debug)]
pub struct ListStart<'a> {
    /// The bucket's name.
    pub bucket: &'a [u8],
    /// What to list.
    pub query: &'a ListQuery,
}

impl Operation for ListStart<'_> {
    type Output = Walk;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Walk>, Halt> {
        let query = self.query;
        let cut = query.prefix.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
        let (base, name) = query.prefix.split_at(cut);
        let directories = components(base);
        let chain = path::chain(view, self.bucket, &directories, Unknown::Ask)?;
        let mut walk = Walk::new(query.clone());
        if chain.missing.is_some() || query.limit == 0 {
            return Ok(Step::Done(walk));
        }
        let directory = chain.deepest();
        let mut unread = Unread::within(directory, Bytes::copy_from_slice(base), name);
        if name.is_empty() && chain.directories.last().is_some_and(|last| !is_implied(last)) {
            unread.made = whole(view.record(&key::inode(directory))?);
        }
        match query.lower_bound() {
            Some(bound) if bound.as_slice() > query.prefix.as_slice() => {
                if !bound.starts_with(&query.prefix) {
                    return Ok(Step::Done(walk)); // everything with this prefix sorts before
                }
                walk.seek(view, unread, &bound[cut..])?;
            }
            _ => walk.pieces.push_back(Piece::Unread(unread)),
        }
        let reads = walk.reads();
        let found = view.ranges(&reads)?;
        walk.learn(found.into_iter().map(Found::Range).collect());
        Ok(Step::Done(walk))
    }
}

impl ListQuery {
    /// The first key that may be listed by `after`, if that is given: all that sorts behind it, and
    /// none of the keys that are rolled up to a common prefix which does not.
    fn lower_bound(&self) -> Option<Vec<u8>> {
        let after = self.after.as_deref()?;
        match self.rolled_up(after) {
            Some(common) => successor(&common),
            None => Some([after, &[0]].concat()),
        }
    }

    /// The common prefix that a key is rolled up to.
    fn rolled_up(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (delimiter, rest) = (self.delimiter.as_ref()?, key.strip_prefix(&self.prefix[..])?);
        let at = rest.windows(delimiter.len().max(1)).position(|window| window == delimiter)?;
        Some(key[..self.prefix.len() + at + delimiter.len()].to_vec())
    }
}

impl Unread {
    /// The names of a directory that begin with `name`.
    fn within(directory: Ino, prefix: Bytes, name: &[u8]) -> Unread {
        let start = key::dentry(directory, name);
        let end = match successor(name) {
            Some(next) => key::dentry(directory, &next),
            None => key::dentries(directory).1,
        };
        Unread { directory, prefix, start, end, made: Target::Absent }
    }
}

impl Walk {
    fn new(query: ListQuery) -> Walk {
        Walk {
            query,
            pieces: VecDeque::new(),
            page: Listing::default(),
            asked: Vec::new(),
            done: false,
        }
    }

    /// Lays out what is left of `unread` from `rest` on: a path below its directory.
    fn seek(&mut self, view: &mut View<'_>, unread: Unread, rest: &[u8]) -> Result<(), Halt> {
        let mut within = unread;
        let mut rest = rest;
        while let Some(slash) = rest.iter().position(|b| *b == b'/') {
            // The rest of this directory comes after all of the subdirectory that is entered.
            let skey = Skey::directory(&rest[..slash]);
            let slot = key::dentry(within.directory, skey.as_bytes());
            let prefix = Bytes::from([&within.prefix[..], skey.as_bytes()].concat());
            let behind = Unread { start: after(&slot), made: Target::Absent, ..within.clone() };
            self.pieces.push_front(Piece::Unread(behind));
            let Some(value) = view.record(&slot)? else { return Ok(()) };
            let dentry = decode(&slot, &value, Dentry::decode)?;
            within = Unread::within(dentry.ino, prefix, b"");
            if dentry.origin == Origin::Made {
                within.made = whole(view.record(&key::inode(dentry.ino))?);
            }
            rest = &rest[slash + 1..];
        }
        if !rest.is_empty() {
            within.made = Target::Absent;
            within.start = key::dentry(within.directory, rest);
        }
        self.pieces.push_front(Piece::Unread(within));
        Ok(())
    }

    /// Goes on until something must be read, or the page is there.
    pub fn advance(&mut self) -> Result<WalkStep, Halt> {
        self.emit()?;
        if self.done || self.pieces.is_empty() {
            return Ok(WalkStep::Page(std::mem::take(&mut self.page)));
        }
        self.open_directories()?;
        Ok(WalkStep::Read(self.reads()))
    }

    /// Moves names from the front of the walk to the page, up to the first directory that must be
    /// read.
    fn emit(&mut self) -> Result<(), Halt> {
        while let Some(Piece::Name { .. }) = self.pieces.front() {
            let Some(Piece::Name { prefix, entry }) = self.pieces.pop_front() else { break };
            let object = [&prefix[..], entry.key.suffix()].concat();
            let dentry = decode(&entry.key, &entry.value, Dentry::decode)?;
            if let Some(common) = self.query.rolled_up(&object) {
                self.push_common(&common)?;
            } else if dentry.kind == Kind::Directory {
                self.pieces.push_front(Piece::Unread(open(&dentry, object, entry.target)));
            } else if dentry.kind == Kind::File
                && let Some(bytes) = entry.target.first_bytes()
            {
                let inode = decode(&key::inode(dentry.ino), bytes, InodeHead::decode)?;
                self.push(ListEntry::Object { key: object, inode });
            }
            if self.done {
                break;
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: ListEntry) {
        if self.page.entries.len() == self.query.limit {
            self.page.truncated = true;
            self.done = true;
        } else {
            self.page.entries.push(entry);
        }
    }

    /// A key that is rolled up: new, or one more of the last common prefix, whose other names are
    /// skipped without being read.
    fn push_common(&mut self, common: &[u8]) -> Result<(), Halt> {
        if self.page.entries.last().map(ListEntry::key) != Some(common) {
            self.push(ListEntry::Prefix(common.to_vec()));
        }
        let next = successor(common).ok_or(FsError::WrongSize)?;
        for piece in &mut self.pieces {
            let Piece::Unread(unread) = piece else { continue };
            // Only what lies in the directory in which the common prefix ends can be skipped.
            if let Some(rest) = next.strip_prefix(&unread.prefix[..]) {
                let start = key::dentry(unread.directory, rest);
                let within = rest.split_last().is_none_or(|(_, name)| !name.contains(&b'/'));
                if within && start > unread.start {
                    unread.made = Target::Absent;
                    unread.start = start.min(unread.end.clone());
                }
            }
        }
        Ok(())
    }

    /// Turns the directories among the next names into what is to be read of them.
    fn open_directories(&mut self) -> Result<(), Halt> {
        let Walk { query, pieces, .. } = self;
        for piece in pieces.iter_mut().take(2 * WAVE_RANGES) {
            let Piece::Name { prefix, entry } = piece else { continue };
            let object = [&prefix[..], entry.key.suffix()].concat();
            let dentry = decode(&entry.key, &entry.value, Dentry::decode)?;
            if dentry.kind == Kind::Directory && query.rolled_up(&object).is_none() {
                *piece = Piece::Unread(open(&dentry, object, entry.target.clone()));
            }
        }
        Ok(())
    }

    /// Asks for what comes next, of as many directories as the page may still need.
    fn reads(&mut self) -> Vec<Read> {
        let wanted = self.query.limit + 1 - self.page.entries.len().min(self.query.limit);
        let mut reads = Vec::new();
        let (mut asked, mut expected) = (Vec::new(), 0);
        for (index, piece) in self.pieces.iter().enumerate() {
            if reads.len() == WAVE_RANGES || expected >= wanted {
                break;
            }
            let Piece::Unread(unread) = piece else {
                expected += 1;
                continue;
            };
            // The first must bring the walk on; of the others nobody knows how much they hold.
            let limit = if reads.is_empty() { wanted } else { RANGE_NAMES_MIN };
            let limit = limit.clamp(1, RANGE_NAMES_MAX);
            asked.push((index, limit));
            expected += usize::from(!reads.is_empty());
            reads.push(Read::Range {
                start: unread.start.clone(),
                end: unread.end.clone(),
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
                follow: Some(key::dentry_to_head()),
            });
        }
        self.asked = asked;
        reads
    }

    /// Takes the answers to the last reads, in their order.
    pub fn learn(&mut self, found: Vec<Found>) {
        let asked = std::mem::take(&mut self.asked);
        // From the back, so that the places of the earlier ones stay where they are.
        for ((index, limit), found) in asked.into_iter().zip(found).rev() {
            let (Some(Piece::Unread(unread)), Found::Range(entries)) =
                (self.pieces.remove(index), found)
            else {
                unreachable!("a walk asks for ranges of what is unread");
            };
            let mut pieces = Vec::with_capacity(entries.len() + 1);
            if entries.len() >= limit
                && let Some(last) = entries.last()
            {
                let start = after(&last.key);
                pieces.push(Piece::Unread(Unread {
                    start,
                    made: Target::Absent,
                    ..unread.clone()
                }));
            }
            if entries.is_empty() && unread.made != Target::Absent {
                pieces.push(itself(&unread));
            }
            let names = entries.into_iter().rev();
            let prefix = &unread.prefix;
            pieces.extend(names.map(|entry| Piece::Name { prefix: prefix.clone(), entry }));
            for piece in pieces {
                self.pieces.insert(index, piece);
            }
        }
    }
}

/// What is to be read of a directory.
fn open(dentry: &Dentry, object: Vec<u8>, inode: Target) -> Unread {
    let mut unread = Unread::within(dentry.ino, object.into(), b"");
    if dentry.origin == Origin::Made {
        unread.made = inode;
    }
    unread
}

/// A record that was read by its own key.
fn whole(record: Option<Value>) -> Target {
    record.map_or(Target::Absent, Target::Whole)
}

/// The object that an empty directory is, when somebody made it: a name without bytes in it, as if
/// bound to the directory's own inode.
fn itself(unread: &Unread) -> Piece {
    let slot = key::dentry(unread.directory, b"");
    let value = Dentry::file(unread.directory).encode(&slot);
    let entry = Entry { key: slot, value, target: unread.made.clone() };
    Piece::Name { prefix: unread.prefix.clone(), entry }
}

/// The components of a directory's key: what stands before each slash.
fn components(directory: &[u8]) -> Vec<Vec<u8>> {
    let mut components: Vec<Vec<u8>> =
        directory.split(|b| *b == b'/').map(<[u8]>::to_vec).collect();
    components.pop();
    components
}

/// The first string behind all that begin with `prefix`.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut next = prefix[..=keep].to_vec();
    next[keep] += 1;
    Some(next)
}
