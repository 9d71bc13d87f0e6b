//! Paths: an object key as a list of directories and a file name.
//!
//! For example, the key `a//b` has two directories, `a` and one with an empty name, and the file
//! `b`. The dentry of a directory is found by the inode number of its parent, so a lookup descends
//! level by level, from cached dentries if possible.

use record::{Dentry, Ino, Kind, Origin, SortKey, key};
use store::{Guard, Key, Value};

use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The most directories of a key. One plan removes all of them together with the last key below,
/// and it must be small enough for every engine.
pub const DIRECTORIES_MAX: usize = 512;

/// The bucket of a request, by name and, if it is known, by inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBucket<'a> {
    /// The name of the bucket.
    pub name: &'a [u8],
    /// The inode number that the bucket must have, if the request has read the bucket before, for
    /// example for a permission check. If another bucket has got the name since, the operation
    /// fails with `NoSuchBucket`.
    pub ino: Option<Ino>,
}

impl<'a> From<&'a [u8]> for NamedBucket<'a> {
    fn from(name: &'a [u8]) -> NamedBucket<'a> {
        NamedBucket { name, ino: None }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for NamedBucket<'a> {
    fn from(name: &'a [u8; N]) -> NamedBucket<'a> {
        NamedBucket::from(name.as_slice())
    }
}

impl<'a> From<&'a str> for NamedBucket<'a> {
    fn from(name: &'a str) -> NamedBucket<'a> {
        NamedBucket::from(name.as_bytes())
    }
}

/// An object key, split at its slashes. Each valid S3 key has exactly one path, and no two keys
/// share a path: nothing is normalized, so `a//b`, `/a`, `.` and `..` are ordinary names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The name of the bucket.
    pub bucket: Vec<u8>,
    /// The inode number that the bucket must have; see [`NamedBucket::ino`].
    pub bucket_ino: Option<Ino>,
    /// The directories, from the bucket down.
    pub directories: Vec<Vec<u8>>,
    /// The name of the file; empty for a key that ends with `/`.
    pub name: Vec<u8>,
}

impl Path {
    /// Splits an object key of a bucket at its slashes.
    pub fn new<'a>(bucket: impl Into<NamedBucket<'a>>, object: &[u8]) -> Path {
        let NamedBucket { name: bucket, ino: bucket_ino } = bucket.into();
        let mut components: Vec<Vec<u8>> =
            object.split(|b| *b == b'/').map(<[u8]>::to_vec).collect();
        let name = components.pop().unwrap_or_default();
        Path { bucket: bucket.to_vec(), bucket_ino, directories: components, name }
    }

    /// The bucket of the path.
    pub fn bucket(&self) -> NamedBucket<'_> {
        NamedBucket { name: &self.bucket, ino: self.bucket_ino }
    }

    /// The object key of the path.
    pub fn object(&self) -> Vec<u8> {
        object_key(&self.directories, &self.name)
    }

    /// The name of the file in the form in which dentries are sorted.
    pub fn sort_key(&self) -> SortKey {
        SortKey::file(&self.name)
    }
}

/// The object key of a list of directories and a name.
pub(crate) fn object_key(directories: &[Vec<u8>], name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(directories.iter().map(|name| name.len() + 1).sum::<usize>());
    for directory in directories {
        key.extend_from_slice(directory);
        key.push(b'/');
    }
    key.extend_from_slice(name);
    key
}

/// A dentry, which binds a name in a directory to an inode, with its key and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) key: Key,
    pub(crate) value: Value,
    pub(crate) dentry: Dentry,
}

impl Bound {
    /// The guard that the dentry is unchanged.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.value.clone())
    }

    /// Returns true if the dentry binds a file: an S3 object.
    pub(crate) fn is_file(&self) -> bool {
        self.dentry.kind == Kind::File
    }

    /// Returns true if the dentry binds a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.dentry.kind == Kind::Directory
    }
}

/// A bucket and the directories of a path, as far as they exist.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) bucket: Bound,
    pub(crate) directories: Vec<Bound>,
    /// The key that the dentry of the first missing directory would have.
    pub(crate) missing: Option<Key>,
}

impl Chain {
    /// The inode number of the deepest directory that exists.
    pub(crate) fn deepest(&self) -> Ino {
        self.directories.last().unwrap_or(&self.bucket).dentry.ino
    }

    /// The dentries of the bucket and of the directories that exist, from the bucket down.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Bound> {
        std::iter::once(&self.bucket).chain(&self.directories)
    }

    /// The guards that the chain is unchanged, including the absence of the missing directory.
    pub(crate) fn guards(&self) -> impl Iterator<Item = Guard> {
        self.names().map(Bound::guard).chain(self.missing.clone().map(Guard::Absent))
    }
}

