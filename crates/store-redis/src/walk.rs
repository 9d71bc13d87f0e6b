//! Walks over whole spaces: pages of a hash, in the order of its buckets.
//!
//! That order is another one after each start of the server. So a walk ends with an error if the
//! server was started anew under it: to go on would be to skip records, and whoever walks believes
//! that what is not seen is not there.

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use store::{Key, Page, Space, StoreError, StoreErrorKind, TallyKey, TallyPage};

use crate::connect::{Call, Links};
use crate::{LIMITS, error, reply};

/// Fields that the server is asked for at once, at most. It may answer some more, since it answers
/// whole buckets.
const FIELDS_MAX: usize = 500;
const _: () = assert!(4 * FIELDS_MAX <= LIMITS.range_records as usize);

/// A page of records.
pub(crate) async fn records(
    links: &Arc<Links>,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Page, StoreError> {
    let (fields, resume) = page(links, b'r', space, resume, limit).await?;
    let records = fields.into_iter().map(|(key, value)| Some((key, reply::record(value)??)));
    let records: Option<Vec<_>> = records.collect();
    let records = records.ok_or_else(|| error::garbled(DOING))?;
    Ok(Page { records, resume })
}

/// A page of tallies.
pub(crate) async fn tallies(
    links: &Arc<Links>,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<TallyPage, StoreError> {
    let (fields, resume) = page(links, b't', space, resume, limit).await?;
    let tallies =
        fields.into_iter().map(|(key, value)| Some((TallyKey(key), reply::tally(value)?)));
    let tallies: Option<Vec<_>> = tallies.collect();
    let tallies = tallies.ok_or_else(|| error::garbled(DOING))?;
    Ok(TallyPage { tallies, resume })
}

const DOING: &str = "walking over a space";

/// A key from a field, which is the key without its space.
pub(crate) fn key(space: Space, field: &[u8]) -> Option<Key> {
    (1 + field.len() >= Key::PREFIX_BYTES).then(|| Key::from_bytes([&[space.0], field].concat()))
}

async fn page(
    links: &Arc<Links>,
    kind: u8,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<(Vec<(Key, Value)>, Option<Bytes>), StoreError> {
    let resume = resume.map(|resume| take_apart(&resume));
    let (cursor, run) = match resume {
        None => ("0".to_owned(), None),
        Some(Some((cursor, run))) => (cursor, Some(run)),
        Some(None) => return Err(StoreError::new(StoreErrorKind::Malformed, "resuming a walk")),
    };
    let (place, most) = ([kind, space.0], LIMITS.page(limit).min(FIELDS_MAX).to_string());
    let arguments = [&place[..], cursor.as_bytes(), most.as_bytes()];
    let mut call = Call::script(links, &links.scripts.walk, arguments, DOING);
    if let Some(run) = run {
        call = call.in_run(run);
    }
    let (answer, run) = links.call_and_run(call).await?;
    let (fields, cursor) = fields(space, answer).ok_or_else(|| error::garbled(DOING))?;
    Ok((fields, cursor.map(|cursor| Bytes::from(format!("{cursor}:{run}")))))
}

/// Where the last page ended, and the run of the server that knows where that is.
fn take_apart(resume: &[u8]) -> Option<(String, String)> {
    let (cursor, run) = std::str::from_utf8(resume).ok()?.split_once(':')?;
    Some((cursor.parse::<u64>().ok()?.to_string(), run.to_owned()))
}

#[expect(clippy::type_complexity, reason = "fields with their values, and where to go on")]
fn fields(space: Space, answer: Value) -> Option<(Vec<(Key, Value)>, Option<String>)> {
    let mut answer = reply::list(answer)?.into_iter();
    let cursor = reply::text(answer.next()?)?;
    let (fields, values) = (reply::list(answer.next()?)?, reply::list(answer.next()?)?);
    if fields.len() != values.len() {
        return None;
    }
    let pair = |(field, value)| Some((key(space, &reply::bytes(field)??)?, value));
    let pairs: Option<Vec<_>> = fields.into_iter().zip(values).map(pair).collect();
    Some((pairs?, (cursor != "0").then_some(cursor)))
}
