//! Walks over the records and counters of a space, page by page in the order of keys.
//!
//! For example, the second page of a walk begins behind the last key of the first page.

use bytes::Bytes;
use store::{CounterKey, CounterPage, Page, Space, StoreError};

use crate::counters::{CELLS_MAX, Cells};
use crate::error::garbled;
use crate::keys::{Keys, after};
use crate::limits::LIMITS;
use crate::rpc::{KeyValue, RANGE, Range, RangeAnswer};
use crate::shared::Shared;

const DOING: &str = "walking over a space in etcd";

/// Returns the number of keys of a page of a walk or a snapshot.
pub(crate) fn page_limit(limit: u32) -> i64 {
    i64::from(limit.clamp(1, LIMITS.range_records))
}

/// The counters of a page of cells.
pub(crate) struct WholeCounters {
    /// Each counter with all of its cells, in the order of keys.
    pub(crate) counters: Vec<(CounterKey, Cells)>,
    /// The key at which the next page begins: the first one of the cells of a counter. `None` if
    /// this page is the last.
    pub(crate) next: Option<Bytes>,
}

impl WholeCounters {
    /// Groups a page of at most `limit` cells by counters. The last counter of a full page is left
    /// to the next page, because its cells may go on. Returns `None` if that is the only one: the
    /// page must be larger.
    pub(crate) fn of(
        keys: &Keys,
        page: Vec<KeyValue>,
        limit: i64,
    ) -> Result<Option<WholeCounters>, StoreError> {
        let is_full = i64::try_from(page.len()).is_ok_and(|count| count >= limit);
        let mut groups: Vec<(CounterKey, Vec<KeyValue>)> = Vec::new();
        for cell in page {
            let (counter, _) = keys.to_cell(&cell.key).ok_or_else(|| garbled(DOING))?;
            match groups.last_mut().filter(|(last, _)| *last == counter) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((counter, vec![cell])),
            }
        }
        let last = if is_full { groups.pop() } else { None };
        if last.is_some() && groups.is_empty() {
            return Ok(None);
        }
        // A cell that is written between two pages may come before the cells of this page.
        let next = last.map(|(counter, _)| keys.cells(&counter).0);
        let parse = |(counter, cells)| Ok((counter, Cells::parse(keys, cells)?));
        let counters = groups.into_iter().map(parse).collect::<Result<_, StoreError>>()?;
        Ok(Some(WholeCounters { counters, next }))
    }
}

/// Returns a page of the records of a space.
pub(crate) async fn records(
    shared: &Shared,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<Page, StoreError> {
    let limit = page_limit(limit);
    let (start, end) = shared.keys.space(space);
    let (kvs, _) = page(shared, (resume.unwrap_or(start), end), limit).await?;
    let resume = next(&kvs, limit);
    let pair = |kv: KeyValue| {
        let key = shared.keys.to_record(&kv.key).ok_or_else(|| garbled(DOING))?;
        Ok((key, kv.value))
    };
    let records = kvs.into_iter().map(pair).collect::<Result<_, StoreError>>()?;
    Ok(Page { records, resume })
}

/// Returns a page of the counters of a space. Folds counters that have many cells.
pub(crate) async fn counters(
    shared: &Shared,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<CounterPage, StoreError> {
    let (start, end) = shared.keys.cells_of_space(space);
    let start = resume.unwrap_or(start);
    let mut limit = page_limit(limit);
    let (found, revision) = loop {
        let (kvs, revision) = page(shared, (start.clone(), end.clone()), limit).await?;
        if let Some(found) = WholeCounters::of(&shared.keys, kvs, limit)? {
            break (found, revision);
        }
        limit = limit.saturating_mul(2);
    };
    let have_many = found.counters.iter().filter(|(_, cells)| cells.len() > CELLS_MAX);
    shared.fold_later(have_many.cloned().collect(), revision);
    let counters =
        found.counters.into_iter().map(|(counter, cells)| (counter, cells.total())).collect();
    Ok(CounterPage { counters, resume: found.next })
}

/// Returns keys and values, and the revision of the store.
async fn page(
    shared: &Shared,
    bounds: (Bytes, Bytes),
    limit: i64,
) -> Result<(Vec<KeyValue>, i64), StoreError> {
    let range = Range::between(bounds, limit);
    let answer: RangeAnswer = shared.members.ask(RANGE, &range, DOING).await?;
    Ok((answer.kvs, answer.header.map_or(0, |header| header.revision)))
}

/// Returns the key at which the next page begins; `None` if this page is the last.
fn next(kvs: &[KeyValue], limit: i64) -> Option<Bytes> {
    let is_full = i64::try_from(kvs.len()).is_ok_and(|count| count >= limit);
    kvs.last().filter(|_| is_full).map(|kv| after(&kv.key))
}

#[cfg(test)]
mod tests;
