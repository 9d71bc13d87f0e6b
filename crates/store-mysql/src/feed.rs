//! The change feed (the keys that recent batches changed), in shards, which are 16 independent
//! sequences of entries.
//!
//! A commit that changes records takes the next number of one shard, in its last statements before
//! COMMIT. The shard's row stays locked until the commit is visible. So the entries of a shard
//! become visible in order and without gaps, and a position, which has the highest seen number of
//! each shard, skips no entry. There are many shards so that commits rarely wait for each other's
//! flush.
//!
//! From time to time a separate commit deletes old entries of a shard. If an entry between a
//! position and the shard's head is missing, it was deleted, or the position is of another store.
//! For example, a position has 40 for shard 3, the head is 42, and the entries 41 and 42 exist: the
//! reader has all changes of that shard.

use bytes::{BufMut, Bytes, BytesMut};
use store::feed::{self, FEED_BATCHES};
use store::{Changes, Plan, Position, StoreError, StoreErrorKind, Verdict};

use crate::error::while_doing;
use crate::row;
use crate::script::{Script, StatementResult, push, push_bytes};

/// Number of shards, the independent sequences of entries of the feed. Part of the format.
pub(crate) const SHARDS: u8 = 16;
const SHARDS_USIZE: usize = SHARDS as usize;

/// Limit of the entries of one answer. A reader that is further behind gets a gap: the answer that
/// any record may have changed.
const ENTRIES_MAX: u64 = FEED_BATCHES as u64;

/// Number of entries that a shard (one of the feed's independent sequences) keeps. All entries that
/// the feed promises to keep may be in one shard.
const KEPT: u64 = FEED_BATCHES as u64;

/// Number of entries of a shard after which its old entries are deleted.
const TRIM_EVERY: u64 = 512;

/// Bytes of the store's identity at the beginning of a position.
const STORE_BYTES: usize = 16;
const POSITION_BYTES: usize = STORE_BYTES + SHARDS_USIZE * size_of::<u64>();

/// Returns the shard (the part of the feed) to which a connection appends. The server numbers
/// connections consecutively, which spreads the connections of all gateways over the shards.
pub(crate) fn shard(connection: u64) -> u64 {
    connection % u64::from(SHARDS)
}

/// Returns the entry of a batch in the feed: the keys that its committed plans changed. Empty if
/// they changed no records.
pub(crate) fn entry(plans: &[Plan], verdicts: &[Verdict]) -> Bytes {
    let pieces = feed::pieces(plans);
    let committed = pieces.iter().zip(verdicts);
    let committed = committed.filter(|(_, verdict)| **verdict == Verdict::Committed);
    committed.flat_map(|(piece, _)| piece).copied().collect()
}

/// Adds the statements that append an entry to a shard of the feed. The first one returns the
/// entry's number in the shard.
pub(crate) fn append(script: &mut Script, shard: u64, entry: &[u8]) {
    script.statement(format!(
        "UPDATE ashlar_shard SET head = LAST_INSERT_ID(head + 1) WHERE shard = {shard}"
    ));
    let mut text = format!("INSERT INTO ashlar_change VALUES ({shard},LAST_INSERT_ID(),");
    push_bytes(&mut text, entry);
    text.push(')');
    script.statement(text);
}

/// Returns the statement that deletes old entries of a shard, or `None` if that is not due.
/// `number` is that of the shard's latest entry.
pub(crate) fn trim(shard: u64, number: u64) -> Option<Script> {
    if number < KEPT || !number.is_multiple_of(TRIM_EVERY) {
        return None;
    }
    let mut script = Script::default();
    let last = number - KEPT;
    script.statement(format!("DELETE FROM ashlar_change WHERE shard = {shard} AND seq <= {last}"));
    Some(script)
}

/// A decoded position in the feed: for each shard, the number of the latest entry that the reader
/// has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heads([u64; SHARDS_USIZE]);

impl Heads {
    fn write(&self, store: &[u8]) -> Position {
        let mut bytes = BytesMut::with_capacity(POSITION_BYTES);
        bytes.extend_from_slice(store);
        self.0.iter().for_each(|head| bytes.put_u64(*head));
        Position(bytes.freeze())
    }

