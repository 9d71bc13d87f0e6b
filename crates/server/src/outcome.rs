//! How a command ends that did its work.

/// What a command found. Its exit status says so, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Well,
    /// Something is wrong with what the command looked at.
    Findings,
}
