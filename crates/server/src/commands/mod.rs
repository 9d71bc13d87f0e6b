//! Commands other than `serve`.

pub(crate) mod bench;
mod beside;
pub(crate) mod bucket;
pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod policy;
mod refusal;
pub(crate) mod upkeep;
pub(crate) mod user;

use std::fmt;
use std::io::Write;

/// Writes a line to standard output. A reader that went away, as `head` does, is no error.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _gone = writeln!(std::io::stdout().lock(), "{line}");
}
