//! Opens the store: creates its tables and checks their format.
//!
//! Each connection checks the server itself. For example, tables of a newer format are refused and
//! unchanged.

use std::time::Duration;

use bytes::Bytes;
use store::{StoreError, StoreErrorKind};

use crate::connect::{Connector, Role};
use crate::error::{is_contention, is_missing_table, while_doing};
use crate::feed::SHARDS;
use crate::row;
use crate::script::{Failure, Script, push};
use crate::server;

/// The format of the tables that this crate creates, and the only one that it reads.
const FORMAT: i64 = 1;

/// Limit of the tries to create the tables while other processes create them too.
const SCHEMA_TRIES: u32 = 8;

const TABLES: [&str; 5] = [
    "CREATE TABLE IF NOT EXISTS ashlar_record (\
     k VARBINARY(1120) NOT NULL PRIMARY KEY, v MEDIUMBLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ashlar_counter (\
     k VARBINARY(1120) NOT NULL PRIMARY KEY, n BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ashlar_shard (\
     shard TINYINT UNSIGNED NOT NULL PRIMARY KEY, head BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ashlar_change (shard TINYINT UNSIGNED NOT NULL, \
     seq BIGINT NOT NULL, body MEDIUMBLOB NOT NULL, PRIMARY KEY (shard, seq))",
    "CREATE TABLE IF NOT EXISTS ashlar_format (\
     id TINYINT NOT NULL PRIMARY KEY, format INT NOT NULL, store BINARY(16) NOT NULL)",
];

/// Short rows are stored in the leaves of the index, long values in pages of their own.
const ENGINE: &str = " ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = binary";

/// Checks the server, and creates the tables if they do not exist. Returns the sixteen bytes that
/// identify the store.
pub(crate) async fn open(connector: &mut Connector) -> Result<Bytes, StoreError> {
    let (link, settings) = connector.connect_and_ask(Role::Opener).await?;
    link.close().await;
    connector.set_server(server::flavour(&settings), settings.contains_key("query_cache_type"));
    if !server::is_on(&settings, "log_bin") {
        // Not a risk for acknowledged commits: the commits on which a commit depends precede it in
        // the log.
        tracing::info!(
            "the server has no binary log, so InnoDB shows a commit to other clients before it \
             is on disk: a crash may undo a change that a client has read and that was not \
             acknowledged. Set log_bin and sync_binlog = 1 to prevent this"
        );
    }
    make_tables(connector).await
}

/// Returns true if the tables of a store exist. Creates nothing.
pub(crate) async fn is_made(connector: &Connector) -> Result<bool, StoreError> {
    const DOING: &str = "checking for the tables of the metadata store";
    let mut link = connector.connect(Role::Opener).await?;
    let found = format(&mut link.connection).await.map_err(while_doing(DOING));
    link.close().await;
    Ok(found?.is_some())
}

/// Creates the missing tables. Returns the bytes that identify the store.
async fn make_tables(connector: &Connector) -> Result<Bytes, StoreError> {
    const DOING: &str = "creating the tables of the metadata store";
    let mut link = connector.connect(Role::Opener).await?;
    let mut tries = 0;
    loop {
        match format(&mut link.connection).await.map_err(while_doing(DOING))? {
            Some((FORMAT, store)) => {
                link.close().await;
                return Ok(store);
            }
            Some((format, _)) => {
                let doing = format!(
                    "opening the metadata store: its tables are of format {format}, and this \
                     release reads {FORMAT}"
                );
                return Err(StoreError::new(StoreErrorKind::Corrupt, doing));
            }
            None => {}
        }
        // The tables are read again after each try: another process may have created them.
        tries += 1;
        match schema().run(&mut link.connection).await {
            Ok(_) => {}
            Err(Failure { error, .. }) if is_contention(&error) && tries < SCHEMA_TRIES => {
                tokio::time::sleep(Duration::from_millis(50) * tries).await;
            }
            Err(failure) => return Err(while_doing(DOING)(failure.error)),
        }
        if tries > SCHEMA_TRIES {
            let doing = format!("{DOING}: they are not there after {tries} tries");
            return Err(StoreError::new(StoreErrorKind::Unavailable, doing));
        }
    }
}

/// Returns the statements that create the tables, the rows of the shards, and last the row that
/// shows that all of it exists. Each statement does nothing if another process has done the same.
fn schema() -> Script {
    let mut script = Script::default();
    for table in TABLES {
        script.statement([table, ENGINE].concat());
    }
    script.list(("INSERT IGNORE INTO ashlar_shard VALUES ", ""), 0..SHARDS, |text, shard| {
        push(text, format_args!("({shard},0)"));
    });
    script.statement(format!(
        "INSERT IGNORE INTO ashlar_format VALUES (1, {FORMAT}, UNHEX(REPLACE(UUID(), '-', '')))"
    ));
    script
}

async fn format(
    connection: &mut sqlx::mysql::MySqlConnection,
) -> Result<Option<(i64, Bytes)>, sqlx::Error> {
    let mut script = Script::default();
    script.statement("SELECT format, store FROM ashlar_format WHERE id = 1");
    let answers = match script.run(connection).await {
        Ok(answers) => answers,
        Err(failure) if is_missing_table(&failure.error) => return Ok(None),
        Err(failure) => return Err(failure.error),
    };
    let row = answers.first().and_then(|answer| answer.rows.first());
    row.map(|row| Ok((row::integer(row, 0)?, row::value(row, 1)?))).transpose()
}
