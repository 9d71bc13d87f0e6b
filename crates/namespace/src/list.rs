//! Listing objects: a walk over dentries in the order of object keys.
//!
//! In a depth-first walk, the dentries of a bucket (records that bind names in directories to
//! inodes) have the order of its keys. So a page can start at any key, and a listing keeps no state
//! between pages. [`ListStart`] finds the start of a page and reads the first names there, in one
//! snapshot. [`Walk`] continues: it reads the names of many directories in one round trip (a
//! *wave*), until the page is full. For example, a listing of `logs/` with the delimiter `/` reads
//! only the directory `logs`, and a listing without delimiter also reads the directories below.
//!
//! The cost of a page is limited, because each key may be below many directories of its own. As
//! soon as the page has one entry, it ends when it has cost enough, and is marked as truncated. The
//! first entry is never far, because each implied directory has a key below it. A chain of
//! directories with one child each is read ahead: one PUT creates such directories with consecutive
//! inode numbers, so the number of the child can be guessed.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use record::{Dentry, Ino, InodeHead, Kind, SortKey, VersionStamp, key};
use store::{Entry, Key, Read, ReadResult, Target, Value};

use crate::path::{self, NamedBucket, Unknown};
use crate::run::{Env, Planner, Step};
use crate::view::after;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The request for a page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The prefix of the keys to list.
    pub prefix: Vec<u8>,
    /// Keys that contain this after the prefix are rolled up: the page shows one common prefix, up
    /// to and including the delimiter, in place of all of them. Never empty. `None` shows each key.
    pub delimiter: Option<Vec<u8>>,
    /// The last key or common prefix of the page before; `None` for the first page.
    pub after: Option<Vec<u8>>,
    /// The most keys and common prefixes of the page.
    pub limit: usize,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most entries are objects")]
pub enum ListEntry {
    /// An object of the bucket.
    Object {
        /// The key of the object.
        key: Vec<u8>,
        /// The head of its inode (times, size and entity tag); for an empty directory, the
        /// directory's.
        inode: InodeHead,
        /// The version id of the object; `None` for the null version.
        version: Option<VersionStamp>,
    },
    /// A common prefix of several keys, including the delimiter.
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

/// A page of a listing, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects and common prefixes.
    pub entries: Vec<ListEntry>,
    /// True if more entries may follow on the next page.
    pub truncated: bool,
}

/// The most ranges of directory names that one wave (one round trip of a listing) reads.
pub const WAVE_RANGES: usize = 256;

/// The most ranges of directory names for one page. Then a page that has an entry ends early. It
/// suffices for a full page of 1,000 keys, each with four directories of its own.
pub const PAGE_RANGES_MAX: usize = 4_096;

/// The most waves (round trips) for one page of a listing. Then a page that has an entry ends
/// early.
pub const PAGE_WAVES_MAX: usize = 64;

/// After this many successive waves (round trips) without a new entry, only the first directory of
/// the walk is read. The page may end early, and then reads of others would be wasted.
const UNPRODUCTIVE_WAVES_MAX: usize = 4;

/// The least number of directories that are read ahead, by their guessed inode numbers.
const AHEAD_MIN: usize = 4;

/// The number of names that a walk reads at first of a directory whose size is unknown.
const RANGE_NAMES_MIN: usize = 16;

/// The most names that a walk reads of one directory at once.
const RANGE_NAMES_MAX: usize = 1_001;

/// The names of one directory, or a part of them, that are not read yet.
#[derive(Clone, Debug)]
struct Unread {
    directory: Ino,
    /// The object key of the directory, with its slash; empty for a bucket.
    prefix: Bytes,
    start: Key,
    end: Key,
    /// The inode of the directory, if no names were read yet. An empty directory is an object
    /// itself.
    directory_inode: Target,
}

/// A part of the walk: names that are not read yet, or one name that was read. Sorted by key.
#[derive(Clone, Debug)]
enum Piece {
    Unread(Unread),
    Name { prefix: Bytes, entry: Entry },
}

