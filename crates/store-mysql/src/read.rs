//! Reads: each call is one statement, and therefore one snapshot and one round trip.
//!
//! The statement is a union of sections: all records that are read by key, those that are followed
//! in the same way, all counters, and each range by itself. A row has the number of its section;
//! its key identifies its questions. A call of very many sections is several statements in a
//! transaction with one read view, which are still sent together. For example, a lookup of five
//! directory entries with their inodes is one section.

use std::collections::HashMap;

use bytes::Bytes;
use sqlx::mysql::MySqlRow;
use store::{
    CounterKey, CounterPage, Entry, Follow, Key, Page, Read, ReadResult, Space, StoreError,
    StoreErrorKind, Target,
};

use crate::error::while_doing;
use crate::limits::LIMITS;
use crate::pool::ConnectionPool;
use crate::row;
use crate::script::{Script, StatementResult, push, push_bytes};

/// Limit of the keys of a section. Longer lists become several sections.
const SECTION_KEYS_MAX: usize = 512;

/// Limit of the sections of a statement.
const SECTIONS_MAX: usize = 16;

/// Answers all questions from one snapshot.
pub(crate) async fn read(
    pool: &ConnectionPool,
    reads: &[Read],
) -> Result<Vec<ReadResult>, StoreError> {
    const DOING: &str = "reading";
    let sections = sections(reads);
    let mut found: Vec<ReadResult> = reads.iter().map(absent).collect();
    if !sections.is_empty() {
        let answers = ask(pool, || script(&sections), DOING).await?;
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            place(&mut found, &sections, row).map_err(while_doing(DOING))?;
        }
    }
    for answer in &mut found {
        // The server keeps the order that each range asks for, but does not promise it for a union.
        if let ReadResult::Range(entries) = answer {
            entries.sort_by(|one, other| one.key.cmp(&other.key));
        }
    }
    Ok(found)
}

/// Runs a script that only reads. If the connection had ended while it was idle, runs it once more.
pub(crate) async fn ask(
    pool: &ConnectionPool,
    script: impl Fn() -> Script,
    doing: &str,
) -> Result<Vec<StatementResult>, StoreError> {
    let mut connection = pool.acquire().await?;
    let mut answers = connection.run(script()).await;
    if let Err(failure) = &answers
        && connection.had_ended(failure)
    {
        connection.renew().await?;
        answers = connection.run(script()).await;
    }
    let answers = answers.map_err(|failure| while_doing(doing)(failure.error))?;
    connection.keep();
    Ok(answers)
}

/// Returns the answer for a question for which the tables have no row: no record, no entries, or a
/// counter of 0.
fn absent(read: &Read) -> ReadResult {
    match read {
        Read::Record { .. } => ReadResult::Record(None),
        Read::Range { .. } => ReadResult::Range(Vec::new()),
        Read::Counter(_) => ReadResult::Counter(0),
    }
}

/// The keys of a section in order, each with the index of the question that asks for it.
type Asked<'a> = Vec<(&'a Key, usize)>;

/// A part of the statement that answers the questions of one kind.
#[derive(Debug)]
enum Section<'a> {
    Records(Asked<'a>, Option<&'a Follow>),
    Counters(Asked<'a>),
    /// The range of the question with this index.
    Range {
        index: usize,
        bounds: (&'a Key, &'a Key),
        limit: u32,
        follow: Option<&'a Follow>,
    },
}

