//! Checks of a server: if it can be used at all, and which risks its settings have.
//!
//! Each new connection checks, and from time to time connections are made only for this check. A
//! server may come back with other settings, its settings may change while it runs, or the address
//! may lead to another server. For example, `sync_binlog = 0` is a risk: it is refused, or accepted
//! and logged with relaxed durability.

use std::collections::BTreeMap;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Column, Row};

use crate::address::Promises;
use crate::row;
use crate::script::{PACKET_BYTES_MAX, Script, StatementResult};

const SETTINGS: [&str; 30] = [
    "binlog_format",
    "gtid_binlog_state",
    "gtid_current_pos",
    "gtid_executed",
    "gtid_slave_pos",
    "group_replication_group_name",
    "group_replication_single_primary_mode",
    "hostname",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_force_recovery",
    "innodb_read_only",
    "log_bin",
    "max_allowed_packet",
    "port",
    "query_cache_type",
    "read_only",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_master_wait_point",
    "rpl_semi_sync_source_enabled",
    "rpl_semi_sync_source_wait_point",
    "server_id",
    "server_uuid",
    "super_read_only",
    "sync_binlog",
    "version",
    "wsrep_cluster_address",
    "wsrep_on",
    "wsrep_provider",
];

/// Figures of the server: MariaDB's number of connected replicas, and the state of semi-synchronous
/// replication, which is `OFF` after its timeout.
const FIGURES: [&str; 3] =
    ["Rpl_semi_sync_master_status", "Rpl_semi_sync_source_status", "Slaves_connected"];

/// A server's settings by name, and its [`FIGURES`]. Settings that the server does not have are
/// missing.
pub(crate) type Settings = BTreeMap<String, String>;

/// Returns the statement that reads the settings.
pub(crate) fn question() -> String {
    let names = SETTINGS.join("','");
    format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{names}')")
}

/// Returns the statement that reads the [`FIGURES`].
pub(crate) fn figures() -> String {
    let names = FIGURES.join("','");
    format!("SHOW GLOBAL STATUS WHERE Variable_name IN ('{names}')")
}

/// Parses the answers to [`question`] and [`figures`].
pub(crate) fn settings(answers: &[&StatementResult]) -> Result<Settings, sqlx::Error> {
    let text = |row, column| {
        row::bytes(row, column).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    rows.map(|row| Ok((text(row, 0)?, text(row, 1)?))).collect()
}

/// The product: MariaDB or MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    MariaDb,
    MySql,
}

/// Returns the product, from the server's settings.
pub(crate) fn flavour(settings: &Settings) -> Flavour {
    let version = settings.get("version").map_or("", String::as_str);
    let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
    if is_mariadb { Flavour::MariaDb } else { Flavour::MySql }
}

/// Returns true if the server is a replica. Returns false if this user may not ask.
pub(crate) async fn follows(
    connection: &mut MySqlConnection,
    flavour: Flavour,
) -> Result<bool, sqlx::Error> {
    let mut script = Script::default();
    script.statement(match flavour {
        Flavour::MariaDb => "SHOW ALL SLAVES STATUS",
        Flavour::MySql => "SHOW REPLICA STATUS",
    });
    match script.run(connection).await {
        Ok(answers) => Ok(answers.iter().flat_map(|answer| &answer.rows).any(is_running)),
        Err(failure) if matches!(failure.error, sqlx::Error::Database(_)) => {
            let error = failure.error;
            tracing::debug!(%error, "the server does not show if it is a replica");
            Ok(false)
        }
        Err(failure) => Err(failure.error),
    }
}

/// Returns true if a row of the answer shows a running replication thread.
fn is_running(row: &MySqlRow) -> bool {
    const THREADS: [&str; 4] =
        ["Slave_IO_Running", "Slave_SQL_Running", "Replica_IO_Running", "Replica_SQL_Running"];
    let threads = row.columns().iter().filter(|column| THREADS.contains(&column.name()));
    threads
        .filter_map(|column| row::bytes(row, column.ordinal()).ok())
        .any(|state| !state.eq_ignore_ascii_case(b"no"))
}

/// Returns true if the setting with this name is a switch that is on.
pub(crate) fn is_on(settings: &Settings, name: &str) -> bool {
    settings.get(name).is_some_and(|value| matches!(&*value.to_ascii_uppercase(), "ON" | "1"))
}

/// Returns true if the server loads the library of Galera.
fn has_galera(settings: &Settings) -> bool {
    let provider = settings.get("wsrep_provider").map_or("", String::as_str);
    !provider.is_empty() && !provider.eq_ignore_ascii_case("none")
}

