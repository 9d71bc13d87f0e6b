//! Names: dentries, and their order.
//!
//! For example, the keys `a`, `a.txt` and `a/b` have the dentries `a`, `a.txt` and `a/` in the
//! bucket, sorted in this order, because `.` is less than `/`. So a depth-first walk over dentries
//! returns keys in S3's order.

use crate::codec::{DecodeError, record};
use crate::{Ino, VersionRef, VersionStamp, Versioning};

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory = 1,
    /// A regular file.
    File = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A device, socket or FIFO. Only mounts show it.
    Special = 4,
}

/// The reason why a directory exists, which decides when it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A key below the directory implied it, as `a/b` implies `a`. It is removed with the last key
    /// below it.
    Implied = 0,
    /// A client or program created the directory. Only a client or program removes it.
    Made = 1,
}

/// The limits of a bucket, which plans compare with the bucket's counters. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The most bytes that the files of the bucket may have together.
    pub bytes: Option<u64>,
    /// The most names that the files of the bucket may have together.
    pub objects: Option<u64>,
}

impl Quota {
    /// A quota without limits.
    pub const NONE: Quota = Quota { bytes: None, objects: None };
}

/// The record of a name in a directory: it binds the name to an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dentry {
    /// The number of the inode to which the name is bound.
    pub ino: Ino,
    /// The kind of the node.
    pub kind: Kind,
    /// The reason why a directory exists. Always `Origin::Made` for other nodes.
    pub origin: Origin,
    /// The size in bytes of a *self-contained* file: a regular file with its content in its inode's
    /// record, one name, and no other records. The removal of such a name deletes the inode without
    /// reading it. `None` if the file is not marked as self-contained.
    pub self_contained: Option<u64>,
    /// True if the node has, or had, other names. The removal of such a name must read the number
    /// of names from the inode.
    pub linked: bool,
    /// For the dentry of a file: the id of its version; `None` for the null version, which was
    /// written while versioning was not enabled.
    pub version: Option<VersionStamp>,
    /// For the dentry of a bucket: its versioning state. Each plan that binds or removes a key in
    /// the bucket guards this record.
    pub versioning: Versioning,
    /// For the dentry of a bucket: true if the bucket has object lock. Then its versioning stays
    /// enabled permanently.
    pub locks: bool,
    /// For the dentry of a bucket: its limits. Each plan that adds bytes or names to the bucket
    /// reads this record.
    pub quota: Quota,
    /// For the dentry of a bucket: true if the bucket has a default encryption. Then plans that
    /// create a file read it from the bucket's settings.
    pub encrypts: bool,
}

/// A bit next to the origin: the dentry has the size of a self-contained file.
const SELF_CONTAINED: u8 = 2;

/// A bit next to the origin: the node may have other names.
const LINKED: u8 = 4;

/// A bit next to a bucket's versioning state: the bucket has object lock.
const LOCKS: u8 = 4;

/// A bit next to a bucket's versioning state: the bucket has a quota.
const QUOTA: u8 = 8;

/// A bit next to a bucket's versioning state: the bucket has a default encryption.
const ENCRYPTS: u8 = 32;

/// A bit next to the origin: the file has a version id, or the bucket has a versioning state or
/// quota.
const VERSIONED: u8 = 8;

impl Dentry {
    /// The offset of the inode number in the record's bytes. A read that continues from a dentry to
    /// its inode finds the number there; see `crate::key::dentry_to_inode`.
    pub(crate) const INO_OFFSET: u8 = 2;

    /// The dentry of a new regular file.
    pub const fn file(ino: Ino) -> Dentry {
        Dentry::of(ino, Kind::File)
    }

    /// The version id of a file as clients see it, in a bucket of this versioning state. `None` if
    /// such a bucket does not show versions.
    pub fn version_in(&self, bucket: Versioning) -> Option<VersionRef> {
        match (bucket, self.version) {
            (Versioning::Off | Versioning::Trash, _) => None,
            (_, None) => Some(VersionRef::Null),
            (_, Some(id)) => Some(VersionRef::Id(id)),
        }
    }

    /// The first dentry of a node of this kind that a client or program has created.
    pub const fn of(ino: Ino, kind: Kind) -> Dentry {
        Dentry {
            ino,
            kind,
            origin: Origin::Made,
            self_contained: None,
            linked: false,
            version: None,
            versioning: Versioning::Off,
            locks: false,
            quota: Quota::NONE,
            encrypts: false,
        }
    }

    /// The dentry of a new directory.
    pub const fn directory(ino: Ino, origin: Origin) -> Dentry {
        Dentry { origin, ..Dentry::of(ino, Kind::Directory) }
    }
}

