//! Reads: each call is one statement, and therefore one snapshot and one round trip.
//!
//! There are three kinds of statements: for records only, for one range, and for any mix. Each row
//! has the index of its question. This module sorts the answers, so the order of the rows does not
//! matter. For example, a lookup of three directory entries with their inodes is one statement over
//! three keys.

use std::time::Duration;

use bytes::Bytes;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::{Postgres, Row};
use store::{
    CounterKey, CounterPage, Entry, Follow, Key, Limits, Page, Read, ReadResult, Space, StoreError,
    StoreErrorKind, Target, Value,
};
use tokio::time::timeout;

use crate::connections::Connections;
use crate::error::{is_definite, unavailable, unreadable, while_doing};
use crate::limits::LIMITS;

type Query = sqlx::query::Query<'static, Postgres, PgArguments>;

/// How long the client waits for an answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

// Each row of a list looks up its own key. `limit` prevents a plan that scans the whole table,
// which the planner would prefer if the table was small when it planned.

const RECORDS: &str = "select q.at, r.value from unnest($1::bytea[]) with ordinality as q(key, at) \
     cross join lateral (select value from ashlar_record where key = q.key limit 1) r";

const FOLLOWED: &str = "select q.at, r.value, substring(t.value from 1 for q.bytes) \
     from unnest($1::bytea[], $2::bytea[], $3::int[], $4::int[], $5::int[]) with ordinality \
     as q(key, prefix, skip, length, bytes, at) \
     cross join lateral (select value from ashlar_record where key = q.key limit 1) r \
     left join lateral (select value from ashlar_record \
     where octet_length(r.value) >= q.skip + q.length \
     and key = q.prefix || substring(r.value from q.skip + 1 for q.length) limit 1) t on true";

const RANGE: &str = "select key, value from ashlar_record \
     where key >= $1 and key < $2 order by key limit $3";

const RANGE_FOLLOWED: &str = "select r.key, r.value, substring(t.value from 1 for $7) from \
     (select key, value from ashlar_record where key >= $1 and key < $2 order by key limit $3) r \
     left join lateral (select value from ashlar_record \
     where octet_length(r.value) >= $5::int + $6::int \
     and key = $4::bytea || substring(r.value from $5::int + 1 for $6::int) limit 1) t on true";

const MIX: &str = "select q.at, null::bytea, r.value, substring(t.value from 1 for q.bytes), \
     null::bigint \
     from unnest($1::int[], $2::bytea[], $3::bytea[], $4::int[], $5::int[], $6::int[]) \
     as q(at, key, prefix, skip, length, bytes) \
     cross join lateral (select value from ashlar_record where key = q.key limit 1) r \
     left join lateral (select value from ashlar_record \
     where octet_length(r.value) >= q.skip + q.length \
     and key = q.prefix || substring(r.value from q.skip + 1 for q.length) limit 1) t on true \
     union all \
     select q.at, r.key, r.value, substring(t.value from 1 for q.bytes), null::bigint \
     from unnest($7::int[], $8::bytea[], $9::bytea[], $10::int[], $11::bytea[], $12::int[], \
     $13::int[], $14::int[]) as q(at, first, behind, most, prefix, skip, length, bytes) \
     cross join lateral (select key, value from ashlar_record \
     where key >= q.first and key < q.behind order by key limit q.most) r \
     left join lateral (select value from ashlar_record \
     where octet_length(r.value) >= q.skip + q.length \
     and key = q.prefix || substring(r.value from q.skip + 1 for q.length) limit 1) t on true \
     union all \
     select q.at, null::bytea, null::bytea, null::bytea, t.value \
     from unnest($15::int[], $16::bytea[]) as q(at, key) \
     cross join lateral (select value from ashlar_counter where key = q.key limit 1) t";