/// The treatment of a directory that is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Read its dentry from the store.
    Ask,
    /// Assume that it does not exist. This is the likely case for a new key if all directories
    /// above it are cached.
    GuessAbsent,
}

/// Paths with at least this number of directories are read several levels at a time; see
/// `look_ahead`.
const AHEAD_FROM: usize = 8;

/// The least and the most levels that are read ahead of the first unknown one.
const AHEAD_MIN: usize = 4;
const AHEAD_MAX: usize = 256;

pub(crate) fn bound(key: &Key, value: Value) -> Result<Bound, Halt> {
    let dentry = decode(key, &value, Dentry::decode)?;
    Ok(Bound { key: key.clone(), value, dentry })
}

/// Finds the dentry of a bucket. Fails with `NoSuchBucket`.
pub(crate) fn bucket<'a>(
    view: &mut View<'_>,
    named: impl Into<NamedBucket<'a>>,
) -> Result<Bound, Halt> {
    let named = named.into();
    let key = key::dentry(Ino::ROOT, SortKey::directory(named.name).as_bytes());
    let value = view.record(&key)?.ok_or(FsError::NoSuchBucket)?;
    let bucket = bound(&key, value)?;
    if named.ino.is_some_and(|ino| ino != bucket.dentry.ino) {
        return Err(FsError::NoSuchBucket.into());
    }
    Ok(bucket)
}

/// Finds a bucket and the directories of a path, as far as they exist.
pub(crate) fn chain<'a>(
    view: &mut View<'_>,
    named: impl Into<NamedBucket<'a>>,
    directories: &[Vec<u8>],
    unknown: Unknown,
) -> Result<Chain, Halt> {
    let bucket = bucket(view, named)?;
    let mut chain = Chain { bucket, directories: Vec::new(), missing: None };
    // In a long path each wrong guess reveals only one further directory, so after a refusal the
    // directories are read.
    let asks = view.was_refused() && directories.len() >= AHEAD_FROM;
    let unknown = if asks { Unknown::Ask } else { unknown };
    descend(view, &mut chain, directories, unknown)?;
    Ok(chain)
}

/// Extends a chain by the directories of a path that it does not have yet, as far as they exist.
pub(crate) fn descend(
    view: &mut View<'_>,
    chain: &mut Chain,
    directories: &[Vec<u8>],
    unknown: Unknown,
) -> Result<(), Halt> {
    for level in chain.directories.len()..directories.len() {
        let key = key::dentry(chain.deepest(), SortKey::directory(&directories[level]).as_bytes());
        let found = match unknown {
            Unknown::Ask => match view.record(&key) {
                Err(Halt::Need) => {
                    let numbers = chain.directories.iter().map(|directory| directory.dentry.ino);
                    let numbers: Vec<Ino> = numbers.collect();
                    let below = directories[level + 1..].iter().map(Vec::as_slice);
                    look_ahead(view, &numbers, below);
                    return Err(Halt::Need);
                }
                found => found?,
            },
            Unknown::GuessAbsent => view.guess(&key, None),
        };
        match found {
            Some(value) => chain.directories.push(bound(&key, value)?),
            None => {
                chain.missing = Some(key);
                break;
            }
        }
    }
    debug_assert!(chain.directories.iter().all(|d| d.dentry.kind == Kind::Directory));
    Ok(())
}

/// Requests the dentries of directories below an unknown one, before it is known.
///
/// One PUT creates all missing directories of its path with consecutive inode numbers. So the
/// numbers of the unknown directories can be guessed from that of the last known one. `numbers` are
/// the inode numbers of the known directories, from the top; `below` are the names below the
/// unknown one. A wrong guess costs a read, and a right one saves a round trip. The more of the
/// known numbers are consecutive, the more levels are guessed.
pub(crate) fn look_ahead<'a>(
    view: &mut View<'_>,
    numbers: &[Ino],
    below: impl Iterator<Item = &'a [u8]>,
) {
    let Some(last) = numbers.last() else { return };
    let below: Vec<&[u8]> = below.collect();
    if numbers.len() + 1 + below.len() < AHEAD_FROM {
        return;
    }
    let pairs = numbers.windows(2).rev();
    let followed = pairs.take_while(|pair| pair[0].0.checked_add(1) == Some(pair[1].0)).count();
    // A path of directories with consecutive numbers was probably created by one PUT.
    let levels = (2 * followed).clamp(AHEAD_MIN, AHEAD_MAX);
    for (name, above) in below.iter().take(levels).zip(last.0.saturating_add(1)..u64::MAX) {
        view.prefetch(key::dentry(Ino(above), SortKey::directory(name).as_bytes()));
    }
}

/// Returns true if only keys below it imply the directory, and no program has created it. The plan
/// that removes the last name in such a directory removes the directory, too.
pub(crate) fn is_implied(bound: &Bound) -> bool {
    bound.dentry.origin == Origin::Implied
}
