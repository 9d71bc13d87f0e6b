//! Programs of this machine, and the time limits for them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Folders in which packages install programs that are not in every search path.
const FOLDERS: [&str; 8] = [
    "/usr/lib/postgresql/18/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/15/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/usr/sbin",
    "/sbin",
];

/// The time limit for the start or the end of a server on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The pause between two checks of a starting server.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Finds a program in the search path or in the folders of packages.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = FOLDERS.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Returns a command of a program, which must be installed.
pub(crate) fn program(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| panic!("{name} is not installed")))
}

/// Runs a program to its end.
///
/// # Panics
///
/// With the output of the program, if it fails.
pub(crate) fn run(mut command: Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns true if a program succeeds. Its output is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the output of a program, without the last line end. Returns `None` if it fails.
pub(crate) fn output_of(mut command: Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    output.status.success().then_some(text)
}