record!(
    Dentry,
    1,
    |this, to| {
        let has_size = this.self_contained.map_or(0, |_| SELF_CONTAINED);
        let linked = if this.linked { LINKED } else { 0 };
        // Most dentries are short: a bucket without versions and quota has no byte for them, like
        // any other directory.
        let (keeps, bounded) = (this.versioning.keeps(), this.quota != Quota::NONE);
        let has_settings = keeps || bounded || this.encrypts;
        let versioned = if this.version.is_some() || has_settings { VERSIONED } else { 0 };
        // The inode number follows the first byte, so that a read can follow it at a fixed offset
        // ([`Dentry::INO_OFFSET`]).
        to.u8(this.kind as u8 | (this.origin as u8 | has_size | linked | versioned) << 4)
            .fixed(&this.ino.0.to_be_bytes());
        if let Some(bytes) = this.self_contained {
            to.varint(bytes);
        }
        if let Some(version) = this.version {
            to.fixed(&version.0);
        }
        if has_settings {
            let locks = if this.locks { LOCKS } else { 0 };
            let encrypts = if this.encrypts { ENCRYPTS } else { 0 };
            let quota = if bounded { QUOTA } else { 0 };
            to.u8(this.versioning as u8 | locks | quota | encrypts);
        }
        if bounded {
            for most in [this.quota.bytes, this.quota.objects] {
                to.u8(most.is_some().into()).varint(most.unwrap_or(0));
            }
        }
    },
    |from| {
        let bits = from.u8("kind")?;
        let kind = match bits & 0x0f {
            1 => Kind::Directory,
            2 => Kind::File,
            3 => Kind::Symlink,
            4 => Kind::Special,
            _ => return Err(DecodeError::Field("kind")),
        };
        let has_size = bits >> 4 & SELF_CONTAINED != 0;
        let linked = bits >> 4 & LINKED != 0;
        // A linked file or a directory is never self-contained.
        if has_size && (kind != Kind::File || linked) {
            return Err(DecodeError::Field("kind"));
        }
        let versioned = bits >> 4 & VERSIONED != 0;
        let origin = match bits >> 4 & !(SELF_CONTAINED | LINKED | VERSIONED) {
            0 => Origin::Implied,
            1 => Origin::Made,
            _ => return Err(DecodeError::Field("origin")),
        };
        let ino = Ino(u64::from_be_bytes(from.fixed("inode")?));
        let self_contained = if has_size { Some(from.varint("bytes")?) } else { None };
        // The same bit means a version id for a file, and settings for a bucket.
        let (mut version, mut versioning, mut locks) = (None, Versioning::Off, false);
        let (mut quota, mut encrypts) = (Quota::NONE, false);
        match kind {
            Kind::File if versioned => version = Some(VersionStamp(from.fixed("version")?)),
            Kind::Directory if versioned => {
                let bits = from.u8("versioning")?;
                versioning = Versioning::of(bits & !(LOCKS | QUOTA | ENCRYPTS))?;
                locks = bits & LOCKS != 0;
                encrypts = bits & ENCRYPTS != 0;
                let bounded = bits & QUOTA != 0;
                let is_empty = versioning == Versioning::Off && !bounded && !encrypts;
                // Each dentry has exactly one encoding: a byte for settings without any setting is
                // refused.
                if is_empty || (locks && versioning != Versioning::Enabled) {
                    return Err(DecodeError::Field("versioning"));
                }
                if bounded {
                    for most in [&mut quota.bytes, &mut quota.objects] {
                        *most = match (from.u8("quota")?, from.varint("quota")?) {
                            (0, 0) => None,
                            (1, number) => Some(number),
                            _ => return Err(DecodeError::Field("quota")),
                        };
                    }
                    // A quota without limits is written as no quota.
                    if quota == Quota::NONE {
                        return Err(DecodeError::Field("quota"));
                    }
                }
            }
            _ if versioned => return Err(DecodeError::Field("kind")),
            Kind::Directory | Kind::File | Kind::Symlink | Kind::Special => {}
        }
        Dentry {
            ino,
            kind,
            origin,
            self_contained,
            linked,
            version,
            versioning,
            locks,
            quota,
            encrypts,
        }
    }
);

/// The sorted form of a name in a dentry's key: the name of a file, the name of a directory and
/// `/`, or nothing for the object whose key ends with its directory's `/`.
///
/// The byte order of sort keys in a depth-first walk is the order of object keys. A file and a
/// directory of one name have two dentries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

impl SortKey {
    /// The sort key of a node that is not a directory; empty for the object `a/` in directory `a`.
    ///
    /// # Panics
    /// If the name contains `/`: a name is one component.
    pub fn file(name: &[u8]) -> SortKey {
        assert!(!name.contains(&b'/'), "a name is one component");
        SortKey(name.to_vec())
    }

    /// The sort key of a directory.
    ///
    /// # Panics
    /// If the name contains `/`: a name is one component.
    pub fn directory(name: &[u8]) -> SortKey {
        assert!(!name.contains(&b'/'), "a name is one component");
        SortKey([name, b"/"].concat())
    }

    /// The bytes of the sort key, which follow the parent's number in a dentry's key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for SortKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
