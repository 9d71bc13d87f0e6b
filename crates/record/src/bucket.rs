//! Buckets: what every request needs to know of one, and what one is set to do, kind by kind.
//!
//! A configuration is bytes as the view gave them. A new kind is a row here and needs no format of
//! its own, and neither does a bucket that was made before there was such a kind.

use bytes::Bytes;
use store::Key;

use crate::account::{AccountId, S3Acl};
use crate::codec::{DecodeError, Reader, Writer, record};
use crate::headers::{read_pairs, write_pairs};
use crate::object_lock::RetentionDefault;

/// What every request needs to know of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The account that made it, to which it belongs for good.
    pub owner: AccountId,
    /// Whether keys `a` and `a/b` may both exist.
    pub refuse_overlap: bool,
    /// Whether entity tags are opaque instead of MD5s.
    pub opaque_tags: bool,
    /// Whom objects belong to that others write; if nothing is said, to those.
    pub ownership: Option<ObjectOwnership>,
    /// What keeps it from being public, if that was ever said.
    pub public_access: Option<PublicAccessBlock>,
    /// Counts changes of its configurations. Whoever has read them reads them again when this has
    /// changed; where it is 0, there have never been any.
    pub configs_version: u64,
    /// The retention of new objects whose request names none, if the bucket has object lock. It is in
    /// the bucket's object lock configuration too: plans that make an object read it here.
    pub default_retention: Option<RetentionDefault>,
}

/// Whom the objects of a bucket belong to, and whether access control lists count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectOwnership {
    /// All to the bucket's owner; lists do not count.
    BucketOwnerEnforced = 1,
    /// To the bucket's owner if the writer grants it full control, else to the writer.
    BucketOwnerPreferred = 2,
    /// To whoever writes them.
    ObjectWriter = 3,
}

impl ObjectOwnership {
    /// All of them.
    pub const ALL: [ObjectOwnership; 3] = [
        ObjectOwnership::BucketOwnerEnforced,
        ObjectOwnership::BucketOwnerPreferred,
        ObjectOwnership::ObjectWriter,
    ];
}

/// What keeps a bucket from being public, whatever its policy and its lists say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "S3 has these four switches")]
pub struct PublicAccessBlock {
    /// Lists that grant something to everybody are refused when they come.
    pub block_public_acls: bool,
    /// What lists grant to everybody does not count.
    pub ignore_public_acls: bool,
    /// A policy that allows something to everybody is refused when it comes.
    pub block_public_policy: bool,
    /// A policy that allows something to everybody counts for the bucket's own account alone.
    pub restrict_public_buckets: bool,
}

impl PublicAccessBlock {
    fn bits(self) -> u8 {
        u8::from(self.block_public_acls)
            | u8::from(self.ignore_public_acls) << 1
            | u8::from(self.block_public_policy) << 2
            | u8::from(self.restrict_public_buckets) << 3
    }

    fn of(bits: u8) -> PublicAccessBlock {
        PublicAccessBlock {
            block_public_acls: bits & 1 != 0,
            ignore_public_acls: bits & 2 != 0,
            block_public_policy: bits & 4 != 0,
            restrict_public_buckets: bits & 8 != 0,
        }
    }
}

/// Stands for a public access block that was never set.
const NO_BLOCK: u8 = 0xff;

record!(
    Bucket,
    1,
    |this, to| {
        let flags = u8::from(this.refuse_overlap) | u8::from(this.opaque_tags) << 1;
        to.varint(this.owner.0)
            .u8(flags)
            .u8(this.ownership.map_or(0, |ownership| ownership as u8))
            .u8(this.public_access.map_or(NO_BLOCK, PublicAccessBlock::bits))
            .varint(this.configs_version);
        RetentionDefault::write(this.default_retention, &mut to);
    },
    |from| {
        let owner = AccountId::read(&mut from)?;
        let flags = from.u8("flags")?;
        if flags > 3 {
            return Err(DecodeError::Field("flags"));
        }
        let ownership = match from.u8("ownership")? {
            0 => None,
            number => Some(
                ObjectOwnership::ALL
                    .into_iter()
                    .find(|one| *one as u8 == number)
                    .ok_or(DecodeError::Field("ownership"))?,
            ),
        };
        let public_access = match from.u8("public access")? {
            NO_BLOCK => None,
            bits if bits < 16 => Some(PublicAccessBlock::of(bits)),
            _ => return Err(DecodeError::Field("public access")),
        };
        Bucket {
            owner,
            refuse_overlap: flags & 1 != 0,
            opaque_tags: flags & 2 != 0,
            ownership,
            public_access,
            configs_version: from.varint("configurations")?,
            default_retention: RetentionDefault::read(&mut from)?,
        }
    }
);

/// Of what kind a configuration of a bucket is. Each bucket has at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketConfigKind {
    /// Tags of the bucket: see [`BucketConfig::of_tags`].
    Tags = 1,
    /// Its policy: a document in JSON.
    Policy = 2,
    /// Whose pages browsers may read it from: a document in XML.
    Cors = 3,
    /// Its access control list: see [`BucketConfig::of_acl`].
    Acl = 4,
    /// That its objects may be locked, and how new ones are: a document in XML.
    ObjectLock = 5,
    /// What becomes of its objects in time: a document in XML.
    Lifecycle = 6,
    /// How far its gateways have come in following that: see [`crate::LifecyclePass`].
    LifecyclePass = 7,
    /// How long what its keys lose stays in its trash: see [`BucketConfig::of_trash_days`].
    Trash = 8,
}

impl BucketConfigKind {
    /// Every kind.
    pub const ALL: [BucketConfigKind; 8] = [
        BucketConfigKind::Tags,
        BucketConfigKind::Policy,
        BucketConfigKind::Cors,
        BucketConfigKind::Acl,
        BucketConfigKind::ObjectLock,
        BucketConfigKind::Lifecycle,
        BucketConfigKind::LifecyclePass,
        BucketConfigKind::Trash,
    ];

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
    /// Days that something stays in the trash.
    pub fn of_trash_days(days: u32) -> BucketConfig {
        BucketConfig { bytes: Writer::loose(|to| _ = to.varint(days.into())).into() }
    }

    /// The days that these are.
    ///
    /// # Errors
    /// If they are none.
    pub fn trash_days(&self) -> Result<u32, DecodeError> {
        let days = Reader::loose(&self.bytes).varint("days")?;
        u32::try_from(days).map_err(|_| DecodeError::Field("days"))
    }

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

    /// An access control list.
    pub fn of_acl(acl: &S3Acl) -> BucketConfig {
        BucketConfig { bytes: Writer::loose(|to| acl.write(to)).into() }
    }

    /// The access control list that this is.
    ///
    /// # Errors
    /// If it is none.
    pub fn acl(&self) -> Result<S3Acl, DecodeError> {
        S3Acl::read(&mut Reader::loose(&self.bytes))
    }
}
