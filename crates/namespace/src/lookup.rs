//! Looking up the current object of a key, or one of its versions.
//!
//! For example, a GET of `photos/` without an object of that key returns the empty object that
//! represents an empty directory `photos`.

use record::{Dentry, Ino, Inode, Kind, VersionRef, key};
use store::{Guard, Key, Plan, Value};

use crate::path::{self, Chain, Path, Unknown};
use crate::run::{Env, Planner, Step};
use crate::version::KeyVersions;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// An object with its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// The inode number of the object's bucket.
    pub bucket: Ino,
    /// The inode number of the object.
    pub ino: Ino,
    /// The inode of the object. For the object of an empty directory, the inode of the directory.
    pub inode: Inode,
    /// The bytes of the inode's record, for guards.
    pub record: Value,
    /// The dentries (bindings of names to inodes) from the bucket's down to the object's, with keys
    /// and bytes, for guards: while all of them are unchanged, the key leads to this inode. For a
    /// noncurrent version: the bucket's dentry and the version's record.
    pub path_records: Vec<(Key, Value)>,
    /// Its version id; `None` if the bucket does not show versions, also if it has a trash.
    pub version: Option<VersionRef>,
}

/// Looks up an object. One round trip if the directories above it are cached.
///
/// # Errors
/// `NoSuchBucket` if there is no such bucket. Without a version: `NoSuchKey`, or `Deleted` if the
/// newest version is a delete marker. With a version: `NoSuchVersion`, or `IsMarker` if it is a
/// delete marker.
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// The key of the object to look up.
    pub path: &'a Path,
    /// The version to look up; `None` for the current one.
    pub version: Option<VersionRef>,
}

impl Planner for Lookup<'_> {
    type Output = FoundObject;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundObject>, Halt> {
        self.find(view).map(Step::Done)
    }
}

impl Lookup<'_> {
    /// Finds the object for a planner that decides by it. A lookup has nothing to commit.
    pub fn find(&self, view: &mut View<'_>) -> Result<FoundObject, Halt> {
        match self.version {
            Some(version) => self.version(view, version),
            None => match self.current(view) {
                Err(Halt::Fail(FsError::NoSuchKey)) => Err(self.why_missing(view)?.into()),
                found => found,
            },
        }
    }

    fn current(&self, view: &mut View<'_>) -> Result<FoundObject, Halt> {
        let chain = path::chain(view, self.path.bucket(), &self.path.directories, Unknown::Ask)?;
        if chain.missing.is_some() {
            return Err(FsError::NoSuchKey.into());
        }
        let Dentry { ino: bucket, versioning, .. } = chain.bucket.dentry;
        let slot = key::dentry(chain.deepest(), self.path.sort_key().as_bytes());
        let mut path_records: Vec<(Key, Value)> =
            chain.names().map(|bound| (bound.key.clone(), bound.value.clone())).collect();
        let (ino, inode, record, version) = match find(view, &slot)? {
            Some(File { dentry_value, dentry, inode, record }) => {
                path_records.push((slot, dentry_value));
                (dentry.ino, inode, record, dentry.version_in(versioning))
            }
            // An empty directory is an object whose key ends with `/`.
            None if self.path.name.is_empty() => {
                let (ino, inode, record) = empty_directory(view, &chain)?;
                let version = versioning.is_shown().then_some(VersionRef::Null);
                (ino, inode, record, version)
            }
            None => return Err(FsError::NoSuchKey.into()),
        };
        Ok(FoundObject { bucket, ino, inode, record, path_records, version })
    }

    /// Returns the error for a key without a current version: `Deleted` if the newest record of the
    /// key is a delete marker, else `NoSuchKey`. Reads that record if the bucket shows versions.
    fn why_missing(&self, view: &mut View<'_>) -> Result<FsError, Halt> {
        let bucket = path::bucket(view, self.path.bucket())?;
        if !bucket.dentry.versioning.is_shown() {
            return Ok(FsError::NoSuchKey);
        }
        let newest = KeyVersions::new(&bucket.dentry, || self.path.object()).newest(view, 1)?;
        let marker = newest.first().filter(|newest| newest.version.is_marker());
        Ok(marker.map_or(FsError::NoSuchKey, |marker| FsError::Deleted(marker.named())))
    }

    /// Finds a version, which may be the current one.
    fn version(&self, view: &mut View<'_>, version: VersionRef) -> Result<FoundObject, Halt> {
        let bucket = path::bucket(view, self.path.bucket())?;
        let versions = KeyVersions::new(&bucket.dentry, || self.path.object());
        let keeps = bucket.dentry.versioning.is_shown();
        // The version may be current or noncurrent. Both records are requested before either result
        // is used, so that they take one round trip.
        let other = if keeps { versions.find(view, version) } else { Ok(None) };
        match self.current(view) {
            Ok(found) if found.version.unwrap_or(VersionRef::Null) == version => return Ok(found),
            Ok(_) | Err(Halt::Fail(FsError::NoSuchKey)) => {}
            Err(halt) => return Err(halt),
        }
        let other = other?.ok_or(FsError::NoSuchVersion)?;
        let Some(ino) = other.version.ino() else {
            return Err(FsError::IsMarker(version, other.version.since).into());
        };
        let inode_key = key::inode(ino);
        let record = view.record(&inode_key)?.ok_or(FsError::NoSuchVersion)?;
        let inode = decode(&inode_key, &record, Inode::decode)?;
        let path_records = vec![(bucket.key, bucket.value), (other.key, other.value)];
        let (bucket, version) = (bucket.dentry.ino, Some(version));
        Ok(FoundObject { bucket, ino, inode, record, path_records, version })
    }
}

