//! The output of commands.

use std::fmt;
use std::io::Write;

/// Writes a line to standard output. A closed pipe, for example of `head`, is not an error.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _gone = writeln!(std::io::stdout().lock(), "{line}");
}
