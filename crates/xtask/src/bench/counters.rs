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

/// The gateway's requests to its stores, summed over all labels of each counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Requests to the block store.
    pub(super) block_requests: u64,
    /// Bytes written to and read from the block store.
    pub(super) block_bytes: u64,
    /// Round trips to the metadata store.
    pub(super) trips: u64,
}

impl Counters {
    /// Reads the counters from the metrics at `address`. Fails if a counter is missing.
    pub(super) fn read(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Self::parse(&String::from_utf8_lossy(&answer))
            .context("the metrics do not have all counters that the benchmark needs")
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            block_requests: sum(text, "ashlar_blocks_requests")?,
            block_bytes: sum(text, "ashlar_blocks_bytes")?,
            trips: sum(text, "ashlar_metadata_round_trips")?,
        })
    }

    /// Returns the difference to `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            block_requests: self.block_requests.saturating_sub(before.block_requests),
            block_bytes: self.block_bytes.saturating_sub(before.block_bytes),
            trips: self.trips.saturating_sub(before.trips),
        }
    }
}

/// Returns the sum of a counter over all labels, or `None` if the text has no counter of that name.
fn sum(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix("_total").unwrap_or(rest);
        let rest = if rest.starts_with('{') { rest.rsplit_once('}')?.1 } else { rest };
        rest.strip_prefix(' ')?.trim().parse::<u64>().ok()
    };
    text.lines().filter_map(value).reduce(|one, other| one + other)
}

/// Returns the address of a gateway's metrics, which the gateway writes to its log when it is
/// ready. The port answers earlier, so this waits up to [`ANNOUNCED_WITHIN`] for the line.
pub(crate) fn admin(log: &Path) -> Result<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log)?;
        if let Some(address) = admin_in(&text) {
            return Ok(address.to_owned());
        }
        if began.elapsed() > ANNOUNCED_WITHIN {
            bail!("the gateway's log has no address of its metrics")
        }
        std::thread::sleep(LOG_POLL);
    }
}

fn admin_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("admin=\"http://")?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests;
