//! The change feed: a table of numbered rows, written in the same transactions as the changes.
//!
//! A row holds the entries of one batch, or of several that share a transaction. Its number is one more
//! than that of the last row. The file's write lock serializes transactions, of this process and of
//! others. So numbers follow the order of commits, and a reader that sees a number sees every smaller
//! one. The latest row is never trimmed, and a rollback gives a number back. So numbers have no gaps:
//! nothing is missing after a position if there are as many rows as numbers.
//!
//! Only [`store::feed`] knows what an entry means.

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

/// Bytes of rows that one answer reads. A reader for whom there are more meets a gap.
const ANSWER_BYTES_MAX: i64 = 16 << 20;

/// Bytes of a file's origin: random, and in every position of that file.
const ORIGIN_BYTES: usize = 8;

const DOING: &str = "reading the change feed";

/// The rows for the changes of some batches. Each batch is in one row.
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

/// Adds the statements that write rows to a transaction's script.
pub(crate) fn write(script: &mut Script, rows: &[Vec<u8>]) -> Result<(), sqlx::Error> {
    // SQLite numbers a row one higher than the highest.
    const TELL: &str = "INSERT INTO change (body) VALUES (?)";
    rows.iter().try_for_each(|row| script.statement(TELL, &[Parameter::Bytes(row)]))
}

/// Adds the statement that removes old rows to a transaction's script.
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
    // The file's row comes first, and alone if only the position is asked for.
    const CHANGES: &str = "SELECT s.origin, (SELECT max(seq) FROM change), c.body \
         FROM ashlar_store s LEFT JOIN change c ON c.seq > ? \
         AND (SELECT sum(length(body)) FROM change WHERE seq > ?) <= ? ORDER BY c.seq";
    let since = since.map(FeedPosition::read).transpose()?;
    let after = Parameter::Integer(since.map_or(i64::MAX, |place| place.number));
    let most = Parameter::Integer(ANSWER_BYTES_MAX);
    let mut script = Script::default();
    script.statement(CHANGES, &[after, after, most]).map_err(while_doing(DOING))?;
    let answers = readers.run(script, DOING).await?;
    let rows = FeedRows::of(answers.into_iter().flatten()).map_err(while_doing(DOING))?;
    let next = rows.here.write();
    match since {
        None => Ok(Changes::Notified { keys: Vec::new(), next }),
        Some(since) if rows.is_all_since(since) => feed::decode(rows.bodies, next),
        Some(_) => Ok(Changes::Gap { next }),
    }
}

/// A decoded position: the last row before it, and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FeedPosition {
    origin: [u8; ORIGIN_BYTES],
    /// 0 is before the first.
    number: i64,
}

impl FeedPosition {
    fn read(position: &Position) -> Result<FeedPosition, StoreError> {
        let malformed = || StoreError::new(StoreErrorKind::Malformed, "reading a position");
        let (origin, number) = position.0.split_first_chunk().ok_or_else(malformed)?;
        let number = i64::from_be_bytes(number.try_into().map_err(|_| malformed())?);
        if number < 0 { Err(malformed()) } else { Ok(FeedPosition { origin: *origin, number }) }
    }

    fn write(self) -> Position {
        Position([self.origin, self.number.to_be_bytes()].concat().into())
    }
}

/// Rows of the feed, and its position at that instant.
struct FeedRows {
    here: FeedPosition,
    bodies: Vec<Bytes>,
}

impl FeedRows {
    fn of(rows: impl Iterator<Item = SqliteRow>) -> Result<FeedRows, sqlx::Error> {
        let mut here = None;
        let mut bodies = Vec::new();
        for row in rows {
            let origin: &[u8] = row.try_get(0)?;
            let origin = origin.try_into().map_err(|_| {
                sqlx::Error::Decode("an origin that has not the length of one".into())
            })?;
            // Without any row yet, the maximum is NULL.
            let number: Option<i64> = row.try_get(1)?;
            here = Some(FeedPosition { origin, number: number.unwrap_or(0) });
            let body: Option<&[u8]> = row.try_get(2)?;
            bodies.extend(body.map(Bytes::copy_from_slice));
        }
        Ok(FeedRows { here: here.ok_or(sqlx::Error::RowNotFound)?, bodies })
    }

    fn is_all_since(&self, since: FeedPosition) -> bool {
        let later = self.here.number.checked_sub(since.number);
        let later = later.and_then(|later| usize::try_from(later).ok());
        since.origin == self.here.origin && later == Some(self.bodies.len())
    }
}

#[cfg(test)]
mod tests;
