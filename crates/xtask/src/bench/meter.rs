//! CPU time and memory of processes, read from /proc.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The clock ticks per second in /proc. It is a constant of Linux' interface to programs.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the CPU time of a process up to now, in user and kernel mode.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    let ticks = cpu_ticks(&text).context("cannot parse /proc/PID/stat")?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Returns the CPU time of these processes and of all their descendants, including ended ones.
///
/// The process group is not enough, because a worker can have its own: PostgreSQL starts a session
/// for each worker. When a worker ends, the kernel adds its CPU time to that of its parent.
pub(crate) fn cpu_time_of_tree(roots: &[u32]) -> Duration {
    let mut stats = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        // Processes that end during the loop are left out.
        if let Some((pid, stat)) = pid.zip(std::fs::read_to_string(entry.path().join("stat")).ok())
        {
            stats.insert(pid, stat);
        }
    }
    let parents = stats.iter().filter_map(|(pid, stat)| Some((*pid, parent(stat)?))).collect();
    let ticks = tree(roots, &parents).into_iter().filter_map(|pid| {
        let stat = stats.get(&pid)?;
        Some(cpu_ticks(stat)? + ended_ticks(stat)?)
    });
    Duration::from_millis(ticks.sum::<u64>() * 1000 / TICKS_PER_SECOND)
}

/// Returns the roots and their descendants, each once. `parents` maps a process to its parent.
fn tree(roots: &[u32], parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let below = parents.iter().filter(|(_, parent)| found.contains(parent));
        let below: Vec<u32> = below.map(|(pid, _)| *pid).collect();
        // Each pass adds at least one generation, until there are no more descendants.
        let before = found.len();
        found.extend(below);
        if found.len() == before {
            return found;
        }
    }
}

/// Returns the peak resident memory of a process in MiB.
pub(crate) fn peak_memory(pid: u32) -> Result<f64> {
    status(pid, "VmHWM:")
}

/// Returns the resident memory of a process in MiB.
pub(super) fn memory(pid: u32) -> Result<f64> {
    status(pid, "VmRSS:")
}

fn status(pid: u32, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    kib(&text, field).map(|kib| kib / 1024.0).context("cannot parse /proc/PID/status")
}

/// Returns field 4 of `stat`: the parent.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the sum of fields 14 and 15 of `stat`: the ticks of the process itself.
fn cpu_ticks(stat: &str) -> Option<u64> {
    two_fields(stat, 14)
}

/// Returns the sum of fields 16 and 17 of `stat`: the ticks of children that have ended.
fn ended_ticks(stat: &str) -> Option<u64> {
    two_fields(stat, 16)
}

/// Returns the sum of a field and the next one. The name in field 2 may contain spaces, so fields
/// are counted from the end of the name.
fn two_fields(stat: &str, field: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(field - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

fn kib(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
