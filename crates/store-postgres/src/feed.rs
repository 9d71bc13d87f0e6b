//! The change feed: one row for each batch that changed records, with the number of its
//! transaction.
//!
//! Transactions become visible in another order than that of their numbers. So a position is not a
//! number but a *snapshot*: the set of transactions that had ended. The next answer has the rows
//! that the last snapshot did not see and the statement's own snapshot sees. So no change is
//! missing. For example, transaction 7 commits after transaction 8: a reader whose position saw
//! only 8 gets the row of 7 in its next answer.
//!
//! A snapshot is cut after the newest row that it sees, for two reasons. First, later rows need not
//! be searched repeatedly while another database of the server keeps an old transaction open.
//! Second, after a crash the server may reuse the numbers of transactions that the crash undid. It
//! does not reuse numbers up to that of a committed row, because that row was on disk.

use std::fmt;

use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;
use store::feed::compact::Entries;
use store::feed::{self, FEED_BATCHES};
use store::{Changes, Position, StoreError, StoreErrorKind};

use crate::connections::Connections;
use crate::error::{unreadable, while_doing};
use crate::read::fetch;

/// Limit of the bytes of all entries of one answer. If there are more, the reader gets a gap: the
/// answer that any record may have changed.
const ANSWER_BYTES_MAX: i64 = 16 << 20;

/// Number of batches with changed records after which a process trims the feed, that is, deletes
/// its old entries.
pub(crate) const TRIM_EVERY: u64 = 256;

/// The lowest number that a transaction can have.
const XID_MIN: u64 = 3;

const CHANGES: &str = "with unseen as materialized (\
         select keys from ashlar_change where xid >= pg_snapshot_xmin($1::text::pg_snapshot) \
         and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)) \
     select s.identity::text, pg_current_snapshot()::text, \
         greatest(s.trimmed, (select xid from ashlar_change order by xid desc limit 1))::text, \
         coalesce((select sum(octet_length(keys)) from unseen), 0)::bigint > $2, \
         case when coalesce((select sum(octet_length(keys)) from unseen), 0) <= $2 \
             then (select string_agg(keys, '') from unseen) end, \
         coalesce(s.trimmed is not null and ( \
             not pg_visible_in_snapshot(s.trimmed, $1::text::pg_snapshot) \
             or exists (select from pg_snapshot_xip($1::text::pg_snapshot) as x(xid) \
                 where x.xid <= s.trimmed \
                 and pg_visible_in_snapshot(x.xid, pg_current_snapshot()))), false) \
         or coalesce(pg_snapshot_xmax($1::text::pg_snapshot) \
             > pg_snapshot_xmax(pg_current_snapshot()), false) \
     from ashlar_store s";

const TRIM: &str = "with bound as (\
         select xid from ashlar_change order by xid desc offset $1 limit 1), \
     gone as (delete from ashlar_change where xid <= (select xid from bound)) \
     update ashlar_store set trimmed = greatest(trimmed, (select xid from bound)) \
         where exists (select from bound)";

/// Frees the space of rows that a trim has deleted from the feed. Autovacuum would do it a minute
/// later, but the feed of a busy store would have grown to several times its size meanwhile, and it
/// does not shrink.
const CLEAR: &str = "vacuum (skip_locked on, truncate off) ashlar_change";

/// A PostgreSQL snapshot, as a position of the feed has it: the transactions that had ended. These
/// are all below `xmin`, none from `xmax` on, and between them all except those in `open`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    xmin: u64,
    xmax: u64,
    open: Vec<u64>,
}

impl Seen {
    /// Parses a snapshot in PostgreSQL's text form.
    fn parse(text: &str) -> Option<Seen> {
        let mut parts = text.split(':');
        let (xmin, xmax, open) = (parts.next()?, parts.next()?, parts.next()?);
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // PostgreSQL limits numbers to about its signed 64-bit type.
            let number: u64 = if digits { text.parse().ok()? } else { return None };
            (number <= i64::MAX.unsigned_abs()).then_some(number)
        };
        let open: Vec<u64> = match open {
            "" => Vec::new(),
            open => open.split(',').map(number).collect::<Option<_>>()?,
        };
        let seen = Seen { xmin: number(xmin)?, xmax: number(xmax)?, open };
        let ordered = seen.open.is_sorted_by(|a, b| a < b)
            && seen.open.iter().all(|xid| (seen.xmin..seen.xmax).contains(xid));
        let whole = parts.next().is_none() && seen.xmin > 0 && seen.xmin <= seen.xmax && ordered;
        whole.then_some(seen)
    }

    /// Returns this snapshot as if it had seen no transaction after `newest`.
    fn cut(mut self, newest: Option<u64>) -> Seen {
        // Without any row nothing counts as seen.
        let xmax = newest.map_or(XID_MIN, |newest| newest.saturating_add(1)).min(self.xmax);
        self.open.retain(|xid| *xid < xmax);
        Seen { xmin: self.xmin.min(xmax), xmax, open: self.open }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (number, xid) in self.open.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{xid}")?;
        }
        Ok(())
    }
}

