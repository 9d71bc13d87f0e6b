//! The operator, in whose name declarations are applied, and the refusals that it gets.
//!
//! For example, a lifecycle that S3 refuses becomes a [`Refusal`] with the part `the lifecycle` and
//! the line of that field.

use std::cell::Cell;

use adminapi::{Actor, AdminApi, ApiError, IfMatch};

/// The operator, in whose name the declarations are applied, and the count of changes.
pub(super) struct Operator<'a> {
    pub(super) api: &'a AdminApi,
    pub(super) actor: &'a Actor<'a>,
    /// The precondition of a change: none.
    pub(super) any: IfMatch,
    /// The number of writes.
    pub(super) changes: Cell<usize>,
}

/// The reason why a declaration is not in force.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The part of the declaration: for example `the lifecycle`.
    pub(super) part: &'static str,
    /// The place of the part, if it is not that of the name.
    pub(super) place: Option<String>,
    pub(super) error: ApiError,
}

impl Refusal {
    /// Returns a function that adds the part of the declaration to an error.
    pub(super) fn of(part: &'static str) -> impl FnOnce(ApiError) -> Refusal {
        move |error| Refusal { part, place: None, error }
    }

    /// Returns true if another process has made a change at the same time, so that another attempt
    /// can succeed.
    pub(super) fn is_race(&self) -> bool {
        ["Changed", "Exists", "Contended", "OperationAborted"].contains(&self.error.code.as_ref())
    }
}

impl Operator<'_> {
    /// Counts a write.
    pub(super) fn changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }
}
