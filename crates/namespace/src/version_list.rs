//! Listing versions: those that are not current, of all keys of a bucket, in the order of keys.

use record::{Ino, InodeHead, NullVersion, Timestamp, VersionRef, VersionStamp, Versioning, key};
use store::{Key, Read};

use crate::Halt;
use crate::list::successor;
use crate::path::{self, NamedBucket, Path, Unknown};
use crate::run::{Env, Planner, Step};
use crate::version::Noncurrent;
use crate::view::after;
use crate::view::{View, decode};

/// A version that is not the current one, or a delete marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    /// Its key.
    pub object: Vec<u8>,
    /// How clients name it, unless `null` names the current version of the key: then its id names it.
    pub version: VersionRef,
    /// Where it stands among the versions of its key.
    pub id: VersionStamp,
    /// When another one took its place, or the marker was made.
    pub since: Timestamp,
    /// When a pass over the trash first saw it.
    pub seen: Option<Timestamp>,
    /// Its inode's number; none for a marker.
    pub ino: Option<Ino>,
    /// What its inode says; none for a marker.
    pub inode: Option<InodeHead>,
}

/// Where a page of versions begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionsFrom {
    /// At the first key that is not less than this.
    Key(Vec<u8>),
    /// Behind a version of a key.
    Version(Vec<u8>, VersionRef),
}

/// A page of versions that are not current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionsPage {
    /// Whether the bucket keeps versions.
    pub versioning: Versioning,
    /// True if the page begins behind a version of a key whose current version is the null version.
    pub behind_null: bool,
    /// The versions, by key, the newest of each first.
    pub versions: Vec<ListedVersion>,
}

/// Lists versions that are not current: one round trip, and one more if the page begins behind a version,
/// which may be the current one.
#[derive(Clone, Debug)]
pub struct ReadVersions<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// What their keys begin with.
    pub prefix: &'a [u8],
    /// Where the page begins.
    pub from: &'a VersionsFrom,
    /// The most to answer.
    pub limit: u32,
    /// Which.
    pub kind: NoncurrentKind,
}

/// What a bucket keeps that its keys were bound to. No bucket keeps both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoncurrentKind {
    /// Versions, as S3 shows them.
    Versions,
    /// What is in its trash.
    Trash,
}

impl Planner for ReadVersions<'_> {
    type Output = VersionsPage;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<VersionsPage>, Halt> {
        let bucket = path::bucket(view, self.bucket)?.dentry;
        let (versioning, versions) = (bucket.versioning, Vec::new());
        let mut page = VersionsPage { versioning, behind_null: false, versions };
        let is_asked_for = match self.kind {
            NoncurrentKind::Versions => bucket.versioning.is_shown(),
            NoncurrentKind::Trash => bucket.versioning == Versioning::Trash,
        };
        if !is_asked_for || self.limit == 0 {
            return Ok(Step::Done(page));
        }
        let of = |suffix: &[u8]| Key::new(key::space::VERSION, bucket.ino.0, suffix);
        let end = successor(self.prefix).map_or(key::versions(bucket.ino).1, |next| of(&next));
        let current = self.current(view)?;
        page.behind_null = current == Some(VersionRef::Null);
        let start = self.start(view, bucket.ino, current)?.max(of(self.prefix));
        if start >= end {
            return Ok(Step::Done(page));
        }
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
    /// The first key of the page. `current` is the current version of the key that it begins in.
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
            // All others are behind it. A directory that was moved may bring a current version that is
            // older than noncurrent ones, or that is a second null version.
            version if current == Some(*version) => {
                return Ok(key::versions_of(bucket, object).0);
            }
            VersionRef::Id(id) => *id,
            VersionRef::Null => {
                let null_at = key::null_version(bucket, object);
                match view.record(&null_at)? {
                    Some(value) => decode(&null_at, &value, NullVersion::decode)?.0,
                    // It has gone.
                    None => return Ok(key::versions_of(bucket, object).0),
                }
            }
        };
        Ok(after(&key::version(bucket, object, id)))
    }

    /// The current version of the key that the page begins in, if it begins behind a version.
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
