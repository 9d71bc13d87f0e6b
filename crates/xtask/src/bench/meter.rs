//! What a process costs, read from /proc.

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

/// The CPU time of a server's processes together, and of those that they have started and seen end.
///
/// A process that ends meanwhile has left its time to the one that started it, or will.
pub(crate) fn cpu_time_with_ended(pids: &[u32]) -> Duration {
    let stats =
        pids.iter().filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
    let ticks: u64 = stats.filter_map(|text| Some(cpu_ticks(&text)? + ended_ticks(&text)?)).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// The most memory that a process has ever had resident, in MiB.
pub(crate) fn peak_memory(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    peak_kib(&text).map(|kib| kib / 1024.0).context("/proc/PID/status has another form")
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

fn peak_kib(status: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
