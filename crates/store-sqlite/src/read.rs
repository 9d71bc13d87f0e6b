//! The connections that read. Each call is one script, and therefore one snapshot.
//!
//! For example, a read of five records, two of them with a follow (the record to which the found
//! one points is returned, too), and a range is a script of BEGIN, one statement for three records,
//! one for two with their targets, one for the range, and COMMIT.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Row};
use store::{
    CounterKey, CounterPage, Entry, Follow, Key, Page, Read, ReadResult, Space, StoreError,
    StoreErrorKind, Target, Value,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{self, while_doing};
use crate::limits::LIMITS;
use crate::open;
use crate::script::{LENGTH_MAX, LIMIT, Parameter, RangesOfPart, Script};

/// Number of connections that read. Further calls wait for one of them.
const READERS: usize = 3;
const READERS_U32: u32 = 3;
const _: () = assert!(READERS == READERS_U32 as usize, "one number in two types");

const _: () = assert!(LIMITS.reads <= LENGTH_MAX, "each kind of question is one statement");

/// The connections that read, at most three. A connection is opened when a call first needs it, and
/// again after a call that did not finish because its caller went away or SQLite failed.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<SqliteConnection>>,
    permits: Semaphore,
}

/// A reading connection that one caller uses. If the caller does not return it, it is closed.
struct PooledReader<'a> {
    readers: &'a Readers,
    connection: SqliteConnection,
    _permit: SemaphorePermit<'a>,
}

impl PooledReader<'_> {
    async fn run(mut self, script: Script, doing: &str) -> Result<Vec<Vec<SqliteRow>>, StoreError> {
        let answers = script.run(&mut self.connection).await;
        let answers = answers.map_err(|failure| while_doing(doing)(failure.error))?;
        let mut idle = self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.connection);
        Ok(answers)
    }
}

impl Readers {
    pub(crate) fn new(path: &Path) -> Readers {
        Readers {
            path: path.to_owned(),
            idle: Mutex::new(Vec::with_capacity(READERS)),
            permits: Semaphore::new(READERS),
        }
    }

    async fn acquire(&self) -> Result<PooledReader<'_>, StoreError> {
        let permit = self.permits.acquire().await.map_err(|_| error::closed())?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::reader(&self.path).await?,
        };
        Ok(PooledReader { readers: self, connection, _permit: permit })
    }

    /// Runs one script on one of the connections.
    pub(crate) async fn run(
        &self,
        script: Script,
        doing: &str,
    ) -> Result<Vec<Vec<SqliteRow>>, StoreError> {
        self.acquire().await?.run(script, doing).await
    }

    /// Answers all questions from one snapshot.
    pub(crate) async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        let doing = "reading";
        let questions = Questions::of(reads);
        let reader = self.acquire().await?;
        if reads.is_empty() {
            return reader.run(Script::default(), doing).await.map(|_| Vec::new());
        }
        let script = questions.script().map_err(while_doing(doing))?;
        let answers = reader.run(script, doing).await?;
        questions.answers(reads, answers).map_err(while_doing(doing))
    }

    pub(crate) async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let doing = "walking over records";
        let rows = self.page("record", doing, space, resume.as_deref(), limit).await?;
        let records: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| Ok((key_at(row, 0)?, value_at(row, 1)?))).collect();
        let mut records = records.map_err(while_doing(doing))?;
        let more = records.len() > LIMITS.page(limit);
        let next = if more { records.pop() } else { None };
        Ok(Page { records, resume: next.map(|(key, _)| key.to_bytes()) })
    }

    pub(crate) async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        let doing = "walking over counters";
        let rows = self.page("counter", doing, space, resume.as_deref(), limit).await?;
        let counters: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| Ok((CounterKey(key_at(row, 0)?), integer(row, 1)?))).collect();
        let mut counters = counters.map_err(while_doing(doing))?;
        let more = counters.len() > LIMITS.page(limit);
        let next = if more { counters.pop() } else { None };
        Ok(CounterPage { counters, resume: next.map(|(CounterKey(key), _)| key.to_bytes()) })
    }

    /// Returns the rows of a page, and the first row of the next page.
    async fn page(
        &self,
        table: &str,
        doing: &str,
        space: Space,
        resume: Option<&[u8]>,
        limit: u32,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        if resume.is_some_and(|resume| resume.len() < Key::PREFIX_BYTES) {
            return Err(StoreError::new(StoreErrorKind::Malformed, "resuming a walk"));
        }
        let limit = i64::try_from(LIMITS.page(limit) + 1).unwrap_or(i64::MAX);
        // The space 0xff has no successor. This bound is longer than any key of the space.
        let after =
            space.0.checked_add(1).map_or(vec![0xff; LIMITS.key_bytes + 1], |next| vec![next]);
        let first = [space.0];
        let mut script = Script::default();
        let bounds = [
            Parameter::Bytes(resume.unwrap_or(&first)),
            Parameter::Bytes(&after),
            Parameter::Integer(limit),
        ];
        let text = format!(
            "SELECT key, value FROM {table} WHERE key >= ? AND key < ? ORDER BY key {LIMIT}"
        );
        script.statement(&text, &bounds).map_err(while_doing(doing))?;
        let answers = self.run(script, doing).await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Waits for the calls in flight and closes all connections.
    pub(crate) async fn close(&self) {
        let Ok(permits) = self.permits.acquire_many(READERS_U32).await else { return };
        self.permits.close();
        drop(permits);
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in idle {
            if let Err(error) = connection.close().await {
                tracing::warn!(%error, "a connection to the metadata store did not close");
            }
        }
    }
}

