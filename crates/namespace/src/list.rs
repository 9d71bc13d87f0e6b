//! Listing: a walk over dentries in the order of object keys.
//!
//! Depth first, the dentries of a bucket stand in the order of its keys, so a page begins anywhere,
//! from the last key alone, and no listing keeps state. [`ListStart`] finds where a page begins and
//! reads the first names there, all in one snapshot; [`Walk`] goes on from there, asking for the
//! children of many directories at once, until the page is full.
//!
//! Keys may be very deep, each below directories of its own. So the work for a page is bounded. As
//! soon as it has an entry, it ends when it has cost enough, and says that there is more. The first
//! entry is never far, because below any directory that a key implied there is a key. And a
//! directory's only child is read ahead: directories that one PUT made have numbers that follow
//! each other, so the number of the child can be guessed.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use record::{Dentry, Ino, InodeHead, Kind, SortKey, VersionStamp, key};
use store::{Entry, Key, Read, ReadResult, Target, Value};

use crate::path::{self, NamedBucket, Unknown};
use crate::run::{Env, Planner, Step};
use crate::view::after;
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
#[expect(clippy::large_enum_variant, reason = "most entries are objects")]
pub enum ListEntry {
    /// An object.
    Object {
        /// Its key.
        key: Vec<u8>,
        /// What its inode is; a directory's for an empty directory.
        inode: InodeHead,
        /// Which version of its key it is; none for the null version.
        version: Option<VersionStamp>,
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

/// Ranges that a page may cost once there is an entry on it. A full page of keys of which each has
/// four directories of its own costs no more.
pub const PAGE_RANGES_MAX: usize = 4_096;

/// Round trips that a page may cost once there is an entry on it.
pub const PAGE_WAVES_MAX: usize = 64;

/// After so many round trips in a row that brought nothing onto the page, only the front of the
/// walk is followed: what else is read may be of no use, since the page may end early.
const VAIN_WAVES_MAX: usize = 4;

/// The fewest directories that are read ahead of one whose number follows that of the one above it.
const AHEAD_MIN: usize = 4;

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
    /// The directory's inode, if nothing of the directory was read yet: one that is empty is an
    /// object itself. Somebody made it, or has emptied it as a file program does.
    itself: Target,
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
    /// Directories that the last reads asked for ahead of the front.
    ahead: Vec<Ino>,
    /// The names that were found in such directories.
    found_ahead: HashMap<Ino, Vec<Entry>>,
    /// The directory that is all there is in the one that was last read at the front.
    only_child: Option<Ino>,
    /// How many such directories in a row had numbers that follow each other.
    followed: usize,
    spent: Spent,
    done: bool,
}

/// What a page has cost so far.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    ranges: usize,
    waves: usize,
    /// Waves in a row that went down without bringing anything onto the page.
    vain: usize,
    /// Entries on the page at the last wave.
    entries: usize,
    /// Waves in a row that found nothing where the front was, and so go up.
    empty: usize,
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
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// What to list.
    pub query: &'a ListQuery,
}

impl Planner for ListStart<'_> {
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
        // Asked for together with the names, so that it costs no round trip.
        let itself = name.is_empty() && !chain.directories.is_empty();
        let inode = if itself { view.record(&key::inode(directory)) } else { Ok(None) };
        unread.itself = inode.clone().map_or(Target::Absent, whole);
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
        let (found, _) = (view.ranges(&reads)?, inode?);
        walk.learn(found.into_iter().map(ReadResult::Range).collect());
        Ok(Step::Done(walk))
    }
}

impl ListQuery {
    /// The first key that may be listed, if `after` is given. It sorts behind `after`, and behind
    /// every key that is rolled up to the common prefix that `after` is rolled up to.
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
        Unread { directory, prefix, start, end, itself: Target::Absent }
    }

    /// Whether these are all names of the directory.
    fn is_whole(&self) -> bool {
        (self.start.clone(), self.end.clone()) == key::dentries(self.directory)
    }
}