/// Checks that the server can be used, and that the options accept its risks. The error is the
/// reason.
pub(crate) fn check(
    settings: &Settings,
    follows: bool,
    relaxed: bool,
    promises: Promises,
) -> Result<(), String> {
    check_usable(settings, follows)?;
    check_cluster(settings, promises.single_writer)?;
    let risks = risks(settings, promises.never_promoted).join("; ");
    if risks.is_empty() || relaxed {
        return Ok(());
    }
    Err(format!("{risks}. Change them, or accept the risk with --metadata-durability=relaxed"))
}

/// Refuses a server whose cluster lets several nodes write.
///
/// Such a cluster certifies the records that a commit writes, and not the shared locks on records
/// that it only guards. For example, one gateway deletes the last name of a directory and the
/// directory itself, another one adds a name to it through another node, and both commits are
/// acknowledged. So a volume may use only one node, which the operator confirms in the URL.
fn check_cluster(settings: &Settings, single_writer: bool) -> Result<(), String> {
    let is_set = |name: &str| settings.get(name).is_some_and(|value| !value.is_empty());
    let found = if is_on(settings, "wsrep_on") {
        "wsrep_on is ON: the server is a node of a Galera cluster"
    } else if is_set("wsrep_cluster_address") && has_galera(settings) {
        // The node applies writes of other nodes, but its own writes do not reach them.
        "wsrep_provider is set and wsrep_on is OFF: the server is a node of a Galera cluster for which an \
         operator has turned replication off"
    } else if is_set("group_replication_group_name")
        && is_set("group_replication_single_primary_mode")
        && !is_on(settings, "group_replication_single_primary_mode")
    {
        "group_replication_single_primary_mode is OFF: the server is one of several primaries of a \
         group"
    } else {
        return Ok(());
    };
    if single_writer {
        return Ok(());
    }
    Err(format!(
        "{found}, and gateways that use two of its nodes lose acknowledged writes, because the \
         cluster does not check locks between its nodes. Use a server that has no such cluster. If \
         all gateways and mounts of this volume use this one node, add single_writer=yes to the URL \
         of --meta, as in mysql://HOST/DATABASE?single_writer=yes, and start with \
         --metadata-durability=relaxed"
    ))
}

/// Checks that this crate can work with the server at all.
fn check_usable(settings: &Settings, follows: bool) -> Result<(), String> {
    let wrong = |why: String| Err(why);
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
    for name in ["read_only", "super_read_only"] {
        if is_on(settings, name) {
            return wrong(format!(
                "{name} is on: this is a replica, or becomes one, and may answer with old \
                 records"
            ));
        }
    }
    if follows {
        return wrong(
            "the server applies changes of another server: it is a replica, and may answer with \
             old records. The URL must lead to the primary; run STOP SLAVE on a server that was \
             promoted"
                .into(),
        );
    }
    Ok(())
}

/// Returns the possible losses of acknowledged commits that the settings and replicas permit, one
/// sentence each. With `never_promoted`, no asynchronous replica takes over.
pub(crate) fn risks(settings: &Settings, never_promoted: bool) -> Vec<String> {
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
    let failover = "if another node of the cluster takes over, it may lack commits that were \
                    acknowledged last";
    if is("wsrep_on", &["ON", "1"]) {
        risk("wsrep_on", "OFF", failover);
    }
    if is("group_replication_single_primary_mode", &["OFF", "0"])
        && !is("group_replication_group_name", &[""])
    {
        risk("group_replication_single_primary_mode", "ON", failover);
    }
    let replicas = settings.get("Slaves_connected").and_then(|count| count.parse::<u64>().ok());
    if replicas.is_some_and(|count| count > 0) && !is_semi_synchronous(settings) && !never_promoted
    {
        risk(
            "Slaves_connected",
            "0",
            "commits do not wait for these replicas, and one that lags may take over without the \
             last commits that were acknowledged; use semi-synchronous replication with \
             rpl_semi_sync_master_wait_point = AFTER_SYNC, or promise with \
             async_standbys=never_promoted in the URL that none of them is promoted",
        );
    }
    risks
}

/// Returns true if each commit waits until a replica has it, before other clients see it. After a
/// timeout of semi-synchronous replication its status is `OFF`, until a replica has caught up.
fn is_semi_synchronous(settings: &Settings) -> bool {
    [
        [
            "rpl_semi_sync_master_enabled",
            "Rpl_semi_sync_master_status",
            "rpl_semi_sync_master_wait_point",
        ],
        [
            "rpl_semi_sync_source_enabled",
            "Rpl_semi_sync_source_status",
            "rpl_semi_sync_source_wait_point",
        ],
    ]
    .iter()
    .any(|[enabled, status, wait_point]| {
        let point = settings.get(*wait_point).map_or("", String::as_str);
        is_on(settings, enabled) && is_on(settings, status) && point == "AFTER_SYNC"
    })
}

#[cfg(test)]
mod tests;
