//! Connecting: the URL, the settings of every session, and checks of the server.
//!
//! In one trip after the handshake, each new connection checks whether the server is a primary and
//! whether its settings keep acknowledged commits. From time to time a connection is made just for
//! that. So neither a failover nor a changed setting goes unnoticed for long. Older connections are not
//! used any more then, since sessions keep some of the settings that they began with. No error and no
//! log names more of the URL than host, port and database.

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

/// How long connecting may take, with its handshakes and the questions to the server.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// How long a check of the server is good for.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// How long a statement waits for a lock. Then it has certainly not happened.
const LOCK_TIMEOUT: &str = "2s";

/// How long a statement may take. This side waits longer, so that it is the server that says what
/// happened.
const STATEMENT_TIMEOUT: &str = "8s";

/// The oldest server that is known to work: 15.
const VERSION_MIN: i32 = 15_00_00;

/// Prepared statements that a connection keeps; there are about a dozen.
const STATEMENTS_CACHED: usize = 64;

/// Settings of every session. Those of the planner leave one plan for each statement: nested loops over
/// primary keys, planned once. Any other would depend on what the statistics happen to say about tables
/// that grow from nothing.
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

/// How long a transaction may do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Five seconds: it holds locks.
    Short,
    /// For ever: it only reads.
    Endless,
}

/// Makes connections to one database.
pub(crate) struct Connector {
    options: PgConnectOptions,
    /// Host, port and database.
    name: String,
    relaxed: bool,
    /// The server was last seen with settings that may lose acknowledged commits.
    lax: AtomicBool,
    /// Rises whenever a connection breaks: others of the same age are not trusted any more.
    age: AtomicU64,
    /// When the server was checked last.
    asked: Mutex<Instant>,
    /// The start time of the server that the last connection led to, which identifies it.
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

    /// Host, port and database, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn durability(&self) -> Durability {
        if self.lax.load(Ordering::SeqCst) { Durability::Relaxed } else { Durability::Strict }
    }

    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::SeqCst)
    }

    /// A connection of this age broke.
    pub(crate) fn broke(&self, age: u64) {
        // If this is noticed late, it says nothing about connections that were made since.
        let _ = self.age.compare_exchange(age, age + 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether it is time to check the server again; true for one caller.
    pub(crate) fn is_due(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let due = asked.elapsed() >= ASK_EVERY;
        if due {
            *asked = Instant::now();
        }
        due
    }

    /// A new connection to a server that has passed the checks.
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

    /// Checks that a server can be used, under relaxed durability if need be. Connections from before
    /// a change of the result are not used any more.
    fn check(&self, server: &Server, doing: &str) -> Result<(), StoreError> {
        let refuse = |why: String| {
            self.age.fetch_add(1, Ordering::SeqCst);
            Err(unavailable(format!("{doing}: {why}")))
        };
        if let Some(why) = server.refused() {
            return refuse(why);
        }
        let reasons = server.lax().join("; ");
        let lax = !reasons.is_empty();
        if lax && !self.relaxed {
            return refuse(format!("{reasons}; --metadata-durability=relaxed accepts that"));
        }
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.as_ref() != Some(&server.started) {
            // Older connections may still lead to another server, which has old data.
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

/// What is asked of each server, and at last what makes it keep memory for the next statement.
///
/// The C library of most servers takes whatever is longer than 128 KiB from the system and gives it
/// back at once, so each copy of such a value costs page faults, more than the copying itself. The
/// library raises that limit to the length of what it gives back, and keeps twice as much. So a
/// session that has given back 2 MiB has memory for values, of which the longest has 1 MiB, and
/// keeps 4 MiB at most.
const QUESTIONS: &str = "select current_setting('server_version_num') version, \
     pg_is_in_recovery()::text recovery, current_setting('fsync') fsync, \
     current_setting('full_page_writes') full_page_writes, \
     current_setting('synchronous_commit') synchronous_commit, \
     current_setting('lock_timeout') lock_timeout, \
     current_setting('transaction_isolation') isolation, \
     pg_postmaster_start_time()::text started, \
     octet_length(repeat(repeat('x', 2048), 1024)) kept";

/// What a server says about itself.
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

    /// Why this server cannot be used at all.
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

    /// What may be lost under its settings.
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

/// Reads a URL. Errors name parameters, and show nothing else of it.
fn parse(url: &str) -> Result<(PgConnectOptions, String), StoreError> {
    let wrong = |why: &str| unavailable(format!("reading the URL of a PostgreSQL database: {why}"));
    let url = Url::parse(url).map_err(|_| wrong("it is no URL"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(wrong("it must begin with postgres://"));
    }
    let has = |name: &str| url.query_pairs().any(|(key, value)| key == name && !value.is_empty());
    for (key, _) in url.query_pairs() {
        // The driver would log what it does not know, with its value.
        if !PARAMETERS.contains(&&*key) && !key.starts_with("options[") {
            return Err(wrong(&format!("there is no parameter {:?}", key.escape_debug())));
        }
    }
    // Otherwise the driver would take them from the environment of this process.
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