impl Walk {
    fn new(query: ListQuery) -> Walk {
        Walk {
            query,
            pieces: VecDeque::new(),
            page: Listing::default(),
            asked: Vec::new(),
            ahead: Vec::new(),
            found_ahead: HashMap::new(),
            only_child: None,
            followed: 0,
            spent: Spent::default(),
            done: false,
        }
    }

    /// Begins the walk at `rest`, a path below the directory of `unread`: what comes before it is
    /// left out.
    fn seek(&mut self, view: &mut View<'_>, unread: Unread, rest: &[u8]) -> Result<(), Halt> {
        let (mut within, mut rest) = (unread, rest);
        let mut numbers = vec![within.directory];
        while let Some(slash) = rest.iter().position(|b| *b == b'/') {
            // The rest of this directory comes after all of the subdirectory that is entered.
            let sort_key = SortKey::directory(&rest[..slash]);
            let slot = key::dentry(within.directory, sort_key.as_bytes());
            let prefix = Bytes::from([&within.prefix[..], sort_key.as_bytes()].concat());
            let behind = Unread { start: after(&slot), itself: Target::Absent, ..within.clone() };
            self.pieces.push_front(Piece::Unread(behind));
            let below = &rest[slash + 1..];
            let value = match view.record(&slot) {
                Err(Halt::Need) => {
                    let names = components(below);
                    path::look_ahead(view, &numbers, names.iter().map(Vec::as_slice));
                    return Err(Halt::Need);
                }
                value => value?,
            };
            let Some(value) = value else { return Ok(()) };
            let dentry = decode(&slot, &value, Dentry::decode)?;
            numbers.push(dentry.ino);
            within = Unread::within(dentry.ino, prefix, b"");
            rest = below;
        }
        if rest.is_empty() {
            within.itself = whole(view.record(&key::inode(within.directory))?);
        } else {
            within.itself = Target::Absent;
            within.start = key::dentry(within.directory, rest);
        }
        self.pieces.push_front(Piece::Unread(within));
        Ok(())
    }

    /// Goes on until something must be read, or the page is there.
    pub fn advance(&mut self) -> Result<WalkStep, Halt> {
        self.emit()?;
        while !self.done && self.step_ahead() {
            self.emit()?;
        }
        let entries = self.page.entries.len();
        let grown = entries > std::mem::replace(&mut self.spent.entries, entries);
        self.spent.vain = match self.spent.vain {
            vain if !grown && self.spent.empty == 0 => vain + 1,
            vain if !grown => vain,
            // Where one key is deep, the next one may be, too. So the walk stays narrow for a
            // while.
            vain if vain > VAIN_WAVES_MAX => vain / 2,
            _ => 0,
        };
        let spent = self.spent;
        let enough = spent.ranges >= PAGE_RANGES_MAX || spent.waves >= PAGE_WAVES_MAX;
        if !self.done && !self.pieces.is_empty() && entries > 0 && enough {
            self.page.truncated = true;
            self.done = true;
        }
        if self.done || self.pieces.is_empty() {
            return Ok(WalkStep::Page(std::mem::take(&mut self.page)));
        }
        if !self.is_narrow() {
            self.open_directories()?;
        }
        Ok(WalkStep::Read(self.reads()))
    }

    /// Whether only the front of the walk is followed.
    fn is_narrow(&self) -> bool {
        self.spent.vain >= VAIN_WAVES_MAX && self.spent.empty == 0
    }

    /// Uses what was read ahead of the directory at the front, if anything was.
    fn step_ahead(&mut self) -> bool {
        let Some(Piece::Unread(unread)) = self.pieces.front() else { return false };
        if !unread.is_whole() {
            return false;
        }
        let Some(entries) = self.found_ahead.remove(&unread.directory) else { return false };
        self.fill(0, RANGE_NAMES_MIN, entries);
        true
    }

