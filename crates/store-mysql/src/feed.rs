//! The change feed: entries in lanes.
//!
//! A commit that changes records takes the next number of one lane, as its last writes before
//! COMMIT. The lane's row stays locked until the commit is visible, so within a lane entries become
//! visible in order and without gaps, and a position (the highest number seen of each lane) skips
//! nothing. Lanes are many so that commits rarely wait for each other's flush. A lane is trimmed by
//! a commit of its own now and then; an entry that is missing between a position and the lane's
//! head has been trimmed, or the position is not of this store.

use bytes::{BufMut, Bytes, BytesMut};
use store::feed::{self, FEED_BATCHES};
use store::{Changes, Plan, Position, StoreError, StoreErrorKind, Verdict};

use crate::error::while_doing;
use crate::row;
use crate::script::{Answer, Script, push, push_bytes};

/// How many lanes there are. Part of the format.
pub(crate) const LANES: u8 = 16;
const LANES_USIZE: usize = LANES as usize;

/// Entries that one answer tells. A reader further behind has missed some.
const TOLD_MAX: u64 = FEED_BATCHES as u64;

/// A lane keeps its latest entries; all that a store remembers may be in one of them.
const KEPT: u64 = FEED_BATCHES as u64;

/// After how many entries a lane is trimmed.
const TRIM_EVERY: u64 = 512;

/// Bytes that name a store at the front of a position.
const STORE_BYTES: usize = 16;
const POSITION_BYTES: usize = STORE_BYTES + LANES_USIZE * size_of::<u64>();

/// The lane of a connection. The server numbers connections one after the other, which spreads
/// them over the lanes whoever they belong to.
pub(crate) fn lane(connection: u64) -> u64 {
    connection % u64::from(LANES)
}

/// What the committed plans of a batch add to the feed; empty if they changed no records.
pub(crate) fn entry(plans: &[Plan], verdicts: &[Verdict]) -> Bytes {
    let pieces = feed::pieces(plans);
    let committed = pieces.iter().zip(verdicts);
    let committed = committed.filter(|(_, verdict)| **verdict == Verdict::Committed);
    committed.flat_map(|(piece, _)| piece).copied().collect()
}

/// Adds the statements that append an entry. The first one answers with its number.
pub(crate) fn append(script: &mut Script, lane: u64, entry: &[u8]) {
    script.statement(format!(
        "UPDATE ashlar_lane SET head = LAST_INSERT_ID(head + 1) WHERE lane = {lane}"
    ));
    let mut text = format!("INSERT INTO ashlar_change VALUES ({lane},LAST_INSERT_ID(),");
    push_bytes(&mut text, entry);
    text.push(')');
    script.statement(text);
}

/// The statement that forgets old entries of a lane, if it is time for that.
pub(crate) fn trim(lane: u64, number: u64) -> Option<Script> {
    if number < KEPT || !number.is_multiple_of(TRIM_EVERY) {
        return None;
    }
    let mut script = Script::default();
    let last = number - KEPT;
    script.statement(format!("DELETE FROM ashlar_change WHERE lane = {lane} AND seq <= {last}"));
    Some(script)
}

/// Where a reader is: the number of the latest entry seen of each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heads([u64; LANES_USIZE]);

impl Heads {
    fn write(&self, store: &[u8]) -> Position {
        let mut bytes = BytesMut::with_capacity(POSITION_BYTES);
        bytes.extend_from_slice(store);
        self.0.iter().for_each(|head| bytes.put_u64(*head));
        Position(bytes.freeze())
    }

    /// The heads in a position, or nothing if it is of another store.
    fn read(position: &Position, store: &[u8]) -> Result<Option<Heads>, StoreError> {
        if position.0.len() != POSITION_BYTES {
            return Err(StoreError::new(StoreErrorKind::Malformed, "reading a position"));
        }
        let Some(numbers) = position.0.strip_prefix(store) else { return Ok(None) };
        let mut heads = [0; LANES_USIZE];
        for (head, bytes) in heads.iter_mut().zip(numbers.as_chunks().0) {
            *head = u64::from_be_bytes(*bytes);
        }
        Ok(Some(Heads(heads)))
    }
}

/// A call of `changes`: what to ask, and what the answer means.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    store: &'a [u8],
    /// `None` if nothing is to be told but the position.
    since: Option<Heads>,
    /// The position was of another store.
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

    /// One statement, and so one snapshot: the heads, and the entries behind the position if they
    /// are not too many.
    pub(crate) fn script(&self) -> Script {
        let mut text = String::from("SELECT lane, head, NULL FROM ashlar_lane");
        if let Some(since) = &self.since {
            let seen = since.0.iter().fold(0_u64, |sum, head| sum.saturating_add(*head));
            text.push_str(
                " UNION ALL SELECT lane, seq, body FROM ashlar_change FORCE INDEX (PRIMARY) WHERE (",
            );
            for (lane, head) in since.0.iter().enumerate() {
                let or = if lane == 0 { "" } else { " OR " };
                push(&mut text, format_args!("{or}lane = {lane} AND seq > {head}"));
            }
            // The sum alone says that nothing happened, or too much.
            let (first, last) = (seen.saturating_add(1), seen.saturating_add(TOLD_MAX));
            push(
                &mut text,
                format_args!(
                    ") AND (SELECT SUM(head) FROM ashlar_lane) BETWEEN {first} AND {last}"
                ),
            );
        }
        let mut script = Script::default();
        script.statement(text);
        script
    }

    pub(crate) fn answer(&self, answers: &[Answer]) -> Result<Changes, StoreError> {
        const DOING: &str = "reading the change feed";
        let mut heads = Heads([0; LANES_USIZE]);
        let mut entries = Vec::new();
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            let lane = row::unsigned(row, 0).map_err(while_doing(DOING))?;
            let number = row::unsigned(row, 1).map_err(while_doing(DOING))?;
            match row::value_if_any(row, 2).map_err(while_doing(DOING))? {
                Some(entry) => entries.push(entry),
                None => {
                    let head = usize::try_from(lane).ok().and_then(|lane| heads.0.get_mut(lane));
                    *head.ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, DOING))? = number;
                }
            }
        }
        let next = heads.write(self.store);
        if self.is_foreign {
            return Ok(Changes::Missed { next });
        }
        let Some(since) = &self.since else { return Ok(Changes::Told { keys: Vec::new(), next }) };
        // Without gaps there are as many entries as numbers; a lane behind the position has lost
        // its memory.
        let steps = heads.0.iter().zip(&since.0).map(|(head, seen)| head.checked_sub(*seen));
        let expected = steps.sum::<Option<u64>>().and_then(|steps| usize::try_from(steps).ok());
        if expected != Some(entries.len()) {
            return Ok(Changes::Missed { next });
        }
        feed::tell(entries, next)
    }
}

#[cfg(test)]
mod tests;
