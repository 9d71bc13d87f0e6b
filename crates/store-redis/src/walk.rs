//! Walks over whole spaces: pages of a hash, in the order of its buckets.

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
    let records = fields.into_iter().map(|(key, value)| Some((key, reply::bytes(value)??)));
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
    let cursor = resume.unwrap_or_else(|| Bytes::from_static(b"0"));
    if cursor.is_empty() || cursor.len() > 20 || !cursor.iter().all(u8::is_ascii_digit) {
        return Err(StoreError::new(StoreErrorKind::Malformed, "resuming a walk"));
    }
    let mut command = redis::cmd("HSCAN");
    command.arg([links.prefix.as_bytes(), &[kind, space.0]].concat()).arg(&cursor[..]);
    command.arg("COUNT").arg(LIMITS.page(limit).min(FIELDS_MAX));
    let answer = links.call(Call::command(command, DOING)).await?;
    fields(space, answer).ok_or_else(|| error::garbled(DOING))
}

#[expect(clippy::type_complexity, reason = "fields with their values, and where to go on")]
fn fields(space: Space, answer: Value) -> Option<(Vec<(Key, Value)>, Option<Bytes>)> {
    let mut answer = reply::list(answer)?.into_iter();
    let cursor = reply::bytes(answer.next()?)??;
    let mut rest = reply::list(answer.next()?)?.into_iter();
    let mut fields = Vec::with_capacity(rest.len() / 2);
    while let Some(field) = rest.next() {
        fields.push((key(space, &reply::bytes(field)??)?, rest.next()?));
    }
    Some((fields, (cursor != "0").then_some(cursor)))
}
