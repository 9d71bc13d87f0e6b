//! `ashlar stats` and `ashlar profile`: the activity of a mount, from its file `.ashlar/stats`.
//!
//! Both read the counters of the mount twice and print the difference. For example, if `stats`
//! reads 1,000 lookups and a second later 1,250, it prints 250 lookups per second. A worker that
//! restarts begins its counters again; the difference of that second is then the new value.

mod sample;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use problem::Problem;
use serde_json::{Map, Value, json};

use crate::output::say;
use sample::{Sample, as_float};

/// The interval between two lines of `stats`.
const INTERVAL: Duration = Duration::from_secs(1);

/// The number of lines after which `stats` prints its header again.
const LINES_PER_HEADER: usize = 20;

/// The limit of the time of `profile`, in seconds.
const PROFILE_SECONDS_MAX: u64 = 3_600;

/// The operations with a column of their own: the name of the column, and those that it counts.
const COLUMNS: [(&str, &[&str]); 5] = [
    ("lookup", &["LOOKUP"]),
    ("attr", &["GETATTR", "SETATTR", "STATX"]),
    ("open", &["OPEN", "CREATE", "OPENDIR", "TMPFILE"]),
    ("read", &["READ"]),
    ("write", &["WRITE"]),
];

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The folder of the mount
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print JSON, one object for each second. In a pipe this is the default
    #[arg(long)]
    json: bool,
    /// End after the first line
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Profile {
    /// The folder of the mount
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The time to observe, in seconds
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    seconds: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stats {
    /// Prints a line each second, until the mount ends or a signal ends the program. Fails if the
    /// folder is no mount of Ashlar.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let is_json = self.json || !std::io::stdout().is_terminal();
        let (mut before, mut at) = (read(&self.folder)?, Instant::now());
        let mut lines = 0;
        loop {
            thread::sleep(INTERVAL);
            let (now, elapsed) = (read(&self.folder)?, at.elapsed());
            at = Instant::now();
            let change = now.since(&before);
            if is_json {
                say(format_args!("{}", json_of(&change, elapsed)));
            } else {
                if lines % LINES_PER_HEADER == 0 {
                    say(format_args!("{}", header()));
                }
                say(format_args!("{}", row(&change, elapsed)));
            }
            if self.once {
                return Ok(());
            }
            (before, lines) = (now, lines + 1);
        }
    }
}

impl Profile {
    /// Observes the mount and prints the operations of that time, the slowest sum first. Fails if
    /// the folder is no mount of Ashlar.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let seconds = self.seconds.clamp(1, PROFILE_SECONDS_MAX);
        let before = read(&self.folder)?;
        thread::sleep(Duration::from_secs(seconds));
        let change = read(&self.folder)?.since(&before);
        let mut operations: Vec<_> =
            change.operations.iter().filter(|(_, of)| of.count > 0).collect();
        operations.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
        if self.json {
            let operations: Map<String, Value> = operations
                .into_iter()
                .map(|(name, of)| {
                    let latency = json!({ "p50": of.quantile(0.5), "p99": of.quantile(0.99) });
                    let value = json!({
                        "count": of.count, "errors": of.errors, "total_seconds": of.seconds,
                        "latency_seconds": latency,
                    });
                    (name.clone(), value)
                })
                .collect();
            say(format_args!("{}", json!({ "seconds": seconds, "operations": operations })));
            return Ok(());
        }
        say(format_args!(
            "{:<16} {:>10} {:>8} {:>11} {:>10} {:>10}",
            "operation", "count", "errors", "total s", "p50 ms", "p99 ms"
        ));
        for (name, of) in operations {
            say(format_args!(
                "{name:<16} {:>10} {:>8} {:>11.3} {:>10.3} {:>10.3}",
                of.count,
                of.errors,
                of.seconds,
                of.quantile(0.5) * 1e3,
                of.quantile(0.99) * 1e3
            ));
        }
        Ok(())
    }
}

/// Reads the counters of the mount on a folder.
fn read(folder: &Path) -> Result<Sample, Problem> {
    let doing = || format!("read the activity of {}", folder.display());
    let text = std::fs::read_to_string(folder.join(".ashlar/stats")).map_err(|error| {
        let wrong = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                "it is no mount of Ashlar".to_owned()
            }
            _ => error.to_string(),
        };
        Problem::new(doing(), wrong).remedy("give the folder on which the volume is mounted")
    })?;
    let sample = Sample::parse(&text);
    sample.ok_or_else(|| Problem::new(doing(), "its file .ashlar/stats has no counters of a mount"))
}

/// Returns the header of the table.
fn header() -> String {
    let columns = COLUMNS.map(|(name, _)| format!("{:>8}", format!("{name}/s"))).concat();
    columns + "  other/s error/s  read MB/s write MB/s  p50 ms   p99 ms  dirty MiB  cache"
}

/// Returns the line of one interval.
fn row(change: &Sample, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
    let per_second = |count: u64| as_float(count) / seconds;
    let of = |names: &[&str]| -> u64 {
        names.iter().filter_map(|name| change.operations.get(*name)).map(|of| of.count).sum()
    };
    let counts = COLUMNS.map(|(_, names)| of(names));
    let all = change.all();
    let other = all.count.saturating_sub(counts.iter().sum());
    let counts = counts.map(|count| format!("{:>8.0}", per_second(count))).concat();
    let cache = change.hit_ratio().map_or("-".to_owned(), |ratio| format!("{:.0}%", ratio * 1e2));
    let rest = format!(
        " {:>8.0} {:>7.0} {:>10.1} {:>10.1} {:>7.2} {:>8.2} {:>10.1} {cache:>6}",
        per_second(other),
        per_second(all.errors),
        per_second(change.read_bytes) / 1e6,
        per_second(change.written_bytes) / 1e6,
        all.quantile(0.5) * 1e3,
        all.quantile(0.99) * 1e3,
        as_float(change.dirty_bytes) / f64::from(1 << 20)
    );
    counts + &rest
}

/// Returns the object of one interval.
fn json_of(change: &Sample, elapsed: Duration) -> Value {
    let all = change.all();
    let counts: Map<String, Value> = change
        .operations
        .iter()
        .filter(|(_, of)| of.count > 0)
        .map(|(name, of)| (name.clone(), of.count.into()))
        .collect();
    json!({
        "seconds": elapsed.as_secs_f64(),
        "operations": counts,
        "errors": all.errors,
        "read_bytes": change.read_bytes,
        "written_bytes": change.written_bytes,
        "latency_seconds": { "p50": all.quantile(0.5), "p99": all.quantile(0.99) },
        "dirty_bytes": change.dirty_bytes,
        "dirty_limit_bytes": change.dirty_limit_bytes,
        "open_handles": change.open_handles,
        "cache_hits": change.cache_hits,
        "cache_misses": change.cache_misses,
    })
}

#[cfg(test)]
mod tests;
