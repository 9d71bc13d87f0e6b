//! Walks over whole spaces: records of an ordered space in order; other records and counters in the
//! order of their hash tables.
//!
//! The order of a hash table changes when the server restarts. A walk that continued after a
//! restart would skip records, and its caller would believe that they do not exist. Therefore it
//! ends with an error. For example, an orphan scan whose server restarts begins again.

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use store::{CounterKey, CounterPage, Key, Page, Space, StoreError, StoreErrorKind};

use crate::connect::{Call, Links};
use crate::limits::LIMITS;
use crate::record::CHUNK_BYTES;
use crate::{error, member, reply};

/// Limit of the fields of a hash that one call asks for. The server may return more, since it
/// returns whole buckets of the hash table.
const FIELDS_MAX: usize = 500;
const _: () = assert!(4 * FIELDS_MAX <= LIMITS.range_records as usize);

/// The first position of a walk, and the position that a script returns at the end.
pub(crate) const BEGINNING: &[u8] = b"0";

/// Returns a page of records.
pub(crate) async fn records(
    links: &Arc<Links>,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Page, StoreError> {
    let (fields, resume) = if space.is_ordered() {
        ordered_page(links, space, resume, limit).await?
    } else {
        hash_page(links, b'r', space, resume, limit).await?
    };
    let records = fields.into_iter().map(|(key, value)| Some((key, reply::record(value)??)));
    let records: Option<Vec<_>> = records.collect();
    let records = records.ok_or_else(|| error::garbled(DOING))?;
    Ok(Page { records, resume })
}

/// Returns a page of counters.
pub(crate) async fn counters(
    links: &Arc<Links>,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<CounterPage, StoreError> {
    let (fields, resume) = hash_page(links, b'n', space, resume, limit).await?;
    let counters =
        fields.into_iter().map(|(key, value)| Some((CounterKey(key), reply::counter(value)?)));
    let counters: Option<Vec<_>> = counters.collect();
    let counters = counters.ok_or_else(|| error::garbled(DOING))?;
    Ok(CounterPage { counters, resume })
}

const DOING: &str = "walking over a space";

/// The records or counters of a page, and the position of the next page; `None` at the end.
type Fields = (Vec<(Key, Value)>, Option<Bytes>);

/// Returns a record's key from its field, which has no space. In an ordered space the field has the
/// encoded suffix.
pub(crate) fn record_key(space: Space, field: &[u8]) -> Option<Key> {
    if !space.is_ordered() {
        return key(space, field);
    }
    let (partition, written) = field.split_first_chunk()?;
    match member::read(written)? {
        (suffix, []) => Some(Key::new(space, u64::from_be_bytes(*partition), &suffix)),
        _ => None,
    }
}

/// Returns a key from a field, which is the key without its space.
pub(crate) fn key(space: Space, field: &[u8]) -> Option<Key> {
    (1 + field.len() >= Key::PREFIX_BYTES).then(|| Key::from_bytes([&[space.0], field].concat()))
}

fn call(links: &Links, kind: u8, space: Space, from: &[u8], limit: u32) -> Call {
    let (place, most) = ([kind, space.0], LIMITS.page(limit).min(FIELDS_MAX).to_string());
    Call::script(links, &links.scripts.walk, [&place[..], from, most.as_bytes()], DOING)
}

fn resumes_nowhere() -> StoreError {
    StoreError::new(StoreErrorKind::Malformed, "resuming a walk")
}

/// Returns the records after the last one of the previous page.
async fn ordered_page(
    links: &Arc<Links>,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Fields, StoreError> {
    if resume.as_ref().is_some_and(|field| record_key(space, field).is_none()) {
        return Err(resumes_nowhere());
    }
    let from = resume.unwrap_or(Bytes::from_static(BEGINNING));
    let answer = links.call(call(links, b'r', space, &from, limit)).await?;
    fields(answer, |field| record_key(space, field)).ok_or_else(|| error::garbled(DOING))
}

/// Returns the fields of hashes from a cursor on, that is, a position that the server gave with the
/// previous page.
async fn hash_page(
    links: &Arc<Links>,
    kind: u8,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Fields, StoreError> {
    let (cursor, run) = match resume.map(|resume| take_apart(kind, &resume)) {
        None => (Bytes::from_static(BEGINNING), None),
        Some(Some((cursor, run))) => (cursor, Some(run)),
        Some(None) => return Err(resumes_nowhere()),
    };
    let mut call = call(links, kind, space, &cursor, limit);
    // The cursor is valid only in the run of the server that returned it.
    if let Some(run) = run {
        call = call.in_run(run);
    }
    let (answer, run) = links.call_and_run(call).await?;
    let page = fields(answer, |field| key(space, field));
    let (fields, cursor) = page.ok_or_else(|| error::garbled(DOING))?;
    let resume = cursor.map(|cursor| [&cursor[..], b":", run.as_bytes()].concat().into());
    Ok((fields, resume))
}

/// Returns the cursor of the last page, and the run of the server (from one start to the next) in
/// which the cursor is valid. `None` if the position is malformed.
fn take_apart(kind: u8, resume: &Bytes) -> Option<(Bytes, String)> {
    let colon = resume.iter().rposition(|byte| *byte == b':')?;
    let run = std::str::from_utf8(resume.get(colon + 1..)?).ok()?;
    let on = resume.slice(..colon);
    // Records are in several hashes, so the position of a walk over records begins with the chunk.
    let chunk_bytes = if kind == b'r' { CHUNK_BYTES - 1 } else { 0 };
    let cursor = std::str::from_utf8(on.get(chunk_bytes..)?).ok()?;
    cursor.parse::<u64>().ok()?;
    Some((on, run.to_owned()))
}

fn fields(answer: Value, key: impl Fn(&[u8]) -> Option<Key>) -> Option<Fields> {
    let mut answer = reply::list(answer)?.into_iter();
    let next = reply::bytes(answer.next()?)??;
    let (fields, values) = (reply::list(answer.next()?)?, reply::list(answer.next()?)?);
    if fields.len() != values.len() {
        return None;
    }
    let pair = |(field, value)| Some((key(&reply::bytes(field)??)?, value));
    let pairs: Option<Vec<_>> = fields.into_iter().zip(values).map(pair).collect();
    Some((pairs?, (next != BEGINNING).then_some(next)))
}