/// A file that was found by the key of its dentry.
pub(crate) struct File {
    /// The bytes of its dentry.
    pub(crate) dentry_value: Value,
    /// Its dentry.
    pub(crate) dentry: Dentry,
    pub(crate) inode: Inode,
    /// The bytes of its inode's record.
    pub(crate) record: Value,
}

/// Finds a file by the key of its dentry. `None` if the name is free or bound to another kind of
/// node.
pub(crate) fn find(view: &mut View<'_>, slot: &Key) -> Result<Option<File>, Halt> {
    let found = view.followed(std::slice::from_ref(slot), &key::dentry_to_inode())?;
    let Some(Some((dentry_value, target))) = found.into_iter().next() else { return Ok(None) };
    let dentry = decode(slot, &dentry_value, Dentry::decode)?;
    if dentry.kind != Kind::File {
        return Ok(None);
    }
    // A dentry and its inode are written and deleted together, so one snapshot has both or neither.
    // Hints of different times may have only one. The error makes an answer read both again, and it
    // prevents a plan that treats the name as free.
    let record = target.ok_or(FsError::NoSuchKey)?;
    let inode = decode(&key::inode(dentry.ino), &record, Inode::decode)?;
    Ok(Some(File { dentry_value, dentry, inode, record }))
}

/// Guards that a key leads to the same dentry, or to none, as it was found.
///
/// `null` names the current version of a key if that has no id, and else a noncurrent one. So a
/// plan that changes a noncurrent null version needs this guard: a program may have moved a
/// directory with a current null version to the key.
pub(crate) fn guard_name(view: &mut View<'_>, path: &Path, plan: &mut Plan) -> Result<(), Halt> {
    let chain = path::chain(view, path.bucket(), &path.directories, Unknown::Ask)?;
    let mut guards: Vec<Guard> = chain.guards().collect();
    if chain.missing.is_none() {
        let slot = key::dentry(chain.deepest(), path.sort_key().as_bytes());
        let found = view.followed(std::slice::from_ref(&slot), &key::dentry_to_inode())?;
        guards.push(match found.into_iter().next().flatten() {
            Some((dentry, _)) => Guard::Equals(slot, dentry),
            None => Guard::Absent(slot),
        });
    }
    for guard in guards {
        if !plan.guards.contains(&guard) {
            plan.guards.push(guard);
        }
    }
    Ok(())
}

/// Finds the object `a/` that represents an empty directory `a`. Fails with `NoSuchKey` if the
/// directory has names.
fn empty_directory(view: &mut View<'_>, chain: &Chain) -> Result<(Ino, Inode, Value), Halt> {
    let Some(directory) = chain.directories.last() else { return Err(FsError::NoSuchKey.into()) };
    let ino = directory.dentry.ino;
    let (start, end) = key::dentries(ino);
    let children = view.range(start, end, 1)?;
    let inode_key = key::inode(ino);
    match view.record(&inode_key)? {
        Some(record) if children.is_empty() => {
            let inode = decode(&inode_key, &record, Inode::decode)?;
            Ok((ino, inode, record))
        }
        _ => Err(FsError::NoSuchKey.into()),
    }
}
