//! Snapshots: read-only transactions, each on a connection of its own, read page by page.
//!
//! For example, a dump reads all records while gateways go on committing; vacuum keeps the old rows
//! until the dump ends.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use store::{CounterKey, Key, Snapshot, StoreError, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::error::{unavailable, while_doing};
use crate::limits::LIMITS;
use crate::read::{key_at, value_at};

/// How long the client waits for a page.
const PAGE_DEADLINE: Duration = Duration::from_secs(10);

/// The snapshot's instant is that of the first statement that reads.
const BEGIN: &str =
    "begin isolation level repeatable read read only; select format from ashlar_store";

const RECORDS: &str = "select key, value from ashlar_record where key > $1 order by key limit $2";

const COUNTERS: &str = "select key, value from ashlar_counter where key > $1 and value <> 0 \
     order by key limit $2";

/// The store as it was at one instant. Dropping it closes its connection, which ends the
/// transaction.
#[derive(Debug)]
pub(crate) struct PostgresSnapshot {
    /// `None` after an error, which ended the transaction.
    connection: Option<PgConnection>,
    /// The last keys that were returned. They are empty at the start, before all keys.
    record: Vec<u8>,
    counter: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl PostgresSnapshot {
    pub(crate) async fn begin(
        mut connection: PgConnection,
        permit: OwnedSemaphorePermit,
    ) -> Result<PostgresSnapshot, StoreError> {
        const DOING: &str = "beginning a snapshot";
        let begun = timeout(PAGE_DEADLINE, sqlx::raw_sql(BEGIN).fetch_all(&mut connection)).await;
        let late = |_| unavailable(format!("{DOING}: no answer within {PAGE_DEADLINE:?}"));
        begun.map_err(late)?.map_err(while_doing(DOING))?;
        let (record, counter) = (Vec::new(), Vec::new());
        Ok(PostgresSnapshot { connection: Some(connection), record, counter, _permit: permit })
    }

    async fn page(
        &mut self,
        text: &'static str,
        behind: Vec<u8>,
        limit: u32,
    ) -> Result<Vec<PgRow>, StoreError> {
        const DOING: &str = "reading a page of a snapshot";
        // Take the connection out during the call, so that dropping the call ends the snapshot.
        let Some(mut connection) = self.connection.take() else {
            return Err(unavailable(format!("{DOING}: it ended with an earlier error")));
        };
        // The page begins after the last key that was returned, so no cursor is kept at the server.
        let limit = i64::try_from(LIMITS.page(limit)).unwrap_or(i64::MAX);
        let query = sqlx::query(text).bind(behind).bind(limit);
        let page = timeout(PAGE_DEADLINE, query.fetch_all(&mut connection)).await;
        let late = |_| unavailable(format!("{DOING}: no answer within {PAGE_DEADLINE:?}"));
        let rows = page.map_err(late)?.map_err(while_doing(DOING))?;
        self.connection = Some(connection);
        Ok(rows)
    }
}

#[async_trait]
impl Snapshot for PostgresSnapshot {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        let rows = self.page(RECORDS, self.record.clone(), limit).await?;
        let records: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| Ok((key_at(row, 0)?, value_at(row, 1)?))).collect();
        let records = records.map_err(while_doing("reading records of a snapshot"))?;
        if let Some((key, _)) = records.last() {
            self.record = key.as_bytes().to_vec();
        }
        Ok(records)
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        let rows = self.page(COUNTERS, self.counter.clone(), limit).await?;
        let counters: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| Ok((CounterKey(key_at(row, 0)?), row.try_get(1)?))).collect();
        let counters = counters.map_err(while_doing("reading counters of a snapshot"))?;
        if let Some((CounterKey(key), _)) = counters.last() {
            self.counter = key.as_bytes().to_vec();
        }
        Ok(counters)
    }
}
