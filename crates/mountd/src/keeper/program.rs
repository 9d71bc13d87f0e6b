//! The path of the running program.

use std::path::{Path, PathBuf};

use problem::Problem;

/// The kernel's link to the program of this process.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Returns a path that starts the program of this process again, also if an update has deleted its
/// file.
pub(super) fn this_program() -> Result<PathBuf, Problem> {
    match std::fs::read_link(THIS_PROGRAM) {
        Ok(program) if program.exists() => Ok(program),
        // The file was deleted or replaced; this link still leads to its content.
        Ok(_) => Ok(Path::new(THIS_PROGRAM).to_owned()),
        Err(error) => Err(Problem::new("find the path of this program", error)),
    }
}
