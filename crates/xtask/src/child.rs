//! Programs that run for us, and how they end.
//!
//! Each runs in its own process group, so that stopping it reaches what it started in turn, and a
//! Ctrl-C at the terminal reaches only us. Output goes to a file, never to a pipe that could fill.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a waiting loop looks again.
const POLL: Duration = Duration::from_millis(30);

/// How long a program may take to end after SIGTERM; the gateway drains its requests meanwhile.
const GRACE: Duration = Duration::from_secs(20);

/// The wish to end, set by Ctrl-C, SIGTERM or SIGHUP, and seen by everything that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches the signals from here on; to be called once.
    pub(crate) fn on_signals() -> Result<Self> {
        let stop = Self::default();
        let seen = stop.clone();
        ctrlc::set_handler(move || seen.0.store(true, Ordering::SeqCst))
            .context("cannot catch signals")?;
        Ok(stop)
    }

    /// Whether to end now.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error as soon as it is time to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Waits, but not longer than until the wish to end.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(POLL.min(time));
        }
        self.check()
    }
}

/// A running program of ours; dropped, it ends.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    name: String,
    log: PathBuf,
}

impl Child {
    /// Starts `command` with its output appended to `log`.
    pub(crate) fn spawn(mut command: Command, name: &str, log: &Path) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        command.process_group(0).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let process = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { process, name: name.to_owned(), log: log.to_owned() })
    }

    /// Its process id, which is also that of its group.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where its output is.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// An error if it has ended, which a server should not do by itself.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            bail!("{} ended by itself: {status}", self.name);
        }
        Ok(())
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.try_wait()?)
    }

    /// Waits for its end, at most for `limit`; past it, or when asked to stop, ends it.
    pub(crate) fn wait(&mut self, stop: &Stop, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            if stop.is_set() || Instant::now() > end {
                self.end()?;
                stop.check()?;
                bail!("{} took longer than {} s", self.name, limit.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Asks its group to end, insists after a grace period, and returns how it ended.
    pub(crate) fn end(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.process.try_wait()? {
            return Ok(status);
        }
        // The leader is not reaped before this, so its id cannot belong to anybody else.
        let group = Pid::from_child(&self.process);
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

/// The last `lines` lines of a log, for a report; empty if it cannot be read.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