/// Runs a statement that may be repeated. If a connection that was idle before turns out to be
/// broken, tries once more on a new one.
pub(crate) async fn fetch(
    connections: &Connections,
    doing: &str,
    query: impl Fn() -> Query,
) -> Result<Vec<PgRow>, StoreError> {
    let mut again = true;
    loop {
        let mut lent = connections.lend().await?;
        let connection: &mut PgConnection = &mut lent;
        let Ok(answer) = timeout(ANSWER_DEADLINE, query().fetch_all(connection)).await else {
            lent.broke();
            return Err(unavailable(format!("{doing}: no answer within {ANSWER_DEADLINE:?}")));
        };
        let error = match answer {
            Ok(rows) => {
                lent.give_back();
                return Ok(rows);
            }
            Err(error) => error,
        };
        // If a new connection breaks, the server has a problem now. An older one may have broken
        // long ago, so a second try on a new connection is worthwhile.
        let stale = !lent.is_new && !is_definite(&error);
        if is_definite(&error) {
            drop(lent);
        } else {
            lent.broke();
        }
        if !(stale && again) {
            return Err(while_doing(doing)(error));
        }
        again = false;
    }
}

/// Answers all questions from one snapshot.
pub(crate) async fn read(
    connections: &Connections,
    reads: &[Read],
) -> Result<Vec<ReadResult>, StoreError> {
    const DOING: &str = "reading";
    if reads.is_empty() {
        connections.lend().await?.give_back();
        return Ok(Vec::new());
    }
    let shape = Shape::of(reads);
    let rows = fetch(connections, DOING, || shape.query(reads)).await?;
    let mut found: Vec<ReadResult> = reads.iter().map(absent).collect();
    for row in rows {
        shape.place(&row, reads, &mut found).map_err(while_doing(DOING))?;
    }
    for found in &mut found {
        if let ReadResult::Range(entries) = found {
            // The rows are sorted already if the planner joins as expected.
            entries.sort_by(|a, b| a.key.cmp(&b.key));
        }
    }
    Ok(found)
}

/// The statement that answers the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Records,
    Followed,
    Range,
    RangeFollowed,
    Mix,
}

impl Shape {
    fn of(reads: &[Read]) -> Shape {
        match reads {
            [Read::Range { follow: None, .. }] => return Shape::Range,
            [Read::Range { .. }] => return Shape::RangeFollowed,
            _ => {}
        }
        let mut shape = Shape::Records;
        for read in reads {
            match read {
                Read::Record { follow: None, .. } => {}
                Read::Record { .. } => shape = Shape::Followed,
                Read::Range { .. } | Read::Counter(_) => return Shape::Mix,
            }
        }
        shape
    }

    fn query(self, reads: &[Read]) -> Query {
        match (self, reads) {
            (Shape::Range, [Read::Range { start, end, limit, .. }]) => sqlx::query(RANGE)
                .bind(start.as_bytes())
                .bind(end.as_bytes())
                .bind(i64::from(*limit)),
            (Shape::RangeFollowed, [Read::Range { start, end, limit, follow }]) => {
                let (prefix, skip, length, bytes) = parts(follow.as_ref());
                sqlx::query(RANGE_FOLLOWED)
                    .bind(start.as_bytes())
                    .bind(end.as_bytes())
                    .bind(i64::from(*limit))
                    .bind(prefix)
                    .bind(skip)
                    .bind(length)
                    .bind(bytes)
            }
            (Shape::Records, _) => {
                let records = Records::of(reads);
                sqlx::query(RECORDS).bind(records.keys)
            }
            (Shape::Followed, _) => {
                let records = Records::of(reads);
                sqlx::query(FOLLOWED)
                    .bind(records.keys)
                    .bind(records.prefixes)
                    .bind(records.skips)
                    .bind(records.lengths)
                    .bind(records.bytes)
            }
            _ => mix(reads),
        }
    }

