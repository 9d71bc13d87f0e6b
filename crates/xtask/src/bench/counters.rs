//! The gateway's counters, read from its metrics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// The time limit for the answer of the metrics endpoint.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The time that a gateway has, after its port is open, until its log names the metrics address.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(10);

/// The pause between two reads of the log.
const LOG_POLL: Duration = Duration::from_millis(20);

/// The counter of round trips to the metadata store, of both operations.
const ROUND_TRIPS: &str = "ashlar_metadata_round_trips";

/// The gateway's requests to its stores, summed over all labels of each counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Requests to the block store.
    pub(super) block_requests: u64,
    /// Bytes written to and read from the block store.
    pub(super) block_bytes: u64,
    /// Round trips to the metadata store that read.
    pub(super) reads: u64,
    /// Round trips to the metadata store that committed.
    pub(super) commits: u64,
    /// Reads of metadata that the process answered from memory, without a round trip.
    pub(super) cached: u64,
}

impl Counters {
    /// Reads the counters from the metrics at `address`. Fails if a counter is missing.
    pub(super) fn read(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Self::of_text(&String::from_utf8_lossy(&answer))
    }

    /// Reads the counters from the text of metrics. Fails if a counter is missing.
    pub(super) fn of_text(text: &str) -> Result<Self> {
        Self::parse(text).context("the metrics do not have all counters that the benchmark needs")
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            block_requests: sum(text, "ashlar_blocks_requests", "")?,
            block_bytes: sum(text, "ashlar_blocks_bytes", "")?,
            reads: sum(text, ROUND_TRIPS, "operation=\"read\"")?,
            commits: sum(text, ROUND_TRIPS, "operation=\"commit\"")?,
            cached: sum(text, "ashlar_metadata_cached_reads", "")?,
        })
    }

    /// Returns the number of round trips to the metadata store.
    pub(super) fn trips(self) -> u64 {
        self.reads + self.commits
    }

    /// Returns the sums with the counters of another process.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            block_requests: self.block_requests + other.block_requests,
            block_bytes: self.block_bytes + other.block_bytes,
            reads: self.reads + other.reads,
            commits: self.commits + other.commits,
            cached: self.cached + other.cached,
        }
    }

    /// Returns the difference to `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            block_requests: self.block_requests.saturating_sub(before.block_requests),
            block_bytes: self.block_bytes.saturating_sub(before.block_bytes),
            reads: self.reads.saturating_sub(before.reads),
            commits: self.commits.saturating_sub(before.commits),
            cached: self.cached.saturating_sub(before.cached),
        }
    }
}

/// Returns the sum of a counter over all label sets that contain `label`, or `None` if the text has
/// none of them. An empty `label` selects all of the name.
fn sum(text: &str, name: &str, label: &str) -> Option<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix("_total").unwrap_or(rest);
        let (labels, rest) =
            if rest.starts_with('{') { rest.rsplit_once('}')? } else { ("", rest) };
        if !labels.contains(label) {
            return None;
        }
        rest.strip_prefix(' ')?.trim().parse::<u64>().ok()
    };
    text.lines().filter_map(value).reduce(|one, other| one + other)
}

/// Returns the address of a gateway's metrics, without the scheme.
pub(crate) fn admin(log: &Path) -> Result<String> {
    let url = announced(log, "admin")?;
    Ok(url.strip_prefix("http://").context("the metrics have no address")?.to_owned())
}

/// Returns the URL of a listener of a gateway, which the gateway writes to its log when it is
/// ready. `name` is the field of the log, for example `console`. The port answers earlier, so this
/// waits up to [`ANNOUNCED_WITHIN`] for the line.
pub(crate) fn announced(log: &Path, name: &str) -> Result<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log)?;
        if let Some(url) = url_in(&text, name) {
            return Ok(url.to_owned());
        }
        if began.elapsed() > ANNOUNCED_WITHIN {
            bail!("the gateway's log has no URL of {name}")
        }
        std::thread::sleep(LOG_POLL);
    }
}

fn url_in<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("{name}=\""))?;
    let (url, _) = rest.split_once('"')?;
    url.starts_with("http").then_some(url)
}

#[cfg(test)]
mod tests;
