//! Connecting: the URL, the settings of each session, and the checks of the server.
//!
//! In one round trip after the handshake, each new connection checks that the server is a primary,
//! and that its settings keep acknowledged commits. From time to time a connection is made only for
//! this check, so that a failover or a changed setting is noticed soon. After such a change older
//! connections are not used any more, since sessions keep some of the settings with which they
//! began.
//!
//! For example, an operator sets `synchronous_commit = off` while a gateway runs. Within ten
//! seconds and one call the gateway refuses to commit, or, with relaxed durability, reports it.
//!
//! Errors and logs contain only the host, port and database of the URL.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{ConnectOptions, Row};
use store::{Durability, StoreError};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::error::{unavailable, while_doing};

/// Limit of the time to connect, with all handshakes and checks of the server.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// Interval of the checks of the server.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// How long a statement waits for a lock. A commit that fails with this has certainly not happened.
const LOCK_TIMEOUT: &str = "2s";

/// Limit of the time of a statement at the server. The client waits longer, so that the server
/// reports the outcome.
const STATEMENT_TIMEOUT: &str = "8s";

/// The oldest version of the server that is known to work: 15.
const VERSION_MIN: i32 = 15_00_00;

/// Prepared statements that a connection caches; there are about a dozen.
const STATEMENTS_CACHED: usize = 64;

