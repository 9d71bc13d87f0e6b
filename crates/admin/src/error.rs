//! The error of an administrative operation. The variants differ by the next step of the caller.
//!
//! For example, after `Contended` the caller can repeat the operation, and after `Unknown` it must
//! first check whether the change was made.

use keystore::KeyStoreError;
use namespace::{AccessError, FsError, JobError};
use session::VolumeError;

use crate::NameError;

/// The reason why an operation failed. Its text is a fragment that fits after "cannot …:".
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// An operation on jobs is refused.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The name or the secret is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An access key of this name exists.
    #[error("it exists")]
    UserExists,
    /// There is no access key of this name.
    #[error("there is none of this name")]
    NoSuchUser,
    /// There is no account of this name or number.
    #[error("there is no account {0:?}")]
    NoSuchAccount(String),
    /// An account of this name exists.
    #[error("it exists")]
    AccountExists,
    /// The account is `main`, which each volume has.
    #[error("it is the account that every volume has")]
    AccountIsBuiltIn,
    /// The account cannot be removed, because these access keys belong to it. They are in order of
    /// name.
    #[error("these access keys belong to it: {}", .0.join(", "))]
    AccountHasUsers(Vec<String>),
    /// The account cannot be removed, because these buckets belong to it. They are in order of
    /// name.
    #[error("these buckets belong to it: {}", .0.join(", "))]
    AccountHasBuckets(Vec<String>),
    /// There is no policy of this name.
    #[error("there is no policy {0:?}")]
    NoSuchPolicy(String),
    /// The policy cannot be removed, because these access keys have it. They are in order of name.
    #[error("these access keys have it: {}", .0.join(", "))]
    PolicyInUse(Vec<String>),
    /// The policy cannot be removed, because these groups have it. They are in order of name.
    #[error("these groups have it: {}", .0.join(", "))]
    PolicyOfGroups(Vec<String>),
    /// The access key is a further key or a token of this user, or a token of the operator. The
    /// operation is for users only.
    #[error("it is {}", further(.0.as_deref()))]
    NotUser(Option<String>),
    /// The access key is that of a user. The operation is for further keys and tokens only.
    #[error("it is the access key of a user")]
    IsUser,
    /// There is a group of this name.
    #[error("it exists")]
    GroupExists,
    /// There is no group of this name.
    #[error("there is none of this name")]
    NoSuchGroup,
    /// A user that should join a group does not exist, or is a further key or a token.
    #[error("there is no user {0:?}")]
    NoSuchMember(String),
    /// The group cannot be removed, because these users are members. They are in order of name.
    #[error("these users are members: {}", .0.join(", "))]
    GroupHasMembers(Vec<String>),
    /// The change would exceed a limit.
    #[error("the limit of {0} is {1}")]
    TooMany(&'static str, usize),
    /// The record has another etag than the caller has seen. Nothing happened.
    #[error("it has changed since it was read")]
    Changed,
    /// This policy, which the change gives, replaces or removes, has another etag than the caller
    /// has seen, or exists meanwhile. Nothing happened, and the caller can read the policy and
    /// repeat the change.
    #[error("the policy {0:?} has changed since it was read")]
    PolicyChanged(String),
    /// The policy is built in. It has no document and cannot be removed.
    #[error("it is built in")]
    PolicyIsBuiltIn,
    /// A built-in policy has this name.
    #[error("a built-in policy has this name")]
    NameIsBuiltIn,
    /// The policy document is not valid.
    #[error("{0}")]
    Document(String),
    /// The text is not a valid bucket name.
    #[error("{0}")]
    BucketName(String),
    /// There is no bucket of this name.
    #[error("there is none of this name")]
    NoSuchBucket,
    /// A bucket of this name exists.
    #[error("there is a bucket of this name")]
    BucketExists,
    /// Another client removed the new bucket, or enabled versions on it, before the fork was
    /// complete.
    #[error(
        "another client removed the new bucket, or enabled versions on it, before the fork was complete"
    )]
    ForkTargetChanged,
    /// The bucket cannot have a trash, because it keeps versions of objects, or has kept some.
    #[error("it keeps versions, or has kept some")]
    KeepsVersions,
    /// The bucket has no trash.
    #[error("it has no trash")]
    HasNoTrash,
    /// The trash cannot be removed from the bucket, because deleted or replaced objects are in it.
    #[error("its trash is not empty")]
    TrashLeft,
    /// The trash has no item of this key, or none with this id.
    #[error("there is no such item in the trash")]
    NotInTrash,
    /// The caller stopped the operation. The changes made before remain.
    #[error("it was interrupted")]
    Interrupted,
    /// There is no node, that is, no file, directory or link, of this path or inode number.
    #[error("there is none of this name")]
    NoSuchNode,
    /// There is no volume in the metadata store.
    #[error("there is no volume")]
    NoVolume,
    /// Other processes kept changing the records on which the change depends. Nothing happened.
    #[error("another process changed the same record at the same time")]
    Contended,
    /// Another process has fenced, that is, ended, the session in which the change ran. Nothing
    /// happened, and the caller can repeat the operation.
    #[error("it took too long, and its session was fenced")]
    Late,
    /// The outcome of the change is unknown. The caller must check it before it repeats the change.
    #[error("the outcome is not known: {0}")]
    Unknown(String),
    /// The metadata store cannot be read. Nothing happened.
    #[error(transparent)]
    Unread(VolumeError),
    /// The metadata store refuses the change. Nothing happened.
    #[error(transparent)]
    Unchanged(VolumeError),
    /// A record in the metadata store is damaged. The text describes the damage, and an operator
    /// must look at it.
    #[error("{0}")]
    Corrupt(String),
    /// The operating system returns no random bytes.
    #[error("the operating system returns no random bytes: {0}")]
    Random(String),
    /// An error of a namespace operation that no other variant describes.
    #[error(transparent)]
    Fs(FsError),
    /// The ring keys cannot be read or changed, or a key cannot be used.
    #[error(transparent)]
    Ring(#[from] KeyStoreError),
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
            AccessError::PolicyOfGroups(groups) => AdminError::PolicyOfGroups(groups),
            AccessError::NotUser(parent) => AdminError::NotUser(parent),
            AccessError::IsUser => AdminError::IsUser,
            AccessError::NoSuchGroup => AdminError::NoSuchGroup,
            AccessError::NoSuchMember(name) => AdminError::NoSuchMember(name),
            AccessError::GroupHasMembers(users) => AdminError::GroupHasMembers(users),
            AccessError::TooMany(limited, limit) => AdminError::TooMany(limited, limit),
            AccessError::Changed => AdminError::Changed,
            AccessError::PolicyChanged(name) => AdminError::PolicyChanged(name),
            error => AdminError::Corrupt(error.to_string()),
        }
    }
}

/// Returns the text for a key that is not a user.
fn further(parent: Option<&str>) -> String {
    match parent {
        Some(parent) => format!("a further key or a token of the user {parent:?}"),
        None => "a token".to_owned(),
    }
}
