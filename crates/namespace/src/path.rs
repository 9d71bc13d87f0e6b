//! Paths: how an object's key names directories and a file.

use record::{Dentry, Ino, Kind, Origin, SortKey, key};
use store::{Guard, Key, Value};

use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The most directories of a key. One plan removes all of them with the last key below them, and it
/// must be small enough for every engine.
pub const DIRECTORIES_MAX: usize = 512;

/// A bucket as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Which one it must be, if the request has looked at one before, say at what it lets others do.
    /// Another one that has got the name since is not there for that request.
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

/// An object's key, cut at its slashes. Every key that S3 allows has one path, and no two share it:
/// nothing is cleaned, so `a//b`, `/a`, `.` and `..` are names like any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The bucket's name.
    pub bucket: Vec<u8>,
    /// Which bucket that must be: [`NamedBucket::ino`].
    pub bucket_ino: Option<Ino>,
    /// The directories, from the bucket down.
    pub directories: Vec<Vec<u8>>,
    /// The file; empty for a key that ends with `/`.
    pub name: Vec<u8>,
}

impl Path {
    /// Cuts a key.
    pub fn new<'a>(bucket: impl Into<NamedBucket<'a>>, object: &[u8]) -> Path {
        let NamedBucket { name: bucket, ino: bucket_ino } = bucket.into();
        let mut components: Vec<Vec<u8>> =
            object.split(|b| *b == b'/').map(<[u8]>::to_vec).collect();
        let name = components.pop().unwrap_or_default();
        Path { bucket: bucket.to_vec(), bucket_ino, directories: components, name }
    }

    /// The bucket.
    pub fn bucket(&self) -> NamedBucket<'_> {
        NamedBucket { name: &self.bucket, ino: self.bucket_ino }
    }

    /// The key that it was cut from.
    pub fn object(&self) -> Vec<u8> {
        object_key(&self.directories, &self.name)
    }

    /// The file's name as it sorts.
    pub fn sort_key(&self) -> SortKey {
        SortKey::file(&self.name)
    }
}

/// The key of an object, of its directories and its name.
pub(crate) fn object_key(directories: &[Vec<u8>], name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(directories.iter().map(|it| it.len() + 1).sum::<usize>());
    for directory in directories {
        key.extend_from_slice(directory);
        key.push(b'/');
    }
    key.extend_from_slice(name);
    key
}

/// A dentry, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) key: Key,
    pub(crate) value: Value,
    pub(crate) dentry: Dentry,
}

impl Bound {
    /// The guard that this binding still stands.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.value.clone())
    }

    /// Whether the name is a file's, which is an object.
    pub(crate) fn is_file(&self) -> bool {
        self.dentry.kind == Kind::File
    }

    /// Whether the name is a directory's.
    pub(crate) fn is_directory(&self) -> bool {
        self.dentry.kind == Kind::Directory
    }
}

/// A bucket and the directories of a path, as far as they exist.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) bucket: Bound,
    pub(crate) directories: Vec<Bound>,
    /// The first directory that does not exist: the key its dentry would have.
    pub(crate) missing: Option<Key>,
}

impl Chain {
    /// The deepest directory that exists.
    pub(crate) fn deepest(&self) -> Ino {
        self.directories.last().unwrap_or(&self.bucket).dentry.ino
    }

    /// The bucket and the directories that exist, from the bucket down.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Bound> {
        std::iter::once(&self.bucket).chain(&self.directories)
    }

    /// The guards that the chain still stands, the absence of what is missing included.
    pub(crate) fn guards(&self) -> impl Iterator<Item = Guard> {
        self.names().map(Bound::guard).chain(self.missing.clone().map(Guard::Absent))
    }
}

/// What to assume of a directory about which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Ask the store.
    Ask,
    /// It is not there, as most likely when all above it is known.
    GuessAbsent,
}

/// Keys of so many directories are asked for several levels at a time.
const AHEAD_FROM: usize = 8;

/// The least and the most levels that are asked for ahead of the first that is not known.
const AHEAD_MIN: usize = 4;
const AHEAD_MAX: usize = 256;

pub(crate) fn bound(key: &Key, value: Value) -> Result<Bound, Halt> {
    let dentry = decode(key, &value, Dentry::decode)?;
    Ok(Bound { key: key.clone(), value, dentry })
}

/// Finds a bucket.
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

/// Finds a bucket and the directories of a path below it, as far as they exist.
pub(crate) fn chain<'a>(
    view: &mut View<'_>,
    named: impl Into<NamedBucket<'a>>,
    directories: &[Vec<u8>],
    unknown: Unknown,
) -> Result<Chain, Halt> {
    let bucket = bucket(view, named)?;
    let mut chain = Chain { bucket, directories: Vec::new(), missing: None };
    // In a long path each wrong guess would find only one directory more.
    let asks = view.was_refused() && directories.len() >= AHEAD_FROM;
    let unknown = if asks { Unknown::Ask } else { unknown };
    descend(view, &mut chain, directories, unknown)?;
    Ok(chain)
}

/// Goes on from the directories of a path that are found already, as far as there are more.
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

/// Asks for directories below one that is not known, assuming that one PUT made all of them: then
/// their numbers follow each other. `numbers` are those of the directories above, from the top;
/// `below` are the names below the unknown one. A wrong guess costs a question, and a right one
/// saves a round trip. So the more of the numbers above follow each other, the more are guessed.
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
    let levels = (2 * followed).clamp(AHEAD_MIN, AHEAD_MAX);
    for (name, above) in below.iter().take(levels).zip(last.0.saturating_add(1)..u64::MAX) {
        view.suggest(key::dentry(Ino(above), SortKey::directory(name).as_bytes()));
    }
}

/// Whether a directory goes with its last name.
pub(crate) fn is_implied(bound: &Bound) -> bool {
    bound.dentry.origin == Origin::Implied
}
