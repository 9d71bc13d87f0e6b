//! A store's knowledge that it is out of space.

use std::sync::{Mutex, PoisonError};

use crate::{StoreError, StoreErrorKind, Verdict};

/// The result of the last commits, as far as it concerns space. Engines keep one and answer
/// [`MetaStore::shortage`](crate::MetaStore::shortage) from it.
#[derive(Debug, Default)]
pub struct Shortage(Mutex<Option<String>>);

impl Shortage {
    /// Notes the outcome of a commit of any plans. Must not be called for a commit that the store
    /// restricted to plans that free space: its success shows nothing.
    pub fn observe(&self, outcome: &Result<Vec<Verdict>, StoreError>) {
        match outcome {
            Err(error) if error.kind() == StoreErrorKind::Full => self.set(Some(error.to_string())),
            Ok(verdicts) if verdicts.contains(&Verdict::Committed) => self.set(None),
            Ok(_) | Err(_) => {}
        }
    }

    /// Sets the cause and the cure, or `None` if there is space.
    pub fn set(&self, shortage: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shortage;
    }

    /// Returns the cause and the cure, or `None` if there is space.
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
