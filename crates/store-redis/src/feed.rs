//! The change feed: a stream to which commits append, one entry for each batch.
//!
//! A position is the id of an entry, which includes the server's time. It is valid while that entry
//! exists. So a reader gets a gap if it is behind the oldest entry, and also if the server has lost
//! its entry with all later ones. For example, after a restore from an old dump the reader's entry
//! does not exist, so it gets a gap and not the entries that took its place.
//!
//! If Sentinels may replace the server, a position also has the run of its server, from one start
//! to the next. A position of another run is answered by a gap, because the clocks of two servers
//! differ: after a failover, the new master could give the id of a lost entry to another one.

use std::sync::Arc;

use bytes::Bytes;
use store::feed::compact::Entries;
use store::{Changes, Position, StoreError, StoreErrorKind, feed};

use crate::connect::{Call, Links};
use crate::{error, reply};

/// The first bytes of a position in the feed, which identify the volume.
pub(crate) const ID_BYTES: usize = 8;

/// Bytes of a server's run in a position.
const RUN_BYTES: usize = 8;

/// Limit of the bytes of entries in one answer. If there are more, the reader gets a gap: the
/// answer that any record may have changed.
const BYTES_MAX: usize = 16 << 20;

const DOING: &str = "reading the change feed";

/// Returns the changes since a position.
pub(crate) async fn changes(
    links: &Arc<Links>,
    id: [u8; ID_BYTES],
    since: Option<&Position>,
) -> Result<Changes, StoreError> {
    let (name, since_run) = match since.map(|since| take_apart(&since.0)) {
        None => (String::new(), None),
        Some(Some(position)) if position.volume == id => (position.entry, position.run),
        // The position is of another volume. No entry has this id, so the answer is a gap.
        Some(Some(_)) => ("0-1".to_owned(), None),
        Some(None) => return Err(StoreError::new(StoreErrorKind::Malformed, "reading a position")),
    };
    let most = BYTES_MAX.to_string();
    let arguments = [name.as_bytes(), most.as_bytes()];
    let call = Call::script(links, &links.scripts.changes, arguments, DOING);
    let (answer, run) = links.call_and_run(call).await?;
    let run = links.has_sentinels().then(|| run_bytes(&run));
    let (entries, next) = entries(id, run, answer).ok_or_else(|| error::garbled(DOING))?;
    match entries {
        Some(_) if since.is_some() && run != since_run => Ok(Changes::Gap { next }),
        Some(entries) => feed::decode(entries.into_iter().flat_map(Entries::new), next),
        None => Ok(Changes::Gap { next }),
    }
}

/// Returns the bytes of a run of the server in positions. A run is 40 hexadecimal digits.
fn run_bytes(run: &str) -> [u8; RUN_BYTES] {
    let digits = run.get(..2 * RUN_BYTES).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or_default().to_be_bytes()
}

fn entries(
    id: [u8; ID_BYTES],
    run: Option<[u8; RUN_BYTES]>,
    answer: redis::Value,
) -> Option<(Option<Vec<Bytes>>, Position)> {
    let mut answer = reply::list(answer)?.into_iter();
    let entries = match answer.next()? {
        redis::Value::Nil => None,
        entries => {
            let entries = reply::list(entries)?.into_iter().map(|entry| reply::bytes(entry)?);
            Some(entries.collect::<Option<Vec<Bytes>>>()?)
        }
    };
    let last = reply::text(answer.next()?)?;
    let (milliseconds, number) = last.split_once('-')?;
    let name: [u64; 2] = [milliseconds.parse().ok()?, number.parse().ok()?];
    let run = run.as_ref().map_or(&[][..], |run| &run[..]);
    let position = [&id[..], &name[0].to_be_bytes(), &name[1].to_be_bytes(), run].concat();
    Some((entries, Position(position.into())))
}

/// The parts of a position.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    /// The volume's id.
    volume: [u8; ID_BYTES],
    /// The id of the entry.
    entry: String,
    /// The run of the server, if Sentinels might replace that.
    run: Option<[u8; RUN_BYTES]>,
}

/// Returns the parts of a position; `None` if it is malformed.
fn take_apart(position: &[u8]) -> Option<Parts> {
    let (volume, rest) = position.split_first_chunk()?;
    let (milliseconds, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let run = match rest {
        [] => None,
        run => Some(run.try_into().ok()?),
    };
    let (milliseconds, number) = (u64::from_be_bytes(*milliseconds), u64::from_be_bytes(*number));
    Some(Parts { volume: *volume, entry: format!("{milliseconds}-{number}"), run })
}

#[cfg(test)]
mod tests;
