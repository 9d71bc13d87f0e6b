//! What a process costs, read from /proc.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Clock ticks per second in /proc on Linux; a constant of its interface to user space.
const TICKS_PER_SECOND: u64 = 100;

/// The CPU time that a process has used so far, in user and kernel mode.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    let ticks = cpu_ticks(&text).context("/proc/PID/stat has another form")?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// The CPU time of these processes and of all that they started, ended ones included.
///
/// A worker need not be in its server's group: PostgreSQL gives each a session of its own. One that
/// ends meanwhile has left its time to the one that started it, or will.
pub(crate) fn cpu_time_of_tree(roots: &[u32]) -> Duration {
    let mut stats = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
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

/// The roots and all below them, each once.
fn tree(roots: &[u32], parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let below = parents.iter().filter(|(_, parent)| found.contains(parent));
        let below: Vec<u32> = below.map(|(pid, _)| *pid).collect();
        let before = found.len();
        found.extend(below);
        if found.len() == before {
            return found;
        }
    }
}

/// The most memory that a process has ever had resident, in MiB.
pub(crate) fn peak_memory(pid: u32) -> Result<f64> {
    status(pid, "VmHWM:")
}

/// The memory that a process has resident now, in MiB.
pub(super) fn memory(pid: u32) -> Result<f64> {
    status(pid, "VmRSS:")
}

fn status(pid: u32, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    kib(&text, field).map(|kib| kib / 1024.0).context("/proc/PID/status has another form")
}

/// Field 4.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Fields 14 and 15: the process itself.
fn cpu_ticks(stat: &str) -> Option<u64> {
    two_fields(stat, 14)
}

/// Fields 16 and 17: its children that have ended.
fn ended_ticks(stat: &str) -> Option<u64> {
    two_fields(stat, 16)
}

/// A field and the next one; the name in field 2 may hold spaces, so counting starts behind it.
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
