//! The operator, in whose name declarations are applied, and the refusals that it gets.
//!
//! For example, a lifecycle that S3 refuses becomes a [`Refusal`] with the part `the lifecycle` and
//! the line of that field.

use std::cell::Cell;
use std::fmt;

use adminapi::{Actor, AdminApi, ApiError, IfMatch};

/// The operator, in whose name the declarations are applied, and the count of changes.
pub(super) struct Operator<'a> {
    pub(super) api: &'a AdminApi,
    pub(super) actor: &'a Actor<'a>,
    /// The precondition of a change: none.
    pub(super) any: IfMatch,
    /// The number of writes.
    pub(super) changes: Cell<usize>,
    /// The number of declarations that are not in force, because their name belongs to another
    /// account.
    pub(super) left_out: Cell<usize>,
}

/// The reason of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The object did not exist.
    Creation,
    /// A setting of an object that exists differed from its declaration.
    Overwrite,
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
    /// Counts a write, and logs it. `kind` and `name` are those of the declaration, `part` is the
    /// written part of it. A setting that an operator has changed since the last start is
    /// overwritten without a question, for example the removal of a policy after an incident, so
    /// the log says so.
    pub(super) fn wrote(&self, write: Write, kind: &str, name: &str, part: impl fmt::Display) {
        self.changes.set(self.changes.get() + 1);
        match write {
            Write::Creation => {
                tracing::info!(kind, name, %part, "wrote a declared object that did not exist");
            }
            Write::Overwrite => tracing::warn!(
                kind,
                name,
                %part,
                "overwrote a setting that differed from its declaration"
            ),
        }
    }

    /// Counts a declared bucket that belongs to another account, and logs it. A refusal would let
    /// each user who may create buckets prevent the start of all gateways.
    pub(super) fn left_out(&self, bucket: &str) {
        self.left_out.set(self.left_out.get() + 1);
        tracing::error!(
            bucket,
            "a declared bucket belongs to another account, so its declaration is not in force; \
             choose another name, or remove the bucket"
        );
    }
}
