//! The change feed: a stream to which commits append, one entry for each batch.
//!
//! A position is the id of an entry, which includes the server's time. It is valid while that entry
//! exists. So a reader gets a gap if it is behind the oldest entry, and also if the server has lost
//! its entry with all later ones. For example, after a restore from an old dump the reader's entry
//! does not exist, so it gets a gap and not the entries that took its place.

use std::sync::Arc;

use bytes::Bytes;
use store::feed::compact::Entries;
use store::{Changes, Position, StoreError, StoreErrorKind, feed};

use crate::connect::{Call, Links};
use crate::{error, reply};

/// The first bytes of a position in the feed, which identify the volume.
pub(crate) const ID_BYTES: usize = 8;

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
    let name = match since.map(|since| take_apart(&since.0)) {
        None => String::new(),
        Some(Some((of, name))) if of == id => name,
        // The position is of another volume. No entry has this id, so the answer is a gap.
        Some(Some(_)) => "0-1".to_owned(),
        Some(None) => return Err(StoreError::new(StoreErrorKind::Malformed, "reading a position")),
    };
    let most = BYTES_MAX.to_string();
    let arguments = [name.as_bytes(), most.as_bytes()];
    let call = Call::script(links, &links.scripts.changes, arguments, DOING);
    let answer = links.call(call).await?;
    let (entries, next) = entries(id, answer).ok_or_else(|| error::garbled(DOING))?;
    match entries {
        Some(entries) => feed::decode(entries.into_iter().flat_map(Entries::new), next),
        None => Ok(Changes::Gap { next }),
    }
}

fn entries(id: [u8; ID_BYTES], answer: redis::Value) -> Option<(Option<Vec<Bytes>>, Position)> {
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
    let position = [&id[..], &name[0].to_be_bytes(), &name[1].to_be_bytes()].concat();
    Some((entries, Position(position.into())))
}

/// Returns the volume's id and the entry's id in a position; `None` if it is malformed.
fn take_apart(position: &[u8]) -> Option<([u8; ID_BYTES], String)> {
    let (id, rest) = position.split_first_chunk()?;
    let (milliseconds, number) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((*id, format!("{}-{number}", u64::from_be_bytes(*milliseconds))))
}

#[cfg(test)]
mod tests;
