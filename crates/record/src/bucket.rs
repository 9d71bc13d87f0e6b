//! Buckets: what every request needs to know of one, and what one is set to do, kind by kind.
//!
//! A configuration is bytes as the view gave them. A new kind is a row here and needs no format of
//! its own, and neither does a bucket that was made before there was such a kind.

use bytes::Bytes;
use store::Key;

use crate::codec::{DecodeError, Reader, Writer, record};
use crate::headers::{read_pairs, write_pairs};

/// What every request needs to know of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The access key that made it.
    pub owner: String,
    /// Whether keys `a` and `a/b` may both exist.
    pub refuse_overlap: bool,
    /// Whether entity tags are opaque instead of MD5s.
    pub opaque_tags: bool,
}

record!(
    Bucket,
    1,
    |this, to| {
        let flags = u8::from(this.refuse_overlap) | u8::from(this.opaque_tags) << 1;
        to.bytes(this.owner.as_bytes()).u8(flags);
    },
    |from| {
        let owner = from.string("owner")?;
        let flags = from.u8("flags")?;
        if flags > 3 {
            return Err(DecodeError::Field("flags"));
        }
        Bucket { owner, refuse_overlap: flags & 1 != 0, opaque_tags: flags & 2 != 0 }
    }
);

/// Of what kind a configuration of a bucket is. Each bucket has at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketConfigKind {
    /// Tags of the bucket: see [`BucketConfig::of_tags`].
    Tags = 1,
}

impl BucketConfigKind {
    /// Every kind.
    pub const ALL: [BucketConfigKind; 1] = [BucketConfigKind::Tags];

    /// The kind that a record is of, by its key.
    ///
    /// # Errors
    /// If a newer release wrote it, or it is no key of a configuration.
    pub fn of(key: &Key) -> Result<BucketConfigKind, DecodeError> {
        let [number] = *key.suffix() else { return Err(DecodeError::Field("kind")) };
        let known = BucketConfigKind::ALL.into_iter().find(|kind| *kind as u8 == number);
        known.ok_or(DecodeError::Format(number))
    }
}

/// What a bucket is set to do, of the kind that its key says. If a bucket has no such record,
/// nothing of this kind is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// As the view gave them.
    pub bytes: Bytes,
}

record!(
    BucketConfig,
    1,
    |this, to| {
        to.bytes(&this.bytes);
    },
    |from| { BucketConfig { bytes: Bytes::copy_from_slice(from.bytes("configuration")?) } }
);

impl BucketConfig {
    /// Tags: names and values.
    pub fn of_tags(tags: &[(String, String)]) -> BucketConfig {
        BucketConfig { bytes: Writer::loose(|to| write_pairs(to, tags)).into() }
    }

    /// The tags that these are.
    ///
    /// # Errors
    /// If they are none.
    pub fn tags(&self) -> Result<Vec<(String, String)>, DecodeError> {
        read_pairs(&mut Reader::loose(&self.bytes))
    }
}
