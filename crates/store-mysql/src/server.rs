//! Checks of a server: if it can be used at all, and which risks its settings have.
//!
//! Each new connection checks, and from time to time one is made only for this check. A server may
//! come back with other settings, its settings may change while it runs, or the address may lead to
//! another server. [`Standing`] has the result of the last check. For example, `sync_binlog = 0` is
//! a risk: it is refused, or accepted and logged with relaxed durability.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Column, Row};
use store::{Durability, StoreError, StoreErrorKind};
use tokio::time::Instant;

use crate::row;
use crate::script::{PACKET_BYTES_MAX, Script, StatementResult};

/// Interval of the checks of the server.
const ASK_EVERY: Duration = Duration::from_secs(10);

const SETTINGS: [&str; 21] = [
    "binlog_format",
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
    "server_id",
    "super_read_only",
    "sync_binlog",
    "version",
    "wsrep_cluster_address",
    "wsrep_on",
    "wsrep_provider",
];

/// A server's settings by name. Settings that the server does not have are missing.
pub(crate) type Settings = BTreeMap<String, String>;

/// Returns the statement that reads the settings.
pub(crate) fn question() -> String {
    let names = SETTINGS.join("','");
    format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{names}')")
}

/// Parses the answer to [`question`].
pub(crate) fn settings(answer: &StatementResult) -> Result<Settings, sqlx::Error> {
    let text = |row, column| {
        row::bytes(row, column).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    answer.rows.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?))).collect()
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

fn unavailable(why: &str) -> StoreError {
    let doing = format!("checking the server's settings: {why}");
    StoreError::new(StoreErrorKind::Unavailable, doing)
}

/// Returns true if the server loads the library of Galera.
fn has_galera(settings: &Settings) -> bool {
    let provider = settings.get("wsrep_provider").map_or("", String::as_str);
    !provider.is_empty() && !provider.eq_ignore_ascii_case("none")
}

/// Refuses a server whose cluster lets several nodes write.
///
/// Such a cluster certifies the records that a commit writes, and not the shared locks on records
/// that it only guards. For example, one gateway deletes the last name of a directory and the
/// directory itself, another one adds a name to it through another node, and both commits are
/// acknowledged. So a volume may use only one node, which the operator confirms in the URL.
fn check_cluster(settings: &Settings, single_writer: bool) -> Result<(), StoreError> {
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
    Err(unavailable(&format!(
        "{found}, and gateways that use two of its nodes lose acknowledged writes, because the \
         cluster does not check locks between its nodes. Use a server that has no such cluster. If \
         all gateways and mounts of this volume use this one node, add single_writer=yes to the URL \
         of --meta, as in mysql://HOST/DATABASE?single_writer=yes, and start with \
         --metadata-durability=relaxed"
    )))
}

/// Checks that this crate can work with the server at all.
fn check_usable(settings: &Settings, follows: bool) -> Result<(), StoreError> {
    let wrong = |why: String| Err(unavailable(&why));
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

/// Returns the possible losses of acknowledged commits that the settings permit, one sentence each.
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
    risks
}

/// The result of the last check of the server: the risks of its settings for acknowledged commits,
/// and the number of failed checks.
#[derive(Debug)]
pub(crate) struct Standing {
    relaxed: bool,
    /// True if the operator confirmed that all gateways use one node of the cluster.
    single_writer: bool,
    /// The possible losses of acknowledged commits that the server's settings permit, as a
    /// sentence; empty if there are none.
    risks: Mutex<String>,
    /// Number of failed checks of the server. Connections from before the last failure are not used
    /// any more.
    refusals: AtomicU64,
    /// Time of the last check of the server.
    asked: Mutex<Instant>,
    /// The host name, port and server id of the last connection's server; `None` before the first
    /// one.
    identity: Mutex<Option<[Option<String>; 3]>>,
}

impl Standing {
    /// Creates the state before the first check of the server. If `relaxed`, the check accepts a
    /// server whose settings may lose acknowledged commits, for example after a power failure.
    /// `single_writer` is the operator's confirmation that all gateways use one node; if both are
    /// set, the check also accepts a node of a cluster in which all nodes can write.
    pub(crate) fn new(relaxed: bool, single_writer: bool) -> Standing {
        Standing {
            relaxed,
            single_writer,
            risks: Mutex::default(),
            refusals: AtomicU64::new(0),
            asked: Mutex::new(Instant::now()),
            identity: Mutex::default(),
        }
    }

    fn risks(&self) -> MutexGuard<'_, String> {
        self.risks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Instant> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failures that an acknowledged commit survives at this server.
    pub(crate) fn durability(&self) -> Durability {
        if self.risks().is_empty() { Durability::Strict } else { Durability::Relaxed }
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Acquire)
    }

    /// Counts a failed check of the server, after which no older connection is used any more.
    pub(crate) fn refuse(&self) {
        self.refusals.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns true if a check is due. Only one caller gets true for each interval.
    pub(crate) fn is_due(&self) -> bool {
        let mut asked = self.asked();
        let due = asked.elapsed() >= ASK_EVERY;
        if due {
            *asked = Instant::now();
        }
        due
    }

    /// Checks that the server can be used and that the options accept its risks. Records and logs
    /// changes of the risks.
    pub(crate) fn check(&self, settings: &Settings, follows: bool) -> Result<(), StoreError> {
        let checked = self.accept(settings, follows);
        match &checked {
            Ok(()) => *self.asked() = Instant::now(),
            Err(_) => self.refuse(),
        }
        checked
    }

    /// Records the server of a new connection. If it is another one than before, older connections
    /// may lead to the previous server with old data, and are not used any more.
    fn identify(&self, settings: &Settings) {
        let found = ["hostname", "port", "server_id"].map(|name| settings.get(name).cloned());
        let mut known = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != Some(&found) && known.replace(found).is_some() {
            self.refuse();
            tracing::warn!("the address of the metadata store leads to another server now");
        }
    }

    fn accept(&self, settings: &Settings, follows: bool) -> Result<(), StoreError> {
        check_usable(settings, follows)?;
        check_cluster(settings, self.single_writer)?;
        self.identify(settings);
        let found = risks(settings).join("; ");
        if !found.is_empty() && !self.relaxed {
            return Err(unavailable(&format!(
                "{found}. Change them, or accept the risk with --metadata-durability=relaxed"
            )));
        }
        let mut risks = self.risks();
        if *risks != found {
            if found.is_empty() {
                tracing::info!("the metadata store keeps acknowledged commits again");
            } else {
                tracing::warn!(risks = found, "the metadata store may lose acknowledged commits");
            }
            *risks = found;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