/// Parses a position: the store's identity, a blank, and the snapshot.
fn read_position(position: &Position) -> Option<(String, Seen)> {
    let text = std::str::from_utf8(&position.0).ok()?;
    let (identity, seen) = text.split_once(' ')?;
    let plain = identity.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let identity = (plain && identity.len() == 36).then(|| identity.to_owned())?;
    Some((identity, Seen::parse(seen)?))
}

/// The answer of the statement that reads the feed.
struct FeedState {
    /// The identity of the store.
    identity: String,
    /// The snapshot of the statement.
    now: Seen,
    /// The number of the newest transaction that has an entry, or that was trimmed.
    newest: Option<u64>,
    /// True if the entries have more than [`ANSWER_BYTES_MAX`] bytes.
    too_much: bool,
    /// The entries after the position of the reader, concatenated.
    entries: Option<Bytes>,
    /// True if entries after the position of the reader were trimmed.
    gap: bool,
}

impl FeedState {
    fn of(row: &PgRow) -> Result<FeedState, sqlx::Error> {
        let now: String = row.try_get(1)?;
        let newest: Option<String> = row.try_get(2)?;
        let newest = newest.map(|newest| newest.parse()).transpose();
        let entries: Option<&[u8]> = row.try_get(4)?;
        Ok(FeedState {
            identity: row.try_get(0)?,
            now: Seen::parse(&now).ok_or_else(|| unreadable("a snapshot of a strange form"))?,
            newest: newest.map_err(|_| unreadable("a transaction's number of a strange form"))?,
            too_much: row.try_get(3)?,
            entries: entries.map(Bytes::copy_from_slice),
            gap: row.try_get(5)?,
        })
    }
}

/// Returns the entries after the position `since`, or a gap. Without a position it returns the
/// present position.
///
/// Fails with `Malformed` if `since` is not a position of this engine, and with the error of the
/// statement.
pub(crate) async fn changes(
    connections: &Connections,
    since: Option<&Position>,
) -> Result<Changes, StoreError> {
    const DOING: &str = "reading the change feed";
    let malformed = || StoreError::new(StoreErrorKind::Malformed, "reading a position");
    let since = since.map(|since| read_position(since).ok_or_else(malformed)).transpose()?;
    let seen = since.as_ref().map(|(_, seen)| seen.to_string());
    let rows = fetch(connections, DOING, || {
        sqlx::query(CHANGES).bind(seen.clone()).bind(ANSWER_BYTES_MAX)
    });
    let rows = rows.await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound).map_err(while_doing(DOING))?;
    let answer = FeedState::of(row).map_err(while_doing(DOING))?;
    let now = answer.now.cut(answer.newest);
    let next = Position(format!("{} {now}", answer.identity).into());
    // Numbers of transactions of another store have no meaning here.
    let foreign = since.is_some_and(|(identity, _)| identity != answer.identity);
    if foreign || answer.gap || answer.too_much {
        return Ok(Changes::Gap { next });
    }
    feed::decode(answer.entries.into_iter().flat_map(Entries::new), next)
}

/// Deletes all entries except the newest, and records the position up to which the feed was
/// trimmed.
pub(crate) async fn trim(connections: &Connections) {
    let kept = i64::try_from(FEED_BATCHES).unwrap_or(i64::MAX);
    // The statement is idempotent, so it may be repeated after a broken connection.
    let trimmed = fetch(connections, "trimming the change feed", || sqlx::query(TRIM).bind(kept));
    if let Err(error) = trimmed.await {
        tracing::debug!(%error, "cannot trim the change feed; it stays long until the next trim");
        return;
    }
    let reused = fetch(connections, "clearing the change feed", || sqlx::query(CLEAR));
    if let Err(error) = reused.await {
        tracing::debug!(%error, "autovacuum will free the space of trimmed entries");
    }
}

#[cfg(test)]
mod tests;
