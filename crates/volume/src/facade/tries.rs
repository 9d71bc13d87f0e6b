//! The tries of an operation that checks an object and then changes or copies it.

use std::future::Future;

use crate::Volume;

use super::object::Object;

/// The tries of one operation that finds an object, checks it, and commits on the condition that
/// the key still has it. If another client wins, the operation begins anew.
///
/// ```ignore
/// let mut tries = volume.tries();
/// loop {
///     let object = volume.stat(bucket, key).await?;
///     check(&object)?;
///     match tries.run(volume.change_object(bucket, key, None, Some(&object), change)).await {
///         Err(VolumeError::Fs(FsError::OtherObject)) if tries.again(Some(&object)).await => {}
///         changed => return changed,
///     }
/// }
/// ```
#[derive(Debug)]
pub struct ObjectTries<'v> {
    tries: session::Tries<'v>,
}

impl Volume {
    /// Begins the tries of an operation that changes the object. They end after
    /// [`crate::CONTENTION_DEADLINE`].
    pub fn tries(&self) -> ObjectTries<'_> {
        ObjectTries { tries: self.session.tries(false) }
    }

    /// As [`Volume::tries`], for a copy, which only reads the object. Copies of one source do not
    /// wait for each other.
    pub fn tries_of_copy(&self) -> ObjectTries<'_> {
        ObjectTries { tries: self.session.tries(true) }
    }
}

impl ObjectTries<'_> {
    /// Runs the part of a try that commits.
    pub fn run<F: Future>(&self, commit: F) -> impl Future<Output = F::Output> + use<F> {
        self.tries.run(commit)
    }

    /// Waits before the next try, after one has failed because another client has changed the
    /// object. Other operations of this process on the object's key wait until the next try has
    /// ended, but not for long: see [`session::Tries`]. Without an object, it pauses only: a caller
    /// that moves many bytes must not let others wait.
    ///
    /// Returns false if the time for tries is over.
    pub async fn again(&mut self, object: Option<&Object>) -> bool {
        let records = object.map(Object::records).unwrap_or_default();
        self.tries.again(&records).await
    }
}
