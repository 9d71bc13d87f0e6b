//! Which program is started.

use std::path::PathBuf;

use crate::problem::Problem;

/// The program that this process runs, as one that can be started.
pub(super) fn this_program() -> Result<PathBuf, Problem> {
    match std::env::current_exe() {
        Ok(program) if program.exists() => Ok(program),
        // It was replaced on the disk since. This is the one that runs.
        Ok(_) => Ok(PathBuf::from("/proc/self/exe")),
        Err(error) => Err(Problem::new("find this program", error)),
    }
}