    /// Moves names from the front of the walk to the page, up to the first directory that must be
    /// read.
    fn emit(&mut self) -> Result<(), Halt> {
        while let Some(Piece::Name { .. }) = self.pieces.front() {
            let Some(Piece::Name { prefix, entry }) = self.pieces.pop_front() else { break };
            let object = [&prefix[..], entry.key.suffix()].concat();
            if !is_object_key(&object) {
                continue;
            }
            let dentry = decode(&entry.key, &entry.value, Dentry::decode)?;
            if !matches!(dentry.kind, Kind::Directory | Kind::File) {
                continue;
            }
            if let Some(common) = self.query.rolled_up(&object) {
                self.push_common(&common)?;
            } else if dentry.kind == Kind::Directory {
                self.pieces.push_front(Piece::Unread(open(&dentry, object, entry.target)));
            } else if dentry.kind == Kind::File
                && let Some(bytes) = entry.target.first_bytes()
            {
                let inode = decode(&key::inode(dentry.ino), bytes, InodeHead::decode)?;
                self.push(ListEntry::Object { key: object, inode, version: dentry.version });
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

    /// Takes a key that is rolled up: a new common prefix, or one more key of the last one. The
    /// other names below it are skipped without being read.
    fn push_common(&mut self, common: &[u8]) -> Result<(), Halt> {
        if self.page.entries.last().map(ListEntry::key) != Some(common) {
            self.push(ListEntry::Prefix(common.to_vec()));
        }
        let next = successor(common).ok_or(FsError::WrongSize)?;
        for piece in &mut self.pieces {
            let Piece::Unread(unread) = piece else { continue };
            // Names can be skipped only in the directory in which the common prefix ends.
            if let Some(rest) = next.strip_prefix(&unread.prefix[..]) {
                let start = key::dentry(unread.directory, rest);
                let within = rest.split_last().is_none_or(|(_, name)| !name.contains(&b'/'));
                if within && start > unread.start {
                    unread.itself = Target::Absent;
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
            if !is_object_key(&object) {
                continue;
            }
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
        let (ahead, mut reads) = (self.ahead_of_front(), Vec::new());
        let most = if self.is_narrow() { 1 } else { WAVE_RANGES - ahead.len() };
        // Where nothing was left of a directory, there may be little left of those above it, so
        // more of them are asked for.
        let likely = wanted.saturating_mul(1 << (2 * self.spent.empty).min(10));
        let (mut asked, mut expected) = (Vec::new(), 0);
        for (index, piece) in self.pieces.iter().enumerate() {
            if reads.len() == most || expected >= likely {
                break;
            }
            let Piece::Unread(unread) = piece else {
                expected += 1;
                continue;
            };
            // The first directory brings the walk on. How much the others hold, nobody knows.
            let limit = if reads.is_empty() { wanted } else { RANGE_NAMES_MIN };
            let limit = limit.clamp(1, RANGE_NAMES_MAX);
            asked.push((index, limit));
            expected += usize::from(!reads.is_empty());
            reads.push(names(unread.start.clone(), unread.end.clone(), limit));
        }
        self.asked = asked;
        for directory in &ahead {
            let (start, end) = key::dentries(*directory);
            reads.push(names(start, end, RANGE_NAMES_MIN));
        }
        self.ahead = ahead;
        self.spent.waves += 1;
        self.spent.ranges += reads.len();
        reads
    }

    /// The directories below the one at the front, assuming that one PUT made all of them and each
    /// holds only the next one. The longer that has been right, the more of them are read ahead.
    fn ahead_of_front(&self) -> Vec<Ino> {
        let Some(Piece::Unread(front)) = self.pieces.front() else { return Vec::new() };
        if self.followed == 0 || self.only_child != Some(front.directory) || !front.is_whole() {
            return Vec::new();
        }
        let unread = self.pieces.iter().take(2 * WAVE_RANGES).filter_map(|piece| match piece {
            Piece::Unread(unread) => Some(unread.directory),
            Piece::Name { .. } => None,
        });
        let asked: HashSet<Ino> = unread.collect();
        let levels = (2 * self.followed).clamp(AHEAD_MIN, WAVE_RANGES - 1);
        let numbers = (front.directory.0.saturating_add(1)..u64::MAX).take(levels);
        numbers.map(Ino).filter(|number| !asked.contains(number)).collect()
    }

    /// Takes the answers to the last reads, in their order.
    pub fn learn(&mut self, found: Vec<ReadResult>) {
        let asked = std::mem::take(&mut self.asked);
        let mut found: Vec<Vec<Entry>> = found.into_iter().map(names_of).collect();
        let ahead = found.split_off(asked.len().min(found.len()));
        self.found_ahead = std::mem::take(&mut self.ahead).into_iter().zip(ahead).collect();
        let nothing = found.first().is_some_and(Vec::is_empty);
        self.spent.empty = if nothing { self.spent.empty + 1 } else { 0 };
        // From the back, so that the places of the earlier ones stay where they are.
        for ((index, limit), entries) in asked.into_iter().zip(found).rev() {
            self.fill(index, limit, entries);
        }
    }

    /// Puts names in the place where they were asked for, with this limit.
    fn fill(&mut self, index: usize, limit: usize, entries: Vec<Entry>) {
        let Some(Piece::Unread(unread)) = self.pieces.remove(index) else {
            unreachable!("a walk asks for ranges of what is unread");
        };
        if index == 0 {
            self.note_only_child(&unread, &entries);
        }
        let mut pieces = Vec::with_capacity(entries.len() + 1);
        if entries.len() >= limit
            && let Some(last) = entries.last()
        {
            let start = after(&last.key);
            pieces.push(Piece::Unread(Unread { start, itself: Target::Absent, ..unread.clone() }));
        }
        if entries.is_empty() && unread.itself != Target::Absent {
            pieces.push(itself(&unread));
        }
        let names = entries.into_iter().rev();
        let prefix = &unread.prefix;
        pieces.extend(names.map(|entry| Piece::Name { prefix: prefix.clone(), entry }));
        for piece in pieces {
            self.pieces.insert(index, piece);
        }
    }

    /// Takes note whether the directory at the front holds only one directory, and whether that
    /// one's number follows its own.
    fn note_only_child(&mut self, front: &Unread, entries: &[Entry]) {
        let child = match entries {
            [entry] if front.is_whole() => Dentry::decode(&entry.key, &entry.value).ok(),
            _ => None,
        };
        let child = child.filter(|child| child.kind == Kind::Directory).map(|child| child.ino);
        let follows = child.is_some_and(|child| Some(child.0) == front.directory.0.checked_add(1));
        self.followed = if follows { self.followed + 1 } else { 0 };
        self.only_child = child;
    }
}

/// Whether S3 may show a key. Names that files were given need not be text, and a path may be longer
/// than a key.
pub(crate) fn is_object_key(key: &[u8]) -> bool {
    key.len() <= OBJECT_KEY_BYTES_MAX && std::str::from_utf8(key).is_ok()
}

/// The longest key of an object, in bytes.
const OBJECT_KEY_BYTES_MAX: usize = 1_024;

/// A read of so many names, with the heads of the inodes that they bind.
fn names(start: Key, end: Key, limit: usize) -> Read {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    Read::Range { start, end, limit, follow: Some(key::dentry_to_head()) }
}

fn names_of(found: ReadResult) -> Vec<Entry> {
    match found {
        ReadResult::Range(entries) => entries,
        found => unreachable!("a walk asks for ranges alone, not for {found:?}"),
    }
}

/// What is to be read of a directory.
fn open(dentry: &Dentry, object: Vec<u8>, inode: Target) -> Unread {
    Unread { itself: inode, ..Unread::within(dentry.ino, object.into(), b"") }
}

/// A record that was read by its own key.
fn whole(record: Option<Value>) -> Target {
    record.map_or(Target::Absent, Target::Whole)
}

/// The object that an empty directory is: an empty name in it, as if that were bound to the
/// directory's own inode.
fn itself(unread: &Unread) -> Piece {
    let slot = key::dentry(unread.directory, b"");
    let value = Dentry::file(unread.directory).encode(&slot);
    let entry = Entry { key: slot, value, target: unread.itself.clone() };
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
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut next = prefix[..=keep].to_vec();
    next[keep] += 1;
    Some(next)
}