/// The questions of one read, grouped by the statement that answers them, each with its index.
#[derive(Default)]
struct Questions<'a> {
    records: Vec<(usize, &'a Key)>,
    followed: Vec<(usize, &'a Key, &'a Follow)>,
    counters: Vec<(usize, &'a CounterKey)>,
    ranges: Vec<(usize, &'a Read)>,
}

impl<'a> Questions<'a> {
    fn of(reads: &'a [Read]) -> Questions<'a> {
        let mut questions = Questions::default();
        for (index, read) in reads.iter().enumerate() {
            match read {
                Read::Record { key, follow: None } => questions.records.push((index, key)),
                Read::Record { key, follow: Some(follow) } => {
                    questions.followed.push((index, key, follow));
                }
                Read::Counter(key) => questions.counters.push((index, key)),
                Read::Range { .. } => questions.ranges.push((index, read)),
            }
        }
        questions
    }

    /// Returns the script: one statement for all records, one for all records with follows, one for
    /// all counters, and one for each range. Several statements are in one transaction.
    fn script(&self) -> Result<Script, sqlx::Error> {
        let alone = self.lists() + self.ranges.len() == 1;
        let mut script = Script::default();
        if !alone {
            script.statement("BEGIN", &[])?;
        }
        let mut records = self.records.iter().map(|(_, key)| [Parameter::Bytes(key.as_bytes())]);
        script.list(RECORDS, true, &mut records)?;
        let mut followed = self.followed.iter().map(|(_, key, follow)| {
            [
                Parameter::Bytes(key.as_bytes()),
                Parameter::Bytes(&follow.prefix),
                Parameter::Integer(follow.offset.into()),
                Parameter::Integer(follow.length.into()),
                fetched(follow),
            ]
        });
        script.list(FOLLOWED, true, &mut followed)?;
        let mut counters =
            self.counters.iter().map(|(_, key)| [Parameter::Bytes(key.0.as_bytes())]);
        script.list(COUNTERS, true, &mut counters)?;
        for ranges in self.parts_of_ranges() {
            ranges.begin(&mut script);
            for (_, read) in ranges.asked {
                add_range(&mut script, read)?;
            }
            if let Some((_, last)) = ranges.asked.last() {
                (0..ranges.padding()).try_for_each(|_| add_empty_range(&mut script, last))?;
            }
        }
        if !alone {
            script.statement("COMMIT", &[])?;
        }
        Ok(script)
    }

    /// Splits the ranges into the parts of the script.
    fn parts_of_ranges(&self) -> impl Iterator<Item = RangesOfPart<'_, (usize, &'a Read)>> {
        RangesOfPart::of(&self.ranges)
    }

    fn lists(&self) -> usize {
        [self.records.len(), self.followed.len(), self.counters.len()]
            .into_iter()
            .filter(|length| *length > 0)
            .count()
    }

    /// Puts the answers into the order of the questions.
    fn answers(
        &self,
        reads: &[Read],
        answers: Vec<Vec<SqliteRow>>,
    ) -> Result<Vec<ReadResult>, sqlx::Error> {
        let alone = self.lists() + self.ranges.len() == 1;
        let mut answers = answers.into_iter().skip(usize::from(!alone));
        let mut found: Vec<ReadResult> = reads.iter().map(absent).collect();
        let mut put = |index: usize, answer: ReadResult| {
            if let Some(place) = found.get_mut(index) {
                *place = answer;
            }
        };
        if !self.records.is_empty() {
            for row in answers.next().into_iter().flatten() {
                let (index, key) = asked(&self.records, &row)?;
                let (key, value) = ((*key).clone(), value_at(&row, 1)?);
                put(*index, ReadResult::Record(Some(Entry { key, value, target: Target::Absent })));
            }
        }
        if !self.followed.is_empty() {
            for row in answers.next().into_iter().flatten() {
                let (index, key, follow) = asked(&self.followed, &row)?;
                let (value, target) = (value_at(&row, 1)?, target_at(&row, 2, Some(follow))?);
                put(*index, ReadResult::Record(Some(Entry { key: (*key).clone(), value, target })));
            }
        }
        if !self.counters.is_empty() {
            for row in answers.next().into_iter().flatten() {
                let (index, _) = asked(&self.counters, &row)?;
                put(*index, ReadResult::Counter(integer(&row, 1)?));
            }
        }
        for ranges in self.parts_of_ranges() {
            for ((index, read), rows) in ranges.asked.iter().zip(answers.by_ref()) {
                let Read::Range { follow, .. } = read else { continue };
                let entries: Result<Vec<Entry>, sqlx::Error> = rows
                    .iter()
                    .map(|row| {
                        let (key, value) = (key_at(row, 0)?, value_at(row, 1)?);
                        Ok(Entry { key, value, target: target_at(row, 2, follow.as_ref())? })
                    })
                    .collect();
                put(*index, ReadResult::Range(entries?));
            }
            answers.by_ref().take(ranges.padding()).for_each(drop);
        }
        Ok(found)
    }
}

/// Returns the answer for a question for which the file has no row: no record, no entries, or a
/// counter of 0.
fn absent(read: &Read) -> ReadResult {
    match read {
        Read::Record { .. } => ReadResult::Record(None),
        Read::Range { .. } => ReadResult::Range(Vec::new()),
        Read::Counter(_) => ReadResult::Counter(0),
    }
}

const RECORDS: (&str, &str) =
    ("SELECT q.column1, r.value FROM (VALUES ", ") q CROSS JOIN record r ON r.key = q.column2");

const COUNTERS: (&str, &str) =
    ("SELECT q.column1, t.value FROM (VALUES ", ") q CROSS JOIN counter t ON t.key = q.column2");

// `||` returns text in SQLite, therefore the cast. `substr` of an empty blob is NULL, therefore
// `coalesce`.
const FOLLOWED: (&str, &str) = (
    "SELECT q.column1, r.value, coalesce(substr(t.value, 1, q.column6), t.value) FROM (VALUES ",
    ") q CROSS JOIN record r ON r.key = q.column2 \
     LEFT JOIN record t ON length(r.value) >= q.column4 + q.column5 AND t.key = \
     CAST(q.column3 || coalesce(substr(r.value, q.column4 + 1, q.column5), x'') AS BLOB)",
);

fn add_range(script: &mut Script, read: &Read) -> Result<(), sqlx::Error> {
    let Read::Range { start, end, limit, follow } = read else { return Ok(()) };
    add_bounds(script, (start.as_bytes(), end.as_bytes()), *limit, follow.as_ref())
}

/// Adds a statement with the text of `like`'s range that finds nothing.
fn add_empty_range(script: &mut Script, like: &Read) -> Result<(), sqlx::Error> {
    let Read::Range { follow, .. } = like else { return Ok(()) };
    add_bounds(script, (&[], &[]), 0, follow.as_ref())
}

fn add_bounds(
    script: &mut Script,
    (start, end): (&[u8], &[u8]),
    limit: u32,
    follow: Option<&Follow>,
) -> Result<(), sqlx::Error> {
    let (start, end) = (Parameter::Bytes(start), Parameter::Bytes(end));
    let limit = Parameter::Integer(limit.into());
    let Some(follow) = follow else {
        let text = format!(
            "SELECT key, value, NULL FROM record WHERE key >= ? AND key < ? ORDER BY key {LIMIT}"
        );
        return script.statement(&text, &[start, end, limit]);
    };
    let text = format!(
        "SELECT r.key, r.value, coalesce(substr(t.value, 1, ?), t.value) FROM record r \
         LEFT JOIN record t ON length(r.value) >= ? AND t.key = \
         CAST(? || coalesce(substr(r.value, ?, ?), x'') AS BLOB) \
         WHERE r.key >= ? AND r.key < ? ORDER BY r.key {LIMIT}"
    );
    script.statement(
        &text,
        &[
            fetched(follow),
            Parameter::Integer(i64::from(follow.offset) + i64::from(follow.length)),
            Parameter::Bytes(&follow.prefix),
            Parameter::Integer(i64::from(follow.offset) + 1),
            Parameter::Integer(follow.length.into()),
            start,
            end,
            limit,
        ],
    )
}

/// Returns the question of a row, by the number in its first column.
fn asked<'a, T>(questions: &'a [T], row: &SqliteRow) -> Result<&'a T, sqlx::Error> {
    let number = usize::try_from(integer(row, 0)?).ok();
    number.and_then(|number| questions.get(number)).ok_or(sqlx::Error::RowNotFound)
}

