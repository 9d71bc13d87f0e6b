//! Walks over the records and counters of a space, page by page in the order of keys.
//!
//! For example, the second page of a walk begins behind the last key of the first page.

use bytes::Bytes;
use store::{CounterKey, CounterPage, Page, Space, StoreError};

use crate::counters::{add, number};
use crate::error::garbled;
use crate::keys::after;
use crate::limits::LIMITS;
use crate::rpc::{KeyValue, RANGE, Range, RangeAnswer};
use crate::shared::Shared;

const DOING: &str = "walking over a space in etcd";

/// Returns the number of keys of a page of a walk or a snapshot.
pub(crate) fn page_limit(limit: u32) -> i64 {
    i64::from(limit.clamp(1, LIMITS.range_records))
}

/// Adds up cells, in the order of their counters. Returns each counter with its value,
/// and the number of cells.
pub(crate) fn totals(
    shared: &Shared,
    cells: &[KeyValue],
) -> Result<Vec<(CounterKey, i64, usize)>, StoreError> {
    let mut totals: Vec<(CounterKey, i64, usize)> = Vec::new();
    for cell in cells {
        let (counter, kind) = shared.keys.to_cell(&cell.key).ok_or_else(|| garbled(DOING))?;
        let number = number(&cell.value)?;
        match totals.last_mut().filter(|(last, ..)| *last == counter) {
            Some((_, total, count)) => {
                *total = add(*total, kind, number);
                *count += 1;
            }
            None => totals.push((counter, add(0, kind, number), 1)),
        }
    }
    Ok(totals)
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
    let kvs = page(shared, (resume.unwrap_or(start), end), limit).await?;
    let resume = next(&kvs, limit);
    let pair = |kv: KeyValue| {
        let key = shared.keys.to_record(&kv.key).ok_or_else(|| garbled(DOING))?;
        Ok((key, kv.value))
    };
    let records = kvs.into_iter().map(pair).collect::<Result<_, StoreError>>()?;
    Ok(Page { records, resume })
}

/// Returns a page of the counters of a space. The cells of one counter may be on two pages of
/// etcd, so a counter that may go on is left to the next page.
pub(crate) async fn counters(
    shared: &Shared,
    space: Space,
    resume: Option<Bytes>,
    limit: u32,
) -> Result<CounterPage, StoreError> {
    let (start, end) = shared.keys.cells_of_space(space);
    let start = resume.unwrap_or(start);
    let mut limit = page_limit(limit);
    loop {
        let kvs = page(shared, (start.clone(), end.clone()), limit).await?;
        let is_last = next(&kvs, limit).is_none();
        let mut totals = totals(shared, &kvs)?;
        let mut resume = None;
        if !is_last {
            if totals.len() < 2 {
                // One counter has more cells than the page has room.
                limit = limit.saturating_mul(2);
                continue;
            }
            let (_, _, cells) = totals.pop().ok_or_else(|| garbled(DOING))?;
            resume = kvs.get(kvs.len() - cells).map(|kv| kv.key.clone());
        }
        let counters = totals.into_iter().map(|(counter, total, _)| (counter, total)).collect();
        return Ok(CounterPage { counters, resume });
    }
}

async fn page(
    shared: &Shared,
    bounds: (Bytes, Bytes),
    limit: i64,
) -> Result<Vec<KeyValue>, StoreError> {
    let range = Range::between(bounds, limit);
    let answer: RangeAnswer = shared.members.ask(RANGE, &range, DOING).await?;
    Ok(answer.kvs)
}

/// Returns the key at which the next page begins; `None` if this page is the last.
fn next(kvs: &[KeyValue], limit: i64) -> Option<Bytes> {
    let is_full = i64::try_from(kvs.len()).is_ok_and(|count| count >= limit);
    kvs.last().filter(|_| is_full).map(|kv| after(&kv.key))
}
