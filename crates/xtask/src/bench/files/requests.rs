//! How many requests the kernel sends to a file system, as the kernel itself counts them.
//!
//! It writes an event for each request into a buffer of ours, so both sides are counted alike, and
//! no file system has to tell. An event costs part of a microsecond: passes that are timed are not
//! counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The kernel's event.
const EVENT: &str = "events/fuse/fuse_request_send";

/// KiB of events that each processor may keep. Of more the latest stay, and all are counted.
const BUFFER_KIB: &str = "16384";

/// An instance of the kernel's tracing; it ends with this value.
#[derive(Debug)]
pub(super) struct Tracer {
    /// Where we have mounted the kernel's tables.
    tables: PathBuf,
    instance: PathBuf,
}

/// Requests of one file system.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// All that were sent.
    pub(super) sent: u64,
    /// Those of which the kind is known, by kind.
    kinds: BTreeMap<String, u64>,
}

impl Tracer {
    /// Mounts the kernel's tables below `folder`.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let tables = folder.join("tracing");
        std::fs::create_dir(&tables)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tracefs", "nodev"]).arg(&tables);
        ensure!(command.output()?.status.success(), "the kernel's tracing cannot be mounted");
        let instance = tables.join("instances").join(format!("ashlar-{}", std::process::id()));
        let tracer = Self { tables, instance };
        std::fs::create_dir(&tracer.instance).context("the kernel's tracing is not usable")?;
        ensure!(tracer.instance.join(EVENT).exists(), "the kernel does not count FUSE requests");
        tracer.write("buffer_size_kb", BUFFER_KIB)?;
        Ok(tracer)
    }

    /// Counts from here on the requests to one file system.
    pub(super) fn begin(&self, device: u32) -> Result<()> {
        self.write(&format!("{EVENT}/filter"), &format!("connection == {device}"))?;
        self.write("trace", "")?;
        self.write(&format!("{EVENT}/enable"), "1")
    }

    /// What was sent since.
    pub(super) fn end(&self) -> Result<Requests> {
        self.write(&format!("{EVENT}/enable"), "0")?;
        let mut sent = 0;
        for processor in std::fs::read_dir(self.instance.join("per_cpu"))? {
            sent += written(&std::fs::read_to_string(processor?.path().join("stats"))?);
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
    /// Requests for each of so many operations.
    pub(super) fn each(&self, operations: u64) -> f64 {
        ratio(self.sent, operations)
    }

    /// What each operation consists of, the most frequent first: `LOOKUP 2, CREATE 1`. What fewer
    /// than one operation in twenty needs is left out.
    pub(super) fn kinds(&self, operations: u64) -> String {
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

/// The events that one processor has written: those that are there, and those that made room.
fn written(stats: &str) -> u64 {
    let field = |line: &str| {
        let value = line.strip_prefix("entries:").or_else(|| line.strip_prefix("overrun:"))?;
        value.trim().parse::<u64>().ok()
    };
    stats.lines().filter_map(field).sum()
}

/// The requests in a buffer, by the names that the kernel prints.
fn kinds(trace: &str) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split_once("opcode ").and_then(|(_, rest)| {
            let (number, rest) = rest.split_once(' ')?;
            // A kernel whose headers are newer than its names prints a number there.
            let name = rest.strip_prefix("(FUSE_").and_then(|it| Some(it.split_once(')')?.0));
            Some(name.unwrap_or(number).to_owned())
        });
        if let Some(name) = name {
            *kinds.entry(name).or_default() += 1;
        }
    }
    kinds
}

#[expect(clippy::cast_precision_loss, reason = "a ratio has no use for more than 52 bits")]
fn ratio(sum: u64, of: u64) -> f64 {
    sum as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests;