fn sections(reads: &[Read]) -> Vec<Section<'_>> {
    let mut records: HashMap<Option<&Follow>, Asked<'_>> = HashMap::new();
    let mut counters = Asked::new();
    let mut ranges = Vec::new();
    for (index, read) in reads.iter().enumerate() {
        match read {
            Read::Record { key, follow } => {
                records.entry(follow.as_ref()).or_default().push((key, index));
            }
            Read::Counter(CounterKey(key)) => counters.push((key, index)),
            // Such a range has no entry, and the answer is that already.
            Read::Range { limit: 0, .. } => {}
            Read::Range { start, end, limit, follow } => {
                let (bounds, limit) = ((start, end), *limit);
                ranges.push(Section::Range { index, bounds, limit, follow: follow.as_ref() });
            }
        }
    }
    let mut sections = Vec::new();
    for (follow, mut asked) in records {
        asked.sort_unstable();
        let parts = asked.chunks(SECTION_KEYS_MAX);
        sections.extend(parts.map(|part| Section::Records(part.to_vec(), follow)));
    }
    counters.sort_unstable();
    let parts = counters.chunks(SECTION_KEYS_MAX);
    sections.extend(parts.map(|part| Section::Counters(part.to_vec())));
    sections.extend(ranges);
    sections
}

