//! The change feed: a table of numbered rows, written in the transactions that they tell of.
//!
//! A row holds the joined entries of one batch or of several that share a transaction, and its
//! number is one more than the last. The file's write lock makes transactions follow each other,
//! in this process and beside it, so the order of numbers is the order of commits, and a reader
//! that sees a number sees every smaller one. The latest row is never trimmed, and what is rolled
//! back takes its number with it; so numbers have no gaps, and as many rows as numbers after a
//! position means that nothing is missing.
//!
//! What an entry says is known to [`store::feed`] alone.

use bytes::Bytes;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use store::feed::{self, FEED_BATCH_BYTES_MAX, FEED_BATCHES};
use store::{Changes, Plan, Position, StoreError, StoreErrorKind, Verdict};

use crate::error::while_doing;
use crate::read::Readers;
use crate::script::{Parameter, Script};

/// Rows that are kept when older ones are trimmed. Each tells of a whole batch at least.
const ROWS_KEPT: usize = FEED_BATCHES;

/// Rows that a store writes between two trims. The table never has many more than these and the
/// kept ones.
pub(crate) const ROWS_BETWEEN_TRIMS: usize = 256;

/// Bytes of rows that one answer reads. A reader for whom there are more has missed some.
const ANSWER_BYTES_MAX: i64 = 16 << 20;

/// Bytes of a file's origin: random, and in every position of that file.
const ORIGIN_BYTES: usize = 8;

const DOING: &str = "reading the change feed";

/// The rows that tell what batches have changed, each batch in one of them.
pub(crate) fn rows<'a>(batches: impl Iterator<Item = (&'a [Plan], &'a [Verdict])>) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = Vec::new();
    for (plans, verdicts) in batches {
        let pieces = feed::pieces(plans);
        let committed = pieces.iter().zip(verdicts);
        let committed = committed.filter(|(_, verdict)| **verdict == Verdict::Committed);
        let entry = committed.map(|(piece, _)| &piece[..]).collect::<Vec<_>>().concat();
        match rows.last_mut() {
            _ if entry.is_empty() => {}
            Some(row) if row.len() + entry.len() <= FEED_BATCH_BYTES_MAX => row.extend(entry),
            _ => rows.push(entry),
        }
    }
    rows
}

/// Adds to a transaction's script what its rows are written with.
pub(crate) fn write(script: &mut Script, rows: &[Vec<u8>]) -> Result<(), sqlx::Error> {
    // SQLite numbers a row one higher than the highest.
    const TELL: &str = "INSERT INTO change (body) VALUES (?)";
    rows.iter().try_for_each(|row| script.statement(TELL, &[Parameter::Bytes(row)]))
}

/// Adds to a transaction's script what old rows are removed with.
pub(crate) fn trim(script: &mut Script) -> Result<(), sqlx::Error> {
    const TRIM: &str = "DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change) - ?";
    let kept = i64::try_from(ROWS_KEPT).unwrap_or(i64::MAX);
    script.statement(TRIM, &[Parameter::Integer(kept)])
}

/// Answers what changed since a position, from one snapshot.
pub(crate) async fn changes(
    readers: &Readers,
    since: Option<&Position>,
) -> Result<Changes, StoreError> {
    // The file's row comes first, and alone if nothing is to be told.
    const CHANGES: &str = "SELECT s.origin, (SELECT max(seq) FROM change), c.body \
         FROM ashlar_store s LEFT JOIN change c ON c.seq > ? \
         AND (SELECT sum(length(body)) FROM change WHERE seq > ?) <= ? ORDER BY c.seq";
    let since = since.map(Place::read).transpose()?;
    let after = Parameter::Integer(since.map_or(i64::MAX, |place| place.number));
    let most = Parameter::Integer(ANSWER_BYTES_MAX);
    let mut script = Script::default();
    script.statement(CHANGES, &[after, after, most]).map_err(while_doing(DOING))?;
    let answers = readers.run(script, DOING).await?;
    let told = Told::of(answers.into_iter().flatten()).map_err(while_doing(DOING))?;
    let next = told.here.write();
    match since {
        None => Ok(Changes::Told { keys: Vec::new(), next }),
        Some(since) if told.is_all_since(since) => feed::tell(told.bodies, next),
        Some(_) => Ok(Changes::Missed { next }),
    }
}

/// What a position says: the last row before it, and in which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    origin: [u8; ORIGIN_BYTES],
    /// 0 is before the first.
    number: i64,
}

impl Place {
    fn read(position: &Position) -> Result<Place, StoreError> {
        let malformed = || StoreError::new(StoreErrorKind::Malformed, "reading a position");
        let (origin, number) = position.0.split_first_chunk().ok_or_else(malformed)?;
        let number = i64::from_be_bytes(number.try_into().map_err(|_| malformed())?);
        if number < 0 { Err(malformed()) } else { Ok(Place { origin: *origin, number }) }
    }

    fn write(self) -> Position {
        Position([self.origin, self.number.to_be_bytes()].concat().into())
    }
}

/// Rows as they came, and where the feed was at that instant.
struct Told {
    here: Place,
    bodies: Vec<Bytes>,
}

impl Told {
    fn of(rows: impl Iterator<Item = SqliteRow>) -> Result<Told, sqlx::Error> {
        let mut here = None;
        let mut bodies = Vec::new();
        for row in rows {
            let origin: &[u8] = row.try_get(0)?;
            let origin = origin.try_into().map_err(|_| {
                sqlx::Error::Decode("an origin that has not the length of one".into())
            })?;
            // Without any row yet, the maximum is NULL.
            let number: Option<i64> = row.try_get(1)?;
            here = Some(Place { origin, number: number.unwrap_or(0) });
            let body: Option<&[u8]> = row.try_get(2)?;
            bodies.extend(body.map(Bytes::copy_from_slice));
        }
        Ok(Told { here: here.ok_or(sqlx::Error::RowNotFound)?, bodies })
    }

    fn is_all_since(&self, since: Place) -> bool {
        let later = self.here.number.checked_sub(since.number);
        let later = later.and_then(|later| usize::try_from(later).ok());
        since.origin == self.here.origin && later == Some(self.bodies.len())
    }
}

#[cfg(test)]
mod tests;
