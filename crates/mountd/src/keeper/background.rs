//! The start of a keeper in the background: the typed command waits until the mount exists, and
//! ends.
//!
//! The keeper reports over its standard output: `mounted`, or the reason of a failure. For example,
//! if the directory is not empty, the command prints the keeper's error and exits with 1.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use problem::Problem;

use super::program::this_program;

/// The report of success. Any other report is an error text.
const MOUNTED: &str = "mounted\n";

/// The log file of keepers and workers in the background, in the data directory.
const LOG_FILE: &str = "mount.log";

/// The recipient of a keeper's report.
#[derive(Debug)]
pub enum Announcement {
    /// The caller's function: a keeper in the foreground logs, and notifies its service manager.
    Call(fn()),
    /// The typed command, over standard output.
    Command,
}

impl Announcement {
    /// Returns the announcement of a keeper in the background. Starts a session of its own, so that
    /// signals of the typed command's terminal do not reach the keeper.
    pub fn detached() -> Announcement {
        if let Err(error) = rustix::process::setsid() {
            tracing::debug!(%error, "cannot start a new session");
        }
        Announcement::Command
    }

    /// Reports that the mount exists, and closes standard output.
    pub(super) fn mounted(self) {
        match self {
            Announcement::Call(mounted) => mounted(),
            Announcement::Command => {
                report(MOUNTED);
                if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
                    // The typed command reads to the end of the stream.
                    let _stays = rustix::stdio::dup2_stdout(&nowhere);
                }
            }
        }
    }

    /// Reports the error because of which there will be no mount.
    pub fn failed(&self, problem: &Problem) {
        if let Announcement::Command = self {
            report(&problem.to_string());
        }
    }
}

/// Writes a report to the typed command.
fn report(text: &str) {
    let mut output = std::io::stdout().lock();
    // The typed command may have been killed.
    let _gone = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// Starts this program in the background with `arguments`, as a keeper, and waits for its report.
/// The keeper and its workers log to a file in `data_dir`. Fails with the keeper's error if there
/// is no mount.
pub fn detach(arguments: &[OsString], data_dir: &Path) -> Result<(), Problem> {
    let failed = |error: std::io::Error| Problem::new("start the mount in the background", error);
    let log = open_log(data_dir)?;
    let mut command = Command::new(this_program()?);
    // The keeper must not read the terminal, and its log must not end with it.
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut keeper = command.spawn().map_err(failed)?;
    let mut report = String::new();
    if let Some(mut output) = keeper.stdout.take() {
        output.read_to_string(&mut report).map_err(failed)?;
    }
    if report == MOUNTED {
        return Ok(());
    }
    let status = keeper.wait().map_err(failed)?;
    if report.is_empty() {
        let wrong = format!("the process in the background has exited: {status}");
        let remedy = format!("see {}", data_dir.join(LOG_FILE).display());
        return Err(Problem::new("mount", wrong).remedy(remedy));
    }
    Err(Problem::rendered(report))
}

/// Opens the log file of a keeper or a worker in the background again, as its standard error. A log
/// that was renamed stays as it is. Fails if the file cannot be opened; the previous one stays
/// then.
pub fn reopen_log(data_dir: &Path) -> Result<(), Problem> {
    let log = open_log(data_dir)?;
    rustix::stdio::dup2_stderr(&log)
        .map_err(|error| Problem::new("write to the log that was opened again", error))
}

/// Opens the log file for appending, readable by its owner alone.
fn open_log(data_dir: &Path) -> Result<File, Problem> {
    let path = data_dir.join(LOG_FILE);
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    log.map_err(|error| Problem::new(format!("write the log {}", path.display()), error))
}
