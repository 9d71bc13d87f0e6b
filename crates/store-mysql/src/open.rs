//! Opening the store: makes its tables. Every connection checks the server itself.

use std::time::Duration;

use bytes::Bytes;
use store::{StoreError, StoreErrorKind};

use crate::connect::{Connector, Role};
use crate::error::{is_contention, is_missing_table, while_doing};
use crate::feed::SHARDS;
use crate::row;
use crate::script::{Failure, Script, push};
use crate::server;

/// The format of tables that this crate makes, and the only one that it reads.
const FORMAT: i64 = 1;

/// How often making the tables is tried while others make them too.
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

/// Short rows stay in the leaves, long values go to pages of their own.
const ENGINE: &str = " ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = binary";

/// Checks the server, and makes the tables if there are none. Returns the sixteen bytes that identify
/// the store.
pub(crate) async fn open(connector: &mut Connector) -> Result<Bytes, StoreError> {
    let (link, settings) = connector.connect_and_ask(Role::Opener).await?;
    link.close().await;
    connector.set_server(server::flavour(&settings), settings.contains_key("query_cache_type"));
    if !server::is_on(&settings, "log_bin") {
        // This risks no acknowledged commit: whatever a commit builds on precedes it in the log.
        tracing::info!(
            "the server has no binary log, and InnoDB then shows a commit to others before it is \
             on disk: a crash may take back a change that somebody has read and nobody was told \
             of. With log_bin and sync_binlog = 1 it cannot"
        );
    }
    make_tables(connector).await
}

/// Returns true if the tables of a store exist. Makes nothing.
pub(crate) async fn is_made(connector: &Connector) -> Result<bool, StoreError> {
    const DOING: &str = "looking for the tables of the metadata store";
    let mut link = connector.connect(Role::Opener).await?;
    let found = format(&mut link.connection).await.map_err(while_doing(DOING));
    link.close().await;
    Ok(found?.is_some())
}

/// Makes the tables that are missing. Returns the bytes that identify the store.
async fn make_tables(connector: &Connector) -> Result<Bytes, StoreError> {
    const DOING: &str = "making the tables of the metadata store";
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

/// Makes the tables, the rows of the shards, and last of all the row that says that all of it exists.
/// Each statement does nothing if somebody else has done the same.
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
