//! Remembers if a store is out of space.
//!
//! For example, after a commit failed with `Full` the gateway's status names the shortage, until a
//! commit succeeds.

use std::sync::{Mutex, PoisonError};

use crate::{StoreError, StoreErrorKind, Verdict};

/// The last known cause of a lack of space, or none, as the commits of an engine have shown. Each
/// engine keeps one, from which `MetaStore::shortage` answers.
#[derive(Debug, Default)]
pub struct Shortage(Mutex<Option<String>>);

impl Shortage {
    /// Records the outcome of a commit. The engine must not call this for a commit that it
    /// restricted to plans that free space: the success of such a commit does not show that there
    /// is space.
    pub fn observe(&self, outcome: &Result<Vec<Verdict>, StoreError>) {
        match outcome {
            Err(error) if error.kind() == StoreErrorKind::Full => self.set(Some(error.to_string())),
            Ok(verdicts) if verdicts.contains(&Verdict::Committed) => self.set(None),
            Ok(_) | Err(_) => {}
        }
    }

    /// Sets the text for operators with the cause and the remedy of a shortage, or `None` if there
    /// is space.
    pub fn set(&self, shortage: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shortage;
    }

    /// Returns the text for operators with the cause and the remedy of the shortage, or `None` if
    /// there is space.
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