/// Settings of each session. The planner's settings leave one plan for each statement: nested loops
/// over primary keys, planned once. Other plans would depend on statistics of tables that grow from
/// nothing.
const SETTINGS: &[(&str, &str)] = &[
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("lock_timeout", LOCK_TIMEOUT),
    ("statement_timeout", STATEMENT_TIMEOUT),
    ("tcp_user_timeout", "10s"),
    ("client_min_messages", "warning"),
    ("standard_conforming_strings", "on"),
    ("bytea_output", "hex"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("enable_memoize", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("jit", "off"),
];

/// Parameters that a URL may have.
const PARAMETERS: &[&str] = &[
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// Limit of the time between two statements of a transaction, after which the server ends the
/// session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Five seconds, for transactions that hold locks: a stalled client must not keep them.
    Short,
    /// No limit, for transactions that only read, as snapshots do.
    Endless,
}

/// Makes connections to one database.
pub(crate) struct Connector {
    options: PgConnectOptions,
    /// Host, port and database.
    name: String,
    relaxed: bool,
    /// True if the last check found settings that may lose acknowledged commits.
    lax: AtomicBool,
    /// The generation of connections. It increases when a connection breaks or the server changes;
    /// connections of an older generation are not used any more.
    age: AtomicU64,
    /// Time of the last check of the server's role and settings.
    asked: Mutex<Instant>,
    /// The start time of the server of the last connection, which identifies the server.
    started: Mutex<Option<String>>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Connector {
    pub(crate) fn new(url: &str, relaxed: bool) -> Result<Connector, StoreError> {
        let (options, name) = parse(url)?;
        Ok(Connector {
            options,
            name,
            relaxed,
            lax: AtomicBool::new(false),
            age: AtomicU64::new(0),
            asked: Mutex::new(Instant::now()),
            started: Mutex::default(),
        })
    }

    /// Returns host, port and database, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn durability(&self) -> Durability {
        if self.lax.load(Ordering::SeqCst) { Durability::Relaxed } else { Durability::Strict }
    }

    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::SeqCst)
    }

    /// Ends the generation of connections with this number, because one of them broke: none of them
    /// is used again.
    pub(crate) fn broke(&self, age: u64) {
        // If the generation has ended already, newer connections are not affected.
        let _ = self.age.compare_exchange(age, age + 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Returns true if a check of the server is due. Only one caller gets true for each interval.
    pub(crate) fn is_due(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let due = asked.elapsed() >= ASK_EVERY;
        if due {
            *asked = Instant::now();
        }
        due
    }

    /// Makes a connection to a server that passes the checks.
    pub(crate) async fn connect(&self, idle: Idle) -> Result<PgConnection, StoreError> {
        let doing = format!("connecting to PostgreSQL at {}", self.name);
        let idle = match idle {
            Idle::Short => "5s",
            Idle::Endless => "0",
        };
        let options = self.options.clone().options([("idle_in_transaction_session_timeout", idle)]);
        let connecting = async {
            let mut connection = options.connect().await.map_err(while_doing(&doing))?;
            let row = sqlx::raw_sql(QUESTIONS).fetch_one(&mut connection).await;
            let server = row.and_then(|row| Server::of(&row)).map_err(while_doing(&doing))?;
            self.check(&server, &doing)?;
            Ok(connection)
        };
        let late = |_| unavailable(format!("{doing}: no answer within {CONNECT_DEADLINE:?}"));
        timeout(CONNECT_DEADLINE, connecting).await.map_err(late)?
    }

    /// Checks that the server can be used, with relaxed durability if the options accept that. If
    /// the result differs from the last check, ends the generation of connections: all connections
    /// that were made before are not used again.
    fn check(&self, server: &Server, doing: &str) -> Result<(), StoreError> {
        let refuse = |why: String| {
            self.age.fetch_add(1, Ordering::SeqCst);
            Err(unavailable(format!("{doing}: {why}")))
        };
        if let Some(why) = server.refused() {
            return refuse(why);
        }
        // A server that cannot be used is refused above with any options. These reasons can be
        // accepted.
        let reasons = server.lax().join("; ");
        let lax = !reasons.is_empty();
        if lax && !self.relaxed {
            return refuse(format!("{reasons}; --metadata-durability=relaxed accepts that"));
        }
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.as_ref() != Some(&server.started) {
            // Older connections may lead to the previous server, which has old data.
            if started.replace(server.started.clone()).is_some() {
                self.age.fetch_add(1, Ordering::SeqCst);
                tracing::warn!(server = self.name, "the address leads to another server by now");
            }
        }
        drop(started);
        if self.lax.swap(lax, Ordering::SeqCst) != lax {
            self.age.fetch_add(1, Ordering::SeqCst);
            if lax {
                tracing::warn!(server = self.name, "acknowledged commits may be lost: {reasons}");
            } else {
                tracing::info!(server = self.name, "acknowledged commits are kept again");
            }
        }
        Ok(())
    }
}

/// The questions to each server, and an expression that makes the session keep memory for later
/// statements.
///
/// The C library of most servers takes each allocation of more than 128 KiB from the system and
/// returns it at once. So each copy of a large value costs page faults, more than the copying
/// itself. The library raises this limit to the size of an allocation that it returns, and keeps
/// twice as much. So a session that has freed 2 MiB keeps memory for values, of which the largest
/// has 1 MiB, and holds at most 4 MiB.
const QUESTIONS: &str = "select current_setting('server_version_num') version, \
     pg_is_in_recovery()::text recovery, current_setting('fsync') fsync, \
     current_setting('full_page_writes') full_page_writes, \
     current_setting('synchronous_commit') synchronous_commit, \
     current_setting('lock_timeout') lock_timeout, \
     current_setting('transaction_isolation') isolation, \
     pg_postmaster_start_time()::text started, \
     octet_length(repeat(repeat('x', 2048), 1024)) kept";

/// The answers of a server about its version, role and settings.
#[derive(Debug)]
struct Server {
    version: String,
    recovery: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    lock_timeout: String,
    isolation: String,
    started: String,
}

impl Server {
    fn of(row: &PgRow) -> Result<Server, sqlx::Error> {
        Ok(Server {
            version: row.try_get("version")?,
            recovery: row.try_get("recovery")?,
            fsync: row.try_get("fsync")?,
            full_page_writes: row.try_get("full_page_writes")?,
            synchronous_commit: row.try_get("synchronous_commit")?,
            lock_timeout: row.try_get("lock_timeout")?,
            isolation: row.try_get("isolation")?,
            started: row.try_get("started")?,
        })
    }

    /// Returns the reason why this server cannot be used at all, or `None`.
    fn refused(&self) -> Option<String> {
        if self.version.parse::<i32>().is_ok_and(|version| version < VERSION_MIN) {
            let (version, least) = (&self.version, VERSION_MIN);
            return Some(format!("its version is {version}, and at least {least} is needed"));
        }
        if self.recovery != "false" {
            return Some("it is a standby; the URL must name the primary".to_owned());
        }
        if self.lock_timeout != LOCK_TIMEOUT || self.isolation != "read committed" {
            return Some(
                "it does not take the settings of the session; what stands between must pass on \
                 the startup parameter `options`"
                    .to_owned(),
            );
        }
        None
    }

    /// Returns the losses that the server's settings permit; empty if acknowledged commits are
    /// durable.
    fn lax(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.fsync != "on" {
            reasons.push(
                "fsync is off, so a crash of its machine may destroy the database".to_owned(),
            );
        }
        if self.full_page_writes != "on" {
            reasons.push(
                "full_page_writes is off, so a crash of its machine may tear pages".to_owned(),
            );
        }
        if !matches!(&*self.synchronous_commit, "on" | "remote_write" | "remote_apply") {
            reasons.push(format!(
                "synchronous_commit is {}, so a crash or a failover may lose the last commits \
                 that were acknowledged",
                self.synchronous_commit
            ));
        }
        reasons
    }
}

/// Parses a URL. Errors name parameters, and contain nothing else of the URL.
fn parse(url: &str) -> Result<(PgConnectOptions, String), StoreError> {
    let wrong = |why: &str| unavailable(format!("reading the URL of a PostgreSQL database: {why}"));
    let url = Url::parse(url).map_err(|_| wrong("it is no URL"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(wrong("it must begin with postgres://"));
    }
    let has = |name: &str| url.query_pairs().any(|(key, value)| key == name && !value.is_empty());
    for (key, _) in url.query_pairs() {
        // The driver would log an unknown parameter with its value, which may be a secret.
        if !PARAMETERS.contains(&&*key) && !key.starts_with("options[") {
            return Err(wrong(&format!("there is no parameter {:?}", key.escape_debug())));
        }
    }
    // Otherwise the driver would take the missing parts from the environment of this process.
    if url.username().is_empty() && !has("user") {
        return Err(wrong("it names no user"));
    }
    if url.path().trim_matches('/').is_empty() && !has("dbname") {
        return Err(wrong("it names no database"));
    }
    if url.host_str().is_none_or(str::is_empty) && !has("host") {
        return Err(wrong("it names no host"));
    }
    let mut options =
        PgConnectOptions::from_url(&url).map_err(|_| wrong("a part of it cannot be read"))?;
    if !has("sslmode") {
        options = options.ssl_mode(PgSslMode::Prefer);
    }
    if url.port().is_none() && !has("port") {
        options = options.port(5432);
    }
    if !has("application_name") {
        options = options.application_name("ashlar");
    }
    let name = format!(
        "{}:{}/{}",
        options.get_host(),
        options.get_port(),
        options.get_database().unwrap_or_default()
    );
    let options = options
        .options(SETTINGS.iter().copied())
        .statement_cache_capacity(STATEMENTS_CACHED)
        .disable_statement_logging();
    Ok((options, name))
}

#[cfg(test)]
mod tests;