fn script(sections: &[Section<'_>]) -> Script {
    let mut script = Script::default();
    // One statement is a snapshot by itself. Several need a transaction with one read view.
    let alone = sections.len() <= SECTIONS_MAX;
    if !alone {
        script.statement("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    }
    for (part, sections) in sections.chunks(SECTIONS_MAX).enumerate() {
        let mut text = String::new();
        for (place, section) in sections.iter().enumerate() {
            text.push_str(if place == 0 { "(" } else { " UNION ALL (" });
            section.write(&mut text, part * SECTIONS_MAX + place);
            text.push(')');
        }
        script.statement(text);
    }
    if !alone {
        script.statement("COMMIT");
    }
    script
}

impl Section<'_> {
    fn write(&self, text: &mut String, number: usize) {
        match self {
            Section::Records(asked, follow) => {
                push_records(text, number, *follow);
                text.push_str(" WHERE r.k IN (");
                push_keys(text, asked);
            }
            Section::Counters(asked) => {
                push(text, format_args!("SELECT {number}, k, CAST(n AS CHAR), NULL"));
                text.push_str(" FROM ashlar_counter FORCE INDEX (PRIMARY) WHERE k IN (");
                push_keys(text, asked);
            }
            Section::Range { bounds: (start, end), limit, follow, .. } => {
                push_records(text, number, *follow);
                text.push_str(" WHERE r.k >= ");
                push_bytes(text, start.as_bytes());
                text.push_str(" AND r.k < ");
                push_bytes(text, end.as_bytes());
                push(text, format_args!(" ORDER BY r.k LIMIT {limit}"));
            }
        }
    }
}

/// Writes the beginning of a section about records. With `follow`, the record to which the found
/// one points (its target) is joined by a comparison of bytes, which the primary key answers.
fn push_records(text: &mut String, number: usize, follow: Option<&Follow>) {
    push(text, format_args!("SELECT {number}, r.k, r.v, "));
    match follow.map(Follow::fetch_bytes) {
        None => text.push_str("NULL"),
        Some(None) => text.push_str("t.v"),
        Some(Some(bytes)) => push(text, format_args!("LEFT(t.v, {bytes})")),
    }
    text.push_str(" FROM ashlar_record r FORCE INDEX (PRIMARY)");
    if let Some(Follow { prefix, offset, length, .. }) = follow {
        let (start, end) = (u16::from(*offset) + 1, u16::from(*offset) + u16::from(*length));
        text.push_str(" LEFT JOIN ashlar_record t FORCE INDEX (PRIMARY) ON t.k = CONCAT(");
        push_bytes(text, prefix);
        push(text, format_args!(", SUBSTRING(r.v, {start}, {length}))"));
        push(text, format_args!(" AND LENGTH(r.v) >= {end}"));
    }
}

/// Writes the distinct keys of sorted questions, and the end of the list.
fn push_keys(text: &mut String, asked: &[(&Key, usize)]) {
    let mut last = None;
    for (key, _) in asked {
        if last == Some(key) {
            continue;
        }
        if last.is_some() {
            text.push(',');
        }
        push_bytes(text, key.as_bytes());
        last = Some(key);
    }
    text.push(')');
}

/// Adds a row to the answers of its questions.
fn place(
    found: &mut [ReadResult],
    sections: &[Section<'_>],
    row: &MySqlRow,
) -> Result<(), sqlx::Error> {
    let number = usize::try_from(row::integer(row, 0)?).ok();
    let section = number.and_then(|number| sections.get(number)).ok_or(sqlx::Error::RowNotFound)?;
    let key = row::key(row, 1)?;
    let answer = match section {
        Section::Counters(_) => ReadResult::Counter(row::integer(row, 2)?),
        Section::Records(_, follow) | Section::Range { follow, .. } => {
            let value = row::value(row, 2)?;
            let target = match follow {
                Some(follow) => follow.to_target(row::value_if_any(row, 3)?),
                None => Target::Absent,
            };
            ReadResult::Record(Some(Entry { key: key.clone(), value, target }))
        }
    };
    match section {
        Section::Records(asked, _) | Section::Counters(asked) => {
            // Several questions may have the same key, and the row answers all of them.
            let first = asked.partition_point(|(other, _)| *other < &key);
            let same = asked.iter().skip(first).take_while(|(other, _)| *other == &key);
            for (_, index) in same {
                if let Some(place) = found.get_mut(*index) {
                    *place = answer.clone();
                }
            }
        }
        Section::Range { index, .. } => {
            if let (Some(ReadResult::Range(entries)), ReadResult::Record(Some(entry))) =
                (found.get_mut(*index), answer)
            {
                entries.push(entry);
            }
        }
    }
    Ok(())
}

/// Returns a page of a walk over records.
pub(crate) async fn walk(
    pool: &ConnectionPool,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Page, StoreError> {
    const DOING: &str = "walking over records";
    let answers = page(pool, ("k, v", "ashlar_record"), space, resume, limit, DOING).await?;
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    let records: Result<Vec<_>, sqlx::Error> =
        rows.map(|row| Ok((row::key(row, 0)?, row::value(row, 1)?))).collect();
    let mut records = records.map_err(while_doing(DOING))?;
    let more = records.len() > LIMITS.page(limit);
    let next = if more { records.pop() } else { None };
    Ok(Page { records, resume: next.map(|(key, _)| key.to_bytes()) })
}

/// Returns a page of a walk over counters.
pub(crate) async fn walk_counters(
    pool: &ConnectionPool,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<CounterPage, StoreError> {
    const DOING: &str = "walking over counters";
    let answers = page(pool, ("k, n", "ashlar_counter"), space, resume, limit, DOING).await?;
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    let counters: Result<Vec<_>, sqlx::Error> =
        rows.map(|row| Ok((CounterKey(row::key(row, 0)?), row::integer(row, 1)?))).collect();
    let mut counters = counters.map_err(while_doing(DOING))?;
    let more = counters.len() > LIMITS.page(limit);
    let next = if more { counters.pop() } else { None };
    Ok(CounterPage { counters, resume: next.map(|(CounterKey(key), _)| key.to_bytes()) })
}

/// Returns the rows of a page, and the first row of the next page. Fails with `Malformed` if
/// `resume` is not from an earlier page.
async fn page(
    pool: &ConnectionPool,
    (columns, table): (&str, &str),
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
    doing: &str,
) -> Result<Vec<StatementResult>, StoreError> {
    if resume.as_ref().is_some_and(|resume| resume.len() < Key::PREFIX_BYTES) {
        return Err(StoreError::new(StoreErrorKind::Malformed, "resuming a walk"));
    }
    let mut text = format!("SELECT {columns} FROM {table} FORCE INDEX (PRIMARY) WHERE k >= ");
    push_bytes(&mut text, resume.as_deref().unwrap_or(&[space.0]));
    if let Some(after) = space.0.checked_add(1) {
        text.push_str(" AND k < ");
        push_bytes(&mut text, &[after]);
    }
    push(&mut text, format_args!(" ORDER BY k LIMIT {}", LIMITS.page(limit) + 1));
    let script = || {
        let mut script = Script::default();
        script.statement(text.as_str());
        script
    };
    ask(pool, script, doing).await
}
