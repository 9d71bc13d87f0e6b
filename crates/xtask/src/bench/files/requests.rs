//! Counts the requests that the kernel sends to a FUSE file system, by the kernel's tracing.
//!
//! The kernel writes an event for each request into a buffer of this process. So all file systems
//! are counted in the same way and need no counters. An event takes a part of a microsecond, so
//! timed passes run without counting.
//!
//! For example, creating a file costs `LOOKUP 1, CREATE 1`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The kernel's event for a sent request.
const EVENT: &str = "events/fuse/fuse_request_send";

/// The size of the event buffer of each processor, in KiB. If it is full, the oldest events are
/// overwritten, but they are still counted.
const BUFFER_KIB: &str = "16384";

/// An instance of the kernel's tracing. Dropping the value removes it.
#[derive(Debug)]
pub(super) struct Tracer {
    /// The folder on which tracefs is mounted.
    tables: PathBuf,
    /// The folder of our instance.
    instance: PathBuf,
}

/// Requests of one file system.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// The number of all sent requests.
    pub(super) sent: u64,
    /// The numbers by kind. Overwritten events are missing here.
    kinds: BTreeMap<String, u64>,
}

impl Tracer {
    /// Mounts tracefs below `folder` and creates an instance. Fails if the kernel has no tracing of
    /// FUSE.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let tables = folder.join("tracing");
        std::fs::create_dir(&tables)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tracefs", "nodev"]).arg(&tables);
        ensure!(command.output()?.status.success(), "cannot mount tracefs");
        let instance = tables.join("instances").join(format!("ashlar-{}", std::process::id()));
        let tracer = Self { tables, instance };
        std::fs::create_dir(&tracer.instance)
            .context("cannot create an instance of the kernel's tracing")?;
        ensure!(tracer.instance.join(EVENT).exists(), "the kernel has no event for FUSE requests");
        tracer.write("buffer_size_kb", BUFFER_KIB)?;
        Ok(tracer)
    }

    /// Starts to count the requests to the file system with this device number.
    pub(super) fn begin(&self, device: u32) -> Result<()> {
        self.write(&format!("{EVENT}/filter"), &format!("connection == {device}"))?;
        // Events of an earlier count must not be in the buffer.
        self.write("trace", "")?;
        self.write(&format!("{EVENT}/enable"), "1")
    }

    /// Stops counting, and returns the requests since [`Tracer::begin`].
    pub(super) fn end(&self) -> Result<Requests> {
        self.write(&format!("{EVENT}/enable"), "0")?;
        let mut sent = 0;
        for processor in std::fs::read_dir(self.instance.join("per_cpu"))? {
            sent += event_count(&std::fs::read_to_string(processor?.path().join("stats"))?);
        }
        let kinds = kinds(&std::fs::read_to_string(self.instance.join("trace"))?);
        self.write("trace", "")?;
        Ok(Requests { sent, kinds })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.instance.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.instance).ok();
        Command::new("umount").arg("--lazy").arg(&self.tables).output().ok();
        std::fs::remove_dir(&self.tables).ok();
    }
}

impl Requests {
    /// Returns the number of requests for each of `operations`.
    pub(super) fn each(&self, operations: u64) -> f64 {
        ratio(self.sent, operations)
    }

    /// Returns the requests for each of `operations` by kind, the most frequent first, such as
    /// `LOOKUP 2, CREATE 1`. Kinds that fewer than one operation in twenty needs are left out.
    pub(super) fn kinds(&self, operations: u64) -> String {
        // Kinds of overwritten events are unknown. They are assumed to be distributed like the
        // known ones.
        let known: u64 = self.kinds.values().sum();
        let each = |count: u64| ratio(count, known) * self.each(operations);
        let mut kinds: Vec<(&String, f64)> =
            self.kinds.iter().map(|(kind, count)| (kind, each(*count))).collect();
        kinds.retain(|(_, each)| *each >= 0.05);
        kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
        let words = kinds.iter().map(|(kind, each)| {
            let digits = format!("{each:.1}");
            format!("{kind} {}", digits.strip_suffix(".0").unwrap_or(&digits))
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the number of events of one processor: those in its buffer and the overwritten ones.
fn event_count(stats: &str) -> u64 {
    let field = |line: &str| {
        let value = line.strip_prefix("entries:").or_else(|| line.strip_prefix("overrun:"))?;
        value.trim().parse::<u64>().ok()
    };
    stats.lines().filter_map(field).sum()
}

/// Counts the requests in a buffer by the names that the kernel prints.
fn kinds(trace: &str) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split_once("opcode ").and_then(|(_, rest)| {
            let (number, rest) = rest.split_once(' ')?;
            // If the kernel has no name for a new request, it prints the number again.
            let name = rest.strip_prefix("(FUSE_").and_then(|it| Some(it.split_once(')')?.0));
            Some(name.unwrap_or(number).to_owned())
        });
        if let Some(name) = name {
            *kinds.entry(name).or_default() += 1;
        }
    }
    kinds
}

#[expect(clippy::cast_precision_loss, reason = "52 bits are enough for a ratio")]
fn ratio(sum: u64, of: u64) -> f64 {
    sum as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests;
