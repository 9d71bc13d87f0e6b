//! Listing the noncurrent versions of a bucket, or the items of its trash, in the order of keys.
//!
//! For example, a listing of versions with the prefix `photos/` reads the range of version records
//! that begin with it. The caller merges the result with a listing of the current objects.

use record::{Ino, InodeHead, NullVersion, Timestamp, VersionRef, VersionStamp, Versioning, key};
use store::{Key, Read};

use crate::Halt;
use crate::list::successor;
use crate::path::{self, NamedBucket, Path, Unknown};
use crate::run::{Env, Planner, Step};
use crate::version::Noncurrent;
use crate::view::after;
use crate::view::{View, decode};

/// A noncurrent version, a delete marker, or an item of a trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    /// The object key of the version.
    pub object: Vec<u8>,
    /// The version id that clients use. If it is `null` and the current version of the key is the
    /// null version, too, clients use `id` instead.
    pub version: VersionRef,
    /// The id in the key of its record, which gives the order among the versions of the object key.
    pub id: VersionStamp,
    /// The time at which the version became noncurrent or an item of the trash, or at which the
    /// delete marker was created.
    pub since: Timestamp,
    /// For an item of a trash: the time at which a pass over the trash first saw it; `None` before
    /// the first pass and for all others.
    pub seen: Option<Timestamp>,
    /// The inode number of the version; `None` for a delete marker.
    pub ino: Option<Ino>,
    /// The head of the version's inode: the first fields, with times, size and entity tag. `None`
    /// for a delete marker, or if the inode is missing.
    pub inode: Option<InodeHead>,
}

/// The start of a page of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionsFrom {
    /// The first version whose object key is not less than this.
    Key(Vec<u8>),
    /// The version that follows this version of this object key.
    Version(Vec<u8>, VersionRef),
}

/// A page of noncurrent versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionsPage {
    /// The versioning state of the bucket.
    pub versioning: Versioning,
    /// True if the page starts after a version of a key whose current version is the null version.
    /// Then another null version of this key in the page is shown by its id.
    pub behind_null: bool,
    /// The versions, sorted by key, newest first.
    pub versions: Vec<ListedVersion>,
}

/// Lists noncurrent versions. It takes one round trip, and one more if the page starts after a
/// version, because that version may be the current one.
///
/// Fails with `NoSuchBucket`.
#[derive(Clone, Debug)]
pub struct ReadVersions<'a> {
    /// The bucket to list.
    pub bucket: NamedBucket<'a>,
    /// The prefix of the object keys to list.
    pub prefix: &'a [u8],
    /// The place at which the page starts.
    pub from: &'a VersionsFrom,
    /// The most versions of the page.
    pub limit: u32,
    /// The kind of records to list. If the bucket has the other kind, the page is empty.
    pub kind: NoncurrentKind,
}

/// The meaning of a bucket's version records. No bucket has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoncurrentKind {
    /// Noncurrent versions, which S3 shows.
    Versions,
    /// Items of the trash, which S3 does not show.
    Trash,
}

impl Planner for ReadVersions<'_> {
    type Output = VersionsPage;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<VersionsPage>, Halt> {
        let bucket = path::bucket(view, self.bucket)?.dentry;
        let (versioning, versions) = (bucket.versioning, Vec::new());
        let mut page = VersionsPage { versioning, behind_null: false, versions };
        let is_of_kind = match self.kind {
            NoncurrentKind::Versions => bucket.versioning.is_shown(),
            NoncurrentKind::Trash => bucket.versioning == Versioning::Trash,
        };
        if !is_of_kind || self.limit == 0 {
            return Ok(Step::Done(page));
        }
        let of = |suffix: &[u8]| Key::new(key::space::VERSION, bucket.ino.0, suffix);
        // Record keys begin with the object key, so a prefix of object keys is a range.
        let end = successor(self.prefix).map_or(key::versions(bucket.ino).1, |next| of(&next));
        let current = self.current(view)?;
        page.behind_null = current == Some(VersionRef::Null);
        let start = self.start(view, bucket.ino, current)?.max(of(self.prefix));
        if start >= end {
            return Ok(Step::Done(page));
        }
        // A version record has the inode number at the same offset as a dentry.
        let follow = Some(key::dentry_to_head());
        let range = Read::Range { start, end, limit: self.limit, follow };
        for entry in view.ranges(&[range])?.into_iter().flatten() {
            let head = entry.target;
            let found = Noncurrent::of(entry.key, entry.value)?;
            let ino = found.version.ino();
            let inode = match (ino, head.first_bytes()) {
                (Some(ino), Some(bytes)) => {
                    Some(decode(&key::inode(ino), bytes, InodeHead::decode)?)
                }
                _ => None,
            };
            let Some((object, id)) = key::version_parts(&found.key) else { continue };
            page.versions.push(ListedVersion {
                object: object.to_vec(),
                version: found.named(),
                id,
                since: found.version.since,
                seen: found.version.seen,
                ino,
                inode,
            });
        }
        Ok(Step::Done(page))
    }
}

impl ReadVersions<'_> {
    /// Returns the first record key of the page. `current` is the current version of the key in
    /// which the page starts.
    fn start(
        &self,
        view: &mut View<'_>,
        bucket: Ino,
        current: Option<VersionRef>,
    ) -> Result<Key, Halt> {
        let (object, version) = match self.from {
            VersionsFrom::Key(key) => {
                return Ok(Key::new(key::space::VERSION, bucket.0, key));
            }
            VersionsFrom::Version(object, version) => (object, version),
        };
        let id = match version {
            // All noncurrent versions follow the current one, also those that seem newer: a
            // directory that was moved here may contain an older current version.
            version if current == Some(*version) => {
                return Ok(key::versions_of(bucket, object).0);
            }
            VersionRef::Id(id) => *id,
            VersionRef::Null => {
                let null_at = key::null_version(bucket, object);
                match view.record(&null_at)? {
                    Some(value) => decode(&null_at, &value, NullVersion::decode)?.0,
                    // The null version was removed since the page before. The page starts at the
                    // key again.
                    None => return Ok(key::versions_of(bucket, object).0),
                }
            }
        };
        Ok(after(&key::version(bucket, object, id)))
    }

    /// Returns the current version of the key in which the page starts. Returns `None` if the page
    /// does not start after a version, or lists a trash.
    fn current(&self, view: &mut View<'_>) -> Result<Option<VersionRef>, Halt> {
        let (VersionsFrom::Version(object, _), NoncurrentKind::Versions) = (self.from, self.kind)
        else {
            return Ok(None);
        };
        let path = Path::new(self.bucket, object);
        let chain = path::chain(view, path.bucket(), &path.directories, Unknown::Ask)?;
        if chain.missing.is_some() {
            return Ok(None);
        }
        let slot = key::dentry(chain.deepest(), path.sort_key().as_bytes());
        let Some(value) = view.record(&slot)? else { return Ok(None) };
        let bound = path::bound(&slot, value)?;
        let version = bound.dentry.version.map_or(VersionRef::Null, VersionRef::Id);
        Ok(bound.is_file().then_some(version))
    }
}
