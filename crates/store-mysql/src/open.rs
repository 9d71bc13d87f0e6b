//! What must be so before the store is used: the server's settings, and the tables.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use store::{StoreError, StoreErrorKind};

use crate::connect::{Connector, Flavour, Role};
use crate::error::{is_contention, is_missing_table, while_doing};
use crate::feed::LANES;
use crate::row;
use crate::script::{Failure, PACKET_BYTES_MAX, Script, push};

/// The format of tables that this crate makes, and the only one that it reads.
const FORMAT: i64 = 1;

/// How often making the tables is tried while others make them too.
const SCHEMA_TRIES: u32 = 8;

const TABLES: [&str; 5] = [
    "CREATE TABLE IF NOT EXISTS ashlar_record (\
     k VARBINARY(1120) NOT NULL PRIMARY KEY, v MEDIUMBLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ashlar_tally (\
     k VARBINARY(1120) NOT NULL PRIMARY KEY, n BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ashlar_lane (\
     lane TINYINT UNSIGNED NOT NULL PRIMARY KEY, head BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ashlar_change (lane TINYINT UNSIGNED NOT NULL, \
     seq BIGINT NOT NULL, body MEDIUMBLOB NOT NULL, PRIMARY KEY (lane, seq))",
    "CREATE TABLE IF NOT EXISTS ashlar_format (\
     id TINYINT NOT NULL PRIMARY KEY, format INT NOT NULL, store BINARY(16) NOT NULL)",
];

/// Short rows stay in the leaves, long values go to pages of their own.
const ENGINE: &str = " ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = binary";

const SETTINGS: [&str; 13] = [
    "binlog_format",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_force_recovery",
    "innodb_read_only",
    "log_bin",
    "max_allowed_packet",
    "query_cache_type",
    "read_only",
    "sync_binlog",
    "version",
    "wsrep_on",
];

/// A server's settings by name; one that it does not have is missing.
type Settings = BTreeMap<String, String>;

/// What is known of a store that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What the server's settings risk; nothing if an acknowledged commit survives a crash.
    pub(crate) risks: Vec<String>,
    /// Sixteen bytes that tell this store from every other one.
    pub(crate) store: Bytes,
}

/// Looks at the server, and makes the tables if there are none.
pub(crate) async fn open(connector: &mut Connector, relaxed: bool) -> Result<Opened, StoreError> {
    let settings = settings(connector).await?;
    let version = settings.get("version").map_or("", String::as_str);
    let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
    let flavour = if is_mariadb { Flavour::MariaDb } else { Flavour::MySql };
    connector.set_server(flavour, settings.contains_key("query_cache_type"));
    check_usable(&settings)?;
    let risks = risks(&settings);
    if !risks.is_empty() && !relaxed {
        let doing = format!(
            "looking at the server's settings: {}. Change them, or accept the risk with \
             --metadata-durability=relaxed",
            risks.join("; ")
        );
        return Err(StoreError::new(StoreErrorKind::Unavailable, doing));
    }
    if !is_on(&settings, "log_bin") {
        // Nothing acknowledged is at stake: what another commit builds on lies before it in the log.
        tracing::info!(
            "the server has no binary log, and InnoDB then shows a commit to others before it is \
             on disk: a crash may take back a change that somebody has read and nobody was told \
             of. With log_bin and sync_binlog = 1 it cannot"
        );
    }
    let store = make_tables(connector).await?;
    Ok(Opened { risks, store })
}