/// The state of a page in progress. The driver calls `advance` and `learn` in turn.
#[derive(Clone, Debug)]
pub struct Walk {
    query: ListQuery,
    pieces: VecDeque<Piece>,
    page: Listing,
    /// The ranges of the last wave of reads: the index of each in `pieces`, and its limit of names.
    asked: Vec<(usize, usize)>,
    /// The directories that the last wave has read ahead by their guessed inode numbers.
    ahead: Vec<Ino>,
    /// The names that were found in the directories that were read ahead, by inode number.
    found_ahead: HashMap<Ino, Vec<Entry>>,
    /// The only name in the directory that was last read at the front, if it is a directory.
    only_child: Option<Ino>,
    /// The number of successive directories, each the only name in the one before, whose inode
    /// numbers were consecutive. The more there are, the more directories are read ahead.
    followed: usize,
    spent: Spent,
    done: bool,
}

/// The cost of a page of a listing so far.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    ranges: usize,
    waves: usize,
    /// Successive waves without a new entry, apart from waves whose first range was empty.
    unproductive: usize,
    /// The number of entries of the page when the last wave of reads began.
    entries: usize,
    /// Successive waves in which the first range was empty, so that the walk goes up.
    empty: usize,
}

/// The next step for the driver of a [`Walk`].
#[derive(Debug)]
pub enum WalkStep {
    /// Execute these reads in one round trip, then call [`Walk::learn`].
    Read(Vec<Read>),
    /// The page of the listing is complete.
    Page(Listing),
}

