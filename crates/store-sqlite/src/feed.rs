//! The change feed: a table of numbered rows, written in the transactions of the changes.
//!
//! A row has the entries of one batch, or of several batches of one transaction. Its number is one
//! more than that of the row before. The file's write lock serializes the transactions of all
//! processes, so numbers follow the order of commits: a reader that sees a number sees every
//! smaller one. The latest row is never trimmed, and a rollback returns a number. So numbers have
//! no gaps.
//!
//! This gives the check for missing rows: after position `p` nothing is missing if the table has
//! `latest - p` rows with larger numbers. For example, a reader at position 7 that finds the rows
//! 8, 9 and 10 has all changes; if it finds only 9 and 10, it reports a gap.
//!
//! Only [`store::feed`] knows the form of an entry.

use bytes::Bytes;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use store::feed::{self, FEED_BATCH_BYTES_MAX, FEED_BATCHES};
use store::{Changes, Plan, Position, StoreError, StoreErrorKind, Verdict};

use crate::error::while_doing;
use crate::read::Readers;
use crate::script::{Parameter, Script};

/// Rows that a trim, the deletion of old rows, keeps in the table of the feed. Each row has the
/// changed keys of at least one batch.
const ROWS_KEPT: usize = FEED_BATCHES;

/// Rows that a store writes between two trims, the deletions of old rows. The table has about
/// [`ROWS_KEPT`] and this many rows at most.
pub(crate) const ROWS_BETWEEN_TRIMS: usize = 256;

/// Bytes of rows that one answer reads. If there are more, the reader gets a gap: the answer that
/// any record may have changed.
const ANSWER_BYTES_MAX: i64 = 16 << 20;

/// Bytes of a file's origin, a random number that is in each position of that file.
const ORIGIN_BYTES: usize = 8;

const DOING: &str = "reading the change feed";

/// Returns the rows to add to the feed: the keys that the committed plans of some batches changed.
/// The keys of one batch are never split over two rows.
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

/// Adds the statements that append these rows to the feed's table to a transaction's script.
pub(crate) fn write(script: &mut Script, rows: &[Vec<u8>]) -> Result<(), sqlx::Error> {
    // SQLite gives a row the number after the highest one.
    const INSERT: &str = "INSERT INTO change (body) VALUES (?)";
    rows.iter().try_for_each(|row| script.statement(INSERT, &[Parameter::Bytes(row)]))
}

/// Adds the statement that deletes old rows of the feed's table to a transaction's script.
pub(crate) fn trim(script: &mut Script) -> Result<(), sqlx::Error> {
    const TRIM: &str = "DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change) - ?";
    let kept = i64::try_from(ROWS_KEPT).unwrap_or(i64::MAX);
    script.statement(TRIM, &[Parameter::Integer(kept)])
}

/// Returns the keys of the records that changed since a position of the feed, from one snapshot.
pub(crate) async fn changes(
    readers: &Readers,
    since: Option<&Position>,
) -> Result<Changes, StoreError> {
    // Each row has the file's origin and the highest number. Without rows of the feed, or if only
    // the position is wanted, there is one row with them.
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

/// A decoded position in the feed: the origin (random number) of the file, and the number of the
/// last row that the reader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FeedPosition {
    origin: [u8; ORIGIN_BYTES],
    /// The number of the last row; 0 before the first one.
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

/// Rows of the feed after a reader's position, and the current position in the same snapshot.
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
            let origin = origin
                .try_into()
                .map_err(|_| sqlx::Error::Decode("an origin of a wrong length".into()))?;
            // While the table is empty, the maximum is NULL.
            let number: Option<i64> = row.try_get(1)?;
            here = Some(FeedPosition { origin, number: number.unwrap_or(0) });
            let body: Option<&[u8]> = row.try_get(2)?;
            bodies.extend(body.map(Bytes::copy_from_slice));
        }
        Ok(FeedRows { here: here.ok_or(sqlx::Error::RowNotFound)?, bodies })
    }

    /// Returns true if these are all rows after the position `since`, and that is a position of the
    /// same file. Otherwise the reader must get a gap.
    fn is_all_since(&self, since: FeedPosition) -> bool {
        let later = self.here.number.checked_sub(since.number);
        let later = later.and_then(|later| usize::try_from(later).ok());
        since.origin == self.here.origin && later == Some(self.bodies.len())
    }
}

#[cfg(test)]
mod tests;
