//! Buckets: the settings that every request needs, and the configurations, one record for each
//! kind.
//!
//! A configuration is stored as the bytes that a view (the S3 gateway or another way to reach the
//! volume) gave. A new kind is a row of a table in `bucket_config_kind`: it has no record format of
//! its own, and existing buckets do not change. For example, the lifecycle rules of a bucket are
//! the XML document that the client sent.

use bytes::Bytes;

use crate::account::{AccountId, S3Acl};
use crate::codec::{DecodeError, Reader, Writer, record};
use crate::encryption::Encryption;
use crate::headers::{read_pairs, write_pairs};
use crate::object_lock::RetentionDefault;

/// The settings of a bucket that every request needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The account that created the bucket. It owns the bucket permanently.
    pub owner: AccountId,
    /// True if new objects get random entity tags, and not MD5 digests, which cost time.
    pub opaque_tags: bool,
    /// The rule for the owner of objects that other accounts write. `None` means that the writer
    /// owns them.
    pub ownership: Option<ObjectOwnership>,
    /// Restrictions on public access; `None` if they were never set.
    pub public_access: Option<PublicAccessBlock>,
    /// The number of changes of the bucket's configurations. A gateway that has cached the
    /// configurations reads them again when this number changes. 0 means that there were never any.
    pub configs_version: u64,
    /// The retention of new objects whose request has none, if the bucket has object lock. It is a
    /// copy from the object lock configuration, because plans that create an object read it here.
    pub default_retention: Option<RetentionDefault>,
    /// The encryption of new objects whose request has none: `S3` or `Kms`. It is a copy from the
    /// configuration of encryption, because plans that create a file read it here.
    pub default_encryption: Option<Encryption>,
}

/// The owner of new objects of a bucket, and whether access control lists are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectOwnership {
    /// The bucket's owner. Access control lists are not evaluated.
    BucketOwnerEnforced = 1,
    /// The bucket's owner if the writer grants it full control, else the writer.
    BucketOwnerPreferred = 2,
    /// The writer.
    ObjectWriter = 3,
}

impl ObjectOwnership {
    /// All variants.
    pub const ALL: [ObjectOwnership; 3] = [
        ObjectOwnership::BucketOwnerEnforced,
        ObjectOwnership::BucketOwnerPreferred,
        ObjectOwnership::ObjectWriter,
    ];
}

/// Restrictions on public access to a bucket. They take precedence over its policy and access
/// control lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "S3 has these four switches")]
pub struct PublicAccessBlock {
    /// Refuse access control lists that grant something to everyone.
    pub block_public_acls: bool,
    /// Ignore grants to everyone in access control lists.
    pub ignore_public_acls: bool,
    /// Refuse policies that allow something to everyone.
    pub block_public_policy: bool,
    /// Apply a policy that allows something to everyone only to the bucket's own account.
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

/// The value of a public access block that was never set.
const NO_BLOCK: u8 = 0xff;

record!(
    Bucket,
    1,
    |this, to| {
        to.varint(this.owner.0)
            .u8(u8::from(this.opaque_tags))
            .u8(this.ownership.map_or(0, |ownership| ownership as u8))
            // A block with all switches off differs from a block that was never set: S3 returns an
            // error for the latter.
            .u8(this.public_access.map_or(NO_BLOCK, PublicAccessBlock::bits))
            .varint(this.configs_version);
        RetentionDefault::write(this.default_retention, &mut to);
        Encryption::write_optional(this.default_encryption.as_ref(), &mut to);
    },
    |from| {
        let owner = AccountId::read(&mut from)?;
        // Unknown flags mean damage, because a newer release would use a new format.
        let flags = from.u8("flags")?;
        if flags > 1 {
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
            opaque_tags: flags & 1 != 0,
            ownership,
            public_access,
            configs_version: from.varint("configurations")?,
            default_retention: RetentionDefault::read(&mut from)?,
            default_encryption: default_encryption(&mut from)?,
        }
    }
);

/// Reads the default encryption of a bucket. A client's key is never a default.
fn default_encryption(from: &mut Reader<'_>) -> Result<Option<Encryption>, DecodeError> {
    match Encryption::read_optional(from)? {
        Some(Encryption::Customer(_)) => Err(DecodeError::Field("encryption")),
        mode @ (None | Some(Encryption::S3 | Encryption::Kms(_))) => Ok(mode),
    }
}

/// The record of one configuration of a bucket. Its key has the bucket and the kind. If the record
/// does not exist, nothing of this kind is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// The configuration in the form of its kind, for example an XML document.
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
    /// The configuration of the kind `Trash`: the trash keeps each deleted or replaced object for
    /// this number of days.
    pub fn of_trash_days(days: u32) -> BucketConfig {
        BucketConfig { bytes: Writer::field(|to| _ = to.varint(days.into())).into() }
    }

    /// The number of days for which a trash keeps an object.
    ///
    /// # Errors
    /// If the bytes are not such a configuration.
    pub fn trash_days(&self) -> Result<u32, DecodeError> {
        let days = Reader::field(&self.bytes).varint("days")?;
        u32::try_from(days).map_err(|_| DecodeError::Field("days"))
    }

    /// The configuration with these tags: pairs of name and value.
    pub fn of_tags(tags: &[(String, String)]) -> BucketConfig {
        BucketConfig { bytes: Writer::field(|to| write_pairs(to, tags)).into() }
    }

    /// The tags.
    ///
    /// # Errors
    /// If the bytes are not tags.
    pub fn tags(&self) -> Result<Vec<(String, String)>, DecodeError> {
        read_pairs(&mut Reader::field(&self.bytes))
    }

    /// The configuration with this access control list.
    pub fn of_acl(acl: &S3Acl) -> BucketConfig {
        BucketConfig { bytes: Writer::field(|to| acl.write(to)).into() }
    }

    /// The access control list.
    ///
    /// # Errors
    /// If the bytes are not an access control list.
    pub fn acl(&self) -> Result<S3Acl, DecodeError> {
        S3Acl::read(&mut Reader::field(&self.bytes))
    }
}
