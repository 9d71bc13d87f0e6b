//! The result of a command that did its work.

/// The result of a command. It decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success; the exit status is 0.
    Success,
    /// The command found errors in the volume; the exit status is 3.
    Findings,
}
