//! A common interface of all record types.

use std::fmt::Debug;

use record::{
    Account, Bucket, BucketConfig, DecodeError, Dentry, Expiry, FileLocks, Group, HeartbeatRecord,
    Hold, Inode, JobRecord, LastUse, LockKeeping, MapPage, Mark, NullVersion, Orphan, Part,
    PartSums, PolicyRecord, RewrapRecord, RingKeyRecord, RingState, Sequence, SessionRecord,
    SlotRecord, Superseded, SweptRecord, Upload, User, Version, VolumeRecord, XattrValue,
};
use store::{Key, Value};

/// A record type: it has bytes under a key.
pub(crate) trait Record: Sized + Debug + PartialEq {
    fn bytes(&self, key: &Key) -> Value;
    fn from_bytes(key: &Key, value: &Value) -> Result<Self, DecodeError>;
}

macro_rules! records {
    ($($name:ident)*) => {
        $(
            impl Record for $name {
                fn bytes(&self, key: &Key) -> Value {
                    self.encode(key)
                }

                fn from_bytes(key: &Key, value: &Value) -> Result<$name, DecodeError> {
                    $name::decode(key, value)
                }
            }
        )*

        /// The result of decoding these bytes as each type: its name, and the error.
        pub(crate) fn verdicts(key: &Key, value: &Value) -> Vec<(&'static str, Option<DecodeError>)> {
            vec![$((stringify!($name), $name::decode(key, value).err())),*]
        }
    };
}

records!(
    Account HeartbeatRecord Bucket BucketConfig Sequence Dentry Expiry FileLocks Group Hold Inode JobRecord LastUse LockKeeping MapPage Mark
    NullVersion Orphan Part PartSums PolicyRecord RewrapRecord RingKeyRecord RingState SessionRecord SweptRecord SlotRecord Superseded Upload User Version VolumeRecord XattrValue
);

/// The record with the bytes `body` and the checksum that belongs to them.
pub(crate) fn sealed(key: &Key, body: &[u8]) -> Value {
    let sum = crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), body);
    [body, &sum.to_be_bytes()].concat().into()
}

/// The bytes of a record before its checksum.
pub(crate) fn body(value: &Value) -> &[u8] {
    &value[..value.len() - 4]
}
