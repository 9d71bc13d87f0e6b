//! Maps errors of members and of connections to their meaning for a caller.
//!
//! For example, "no leader" means that nothing was committed, while "request timed out" leaves the
//! outcome unknown.

use std::error::Error as _;
use std::sync::Arc;

use store::{StoreError, StoreErrorKind};
use tonic::{Code, ConnectError, Status};

/// The effect of a request on the store, which decides the meaning of its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The request changes nothing, so it may be repeated.
    None,
    /// The request changes the store once a majority of the members has it.
    Commits,
}

/// The beginning of the message of a member whose database has reached its quota.
const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

/// Beginnings of messages of a member that has not proposed a transaction to its cluster: nothing
/// was changed.
const DEFINITE: [&str; 11] = [
    NO_SPACE,
    "etcdserver: too many operations in txn request",
    "etcdserver: request is too large",
    "grpc: received message larger than max",
    "etcdserver: rpc not supported for learner",
    "etcdserver: too many requests",
    "etcdserver: no leader",
    "etcdserver: permission denied",
    "etcdserver: invalid auth token",
    "etcdserver: user name is empty",
    OLD_TOKEN,
];

/// The beginning of the message to a token that is older than a change of users or roles.
const OLD_TOKEN: &str = "etcdserver: revision of auth store is old";

/// The beginnings of the messages about a revision whose data were dropped, or which the member has
/// not reached yet.
const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const IN_FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";

/// What an operator does if the database of the members is full.
pub(crate) const FULL_REMEDY: &str = "etcd has no room: compact, defragment, and disarm the alarm (etcdctl compact, defrag, alarm \
     disarm), or raise --quota-backend-bytes";

/// The cause of an error of a request for a token: the request that needs it was not sent.
#[derive(Debug, thiserror::Error)]
#[error("there is no token")]
struct NoToken;

/// The cause of the error of a request that a member of another cluster has answered.
#[derive(Debug, thiserror::Error)]
#[error(
    "the member is of the cluster {found:x}, and this process began with the cluster {known:x}: if \
     the cluster was restored, start this process again, and if not, add the member to its cluster"
)]
pub(crate) struct OtherCluster {
    pub(crate) found: u64,
    pub(crate) known: u64,
}

/// Returns the error of a request that a member of another cluster has answered. A commit has an
/// unknown outcome: if the cluster was restored, it has happened.
pub(crate) fn of_other_cluster(cause: OtherCluster) -> Status {
    let mut status = Status::failed_precondition("the answer is of another cluster");
    status.set_source(Arc::new(cause));
    status
}

/// Returns true if a member of another cluster has answered.
pub(crate) fn is_of_other_cluster(status: &Status) -> bool {
    status.source().is_some_and(<dyn std::error::Error>::is::<OtherCluster>)
}

/// Marks an error of a request for a token.
pub(crate) fn without_token(mut status: Status) -> Status {
    if !is_unsent(&status) {
        status.set_source(Arc::new(NoToken));
    }
    status
}

/// Returns true if the member has not got the request, because no connection to it could be made or
/// because it gave no token.
pub(crate) fn is_unsent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() || error.is::<NoToken>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns true if a member has answered, and not the connection to it failed.
pub(crate) fn is_of_member(status: &Status) -> bool {
    status.message().starts_with("etcdserver: ")
}

/// Returns true if the member wants a new token.
pub(crate) fn wants_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().starts_with(OLD_TOKEN)
}

/// Returns true if another member may answer a request that failed in this way.
pub(crate) fn may_be_elsewhere(status: &Status) -> bool {
    if is_of_other_cluster(status) {
        return true;
    }
    match status.code() {
        Code::Unavailable
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Internal => true,
        Code::OutOfRange => status.message().starts_with(IN_FUTURE),
        Code::ResourceExhausted => status.message().starts_with("etcdserver: too many requests"),
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}

/// Returns true if the member has dropped the data of the revision.
pub(crate) fn is_compacted(status: &Status) -> bool {
    status.message().starts_with(COMPACTED)
}

/// Returns the meaning of an error of a request.
pub(crate) fn kind(status: &Status, effect: Effect) -> StoreErrorKind {
    let message = status.message();
    if message.starts_with(NO_SPACE) {
        return StoreErrorKind::Full;
    }
    let definite = is_unsent(status) || DEFINITE.iter().any(|text| message.starts_with(text));
    match effect {
        Effect::Commits if !definite => StoreErrorKind::Unknown,
        Effect::Commits | Effect::None => StoreErrorKind::Unavailable,
    }
}

/// Returns the error of a request that failed.
pub(crate) fn of(status: &Status, doing: &str, effect: Effect) -> StoreError {
    let kind = kind(status, effect);
    let cause = match kind {
        StoreErrorKind::Full => FULL_REMEDY.to_owned(),
        StoreErrorKind::Unavailable
        | StoreErrorKind::Unknown
        | StoreErrorKind::Corrupt
        | StoreErrorKind::Malformed => reason(status),
    };
    StoreError::because(kind, doing, cause)
}

/// Returns the message of a status with the causes below it, such as "connection refused".
pub(crate) fn reason(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

pub(crate) fn unavailable(doing: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, doing)
}

/// Returns the error of all calls after `close`.
pub(crate) fn closed() -> StoreError {
    unavailable("using an etcd store that is closed")
}

/// Returns the error of an answer that does not fit its request, or of a key that is not ours.
pub(crate) fn garbled(doing: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("{doing}: an answer of etcd is malformed"))
}

#[cfg(test)]
mod tests;