/// Finds the start of a page of a listing, and reads the first names there. Returns the walk.
#[derive(Clone, Debug)]
pub struct ListStart<'a> {
    /// The bucket to list.
    pub bucket: NamedBucket<'a>,
    /// The request for the page: prefix, delimiter, start and limit.
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
        // The page starts in the directory of the prefix. Nothing above it is read.
        let directory = chain.deepest();
        let mut unread = Unread::within(directory, Bytes::copy_from_slice(base), name);
        // The inode of the directory is requested together with the names, so it costs no round
        // trip.
        let has_inode = name.is_empty() && !chain.directories.is_empty();
        let inode = if has_inode { view.record(&key::inode(directory)) } else { Ok(None) };
        unread.directory_inode = inode.clone().map_or(Target::Absent, as_target);
        match query.lower_bound() {
            Some(bound) if bound.as_slice() > query.prefix.as_slice() => {
                if !bound.starts_with(&query.prefix) {
                    return Ok(Step::Done(walk)); // all keys with this prefix sort before the bound
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
    /// The first key that may be listed; `None` without `after`. It sorts after `after`, and after
    /// all keys of the common prefix that contains `after`.
    fn lower_bound(&self) -> Option<Vec<u8>> {
        let after = self.after.as_deref()?;
        match self.rolled_up(after) {
            Some(common) => successor(&common),
            None => Some([after, &[0]].concat()),
        }
    }

    /// The common prefix that the listing shows in place of this key; `None` if the key is listed
    /// itself.
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
        Unread { directory, prefix, start, end, directory_inode: Target::Absent }
    }

    /// Returns true if the range has all names of the directory, from the first to the last.
    fn is_complete(&self) -> bool {
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

    /// Starts the walk at `rest`, a path below the directory of `unread`, and leaves out everything
    /// before it.
    fn seek(&mut self, view: &mut View<'_>, unread: Unread, rest: &[u8]) -> Result<(), Halt> {
        let (mut within, mut rest) = (unread, rest);
        let mut numbers = vec![within.directory];
        while let Some(slash) = rest.iter().position(|b| *b == b'/') {
            // The names that sort after the subdirectory follow everything below it, so they go to
            // the back of the walk.
            let sort_key = SortKey::directory(&rest[..slash]);
            let slot = key::dentry(within.directory, sort_key.as_bytes());
            let prefix = Bytes::from([&within.prefix[..], sort_key.as_bytes()].concat());
            let behind =
                Unread { start: after(&slot), directory_inode: Target::Absent, ..within.clone() };
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
            within.directory_inode = as_target(view.record(&key::inode(within.directory))?);
        } else {
            within.directory_inode = Target::Absent;
            within.start = key::dentry(within.directory, rest);
        }
        self.pieces.push_front(Piece::Unread(within));
        Ok(())
    }

    /// Continues the page until names must be read or it is complete.
    pub fn advance(&mut self) -> Result<WalkStep, Halt> {
        self.emit()?;
        while !self.done && self.step_ahead() {
            self.emit()?;
        }
        let entries = self.page.entries.len();
        let grown = entries > std::mem::replace(&mut self.spent.entries, entries);
        self.spent.unproductive = match self.spent.unproductive {
            unproductive if !grown && self.spent.empty == 0 => unproductive + 1,
            unproductive if !grown => unproductive,
            // A deep key is often followed by another deep key. So the walk stays narrow for a
            // while.
            unproductive if unproductive > UNPRODUCTIVE_WAVES_MAX => unproductive / 2,
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

    /// Returns true if only the first directory of the walk is read, because the last waves have
    /// found no entry.
    fn is_narrow(&self) -> bool {
        self.spent.unproductive >= UNPRODUCTIVE_WAVES_MAX && self.spent.empty == 0
    }

    /// Uses the names that were read ahead of the first directory. Returns false if there are none.
    fn step_ahead(&mut self) -> bool {
        let Some(Piece::Unread(unread)) = self.pieces.front() else { return false };
        if !unread.is_complete() {
            return false;
        }
        let Some(entries) = self.found_ahead.remove(&unread.directory) else { return false };
        self.fill(0, RANGE_NAMES_MIN, entries);
        true
    }

    /// Moves names from the front of the walk to the page, up to the first range that must be read.
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

    /// Adds a common prefix to the page, unless it is the last entry. Skips the other names below
    /// it without reading them.
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
                    unread.directory_inode = Target::Absent;
                    unread.start = start.min(unread.end.clone());
                }
            }
        }
        Ok(())
    }

    /// Replaces the directories among the next names by ranges to read.
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

    /// The reads of the next wave (round trip of the listing), of as many directories as the page
    /// may need.
    fn reads(&mut self) -> Vec<Read> {
        let wanted = self.query.limit + 1 - self.page.entries.len().min(self.query.limit);
        let (ahead, mut reads) = (self.ahead_of_front(), Vec::new());
        let most = if self.is_narrow() { 1 } else { WAVE_RANGES - ahead.len() };
        // If nothing was left of the first directory, there may be little left of the directories
        // above it. So more of them are read.
        let likely = wanted.saturating_mul(1 << (2 * self.spent.empty).min(10));
        let (mut ranges, mut expected) = (Vec::new(), 0);
        for (index, piece) in self.pieces.iter().enumerate() {
            if reads.len() == most || expected >= likely {
                break;
            }
            let Piece::Unread(unread) = piece else {
                expected += 1;
                continue;
            };
            // The first directory is read up to the end of the page. The size of the others is
            // unknown, so only some names are read.
            let limit = if reads.is_empty() { wanted } else { RANGE_NAMES_MIN };
            let limit = limit.clamp(1, RANGE_NAMES_MAX);
            ranges.push((index, limit));
            expected += usize::from(!reads.is_empty());
            reads.push(names(unread.start.clone(), unread.end.clone(), limit));
        }
        self.asked = ranges;
        for directory in &ahead {
            let (start, end) = key::dentries(*directory);
            reads.push(names(start, end, RANGE_NAMES_MIN));
        }
        self.ahead = ahead;
        self.spent.waves += 1;
        self.spent.ranges += reads.len();
        reads
    }

    /// The directories to read ahead: those below the first directory, if one PUT has created all
    /// of them with consecutive numbers and each has one child. The longer this was true, the more
    /// are read ahead.
    fn ahead_of_front(&self) -> Vec<Ino> {
        let Some(Piece::Unread(front)) = self.pieces.front() else { return Vec::new() };
        if self.followed == 0 || self.only_child != Some(front.directory) || !front.is_complete() {
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

    /// Takes the results of the reads that `WalkStep::Read` had, in the same order.
    pub fn learn(&mut self, found: Vec<ReadResult>) {
        let asked = std::mem::take(&mut self.asked);
        let mut found: Vec<Vec<Entry>> = found.into_iter().map(names_of).collect();
        let ahead = found.split_off(asked.len().min(found.len()));
        self.found_ahead = std::mem::take(&mut self.ahead).into_iter().zip(ahead).collect();
        let nothing = found.first().is_some_and(Vec::is_empty);
        self.spent.empty = if nothing { self.spent.empty + 1 } else { 0 };
        // From the back, so that earlier indexes remain valid.
        for ((index, limit), entries) in asked.into_iter().zip(found).rev() {
            self.fill(index, limit, entries);
        }
    }

    /// Replaces the range at `index` of the walk by the names that were read of it, at most
    /// `limit`.
    fn fill(&mut self, index: usize, limit: usize, entries: Vec<Entry>) {
        let Some(Piece::Unread(unread)) = self.pieces.remove(index) else {
            unreachable!("a walk reads only unread ranges");
        };
        if index == 0 {
            self.note_only_child(&unread, &entries);
        }
        let mut pieces = Vec::with_capacity(entries.len() + 1);
        if entries.len() >= limit
            && let Some(last) = entries.last()
        {
            let start = after(&last.key);
            pieces.push(Piece::Unread(Unread {
                start,
                directory_inode: Target::Absent,
                ..unread.clone()
            }));
        }
        if entries.is_empty() && unread.directory_inode != Target::Absent {
            pieces.push(empty_directory(&unread));
        }
        let names = entries.into_iter().rev();
        let prefix = &unread.prefix;
        pieces.extend(names.map(|entry| Piece::Name { prefix: prefix.clone(), entry }));
        for piece in pieces {
            self.pieces.insert(index, piece);
        }
    }

    /// Notes the only child of the first directory, and counts consecutive inode numbers.
    fn note_only_child(&mut self, front: &Unread, entries: &[Entry]) {
        let child = match entries {
            [entry] if front.is_complete() => Dentry::decode(&entry.key, &entry.value).ok(),
            _ => None,
        };
        let child = child.filter(|child| child.kind == Kind::Directory).map(|child| child.ino);
        let follows = child.is_some_and(|child| Some(child.0) == front.directory.0.checked_add(1));
        self.followed = if follows { self.followed + 1 } else { 0 };
        self.only_child = child;
    }
}

/// Returns true if S3 can show a key. File programs may create names that are not UTF-8, and paths
/// that are longer than a key.
pub(crate) fn is_object_key(key: &[u8]) -> bool {
    key.len() <= OBJECT_KEY_BYTES_MAX && std::str::from_utf8(key).is_ok()
}

/// The longest object key, in bytes.
const OBJECT_KEY_BYTES_MAX: usize = 1_024;

/// The read of `limit` names, with the heads of their inodes.
fn names(start: Key, end: Key, limit: usize) -> Read {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    Read::Range { start, end, limit, follow: Some(key::dentry_to_head()) }
}

fn names_of(found: ReadResult) -> Vec<Entry> {
    match found {
        ReadResult::Range(entries) => entries,
        found => unreachable!("a walk reads only ranges, but got {found:?}"),
    }
}

/// The range of all names of a directory.
fn open(dentry: &Dentry, object: Vec<u8>, inode: Target) -> Unread {
    Unread { directory_inode: inode, ..Unread::within(dentry.ino, object.into(), b"") }
}

/// The target of a record that was read by its own key.
fn as_target(record: Option<Value>) -> Target {
    record.map_or(Target::Absent, Target::Whole)
}

/// The object of an empty directory: an empty name in it, as if it bound the inode of the
/// directory.
fn empty_directory(unread: &Unread) -> Piece {
    let slot = key::dentry(unread.directory, b"");
    let value = Dentry::file(unread.directory).encode(&slot);
    let entry = Entry { key: slot, value, target: unread.directory_inode.clone() };
    Piece::Name { prefix: unread.prefix.clone(), entry }
}

/// The components of a directory's key, which ends with a slash.
fn components(directory: &[u8]) -> Vec<Vec<u8>> {
    let mut components: Vec<Vec<u8>> =
        directory.split(|b| *b == b'/').map(<[u8]>::to_vec).collect();
    components.pop();
    components
}

/// The first string that sorts after all strings that begin with `prefix`. `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut next = prefix[..=keep].to_vec();
    next[keep] += 1;
    Some(next)
}
