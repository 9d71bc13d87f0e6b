//! Versions of objects: noncurrent versions, delete markers and items of a trash.
//!
//! The dentry of a key binds the current version, and no record of this module does. Noncurrent
//! versions are records of the bucket under the complete object key, newest first. So they stay in
//! place when a directory of the key is moved or removed. For example, a PUT over `a/b` in a bucket
//! with versions adds a record with the key `a/b` and the id of the old version.

use std::fmt;
use std::str::FromStr;

use crate::codec::{DecodeError, record};
use crate::id::hexadecimal;
use crate::{IdError, Ino, Timestamp};

/// The versioning state of a bucket.
///
/// ```text
///  Off ──▶ Enabled ◀──▶ Suspended
///  Off ──▶ Suspended
///  Off ◀──▶ Trash   (back only if the trash is empty)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Versioning {
    /// The bucket never had versions.
    #[default]
    Off = 0,
    /// A PUT or DELETE keeps the old version.
    Enabled = 1,
    /// The bucket keeps its existing versions. A PUT replaces only the null version.
    Suspended = 2,
    /// S3 clients see a bucket that never had versions. A replaced or deleted object is kept as a
    /// version record with an id. Current objects have no id, and there are no delete markers.
    Trash = 3,
}

impl Versioning {
    /// Returns true if a bucket in this state keeps objects that are replaced or deleted.
    pub fn keeps(self) -> bool {
        self != Versioning::Off
    }

    /// Returns true if S3 shows the versions of a bucket in this state, and accepts their ids.
    pub fn is_shown(self) -> bool {
        matches!(self, Versioning::Enabled | Versioning::Suspended)
    }

    /// The state with this number in a record. Fails with `Field` if there is none.
    pub(crate) fn of(number: u8) -> Result<Versioning, DecodeError> {
        match number {
            0 => Ok(Versioning::Off),
            1 => Ok(Versioning::Enabled),
            2 => Ok(Versioning::Suspended),
            3 => Ok(Versioning::Trash),
            _ => Err(DecodeError::Field("versioning")),
        }
    }
}

/// The id of a version of an object: its time in nanoseconds since 1970, then random bits. Of two
/// versions of a key, the newer one has the greater id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionStamp(pub [u8; VersionStamp::BYTES]);

impl VersionStamp {
    /// 64 bits of time, and 64 random bits that make ids unguessable.
    pub const BYTES: usize = 16;

    /// The id of a version that is created at this time. A time before 1970 counts as 1970.
    pub fn new(time: Timestamp, random: u64) -> VersionStamp {
        let time = u64::try_from(time.0).unwrap_or(0);
        let mut bytes = [0; VersionStamp::BYTES];
        bytes[..8].copy_from_slice(&time.to_be_bytes());
        bytes[8..].copy_from_slice(&random.to_be_bytes());
        VersionStamp(bytes)
    }

    /// The time of creation by the writer's clock, or slightly later than that of the version
    /// before.
    pub fn time(self) -> Timestamp {
        let mut time = [0; 8];
        // The first eight bytes are the time.
        time.copy_from_slice(&self.0[..8]);
        Timestamp(i64::try_from(u64::from_be_bytes(time)).unwrap_or(i64::MAX))
    }
}

hexadecimal!(VersionStamp);

/// The version of an object that an S3 request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionRef {
    /// The null version: the one that was written while versioning was not enabled.
    Null,
    /// The version with this id.
    Id(VersionStamp),
}

/// The record of a noncurrent version of an object, of a delete marker, or of an item of a trash
/// (an object that was replaced or deleted in a bucket with the state `Trash`). Its key has the
/// object key and an id. For the null version, the id gives only its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The object or the marker.
    pub body: VersionBody,
    /// True for the null version of the key: it was written while versioning was not enabled.
    pub is_null: bool,
    /// The time at which the object became noncurrent or an item of the trash, or at which the
    /// marker was created, by the writer's clock.
    pub since: Timestamp,
    /// The time at which a pass over the trash first saw the item, by the clock of that gateway.
    /// `None` for other versions, and before the first pass.
    pub seen: Option<Timestamp>,
}

/// The kind of a `Version`: an object or a delete marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionBody {
    /// An object, with the fields of its former dentry.
    Object {
        /// The inode number of the object.
        ino: Ino,
        /// The size of a file that is self-contained, that is, without other records; see
        /// `crate::Dentry::self_contained`.
        self_contained: Option<u64>,
        /// True if the file has, or had, other names; see `crate::Dentry::linked`.
        linked: bool,
    },
    /// A delete marker: it shows that the key was deleted at that time.
    Marker,
}

