//! Snapshots: the whole store at one instant, page by page.
//!
//! A snapshot is a transaction on a connection of its own. Its read view is taken when it begins.
//! Dropping it closes the connection, and the server frees the view. For example, a dump keeps old
//! row versions at the server until its end.

use async_trait::async_trait;
use store::{CounterKey, Key, Snapshot, StoreError, Value};

use crate::connect::{Connector, Link, Role};
use crate::error::while_doing;
use crate::limits::LIMITS;
use crate::row;
use crate::script::{Script, StatementResult, push, push_bytes};

const DOING: &str = "reading a snapshot";

/// A read-only transaction, and its reading position.
#[derive(Debug)]
pub(crate) struct MysqlSnapshot {
    link: Link,
    last_record: Option<Key>,
    last_counter: Option<CounterKey>,
}

impl MysqlSnapshot {
    pub(crate) async fn begin(connector: &Connector) -> Result<MysqlSnapshot, StoreError> {
        let mut link = connector.connect(Role::Reader).await?;
        let mut script = Script::default();
        script.statement("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
        let begun = script.run(&mut link.connection).await;
        begun.map_err(|failure| while_doing("taking a snapshot")(failure.error))?;
        Ok(MysqlSnapshot { link, last_record: None, last_counter: None })
    }

    async fn page(
        &mut self,
        (columns, table, filter): (&str, &str, &str),
        after: &[u8],
        limit: u32,
    ) -> Result<Vec<StatementResult>, StoreError> {
        let mut text =
            format!("SELECT {columns} FROM {table} FORCE INDEX (PRIMARY) WHERE {filter}k > ");
        push_bytes(&mut text, after);
        push(&mut text, format_args!(" ORDER BY k LIMIT {}", LIMITS.page(limit)));
        let mut script = Script::default();
        script.statement(text);
        let answers = script.run(&mut self.link.connection).await;
        answers.map_err(|failure| while_doing(DOING)(failure.error))
    }
}

#[async_trait]
impl Snapshot for MysqlSnapshot {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        let after = self.last_record.as_ref().map_or_else(Value::new, Key::to_bytes);
        let answers = self.page(("k, v", "ashlar_record", ""), &after, limit).await?;
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        let records: Result<Vec<_>, sqlx::Error> =
            rows.map(|row| Ok((row::key(row, 0)?, row::value(row, 1)?))).collect();
        let records = records.map_err(while_doing(DOING))?;
        if let Some((key, _)) = records.last() {
            self.last_record = Some(key.clone());
        }
        Ok(records)
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        let after = self.last_counter.as_ref().map_or_else(Value::new, |key| key.0.to_bytes());
        let answers = self.page(("k, n", "ashlar_counter", "n <> 0 AND "), &after, limit).await?;
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        let counters: Result<Vec<_>, sqlx::Error> =
            rows.map(|row| Ok((CounterKey(row::key(row, 0)?), row::integer(row, 1)?))).collect();
        let counters = counters.map_err(while_doing(DOING))?;
        if let Some((key, _)) = counters.last() {
            self.last_counter = Some(key.clone());
        }
        Ok(counters)
    }
}
