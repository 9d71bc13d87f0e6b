//! Names: dentries, and how they sort.

use crate::codec::{DecodeError, record};
use crate::{Ino, VersionRef, VersionStamp, Versioning};

/// What a dentry binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory = 1,
    /// A regular file.
    File = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A device, socket or FIFO; only the file view shows it.
    Special = 4,
}

/// Why a directory exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A deeper key implied it; it goes with the last of them.
    Implied = 0,
    /// Somebody made it; only they remove it.
    Made = 1,
}

/// How much a bucket may hold, as its counters count it; nothing that is `None` is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Names of files in it.
    pub objects: Option<u64>,
}

impl Quota {
    /// No bounds.
    pub const NONE: Quota = Quota { bytes: None, objects: None };
}

/// A binding of a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dentry {
    /// The inode it binds.
    pub ino: Ino,
    /// What that is.
    pub kind: Kind,
    /// Why it exists. Always [`Origin::Made`] but for directories.
    pub origin: Origin,
    /// The bytes of a regular file that is nothing but its inode and stays so: inline content, one
    /// name, no parts. Whoever removes the name needs no more of the inode, which is large. `None`
    /// says nothing of the file.
    pub self_contained: Option<u64>,
    /// Whether what it binds has, or had, other names too: whoever removes this one must look at how
    /// many are left.
    pub linked: bool,
    /// Which version of its key a file is; none for the null version.
    pub version: Option<VersionStamp>,
    /// Of a bucket: whether it keeps versions. Whoever binds or removes a key guards this record.
    pub versioning: Versioning,
    /// Of a bucket: whether its objects may be locked. Then it keeps versions for good.
    pub locks: bool,
    /// Of a bucket: how much it may hold. Whoever binds a key guards this record.
    pub quota: Quota,
}

/// The bit beside the origin that says how many bytes a self-contained file has.
const SELF_CONTAINED: u8 = 2;

/// The bit beside it that says that there may be other names.
const LINKED: u8 = 4;

/// The bit beside a bucket's versioning that says that its objects may be locked.
const LOCKS: u8 = 4;

/// The bit beside it that says that it has a quota.
const QUOTA: u8 = 8;

/// The bit beside it that says that a file has a version id, or a bucket keeps versions or
/// has a quota.
const VERSIONED: u8 = 8;

impl Dentry {
    /// Where in the record the inode's number stands, for [`crate::key::dentry_to_inode`].
    pub(crate) const INO_OFFSET: u8 = 2;

    /// A file's binding.
    pub const fn file(ino: Ino) -> Dentry {
        Dentry::of(ino, Kind::File)
    }

    /// How clients are told of the file as a version of its key; nothing in a bucket that never kept
    /// versions.
    pub fn version_in(&self, bucket: Versioning) -> Option<VersionRef> {
        match (bucket, self.version) {
            (Versioning::Off | Versioning::Trash, _) => None,
            (_, None) => Some(VersionRef::Null),
            (_, Some(id)) => Some(VersionRef::Id(id)),
        }
    }

    /// The first binding of anything that somebody made.
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
        }
    }

    /// A directory's binding.
    pub const fn directory(ino: Ino, origin: Origin) -> Dentry {
        Dentry { origin, ..Dentry::of(ino, Kind::Directory) }
    }
}

record!(
    Dentry,
    1,
    |this, to| {
        let told = this.self_contained.map_or(0, |_| SELF_CONTAINED);
        let linked = if this.linked { LINKED } else { 0 };
        let (keeps, bounded) = (this.versioning.keeps(), this.quota != Quota::NONE);
        let versioned = if this.version.is_some() || keeps || bounded { VERSIONED } else { 0 };
        to.u8(this.kind as u8 | (this.origin as u8 | told | linked | versioned) << 4)
            .fixed(&this.ino.0.to_be_bytes());
        if let Some(bytes) = this.self_contained {
            to.varint(bytes);
        }
        if let Some(version) = this.version {
            to.fixed(&version.0);
        }
        if keeps || bounded {
            let locks = if this.locks { LOCKS } else { 0 };
            to.u8(this.versioning as u8 | locks | if bounded { QUOTA } else { 0 });
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
        let says_bytes = bits >> 4 & SELF_CONTAINED != 0;
        let linked = bits >> 4 & LINKED != 0;
        if says_bytes && (kind != Kind::File || linked) {
            return Err(DecodeError::Field("kind"));
        }
        let versioned = bits >> 4 & VERSIONED != 0;
        let origin = match bits >> 4 & !(SELF_CONTAINED | LINKED | VERSIONED) {
            0 => Origin::Implied,
            1 => Origin::Made,
            _ => return Err(DecodeError::Field("origin")),
        };
        let ino = Ino(u64::from_be_bytes(from.fixed("inode")?));
        let self_contained = if says_bytes { Some(from.varint("bytes")?) } else { None };
        let (mut version, mut versioning, mut locks) = (None, Versioning::Off, false);
        let mut quota = Quota::NONE;
        match kind {
            Kind::File if versioned => version = Some(VersionStamp(from.fixed("version")?)),
            Kind::Directory if versioned => {
                let bits = from.u8("versioning")?;
                versioning = Versioning::of(bits & !(LOCKS | QUOTA))?;
                locks = bits & LOCKS != 0;
                let bounded = bits & QUOTA != 0;
                let says_nothing = versioning == Versioning::Off && !bounded;
                if says_nothing || (locks && versioning != Versioning::Enabled) {
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
                    if quota == Quota::NONE {
                        return Err(DecodeError::Field("quota"));
                    }
                }
            }
            _ if versioned => return Err(DecodeError::Field("kind")),
            _ => {}
        }
        Dentry { ino, kind, origin, self_contained, linked, version, versioning, locks, quota }
    }
);

/// A dentry's name as the store sorts it: a file's name as it is, a directory's with `/` behind
/// it, and nothing for the object whose key ends where its directory's does.
///
/// Byte order of sort keys, depth first, is the order of object keys; a file and a directory of one
/// name are two dentries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

impl SortKey {
    /// The sort key of anything that is not a directory; empty for the object `a/` in directory
    /// `a`.
    ///
    /// # Panics
    /// If the name holds a `/`: it is one component.
    pub fn file(name: &[u8]) -> SortKey {
        assert!(!name.contains(&b'/'), "a name is one component");
        SortKey(name.to_vec())
    }

    /// The sort key of a directory.
    ///
    /// # Panics
    /// If the name holds a `/`: it is one component.
    pub fn directory(name: &[u8]) -> SortKey {
        assert!(!name.contains(&b'/'), "a name is one component");
        SortKey([name, b"/"].concat())
    }

    /// The bytes behind the parent in a dentry's key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for SortKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
