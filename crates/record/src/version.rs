//! Versions of objects: what a key was bound to before, and that it was deleted.
//!
//! The current version of a key is what its dentry binds, and stands nowhere else. What it was before
//! stands here, newest first, in records of the bucket under the whole key: it stays where it is,
//! whatever becomes of the directories that the key named.

use std::fmt;
use std::str::FromStr;

use crate::codec::{DecodeError, record};
use crate::id::hexadecimal;
use crate::{IdError, Ino, Timestamp};

/// Whether a bucket keeps what its keys were bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Versioning {
    /// It never did.
    #[default]
    Off = 0,
    /// It does.
    Enabled = 1,
    /// It did, and keeps what it has: what is written now replaces the null version alone.
    Suspended = 2,
    /// S3 is told that it never did. What a key loses goes to the bucket's trash: it is kept as a
    /// version with an id, though no key's current version has one, and there are no markers.
    Trash = 3,
}

impl Versioning {
    /// Whether what keys were bound to is kept.
    pub fn keeps(self) -> bool {
        self != Versioning::Off
    }

    /// Whether S3 shows versions, and takes their ids.
    pub fn is_shown(self) -> bool {
        matches!(self, Versioning::Enabled | Versioning::Suspended)
    }

    /// The one of this number.
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

/// The name of a version among those of its key: its time in nanoseconds since 1970, then random
/// bits. Of two versions of a key the newer one has the greater id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionStamp(pub [u8; VersionStamp::BYTES]);

impl VersionStamp {
    /// 64 bits of time and 64 random ones, so that nobody guesses one.
    pub const BYTES: usize = 16;

    /// That of a version made at this time; one before 1970 counts as 1970.
    pub fn new(time: Timestamp, random: u64) -> VersionStamp {
        let time = u64::try_from(time.0).unwrap_or(0);
        let mut bytes = [0; VersionStamp::BYTES];
        bytes[..8].copy_from_slice(&time.to_be_bytes());
        bytes[8..].copy_from_slice(&random.to_be_bytes());
        VersionStamp(bytes)
    }

    /// When it was made, by the clock of whoever made it, or a little later than the one before.
    pub fn time(self) -> Timestamp {
        let mut time = [0; 8];
        time.copy_from_slice(&self.0[..8]);
        Timestamp(i64::try_from(u64::from_be_bytes(time)).unwrap_or(i64::MAX))
    }
}

hexadecimal!(VersionStamp);

/// A version of a key, as clients name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionRef {
    /// The one that was written while versioning was not enabled.
    Null,
    /// The one of this id.
    Id(VersionStamp),
}

/// A version that is not the current one, or a delete marker. Its key says of which object, and its
/// id, which for the null version only says where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// What it is.
    pub body: VersionBody,
    /// Whether it is the null version of its key: one that was written, or a marker that was left,
    /// while versioning was not enabled.
    pub is_null: bool,
    /// When another one took its place or it was deleted, or the marker was made, by the writer's clock.
    pub since: Timestamp,
    /// When a pass over the trash first saw the item, by the clock of that gateway. None for other
    /// versions and for items that no pass has seen.
    pub seen: Option<Timestamp>,
}

/// What a [`Version`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionBody {
    /// An object: what its dentry said.
    Object {
        /// Its inode.
        ino: Ino,
        /// See [`crate::Dentry::self_contained`].
        self_contained: Option<u64>,
        /// See [`crate::Dentry::linked`].
        linked: bool,
    },
    /// That the key was deleted.
    Marker,
}

impl Version {
    /// The inode, if it is an object.
    pub fn ino(&self) -> Option<Ino> {
        match self.body {
            VersionBody::Object { ino, .. } => Some(ino),
            VersionBody::Marker => None,
        }
    }

    /// Whether it is a delete marker.
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
        // The inode stands where a dentry has it, so that it is followed alike. A marker's leads
        // nowhere.
        let null = if this.is_null { NULL } else { 0 };
        let (bits, ino, told) = match this.body {
            VersionBody::Marker => (MARKER, Ino(0), None),
            VersionBody::Object { ino, self_contained, linked } => {
                let told = self_contained.map_or(0, |_| SELF_CONTAINED);
                (told | if linked { LINKED } else { 0 }, ino, self_contained)
            }
        };
        let seen = this.seen.map_or(0, |_| SEEN);
        to.u8(bits | null | seen).fixed(&ino.0.to_be_bytes()).signed(this.since.0);
        if let Some(bytes) = told {
            to.varint(bytes);
        }
        if let Some(seen) = this.seen {
            to.signed(seen.0);
        }
    },
    |from| {
        let bits = from.u8("kind")?;
        let of_objects = SELF_CONTAINED | LINKED | SEEN;
        if bits > 31 || (bits & MARKER != 0 && bits & of_objects != 0) {
            return Err(DecodeError::Field("kind"));
        }
        let ino = Ino(u64::from_be_bytes(from.fixed("inode")?));
        let since = Timestamp(from.signed("since")?);
        let self_contained =
            if bits & SELF_CONTAINED != 0 { Some(from.varint("bytes")?) } else { None };
        let seen = if bits & SEEN != 0 { Some(Timestamp(from.signed("seen")?)) } else { None };
        let body = match bits & MARKER {
            0 => VersionBody::Object { ino, self_contained, linked: bits & LINKED != 0 },
            _ if ino == Ino(0) => VersionBody::Marker,
            _ => return Err(DecodeError::Field("inode")),
        };
        Version { body, is_null: bits & NULL != 0, since, seen }
    }
);

/// Where among the versions of a key its null version stands, if that is not the current one.
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

/// The state of an inode that version records bind: it is a noncurrent version of an object, or an item
/// of a trash. An inode without this record is bound by dentries alone.
///
/// The plan that writes or deletes a version record writes this record too. Every plan that changes the
/// inode guards that this record is absent, so a version never changes. For example, a PUT over a key
/// writes this record for the replaced inode, and a program that has the file open can no longer write
/// to that inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superseded {
    /// The versions, in the order in which they were superseded. More than one if the file had several
    /// hard links.
    pub versions: Vec<BoundVersion>,
}

/// A version record that binds an inode. The bucket is that of the inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundVersion {
    /// The object's key.
    pub object: Vec<u8>,
    /// The version.
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
        if versions.is_empty() {
            return Err(DecodeError::Field("versions"));
        }
        Superseded { versions }
    }
);
