//! What the gateway counts, read from its metrics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long the gateway may take to tell.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long after its port answers a gateway may take to say where its metrics are.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(10);

/// How often its log is looked at meanwhile.
const LOG_POLL: Duration = Duration::from_millis(20);

/// Work behind the gateway, summed over all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Requests to the block store.
    pub(super) block_requests: u64,
    /// Bytes to and from it.
    pub(super) block_bytes: u64,
    /// Round trips to the metadata store.
    pub(super) trips: u64,
}

impl Counters {
    /// Asks the gateway whose metrics are at `address`.
    pub(super) fn read(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Self::parse(&String::from_utf8_lossy(&answer)).context("the gateway's metrics lack some")
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            block_requests: sum(text, "ashlar_blocks_requests")?,
            block_bytes: sum(text, "ashlar_blocks_bytes")?,
            trips: sum(text, "ashlar_metadata_round_trips")?,
        })
    }

    /// What was counted since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            block_requests: self.block_requests.saturating_sub(before.block_requests),
            block_bytes: self.block_bytes.saturating_sub(before.block_bytes),
            trips: self.trips.saturating_sub(before.trips),
        }
    }
}

/// The sum over all labels of a counter; `None` if there is none of that name.
fn sum(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix("_total").unwrap_or(rest);
        let rest = if rest.starts_with('{') { rest.rsplit_once('}')?.1 } else { rest };
        rest.strip_prefix(' ')?.trim().parse::<u64>().ok()
    };
    text.lines().filter_map(value).reduce(|one, other| one + other)
}

/// Where a gateway serves its metrics, as it says in its log when it is ready. It may be asked a
/// moment earlier: its port answers before that.
pub(crate) fn admin(log: &Path) -> Result<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log)?;
        if let Some(address) = admin_in(&text) {
            return Ok(address.to_owned());
        }
        if began.elapsed() > ANNOUNCED_WITHIN {
            bail!("the gateway's log does not say where its metrics are")
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