    /// Parses a position. Returns `None` if it is of another store.
    fn read(position: &Position, store: &[u8]) -> Result<Option<Heads>, StoreError> {
        if position.0.len() != POSITION_BYTES {
            return Err(StoreError::new(StoreErrorKind::Malformed, "reading a position"));
        }
        let Some(numbers) = position.0.strip_prefix(store) else { return Ok(None) };
        let mut heads = [0; SHARDS_USIZE];
        for (head, bytes) in heads.iter_mut().zip(numbers.as_chunks().0) {
            *head = u64::from_be_bytes(*bytes);
        }
        Ok(Some(Heads(heads)))
    }
}

/// A call of `changes`: its statement, and the knowledge that its answer needs to be understood.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    store: &'a [u8],
    /// The reader's position; `None` if it wants only the current position.
    since: Option<Heads>,
    /// True if the reader's position is of another store, so that the answer is a gap.
    is_foreign: bool,
}

impl<'a> Question<'a> {
    pub(crate) fn new(
        since: Option<&Position>,
        store: &'a [u8],
    ) -> Result<Question<'a>, StoreError> {
        let heads = since.map(|position| Heads::read(position, store)).transpose()?;
        Ok(Question { store, since: heads.flatten(), is_foreign: heads == Some(None) })
    }

    /// Returns one statement, and therefore one snapshot: the heads, and the entries after the
    /// position if they are not too many.
    pub(crate) fn script(&self) -> Script {
        let mut text = String::from("SELECT shard, head, NULL FROM ashlar_shard");
        if let Some(since) = &self.since {
            let seen = since.0.iter().fold(0_u64, |sum, head| sum.saturating_add(*head));
            text.push_str(
                " UNION ALL SELECT shard, seq, body FROM ashlar_change FORCE INDEX (PRIMARY) WHERE (",
            );
            for (shard, head) in since.0.iter().enumerate() {
                let or = if shard == 0 { "" } else { " OR " };
                push(&mut text, format_args!("{or}shard = {shard} AND seq > {head}"));
            }
            // The sum of the heads shows if there are no entries, or too many.
            let (first, last) = (seen.saturating_add(1), seen.saturating_add(ENTRIES_MAX));
            push(
                &mut text,
                format_args!(
                    ") AND (SELECT SUM(head) FROM ashlar_shard) BETWEEN {first} AND {last}"
                ),
            );
        }
        let mut script = Script::default();
        script.statement(text);
        script
    }

    pub(crate) fn answer(&self, answers: &[StatementResult]) -> Result<Changes, StoreError> {
        const DOING: &str = "reading the change feed";
        let mut heads = Heads([0; SHARDS_USIZE]);
        let mut entries = Vec::new();
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            let shard = row::unsigned(row, 0).map_err(while_doing(DOING))?;
            let number = row::unsigned(row, 1).map_err(while_doing(DOING))?;
            match row::value_if_any(row, 2).map_err(while_doing(DOING))? {
                Some(entry) => entries.push(entry),
                None => {
                    let head = usize::try_from(shard).ok().and_then(|shard| heads.0.get_mut(shard));
                    *head.ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, DOING))? = number;
                }
            }
        }
        // After a gap, too: the reader drops its cache and continues from here.
        let next = heads.write(self.store);
        if self.is_foreign {
            return Ok(Changes::Gap { next });
        }
        let Some(since) = &self.since else {
            return Ok(Changes::Notified { keys: Vec::new(), next });
        };
        // Without gaps there are as many entries as numbers. If a head is below the position, the
        // store was restored from an older state.
        let steps = heads.0.iter().zip(&since.0).map(|(head, seen)| head.checked_sub(*seen));
        let expected = steps.sum::<Option<u64>>().and_then(|steps| usize::try_from(steps).ok());
        if expected != Some(entries.len()) {
            return Ok(Changes::Gap { next });
        }
        feed::decode(entries, next)
    }
}

#[cfg(test)]
mod tests;
