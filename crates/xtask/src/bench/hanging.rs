//! Work on mounts that may hang.
//!
//! A call to a mount whose server is stuck never returns, and the thread or program that made it
//! ignores signals. So only separate threads and programs access mounts, and each has a time limit.
//! After the limit, the caller's `abort` aborts the mounts, and all calls to them fail. For
//! example, a `tar` that hangs ends after [`WORK_LIMIT`], and the benchmark reports it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use load::{Gauge, Trouble};

use crate::child::{Child, Stop, tail};

/// The time limit of one piece of work on a mount.
const WORK_LIMIT: Duration = Duration::from_mins(20);

/// The time that a piece of work has to end after the user has ended the task.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The pause between two checks of running work.
const WORK_POLL: Duration = Duration::from_millis(100);

/// The pause between two checks whether a program has ended. It is short, because some programs
/// take only a tenth of a second.
const PROGRAM_POLL: Duration = Duration::from_millis(1);

/// Runs load on a mount in a new thread, and returns its result. After the time limit, aborts the
/// mounts, abandons the thread and fails.
pub(super) fn work<T: Send + 'static>(
    stop: &Stop,
    abort: &dyn Fn(),
    work: impl FnOnce(&Gauge) -> Result<T, Trouble> + Send + 'static,
) -> Result<T> {
    let gauge = Arc::new(Gauge::default());
    let (done, all) = sync_channel(1);
    let theirs = Arc::clone(&gauge);
    std::thread::Builder::new().name("load".to_owned()).spawn(move || {
        let _abandoned = done.send(work(&theirs));
    })?;
    let mut end = Instant::now() + WORK_LIMIT;
    loop {
        match all.recv_timeout(WORK_POLL) {
            Ok(result) => return Ok(result?),
            Err(RecvTimeoutError::Disconnected) => bail!("the thread of the load panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // The load looks at the gauge between its operations. A call that hangs needs the abort
        // below.
        if stop.is_set() && !gauge.is_stopped() {
            gauge.stop();
            end = end.min(Instant::now() + STOP_GRACE);
        }
        if Instant::now() > end {
            abort();
            stop.check()?;
            bail!("the load took longer than {} s", WORK_LIMIT.as_secs());
        }
    }
}

/// Runs a program that works on a mount, and returns the time that it took and its output. The
/// output is in a file of `folder` meanwhile. After the time limit, aborts the mounts, ends the
/// program and fails.
pub(super) fn run(
    stop: &Stop,
    folder: &Path,
    abort: &dyn Fn(),
    command: Command,
) -> Result<(Duration, String)> {
    let path = Path::new(command.get_program());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let log = folder.join(format!("{name}.log"));
    let begin = Instant::now();
    let mut child = Child::spawn(command, &name, &log)?;
    let status = loop {
        if let Some(status) = child.ended()? {
            break status;
        }
        if stop.is_set() || begin.elapsed() > WORK_LIMIT {
            // A program that waits for a mount ignores signals, so the mount must end first.
            abort();
            child.end()?;
            stop.check()?;
            bail!("{name} took longer than {} s", WORK_LIMIT.as_secs());
        }
        std::thread::sleep(PROGRAM_POLL);
    };
    let took = begin.elapsed();
    if !status.success() {
        bail!("{name} failed, {status}:\n{}", tail(&log, 20));
    }
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    // The next program of this name would append to the output of this one.
    std::fs::remove_file(&log)?;
    Ok((took, text))
}
