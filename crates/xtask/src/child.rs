//! Child processes, and the ways in which they end.
//!
//! Each child runs in its own process group. A signal to the group therefore also reaches the
//! processes that the child started, and a Ctrl-C at the terminal reaches xtask alone. The output
//! of a child goes to a file, because a pipe that is not read fills up and blocks its writer.
//!
//! For example, a suite that hangs is ended with its browser when its time limit is reached.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

mod stall;

/// The pause between two checks of a waiting loop.
const POLL: Duration = Duration::from_millis(30);

/// The time between SIGTERM and SIGKILL. The gateway needs it to drain its requests.
const GRACE: Duration = Duration::from_secs(20);

/// A request to end the task. Ctrl-C, SIGTERM and SIGHUP set it, and every waiting loop checks it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Installs the signal handlers. The process must call this once only.
    pub(crate) fn on_signals() -> Result<Self> {
        let stop = Self::default();
        let seen = stop.clone();
        ctrlc::set_handler(move || seen.0.store(true, Ordering::SeqCst))
            .context("cannot catch signals")?;
        Ok(stop)
    }

    /// Returns true if the user has asked the task to end, for example by Ctrl-C.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Fails if the user has asked the task to end, for example by Ctrl-C.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Waits for `time`. Fails at once if the task must end.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(POLL.min(time));
        }
        self.check()
    }
}

/// A running child process. Dropping the value ends the process and its group.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    name: String,
    log: PathBuf,
}

impl Child {
    /// Starts `command` in a new process group. Its output is appended to `log`, and `name` is used
    /// in errors.
    pub(crate) fn spawn(mut command: Command, name: &str, log: &Path) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        // Without its own group, the child would get the terminal's Ctrl-C together with xtask, and
        // servers would end before the tests that use them.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let process = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { process, name: name.to_owned(), log: log.to_owned() })
    }

    /// The process id, which is also the id of the process group.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The path of the file with its output.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Fails if the process has ended. A server must run until it is asked to end.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            bail!("{} ended unexpectedly: {status}", self.name);
        }
        Ok(())
    }

    /// Returns the exit status, or `None` while the process runs.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.try_wait()?)
    }

    /// Waits until the process ends and returns its exit status. After `limit`, or if the task must
    /// end, ends the process and fails.
    pub(crate) fn wait(&mut self, stop: &Stop, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            if stop.is_set() || Instant::now() > end {
                self.end()?;
                // The user's request to end is the reason to report, also if the limit is over.
                stop.check()?;
                bail!("{} took longer than {} s", self.name, limit.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Does the same as [`Child::wait`]. Ends the process also if it writes nothing to its log for
    /// `quiet`: then it hangs. The error describes the processes that ran at the end.
    pub(crate) fn wait_while_it_writes(
        &mut self,
        stop: &Stop,
        limit: Duration,
        quiet: Duration,
    ) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        let mut written = 0;
        let mut changed = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            let length = self.log.metadata().map_or(0, |file| file.len());
            if length != written {
                (written, changed) = (length, Instant::now());
            }
            let is_quiet = changed.elapsed() > quiet;
            if stop.is_set() || is_quiet || Instant::now() > end {
                let processes = stall::describe(self.pid());
                self.end()?;
                stop.check()?;
                let name = &self.name;
                if is_quiet {
                    bail!("{name} wrote nothing for {} s\n{processes}", quiet.as_secs());
                }
                bail!("{name} took longer than {} s\n{processes}", limit.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends SIGKILL to the group, as a crash of the machine would end it, and waits for the end of
    /// the process. Fails if the process has ended by itself.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.check_alive()?;
        kill_process_group(Pid::from_child(&self.process), Signal::KILL)?;
        self.process.wait()?;
        Ok(())
    }

    /// Sends SIGTERM to the group, and SIGKILL after [`GRACE`]. Returns the exit status.
    pub(crate) fn end(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.process.try_wait()? {
            return Ok(status);
        }
        // The process is not reaped yet, so the kernel cannot have given its id to another one.
        let group = Pid::from_child(&self.process);
        // SIGTERM comes first, so that servers can finish their requests and write their data.
        kill_process_group(group, Signal::TERM)?;
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(POLL);
        }
        kill_process_group(group, Signal::KILL)?;
        Ok(self.process.wait()?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot end {}: {error:#}", self.name);
        }
    }
}

/// Returns the last `lines` lines of a log, or nothing if the log cannot be read.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests;
