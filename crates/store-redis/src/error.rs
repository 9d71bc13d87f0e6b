//! Maps errors of the server and of connections to their meaning for a caller.
//!
//! For example, `OOM` becomes `Full`, and a connection that breaks during a commit becomes
//! `Unknown`.

use redis::RedisError;
use store::{StoreError, StoreErrorKind};

/// Error codes of a server that has not begun a command, or has not reached a script's first write:
/// nothing was changed. Any other error may come from the middle of a script.
const DEFINITE: &[&str] = &[
    "BUSY",
    "CLUSTERDOWN",
    ABORTED,
    "LOADING",
    "MASTERDOWN",
    CANNOT_WRITE,
    "MOVED",
    "NOAUTH",
    "NOREPLICAS",
    "NOSCRIPT",
    OUT_OF_MEMORY,
    "READONLY",
];

/// The server's error code if its memory is exhausted.
const OUT_OF_MEMORY: &str = "OOM";

/// The server's error code if it discarded a transaction, and its words if memory is the reason.
const ABORTED: &str = "EXECABORT";
const ABORTED_BY_MEMORY: &str = "because of: OOM";

/// The server's error code if it cannot write its append-only file. The text names the cause.
const CANNOT_WRITE: &str = "MISCONF";

/// The texts of the operating system for a full disk and for an exhausted quota.
const NO_SPACE: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// The error code of our scripts, before their first write, if a long record has lost its overflow
/// value, that is, the rest of its bytes, which has a key of its own.
const DAMAGED: &str = "DAMAGED";

/// The effect of a call on the volume, which decides the meaning of its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The call changes nothing, so it may be repeated.
    None,
    /// The call changes the volume once the server receives it.
    Commits,
}

fn names_no_space(error: &RedisError) -> bool {
    let text = error.to_string();
    NO_SPACE.iter().any(|cause| text.contains(cause))
}

/// Returns true if the server refused a command or a transaction because its memory is exhausted.
fn lacks_memory(error: &RedisError) -> bool {
    match error.code() {
        Some(OUT_OF_MEMORY) => true,
        // The commands were accepted, and the memory ended before EXEC.
        Some(ABORTED) => error.to_string().contains(ABORTED_BY_MEMORY),
        Some(_) | None => false,
    }
}

/// Returns the meaning of an error of a command that may have been sent.
pub(crate) fn kind(error: &RedisError, effect: Effect) -> StoreErrorKind {
    match error.code() {
        _ if lacks_memory(error) => StoreErrorKind::Full,
        Some(CANNOT_WRITE) if names_no_space(error) => StoreErrorKind::Full,
        Some(code) if DEFINITE.contains(&code) => StoreErrorKind::Unavailable,
        Some(DAMAGED) => StoreErrorKind::Corrupt,
        Some("WRONGTYPE") if effect == Effect::None => StoreErrorKind::Corrupt,
        _ if effect == Effect::Commits => StoreErrorKind::Unknown,
        _ => StoreErrorKind::Unavailable,
    }
}

/// Returns true if the server answered. Then requests and answers on the connection still match.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    error.code().is_some()
}

/// Returns the error of a command that may have been sent.
pub(crate) fn after_sending(error: RedisError, doing: &str, effect: Effect) -> StoreError {
    StoreError::because(kind(&error, effect), doing, error)
}

/// Returns the error of connecting to the server, before a command was sent.
pub(crate) fn unreachable(doing: &str, error: RedisError) -> StoreError {
    StoreError::because(
        StoreErrorKind::Unavailable,
        format!("{doing}: connecting to the server"),
        error,
    )
}

/// Returns the error of an answer of a server that has been replaced as the master, or may have
/// been.
pub(crate) fn replaced(doing: &str, effect: Effect) -> StoreError {
    let kind = match effect {
        Effect::None => StoreErrorKind::Unavailable,
        Effect::Commits => StoreErrorKind::Unknown,
    };
    let doing = format!("{doing}: the Sentinels do not name this server as the master any more");
    StoreError::new(kind, doing)
}

/// Returns the error of an answer with an unexpected form.
pub(crate) fn garbled(doing: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("{doing}: reading the server's answer"))
}

/// Returns the error of a long record without its overflow value, the rest of its bytes. The script
/// has changed nothing.
pub(crate) fn damaged(doing: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Corrupt,
        format!("{doing}: a long record has lost its overflow value at the server"),
    )
}

/// Returns true if the server refused a call because its memory is exhausted.
pub(crate) fn is_out_of_memory(error: &StoreError) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(lacks_memory)
}

/// Returns the error of all calls after `close`.
pub(crate) fn closed(doing: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("{doing}: the store is closed"))
}

#[cfg(test)]
mod tests;