    /// Adds a row to the answer of its question.
    fn place(
        self,
        row: &PgRow,
        reads: &[Read],
        found: &mut [ReadResult],
    ) -> Result<(), sqlx::Error> {
        match self {
            Shape::Range | Shape::RangeFollowed => {
                let target = match reads {
                    [Read::Range { follow: Some(follow), .. }] => target_at(row, 2, follow)?,
                    _ => Target::Absent,
                };
                let entry = Entry { key: key_at(row, 0)?, value: value_at(row, 1)?, target };
                add(0, entry, found)
            }
            Shape::Records | Shape::Followed => {
                // `with ordinality` counts from 1.
                let at = usize::try_from(row.try_get::<i64, _>(0)? - 1).unwrap_or(usize::MAX);
                let target = match reads.get(at) {
                    Some(Read::Record { follow: Some(follow), .. }) => target_at(row, 2, follow)?,
                    _ => Target::Absent,
                };
                set(at, value_at(row, 1)?, target, reads, found)
            }
            Shape::Mix => {
                let at = usize::try_from(row.try_get::<i32, _>(0)?).unwrap_or(usize::MAX);
                let target = |follow: &Option<Follow>| match follow {
                    Some(follow) => target_at(row, 3, follow),
                    None => Ok(Target::Absent),
                };
                match reads.get(at) {
                    Some(Read::Record { follow, .. }) => {
                        set(at, value_at(row, 2)?, target(follow)?, reads, found)
                    }
                    Some(Read::Range { follow, .. }) => {
                        let (value, target) = (value_at(row, 2)?, target(follow)?);
                        add(at, Entry { key: key_at(row, 1)?, value, target }, found)
                    }
                    Some(Read::Counter(_)) => {
                        let place = found.get_mut(at).ok_or_else(answer_without_question)?;
                        *place = ReadResult::Counter(row.try_get(4)?);
                        Ok(())
                    }
                    None => Err(answer_without_question()),
                }
            }
        }
    }
}

fn answer_without_question() -> sqlx::Error {
    unreadable("an answer to no question")
}

fn set(
    at: usize,
    value: Value,
    target: Target,
    reads: &[Read],
    found: &mut [ReadResult],
) -> Result<(), sqlx::Error> {
    match (reads.get(at), found.get_mut(at)) {
        (Some(Read::Record { key, .. }), Some(place)) => {
            *place = ReadResult::Record(Some(Entry { key: key.clone(), value, target }));
            Ok(())
        }
        _ => Err(answer_without_question()),
    }
}

fn add(at: usize, entry: Entry, found: &mut [ReadResult]) -> Result<(), sqlx::Error> {
    match found.get_mut(at) {
        Some(ReadResult::Range(entries)) => {
            entries.push(entry);
            Ok(())
        }
        _ => Err(answer_without_question()),
    }
}

/// Returns the answer for a question for which the database has no row: no record, no entries, or a
/// counter of 0.
fn absent(read: &Read) -> ReadResult {
    match read {
        Read::Record { .. } => ReadResult::Record(None),
        Read::Range { .. } => ReadResult::Range(Vec::new()),
        Read::Counter(_) => ReadResult::Counter(0),
    }
}

/// Converts a follow, the rule that finds the record to which a found one points, into parameters
/// of a statement. A prefix of NULL finds no target.
fn parts(follow: Option<&Follow>) -> (Option<&[u8]>, i32, i32, i32) {
    follow.map_or((None, 0, 0, 0), |follow| {
        let bytes = follow.fetch_bytes().and_then(|bytes| i32::try_from(bytes).ok());
        let bytes = bytes.unwrap_or(i32::MAX);
        (Some(&follow.prefix), follow.offset.into(), follow.length.into(), bytes)
    })
}

/// The questions about single records, as parallel lists.
#[derive(Default)]
struct Records<'a> {
    at: Vec<i32>,
    keys: Vec<&'a [u8]>,
    prefixes: Vec<Option<&'a [u8]>>,
    skips: Vec<i32>,
    lengths: Vec<i32>,
    bytes: Vec<i32>,
}

