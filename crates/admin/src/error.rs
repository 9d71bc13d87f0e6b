//! Why something was not done. The variants say what the caller can do next.

use namespace::{AccessError, FsError};
use session::VolumeError;
use store::StoreError;

use crate::NameError;

/// Why something was not done. Its text is a fragment that fits after "cannot …:".
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// A name or secret that is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An access key of this name exists.
    #[error("it exists")]
    UserExists,
    /// No access key of this name.
    #[error("there is none of this name")]
    NoSuchUser,
    /// No account of this name or number.
    #[error("there is no account {0:?}")]
    NoSuchAccount(String),
    /// An account of this name exists.
    #[error("it exists")]
    AccountExists,
    /// The account that every volume has.
    #[error("it is the one that every volume has")]
    AccountIsBuiltIn,
    /// These access keys belong to the account, in order.
    #[error("these access keys belong to it: {}", .0.join(", "))]
    AccountHasUsers(Vec<String>),
    /// These buckets belong to the account, in order.
    #[error("these buckets belong to it: {}", .0.join(", "))]
    AccountHasBuckets(Vec<String>),
    /// No policy of this name.
    #[error("there is no policy {0:?}")]
    NoSuchPolicy(String),
    /// These access keys have the policy, in order.
    #[error("these access keys have it: {}", .0.join(", "))]
    PolicyInUse(Vec<String>),
    /// The policy is built in: it has no document, and stays.
    #[error("it is built in")]
    PolicyIsBuiltIn,
    /// A policy that is built in has this name.
    #[error("the name is taken by a policy that is built in")]
    NameIsBuiltIn,
    /// The policy's document is not one.
    #[error("{0}")]
    Document(String),
    /// This cannot be the name of a bucket.
    #[error("{0}")]
    BucketName(String),
    /// No bucket of this name.
    #[error("there is none of this name")]
    NoSuchBucket,
    /// A bucket of this name exists.
    #[error("there is a bucket of this name")]
    BucketExists,
    /// The new bucket was removed, or set to keep versions, before all was in it.
    #[error("somebody removed the new bucket, or set it to keep versions, before the end")]
    ForkTaken,
    /// The bucket keeps versions, or did.
    #[error("it keeps versions, or did")]
    KeepsVersions,
    /// The bucket has no trash.
    #[error("it has no trash")]
    HasNoTrash,
    /// Something is left in the bucket's trash.
    #[error("something is in its trash")]
    TrashLeft,
    /// The key has lost nothing, or nothing of this name.
    #[error("there is no such thing in the trash")]
    NotInTrash,
    /// It was told to stop. What was done until then stays.
    #[error("it was interrupted")]
    Interrupted,
    /// Nothing of this name or number.
    #[error("there is none of this name")]
    NoSuchNode,
    /// There is no volume in the metadata store.
    #[error("there is no volume")]
    NoVolume,
    /// Others kept changing the records that this depends on. Nothing happened.
    #[error("somebody else changed the same record just now")]
    Contended,
    /// The session of the change was fenced. Nothing happened.
    #[error("it took too long")]
    Late,
    /// It is not known whether the change happened. Look before you make it again.
    #[error("whether it happened is not known: {0}")]
    Unknown(String),
    /// The metadata store cannot be read. Nothing happened.
    #[error(transparent)]
    Unread(StoreError),
    /// The metadata store refuses the change. Nothing happened.
    #[error(transparent)]
    Unchanged(StoreError),
    /// A record is damaged. A person must look at it.
    #[error("{0}")]
    Corrupt(String),
    /// The machine gives no random bytes.
    #[error("the machine gives no random bytes: {0}")]
    Random(String),
    /// Another error of the namespace.
    #[error(transparent)]
    Fs(FsError),
    /// The volume cannot be opened, or one of its stores failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl From<FsError> for AdminError {
    fn from(error: FsError) -> AdminError {
        match error {
            FsError::NoSuchBucket => AdminError::NoSuchBucket,
            FsError::KeepsVersions => AdminError::KeepsVersions,
            FsError::HasNoTrash => AdminError::HasNoTrash,
            FsError::TrashLeft => AdminError::TrashLeft,
            FsError::Contended => AdminError::Contended,
            error => AdminError::Fs(error),
        }
    }
}

impl From<AccessError> for AdminError {
    fn from(error: AccessError) -> AdminError {
        match error {
            AccessError::UserExists => AdminError::UserExists,
            AccessError::NoSuchUser => AdminError::NoSuchUser,
            AccessError::NoSuchAccount(id) => AdminError::NoSuchAccount(id.to_string()),
            AccessError::AccountExists => AdminError::AccountExists,
            AccessError::AccountHasUsers(users) => AdminError::AccountHasUsers(users),
            AccessError::AccountHasBuckets(buckets) => AdminError::AccountHasBuckets(buckets),
            AccessError::NoSuchPolicy(name) => AdminError::NoSuchPolicy(name),
            AccessError::PolicyInUse(users) => AdminError::PolicyInUse(users),
            error => AdminError::Corrupt(error.to_string()),
        }
    }
}
