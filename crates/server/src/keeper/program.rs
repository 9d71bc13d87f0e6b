//! The path of the running program.

use std::path::PathBuf;

use crate::problem::Problem;

/// Returns a path that starts the program of this process again, also if an update has deleted its
/// file.
pub(super) fn this_program() -> Result<PathBuf, Problem> {
    match std::env::current_exe() {
        Ok(program) if program.exists() => Ok(program),
        // The file was deleted or replaced; this link still leads to its content.
        Ok(_) => Ok(PathBuf::from("/proc/self/exe")),
        Err(error) => Err(Problem::new("find the path of this program", error)),
    }
}