impl Version {
    /// The inode number of an object; `None` for a marker.
    pub fn ino(&self) -> Option<Ino> {
        match self.body {
            VersionBody::Object { ino, .. } => Some(ino),
            VersionBody::Marker => None,
        }
    }

    /// Returns true for a delete marker.
    pub fn is_marker(&self) -> bool {
        self.body == VersionBody::Marker
    }
}

const MARKER: u8 = 1;
const NULL: u8 = 2;
const SELF_CONTAINED: u8 = 4;
const LINKED: u8 = 8;
const SEEN: u8 = 16;

record!(
    Version,
    1,
    |this, to| {
        // The inode number has the same offset as in a dentry, so that reads can follow both
        // records. That of a marker is 0.
        let null = if this.is_null { NULL } else { 0 };
        let (bits, ino, size) = match this.body {
            VersionBody::Marker => (MARKER, Ino(0), None),
            VersionBody::Object { ino, self_contained, linked } => {
                let has_size = self_contained.map_or(0, |_| SELF_CONTAINED);
                (has_size | if linked { LINKED } else { 0 }, ino, self_contained)
            }
        };
        let seen = this.seen.map_or(0, |_| SEEN);
        to.u8(bits | null | seen).fixed(&ino.0.to_be_bytes()).signed(this.since.0);
        if let Some(bytes) = size {
            to.varint(bytes);
        }
        if let Some(seen) = this.seen {
            to.signed(seen.0);
        }
    },
    |from| {
        // A marker has no object, so none of the object's bits may be set.
        let bits = from.u8("kind")?;
        let object_bits = SELF_CONTAINED | LINKED | SEEN;
        if bits > 31 || (bits & MARKER != 0 && bits & object_bits != 0) {
            return Err(DecodeError::Field("kind"));
        }
        let ino = Ino(u64::from_be_bytes(from.fixed("inode")?));
        let since = Timestamp(from.signed("since")?);
        let self_contained =
            if bits & SELF_CONTAINED != 0 { Some(from.varint("bytes")?) } else { None };
        let seen = if bits & SEEN != 0 { Some(Timestamp(from.signed("seen")?)) } else { None };
        let body = match bits & MARKER {
            0 => VersionBody::Object { ino, self_contained, linked: bits & LINKED != 0 },
            // The number 0 is not an inode, so a read that follows a marker finds nothing.
            _ if ino == Ino(0) => VersionBody::Marker,
            _ => return Err(DecodeError::Field("inode")),
        };
        Version { body, is_null: bits & NULL != 0, since, seen }
    }
);

/// The record with the id under which the null version of a key is stored, if that version is
/// noncurrent. The null version is the one that was written while versioning was not enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullVersion(pub VersionStamp);

record!(
    NullVersion,
    1,
    |this, to| {
        to.fixed(&this.0.0);
    },
    |from| { NullVersion(VersionStamp(from.fixed("version")?)) }
);

/// The list of the version records that bind an inode, that is, name it as a noncurrent version or
/// an item of a trash. An inode without this record is bound by dentries (names in directories)
/// only.
///
/// The plan that writes or deletes a version record also writes this record. Every plan that
/// changes the inode guards that this record is absent, so a version never changes. For example, a
/// PUT over a key writes this record for the replaced inode, and a program that has the file open
/// can then not write to that inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superseded {
    /// The versions, in the order in which they were superseded. More than one if the file had
    /// several hard links.
    pub versions: Vec<BoundVersion>,
}

/// The name of a version record that binds an inode. The bucket is that of the inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundVersion {
    /// The object key of the version record.
    pub object: Vec<u8>,
    /// The id in the key of the version record.
    pub id: VersionStamp,
}

record!(
    Superseded,
    1,
    |this, to| {
        to.varint(this.versions.len() as u64);
        for BoundVersion { object, id } in &this.versions {
            to.bytes(object).fixed(&id.0);
        }
    },
    |from| {
        let count = from.varint("versions")?;
        let mut version = || {
            let object = from.bytes("object")?.to_vec();
            Ok(BoundVersion { object, id: VersionStamp(from.fixed("version")?) })
        };
        let versions: Vec<_> = (0..count).map(|_| version()).collect::<Result<_, _>>()?;
        // An empty list is written as no record. Planners check for its absence.
        if versions.is_empty() {
            return Err(DecodeError::Field("versions"));
        }
        Superseded { versions }
    }
);
