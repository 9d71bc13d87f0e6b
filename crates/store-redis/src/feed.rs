//! The change feed: a stream that commits add to, one entry for a batch.
//!
//! A position is the id of an entry, which includes the server's time. It is good as long as that very
//! entry exists. So a reader meets a gap if it fell behind the oldest entry, and also if the server
//! has lost its entry, together with whatever came after it.

use std::sync::Arc;

use bytes::Bytes;
use store::feed::compact::Entries;
use store::{Changes, Position, StoreError, StoreErrorKind, feed};

use crate::connect::{Call, Links};
use crate::{error, reply};

/// Bytes of a position that say which volume it belongs to.
pub(crate) const ID_BYTES: usize = 8;

/// Bytes of entries in one answer, at most.
const BYTES_MAX: usize = 16 << 20;

const DOING: &str = "reading the change feed";

/// What has changed since a position.
pub(crate) async fn changes(
    links: &Arc<Links>,
    id: [u8; ID_BYTES],
    since: Option<&Position>,
) -> Result<Changes, StoreError> {
    let name = match since.map(|since| take_apart(&since.0)) {
        None => String::new(),
        Some(Some((of, name))) if of == id => name,
        // Another volume's: no entry has this name.
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

/// A position's volume, and the name of its entry.
fn take_apart(position: &[u8]) -> Option<([u8; ID_BYTES], String)> {
    let (id, rest) = position.split_first_chunk()?;
    let (milliseconds, number) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((*id, format!("{}-{number}", u64::from_be_bytes(*milliseconds))))
}

#[cfg(test)]
mod tests;
