//! Going to the background: the command that was typed ends when the mount is there.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::program::this_program;
use crate::problem::Problem;

/// The flag with which a keeper is started that is in the background.
const FLAG: &str = "--detached";

/// What such a keeper says when the mount is there. Whatever else it says is why there is none.
const MOUNTED: &str = "mounted\n";

/// The log of mounts in the background, in the data directory.
const LOG_FILE: &str = "mount.log";

/// Whom a keeper tells that its mount is there, or that there will be none.
#[derive(Debug)]
pub(crate) enum Announcement {
    /// Whoever reads the log.
    Log,
    /// The command that was typed, over the standard output.
    Command,
}

impl Announcement {
    /// Of a keeper that is in the background: it leaves the terminal of the command that was typed.
    pub(crate) fn detached() -> Announcement {
        if let Err(error) = rustix::process::setsid() {
            tracing::debug!(%error, "this process stays in its session");
        }
        Announcement::Command
    }

    /// The mount is there.
    pub(super) fn mounted(self) {
        if let Announcement::Command = self {
            say(MOUNTED);
            if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
                // The command that was typed waits for the end of what is said.
                let _stays = rustix::stdio::dup2_stdout(&nowhere);
            }
        }
    }

    /// There will be none.
    pub(crate) fn failed(&self, problem: &Problem) {
        if let Announcement::Command = self {
            say(&problem.to_string());
        }
    }
}

fn say(what: &str) {
    let mut output = std::io::stdout().lock();
    // The command may have been stopped meanwhile.
    let _gone = output.write_all(what.as_bytes()).and_then(|()| output.flush());
}

/// Starts a keeper in the background, and waits until its mount is there.
pub(crate) fn detach(arguments: &[OsString], data_dir: &Path) -> Result<(), Problem> {
    let failed = |error: std::io::Error| Problem::new("go to the background", error);
    let log = open_log(data_dir)?;
    let mut command = Command::new(this_program()?);
    command.args(arguments).arg(FLAG).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut keeper = command.spawn().map_err(failed)?;
    let mut said = String::new();
    if let Some(mut output) = keeper.stdout.take() {
        output.read_to_string(&mut said).map_err(failed)?;
    }
    if said == MOUNTED {
        return Ok(());
    }
    let status = keeper.wait().map_err(failed)?;
    if said.is_empty() {
        let wrong = format!("the process in the background has ended: {status}");
        let remedy = format!("see {}", data_dir.join(LOG_FILE).display());
        return Err(Problem::new("mount", wrong).remedy(remedy));
    }
    Err(Problem::said(said))
}

fn open_log(data_dir: &Path) -> Result<File, Problem> {
    let path = data_dir.join(LOG_FILE);
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    log.map_err(|error| Problem::new(format!("write the log {}", path.display()), error))
}