/// Stores an answer at the index in the row's first column.
pub(crate) fn place<T>(
    places: &mut [Option<T>],
    row: &SqliteRow,
    answer: Result<T, sqlx::Error>,
) -> Result<(), sqlx::Error> {
    let number = usize::try_from(integer(row, 0)?).ok();
    let place = number.and_then(|number| places.get_mut(number));
    *place.ok_or(sqlx::Error::RowNotFound)? = Some(answer?);
    Ok(())
}

pub(crate) fn integer(row: &SqliteRow, column: usize) -> Result<i64, sqlx::Error> {
    row.try_get(column)
}

pub(crate) fn value_at(row: &SqliteRow, column: usize) -> Result<Value, sqlx::Error> {
    row.try_get(column).map(Bytes::copy_from_slice)
}

fn target_at(
    row: &SqliteRow,
    column: usize,
    follow: Option<&Follow>,
) -> Result<Target, sqlx::Error> {
    let Some(follow) = follow else { return Ok(Target::Absent) };
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(follow.to_target(bytes.map(Bytes::copy_from_slice)))
}

/// Returns the number of bytes to fetch of a target, the record to which a found one points, as a
/// parameter.
fn fetched(follow: &Follow) -> Parameter<'static> {
    Parameter::Integer(follow.fetch_bytes().map_or(ALL_BYTES, i64::from))
}

/// More bytes than any value has.
const ALL_BYTES: i64 = 1 << 31;

pub(crate) fn key_at(row: &SqliteRow, column: usize) -> Result<Key, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    if bytes.len() < Key::PREFIX_BYTES {
        return Err(sqlx::Error::Decode("a key shorter than its space and partition".into()));
    }
    Ok(Key::from_bytes(Bytes::copy_from_slice(bytes)))
}

#[cfg(test)]
mod tests;
