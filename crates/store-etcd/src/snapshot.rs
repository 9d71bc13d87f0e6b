//! Snapshots: pages at one revision.
//!
//! etcd keeps all revisions until it compacts them, so a snapshot holds nothing at the members. If
//! an operator's compaction overtakes it, the next page fails.
//!
//! For example, a snapshot at revision 12 does not see a put at revision 13.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{CounterKey, Key, Snapshot, StoreError, StoreErrorKind, Value};

use crate::error::{Effect, garbled, is_compacted, of};
use crate::keys::after;
use crate::rpc::{KeyValue, RANGE, Range, RangeAnswer};
use crate::shared::Shared;
use crate::walk::{WholeCounters, page_limit};

const DOING: &str = "reading a snapshot from etcd";

/// The whole store at one revision.
pub(crate) struct EtcdSnapshot {
    shared: Arc<Shared>,
    revision: i64,
    /// The key at which the next page of records begins.
    record: Bytes,
    /// The key at which the next page of counters begins.
    cell: Bytes,
}

impl fmt::Debug for EtcdSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdSnapshot").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl EtcdSnapshot {
    /// Takes the present revision.
    pub(crate) async fn begin(shared: Arc<Shared>) -> Result<EtcdSnapshot, StoreError> {
        let range = Range::one(shared.keys.format());
        let answer: RangeAnswer = shared.members.ask(RANGE, &range, DOING).await?;
        let revision = answer.header.ok_or_else(|| garbled(DOING))?.revision;
        let (record, cell) = (shared.keys.all_records().0, shared.keys.all_cells().0);
        Ok(EtcdSnapshot { shared, revision, record, cell })
    }

    async fn page(&self, bounds: (Bytes, Bytes), limit: i64) -> Result<Vec<KeyValue>, StoreError> {
        if self.shared.closed.is_cancelled() {
            return Err(crate::error::closed());
        }
        // A member that lags behind answers with an older revision, so the leader is asked.
        let range = Range { revision: self.revision, ..Range::between(bounds, limit) };
        let answer: Result<RangeAnswer, _> = self.shared.members.try_ask(RANGE, &range).await;
        let failed = |status| {
            if is_compacted(&status) {
                let why = "etcd has compacted the revision of the snapshot: raise \
                           --auto-compaction-retention above the time of a dump";
                return StoreError::because(StoreErrorKind::Unavailable, DOING, why);
            }
            of(&status, DOING, Effect::None)
        };
        Ok(answer.map_err(failed)?.kvs)
    }
}

#[async_trait]
impl Snapshot for EtcdSnapshot {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        let end = self.shared.keys.all_records().1;
        let kvs = self.page((self.record.clone(), end), page_limit(limit)).await?;
        if let Some(last) = kvs.last() {
            self.record = after(&last.key);
        }
        let pair = |kv: KeyValue| {
            let key = self.shared.keys.to_record(&kv.key).ok_or_else(|| garbled(DOING))?;
            Ok((key, kv.value))
        };
        kvs.into_iter().map(pair).collect()
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        let end = self.shared.keys.all_cells().1;
        let mut limit = page_limit(limit);
        loop {
            let kvs = self.page((self.cell.clone(), end.clone()), limit).await?;
            let Some(last) = kvs.last() else { return Ok(Vec::new()) };
            let after = after(&last.key);
            let Some(found) = WholeCounters::of(&self.shared.keys, kvs, limit)? else {
                limit = limit.saturating_mul(2);
                continue;
            };
            self.cell = found.next.unwrap_or(after);
            let counters = found.counters.into_iter().map(|(key, cells)| (key, cells.total()));
            let counters: Vec<_> = counters.filter(|(_, total)| *total != 0).collect();
            // An empty page would be the end.
            if !counters.is_empty() {
                return Ok(counters);
            }
        }
    }
}
