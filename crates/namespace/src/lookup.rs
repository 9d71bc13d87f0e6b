//! Looking objects up: the current one of a key, or a version.

use record::{Dentry, Ino, Inode, Kind, VersionRef, key};
use store::{Key, Value};

use crate::path::{self, Chain, Path, Unknown};
use crate::run::{Env, Planner, Step};
use crate::version::KeyVersions;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// An object as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// The bucket it is in.
    pub bucket: Ino,
    /// Its inode's number.
    pub ino: Ino,
    /// Its inode. A directory's for the object that stands for an empty directory.
    pub inode: Inode,
    /// The inode's record, for guards.
    pub record: Value,
    /// The dentries that led to it, from the bucket's down, for guards: where each of them stands
    /// as it is, the key leads to this inode. Of a version that is not the current one: the bucket's,
    /// and the version's record.
    pub path_records: Vec<(Key, Value)>,
    /// Which version of its key it is, if the bucket keeps any.
    pub version: Option<VersionRef>,
}

/// Looks an object up: one round trip when the directories above it are remembered.
///
/// # Errors
/// `NoSuchKey`, or `Deleted` if a marker says so; with a version `NoSuchVersion`, and `IsMarker` if it
/// is a marker.
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// Where.
    pub path: &'a Path,
    /// Which version; none for the current one.
    pub version: Option<VersionRef>,
}

impl Planner for Lookup<'_> {
    type Output = FoundObject;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundObject>, Halt> {
        match self.version {
            Some(version) => self.version(view, version).map(Step::Done),
            None => match self.current(view) {
                Err(Halt::Fail(FsError::NoSuchKey)) => Err(self.why_missing(view)?.into()),
                found => found.map(Step::Done),
            },
        }
    }
}

impl Lookup<'_> {
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
            Some(File { name, dentry, inode, record }) => {
                path_records.push((slot, name));
                (dentry.ino, inode, record, dentry.version_in(versioning))
            }
            None if self.path.name.is_empty() => {
                let (ino, inode, record) = empty_directory(view, &chain)?;
                let version = versioning.is_shown().then_some(VersionRef::Null);
                (ino, inode, record, version)
            }
            None => return Err(FsError::NoSuchKey.into()),
        };
        Ok(FoundObject { bucket, ino, inode, record, path_records, version })
    }

    /// Why there is no current version.
    fn why_missing(&self, view: &mut View<'_>) -> Result<FsError, Halt> {
        let bucket = path::bucket(view, self.path.bucket())?;
        if !bucket.dentry.versioning.is_shown() {
            return Ok(FsError::NoSuchKey);
        }
        let newest = KeyVersions::new(&bucket.dentry, || self.path.object()).newest(view, 1)?;
        let marker = newest.first().filter(|newest| newest.version.is_marker());
        Ok(marker.map_or(FsError::NoSuchKey, |marker| FsError::Deleted(marker.named())))
    }

    /// Finds a version, whether it is the current one or not.
    fn version(&self, view: &mut View<'_>, version: VersionRef) -> Result<FoundObject, Halt> {
        let bucket = path::bucket(view, self.path.bucket())?;
        let versions = KeyVersions::new(&bucket.dentry, || self.path.object());
        let keeps = bucket.dentry.versioning.is_shown();
        // Both places are asked for at once.
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

/// A file as found by name.
pub(crate) struct File {
    /// Its dentry's bytes.
    pub(crate) name: Value,
    /// What they say.
    pub(crate) dentry: Dentry,
    pub(crate) inode: Inode,
    /// Its inode's bytes.
    pub(crate) record: Value,
}

/// A file by its dentry's key, with its inode.
pub(crate) fn find(view: &mut View<'_>, slot: &Key) -> Result<Option<File>, Halt> {
    let found = view.followed(std::slice::from_ref(slot), &key::dentry_to_inode())?;
    let Some(Some((name, target))) = found.into_iter().next() else { return Ok(None) };
    let dentry = decode(slot, &name, Dentry::decode)?;
    if dentry.kind != Kind::File {
        return Ok(None);
    }
    // A name is bound and unbound together with its inode, so one snapshot has both or neither.
    // What was pieced together from hints may have one alone. An error makes that be read anew,
    // and no plan is made as if there were no file.
    let record = target.ok_or(FsError::NoSuchKey)?;
    let inode = decode(&key::inode(dentry.ino), &record, Inode::decode)?;
    Ok(Some(File { name, dentry, inode, record }))
}

/// The object `a/` that stands for directory `a` when nothing is in it.
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