async fn settings(connector: &Connector) -> Result<Settings, StoreError> {
    const DOING: &str = "looking at the server's settings";
    let mut link = connector.connect(Role::Opener).await?;
    let mut script = Script::default();
    let names = SETTINGS.join("','");
    script.statement(format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{names}')"));
    let answers = script.run(&mut link.connection).await;
    let answers = answers.map_err(|failure| while_doing(DOING)(failure.error))?;
    link.close().await;
    let text = |row, column| {
        row::bytes(row, column).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    rows.map(|row| Ok((text(row, 0)?, text(row, 1)?)))
        .collect::<Result<Settings, sqlx::Error>>()
        .map_err(while_doing(DOING))
}

fn is_on(settings: &Settings, name: &str) -> bool {
    settings.get(name).is_some_and(|value| matches!(&*value.to_ascii_uppercase(), "ON" | "1"))
}

/// Whether this crate can work with the server at all.
fn check_usable(settings: &Settings) -> Result<(), StoreError> {
    let wrong = |why: String| {
        let doing = format!("looking at the server's settings: {why}");
        Err(StoreError::new(StoreErrorKind::Unavailable, doing))
    };
    let packet = settings.get("max_allowed_packet").and_then(|value| value.parse().ok());
    if let Some(bytes) = packet.filter(|bytes: &u64| *bytes < PACKET_BYTES_MAX as u64) {
        return wrong(format!(
            "max_allowed_packet is {bytes} and a batch may need {PACKET_BYTES_MAX}; set \
             max_allowed_packet = 16M or more"
        ));
    }
    if is_on(settings, "log_bin")
        && settings.get("binlog_format").is_some_and(|format| format == "STATEMENT")
    {
        return wrong(
            "binlog_format is STATEMENT, with which InnoDB refuses READ COMMITTED; set \
             binlog_format = ROW or MIXED"
                .into(),
        );
    }
    if is_on(settings, "innodb_read_only") {
        return wrong("innodb_read_only is on: nothing can be written".into());
    }
    Ok(())
}

/// What the settings risk, one sentence each.
fn risks(settings: &Settings) -> Vec<String> {
    let value = |name: &str| settings.get(name).map_or("", String::as_str);
    let is = |name: &str, values: &[&str]| {
        let value = value(name).to_ascii_uppercase();
        values.contains(&value.as_str())
    };
    let mut risks = Vec::new();
    let mut risk = |name: &str, wanted: &str, what: &str| {
        risks.push(format!("{name} is {} instead of {wanted}: {what}", value(name)));
    };
    if !is("innodb_flush_log_at_trx_commit", &["1"]) {
        let what = "a crash may lose the commits of about the last second";
        risk("innodb_flush_log_at_trx_commit", "1", what);
    }
    if is_on(settings, "log_bin") && !is("sync_binlog", &["1"]) {
        let what = "a crash of the machine may lose commits from the binary log, and with it undo \
                    or split them from their replicas";
        risk("sync_binlog", "1", what);
    }
    if is("innodb_doublewrite", &["OFF", "0", "DETECT_ONLY"]) {
        risk("innodb_doublewrite", "ON", "a crash may tear a page, which loses the table");
    }
    if is("innodb_flush_method", &["NOSYNC", "LITTLESYNC"]) {
        risk("innodb_flush_method", "O_DIRECT or fsync", "a crash may lose whole tables");
    }
    if !is("innodb_force_recovery", &["", "0"]) {
        let what = "the server runs with parts of its recovery left out";
        risk("innodb_force_recovery", "0", what);
    }
    if is("read_only", &["ON", "1"]) {
        let what = "this is a replica or on its way to be one, and another server's writes win";
        risk("read_only", "OFF", what);
    }
    if is("wsrep_on", &["ON", "1"]) {
        let what = "a node of this cluster may answer reads from before an acknowledged commit";
        risk("wsrep_on", "OFF", what);
    }
    risks
}

/// Makes what is missing of the tables; the bytes that name this store.
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

/// The tables, the lanes, and last of all the row that says that they are there. Each statement
/// does nothing if somebody else has done the same.
fn schema() -> Script {
    let mut script = Script::default();
    for table in TABLES {
        script.statement([table, ENGINE].concat());
    }
    script.list(("INSERT IGNORE INTO ashlar_lane VALUES ", ""), 0..LANES, |text, lane| {
        push(text, format_args!("({lane},0)"));
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

#[cfg(test)]
mod tests;