impl<'a> Records<'a> {
    fn of(reads: &'a [Read]) -> Records<'a> {
        let mut records = Records::default();
        for (at, read) in reads.iter().enumerate() {
            if let Read::Record { key, follow } = read {
                let (prefix, skip, length, bytes) = parts(follow.as_ref());
                records.at.push(numbered(at));
                records.keys.push(key.as_bytes());
                records.prefixes.push(prefix);
                records.skips.push(skip);
                records.lengths.push(length);
                records.bytes.push(bytes);
            }
        }
        records
    }
}

fn numbered(at: usize) -> i32 {
    i32::try_from(at).expect("a read within limits has fewer questions than 2^31")
}

fn mix(reads: &[Read]) -> Query {
    let records = Records::of(reads);
    let (mut at, mut first, mut behind, mut most) = (vec![], vec![], vec![], vec![]);
    let (mut prefixes, mut skips, mut lengths, mut bytes) = (vec![], vec![], vec![], vec![]);
    let (mut counters_at, mut counters) = (vec![], vec![]);
    for (index, read) in reads.iter().enumerate() {
        match read {
            Read::Record { .. } => {}
            Read::Range { start, end, limit, follow } => {
                let (prefix, skip, length, fetched) = parts(follow.as_ref());
                at.push(numbered(index));
                first.push(start.as_bytes());
                behind.push(end.as_bytes());
                most.push(i32::try_from(*limit).unwrap_or(i32::MAX));
                prefixes.push(prefix);
                skips.push(skip);
                lengths.push(length);
                bytes.push(fetched);
            }
            Read::Counter(CounterKey(key)) => {
                counters_at.push(numbered(index));
                counters.push(key.as_bytes());
            }
        }
    }
    sqlx::query(MIX)
        .bind(records.at)
        .bind(records.keys)
        .bind(records.prefixes)
        .bind(records.skips)
        .bind(records.lengths)
        .bind(records.bytes)
        .bind(at)
        .bind(first)
        .bind(behind)
        .bind(most)
        .bind(prefixes)
        .bind(skips)
        .bind(lengths)
        .bind(bytes)
        .bind(counters_at)
        .bind(counters)
}

pub(crate) async fn walk(
    connections: &Connections,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Page, StoreError> {
    const DOING: &str = "walking over records";
    let text = "select key, value from ashlar_record \
         where key >= $1 and key < $2 order by key limit $3";
    let rows = page(connections, DOING, text, space, resume, limit).await?;
    let records: Result<Vec<_>, sqlx::Error> =
        rows.iter().map(|row| Ok((key_at(row, 0)?, value_at(row, 1)?))).collect();
    let mut records = records.map_err(while_doing(DOING))?;
    let more = records.len() > LIMITS.page(limit);
    let next = if more { records.pop() } else { None };
    Ok(Page { records, resume: next.map(|(key, _)| key.to_bytes()) })
}

pub(crate) async fn walk_counters(
    connections: &Connections,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<CounterPage, StoreError> {
    const DOING: &str = "walking over counters";
    let text = "select key, value from ashlar_counter \
         where key >= $1 and key < $2 order by key limit $3";
    let rows = page(connections, DOING, text, space, resume, limit).await?;
    let counters: Result<Vec<_>, sqlx::Error> =
        rows.iter().map(|row| Ok((CounterKey(key_at(row, 0)?), row.try_get(1)?))).collect();
    let mut counters = counters.map_err(while_doing(DOING))?;
    let more = counters.len() > LIMITS.page(limit);
    let next = if more { counters.pop() } else { None };
    Ok(CounterPage { counters, resume: next.map(|(CounterKey(key), _)| key.to_bytes()) })
}

/// Returns the rows of a page, and the first row of the next page.
async fn page(
    connections: &Connections,
    doing: &str,
    text: &'static str,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Vec<PgRow>, StoreError> {
    if resume.as_ref().is_some_and(|resume| resume.len() < Key::PREFIX_BYTES) {
        return Err(StoreError::new(StoreErrorKind::Malformed, "resuming a walk"));
    }
    let limit = i64::try_from(LIMITS.page(limit) + 1).unwrap_or(i64::MAX);
    let first = resume.map_or_else(|| vec![space.0], Vec::from);
    let behind = behind(space, &LIMITS);
    fetch(connections, doing, || {
        sqlx::query(text).bind(first.clone()).bind(behind.clone()).bind(limit)
    })
    .await
}

/// Returns the first key after a space. After the last space, returns a bound that is longer than
/// any key.
fn behind(space: Space, limits: &Limits) -> Vec<u8> {
    space.0.checked_add(1).map_or_else(|| vec![0xff; limits.key_bytes + 1], |next| vec![next])
}

pub(crate) fn value_at(row: &PgRow, column: usize) -> Result<Value, sqlx::Error> {
    row.try_get(column).map(Bytes::copy_from_slice)
}

fn target_at(row: &PgRow, column: usize, follow: &Follow) -> Result<Target, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(follow.to_target(bytes.map(Bytes::copy_from_slice)))
}

pub(crate) fn key_at(row: &PgRow, column: usize) -> Result<Key, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    if bytes.len() < Key::PREFIX_BYTES {
        return Err(unreadable("a key shorter than its space and partition"));
    }
    Ok(Key::from_bytes(Bytes::copy_from_slice(bytes)))
}
