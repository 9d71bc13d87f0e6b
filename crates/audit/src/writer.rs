//! The thread that writes the access log.
//!
//! It takes entries from the queue, formats them, and writes many lines with one system call. For
//! example, under load a write has all entries of the last 20 milliseconds. If a write fails, its
//! entries are counted as dropped and the next batch is tried again; a line that was cut by the
//! failure is ended first, so a later line never continues it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::entry::AuditEntry;
use crate::line::LineFormat;

/// The bytes of lines after which a batch is written.
const BATCH_BYTES: usize = 64 << 10;

/// The time in which the writer gathers entries after a batch. A thread that sleeps costs requests
/// no wake-up, so this keeps the cost of an entry low: with 2 ms, half of the CPU time of the
/// writer were its wake-ups and writes at 1,500 requests per second.
const GATHER: Duration = Duration::from_millis(20);

/// The minimum time between two log lines about dropped entries.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// The permissions of a new file. It names users and objects, so other users cannot read it.
const MODE: u32 = 0o640;

/// A message to the writer.
#[derive(Debug)]
pub(crate) enum Message {
    /// Write this entry.
    Entry(Arc<AuditEntry>),
    /// Open the output again, and answer true if it is a file.
    Reopen(oneshot::Sender<io::Result<bool>>),
    /// Write everything and end.
    Close(oneshot::Sender<io::Result<()>>),
}

runtime::counters! {
    /// Counters of the access log.
    pub(crate) struct LogMeters {
        /// Entries that were written to the access log.
        written: "ashlar_access_log_entries_total" { result: "written" }
            "Entries of the access log, by their result. An entry is dropped if the queue is full or a write fails.",
        /// Entries that were dropped, because the queue was full or a write failed.
        dropped: "ashlar_access_log_entries_total" { result: "dropped" },
    }
}

/// The counter of dropped entries, with its log line.
#[derive(Debug)]
pub(crate) struct Drops {
    pub(crate) meters: LogMeters,
    started: Instant,
    /// The earliest time of the next log line, in milliseconds since `started`.
    warn_at: AtomicU64,
}

impl Default for Drops {
    fn default() -> Drops {
        Drops { meters: LogMeters::default(), started: Instant::now(), warn_at: AtomicU64::new(0) }
    }
}

impl Drops {
    /// Counts dropped entries. Logs the reason, at most once a minute.
    pub(crate) fn count(&self, entries: u64, why: &dyn fmt::Display) {
        self.meters.dropped.add(entries);
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let now = millis(self.started.elapsed());
        let due = self.warn_at.load(Ordering::Relaxed);
        let next = now + millis(WARN_INTERVAL);
        // One thread wins the exchange and logs.
        if now >= due
            && self
                .warn_at
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let dropped = self.meters.dropped.get();
            tracing::error!(%why, dropped, "entries of the access log are dropped");
        }
    }
}

/// The output of the log.
pub(crate) struct Output {
    to: Box<dyn Write + Send>,
    /// The file's path; `None` for standard output.
    path: Option<PathBuf>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Output {
    /// Returns standard output. It is a descriptor of its own, without the buffer and the lock of
    /// the process.
    pub(crate) fn stdout() -> io::Result<Output> {
        use std::os::fd::AsFd;
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Output { to: Box::new(file), path: None })
    }

    /// Returns a file that is opened for appending, and created if it does not exist.
    pub(crate) fn file(path: PathBuf) -> io::Result<Output> {
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(&path)?;
        Ok(Output { to: Box::new(file), path: Some(path) })
    }

    /// Returns an output that tests observe.
    #[cfg(test)]
    pub(crate) fn over(to: impl Write + Send + 'static) -> Output {
        Output { to: Box::new(to), path: None }
    }
}

/// The writer of the log: the state of its thread.
#[derive(Debug)]
pub(crate) struct Writer {
    output: Output,
    format: LineFormat,
    queued_bytes: Arc<AtomicUsize>,
    drops: Arc<Drops>,
    /// Formatted lines that are not written yet.
    lines: String,
    /// The number of entries in `lines`.
    entries: u64,
    /// True if the last write failed, perhaps within a line.
    torn: bool,
}

impl Writer {
    pub(crate) fn new(
        output: Output,
        format: LineFormat,
        queued_bytes: Arc<AtomicUsize>,
        drops: Arc<Drops>,
    ) -> Writer {
        let (lines, entries, torn) = (String::new(), 0, false);
        Writer { output, format, queued_bytes, drops, lines, entries, torn }
    }

    /// Writes entries until a message closes the log or the log is dropped.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let mut next = Some(first);
            while let Some(message) = next {
                if !self.take(message) {
                    return;
                }
                next = messages.try_recv().ok();
            }
            // A failure has been counted, and there is no caller to return it to.
            let _ = self.write();
            std::thread::sleep(GATHER);
        }
    }

    /// Handles a message. Returns false if it closes the log.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Entry(entry) => {
                self.queued_bytes.fetch_sub(entry.memory(), Ordering::Relaxed);
                self.format.append(&entry, &mut self.lines);
                self.lines.push('\n');
                self.entries += 1;
                if self.lines.len() >= BATCH_BYTES {
                    let _ = self.write();
                }
            }
            // The sender of either message may have given up, so a failed answer is ignored.
            Message::Reopen(answer) => {
                let _ = answer.send(self.reopen());
            }
            Message::Close(answer) => {
                let _ = answer.send(self.write());
                return false;
            }
        }
        true
    }

    /// Writes the lines so far to the old file and opens the new one. Returns false if the log is
    /// not a file. If it fails, the old file stays in use.
    fn reopen(&mut self) -> io::Result<bool> {
        let _ = self.write();
        let Some(path) = self.output.path.clone() else { return Ok(false) };
        self.output = Output::file(path)?;
        self.torn = false;
        Ok(true)
    }

    /// Writes the formatted lines. If that fails, counts their entries as dropped.
    fn write(&mut self) -> io::Result<()> {
        if self.entries == 0 {
            return Ok(());
        }
        let written = self.write_lines();
        self.torn = written.is_err();
        match &written {
            Ok(()) => self.drops.meters.written.add(self.entries),
            Err(error) => self.drops.count(self.entries, error),
        }
        self.lines.clear();
        self.entries = 0;
        written
    }

    fn write_lines(&mut self) -> io::Result<()> {
        if self.torn {
            // Ends a line that the failed write may have begun.
            self.output.to.write_all(b"\n")?;
        }
        self.output.to.write_all(self.lines.as_bytes())
    }
}

#[cfg(test)]
mod tests;
