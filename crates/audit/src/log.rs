//! The access log: a bounded queue of entries in front of a thread that writes them, and a bounded
//! broadcast for live subscribers.
//!
//! A request ends with [`AuditLog::record`], which never waits: it puts the entry into the queue,
//! or drops and counts it. For example, if the disk of the log stalls for a minute, requests
//! continue, the queue fills, and `ashlar_access_log_entries_total{result="dropped"}` grows.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use runtime::{Metered, Metric};
use tokio::sync::{broadcast, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use crate::entry::AuditEntry;
use crate::line::LineFormat;
use crate::writer::{Drops, Message, Output, Writer};

/// The limit of entries that wait for the writer.
const QUEUE_ENTRIES_MAX: usize = 16_384;

/// The limit of bytes of entries that wait for the writer. A queue of the longest entries would
/// have more.
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// The number of entries that a live subscriber may be late. It misses older ones.
const SUBSCRIBER_ENTRIES_MAX: usize = 1_024;

/// The limit of time of a reopen and of the flush at the stop.
const CONTROL_WAIT: Duration = Duration::from_secs(5);

/// The pause before a further attempt to put a control message into a full queue.
const CONTROL_PAUSE: Duration = Duration::from_millis(10);

/// The place of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogSink {
    /// No log is written.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// A file, to which lines are appended.
    File(PathBuf),
}

impl LogSink {
    /// Returns the place that an option names: `off` or nothing, `-`, or the path of a file.
    pub fn parse(text: &str) -> LogSink {
        match text {
            "" | "off" => LogSink::Off,
            "-" => LogSink::Stdout,
            path => LogSink::File(PathBuf::from(path)),
        }
    }
}

impl fmt::Display for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogSink::Off => f.write_str("off"),
            LogSink::Stdout => f.write_str("-"),
            LogSink::File(path) => path.display().fmt(f),
        }
    }
}

/// The access log of a process.
#[derive(Debug)]
pub struct AuditLog {
    /// The queue of the writer; `None` if no log is written.
    queue: Option<SyncSender<Message>>,
    /// The bytes of the entries in the queue.
    queued_bytes: Arc<AtomicUsize>,
    drops: Arc<Drops>,
    live: broadcast::Sender<Arc<AuditEntry>>,
}

impl AuditLog {
    /// Returns a log that writes lines in `format` to `sink`. Fails if the file cannot be opened,
    /// or if the system refuses a thread.
    pub fn start(sink: &LogSink, format: LineFormat) -> std::io::Result<AuditLog> {
        match sink {
            LogSink::Off => Ok(AuditLog::without_writer()),
            LogSink::Stdout => AuditLog::over(Output::stdout()?, format),
            LogSink::File(path) => AuditLog::over(Output::file(path.clone())?, format),
        }
    }

    /// Returns a log that serves live subscribers alone.
    fn without_writer() -> AuditLog {
        AuditLog {
            queue: None,
            queued_bytes: Arc::default(),
            drops: Arc::default(),
            live: broadcast::Sender::new(SUBSCRIBER_ENTRIES_MAX),
        }
    }

    /// Returns a log over an output. Fails if the system refuses a thread.
    pub(crate) fn over(output: Output, format: LineFormat) -> std::io::Result<AuditLog> {
        let (queue, messages) = sync_channel(QUEUE_ENTRIES_MAX);
        let log = AuditLog { queue: Some(queue), ..AuditLog::without_writer() };
        let (queued_bytes, drops) = (Arc::clone(&log.queued_bytes), Arc::clone(&log.drops));
        let writer = Writer::new(output, format, queued_bytes, drops);
        // A thread, because a write to a file blocks. A stalled disk must not hold a thread of the
        // runtime.
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        thread.spawn(move || writer.run(&messages))?;
        Ok(log)
    }

    /// Returns true if an entry would be written or sent to a subscriber. If it is false, the
    /// caller need not make entries.
    pub fn is_active(&self) -> bool {
        self.queue.is_some() || self.live.receiver_count() > 0
    }

    /// Puts an entry into the queue of the writer and sends it to all subscribers. Does not wait:
    /// if the queue is full, the entry is dropped and counted.
    pub fn record(&self, entry: AuditEntry) {
        let entry = Arc::new(entry);
        if self.live.receiver_count() > 0 {
            // It fails if the last subscriber has just gone.
            let _ = self.live.send(Arc::clone(&entry));
        }
        let Some(queue) = &self.queue else { return };
        let bytes = entry.memory();
        // Counted before the entry is in the queue, because the writer subtracts it at any time
        // after that.
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= QUEUE_BYTES_MAX;
        if !fits || queue.try_send(Message::Entry(entry)).is_err() {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.drops.count(1, &"its queue is full");
        }
    }

    /// Returns a stream of the entries from now on. A receiver that is more than 1,024 entries late
    /// gets `RecvError::Lagged` with the number of entries that it has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<AuditEntry>> {
        self.live.subscribe()
    }

    /// Opens the file of the log again, after an operator has renamed it. Entries that were
    /// recorded before are in the old file. Returns false if the log is not a file. Fails if the
    /// file cannot be opened, or if the writer does not answer within 5 seconds; the old file stays
    /// in use then.
    pub async fn reopen(&self) -> std::io::Result<bool> {
        self.control(Message::Reopen).await.unwrap_or(Ok(false))
    }

    /// Writes all entries that were recorded before this call, and ends the writer. Entries that
    /// are recorded later are dropped. Fails if a write fails, or if the writer does not answer
    /// within 5 seconds.
    pub async fn close(&self) -> std::io::Result<()> {
        self.control(Message::Close).await.unwrap_or(Ok(()))
    }

    /// Sends a control message to the writer, after the entries in the queue, and returns its
    /// answer. Returns `None` without a writer, and if it has ended.
    async fn control<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<std::io::Result<T>>) -> Message,
    ) -> Option<std::io::Result<T>> {
        let queue = self.queue.as_ref()?;
        let deadline = Instant::now() + CONTROL_WAIT;
        let late = || Some(Err(std::io::Error::from(std::io::ErrorKind::TimedOut)));
        let (answer, answered) = oneshot::channel();
        let mut message = message(answer);
        loop {
            match queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return None,
                Err(TrySendError::Full(_)) if Instant::now() >= deadline => return late(),
                Err(TrySendError::Full(unsent)) => message = unsent,
            }
            sleep(CONTROL_PAUSE).await;
        }
        match timeout_at(deadline, answered).await {
            Ok(answer) => answer.ok(),
            Err(_late) => late(),
        }
    }
}

impl Metered for AuditLog {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.drops.meters.visit_metrics(visit);
        let bytes = self.queued_bytes.load(Ordering::Relaxed) as u64;
        let help = "Bytes of entries that wait for the writer of the access log.";
        visit(Metric::gauge("ashlar_access_log_queued_bytes", help, bytes));
    }
}

#[cfg(test)]
mod tests;
