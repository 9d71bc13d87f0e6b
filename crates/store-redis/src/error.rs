//! What errors of the server and of the way there mean for a caller.

use redis::RedisError;
use store::{StoreError, StoreErrorKind};

/// Errors of a server that has not begun a command, or has not reached a script's first write. Any other
/// error may come from the middle of a script.
const DEFINITE: &[&str] = &[
    "BUSY",
    "CLUSTERDOWN",
    "EXECABORT",
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

/// What the server answers when its memory is used up.
const OUT_OF_MEMORY: &str = "OOM";

/// The server's answer if it cannot write its append-only file. The text names the cause.
const CANNOT_WRITE: &str = "MISCONF";

/// The texts of the operating system for a full disk and for a spent quota.
const NO_SPACE: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// What our scripts answer, before their first write, if the overflow value of a record is missing.
const DAMAGED: &str = "DAMAGED";

/// What a call does, as far as its errors are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It may be sent again.
    None,
    /// It changes the volume, once it has arrived.
    Commits,
}

fn names_no_space(error: &RedisError) -> bool {
    let text = error.to_string();
    NO_SPACE.iter().any(|cause| text.contains(cause))
}

/// What an error means once a command may have been sent.
pub(crate) fn kind(error: &RedisError, effect: Effect) -> StoreErrorKind {
    match error.code() {
        Some(OUT_OF_MEMORY) => StoreErrorKind::Full,
        Some(CANNOT_WRITE) if names_no_space(error) => StoreErrorKind::Full,
        Some(code) if DEFINITE.contains(&code) => StoreErrorKind::Unavailable,
        Some(DAMAGED) => StoreErrorKind::Corrupt,
        Some("WRONGTYPE") if effect == Effect::None => StoreErrorKind::Corrupt,
        _ if effect == Effect::Commits => StoreErrorKind::Unknown,
        _ => StoreErrorKind::Unavailable,
    }
}

/// Whether the server has answered. Then requests and answers on the connection still match.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    error.code().is_some()
}

/// An error of a command that may have been sent.
pub(crate) fn after_sending(error: RedisError, doing: &str, effect: Effect) -> StoreError {
    StoreError::because(kind(&error, effect), doing, error)
}

/// An error of getting to the server, with nothing sent that matters.
pub(crate) fn unreachable(doing: &str, error: RedisError) -> StoreError {
    StoreError::because(
        StoreErrorKind::Unavailable,
        format!("{doing}: connecting to the server"),
        error,
    )
}

/// The answer has another shape than expected.
pub(crate) fn garbled(doing: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("{doing}: reading the server's answer"))
}

/// The overflow value of a record is missing. The script has changed nothing.
pub(crate) fn damaged(doing: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Corrupt,
        format!("{doing}: a long record has lost its overflow value at the server"),
    )
}

/// Whether the server has refused something because its memory is used up.
pub(crate) fn is_out_of_memory(error: &StoreError) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.and_then(RedisError::code) == Some(OUT_OF_MEMORY)
}

/// What every call says after `close`.
pub(crate) fn closed(doing: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("{doing}: the store is closed"))
}

#[cfg(test)]
mod tests;
