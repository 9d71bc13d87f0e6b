//! Lines for whoever runs a command.

use std::fmt;
use std::io::Write;

/// Writes a line to standard output. A reader that went away, as `head` does, is no error.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _gone = writeln!(std::io::stdout().lock(), "{line}");
}
