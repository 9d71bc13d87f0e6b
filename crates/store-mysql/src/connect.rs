//! Connecting: the URL, and the settings of each connection.
//!
//! For example, `mysql://u:p@db/ashlar?ssl-mode=VERIFY_CA&ssl-ca=/etc/ca.pem` needs a certificate
//! of that authority.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{ConnectOptions, Connection};
use store::{StoreError, StoreErrorKind};
use tokio::time::timeout;
use url::Url;

use crate::error::while_doing;
use crate::row;
use crate::script::Script;
use crate::server::{self, Flavour, Settings, Standing};

/// Limit of the time to connect, with TLS, authentication and settings.
const CONNECT_WAIT: Duration = Duration::from_millis(1_800);

/// Limit of the time to close a connection in good order. Then the socket is dropped.
const CLOSE_WAIT: Duration = Duration::from_millis(500);

/// The parameter with which the operator confirms that all gateways of the volume use one node of a
/// cluster: see [`Standing`]. It is `yes` or `no`. `sqlx` does not know it.
const SINGLE_WRITER: &str = "single_writer";

/// The parameters that `sqlx` reads. [`Connector::new`] refuses all others except
/// [`SINGLE_WRITER`].
const PARAMETERS: [&str; 9] = [
    "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey", "socket",
];

/// Settings of each connection. A statement waits 2 s at most for a lock, lists of keys of any
/// length are searched in the primary key, and strings are plain bytes.
const SESSION: &str = "SET SESSION innodb_lock_wait_timeout = 2, eq_range_index_dive_limit = 1, \
     autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// Settings that only MariaDB has: no long list becomes a subquery, and no statement runs longer
/// than its caller waits.
const SESSION_MARIADB: &str = "SET SESSION in_predicate_conversion_threshold = 0, \
     max_statement_time = 9";

/// Answers come from the tables, never from the query cache.
const NO_QUERY_CACHE: &str = "SET SESSION query_cache_type = 0";

const WRITER: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
const READER: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// A writer that stalls between its two trips must not keep its locks, so the server ends it. MySQL
/// can only end each idle writer.
const WRITER_MARIADB: &str = "SET SESSION idle_transaction_timeout = 5, \
     idle_write_transaction_timeout = 5, idle_readonly_transaction_timeout = 5";
const WRITER_MYSQL: &str = "SET SESSION wait_timeout = 5";

/// A snapshot may wait for its reader for a long time.
const READER_MARIADB: &str = "SET SESSION idle_transaction_timeout = 0, \
     idle_readonly_transaction_timeout = 0, wait_timeout = 28800";
const READER_MYSQL: &str = "SET SESSION wait_timeout = 28800";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Creates tables and reads settings.
    Opener,
    /// Commits.
    Writer,
    /// Reads, and takes snapshots.
    Reader,
}

/// A connection to the server, with the number that the server gave to it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: MySqlConnection,
    pub(crate) id: u64,
    /// Number of failed checks of the server when this connection was made. After another failed
    /// check the connection is not used any more.
    pub(crate) refusals: u64,
}

impl Link {
    /// Closes the connection in good order, if the server still answers.
    pub(crate) async fn close(self) {
        match timeout(CLOSE_WAIT, self.connection.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection did not close"),
            Err(_) => tracing::debug!("a connection did not close in time"),
        }
    }
}

/// Makes connections: the address, credentials and checked settings of the server. Its `Debug`
/// shows neither user nor password.
pub(crate) struct Connector {
    options: MySqlConnectOptions,
    flavour: Flavour,
    has_query_cache: bool,
    /// The result of the last check of the server: its risks, and the number of failed checks.
    pub(crate) standing: Standing,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("host", &self.options.get_host())
            .field("port", &self.options.get_port())
            .field("database", &self.options.get_database())
            .field("flavour", &self.flavour)
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// Parses a URL. The server is checked later.
    pub(crate) fn new(url: &str, relaxed: bool) -> Result<Connector, StoreError> {
        // These messages must not contain a part of the URL, which has a password in it.
        let wrong = |why: &str| {
            let doing = format!("reading the URL of the metadata store: {why}");
            StoreError::new(StoreErrorKind::Unavailable, doing)
        };
        let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(parsed.scheme(), "mysql" | "mariadb") {
            return Err(wrong("it begins with neither mysql:// nor mariadb://"));
        }
        let is_known = |name: &str| name == SINGLE_WRITER || PARAMETERS.contains(&name);
        if parsed.query_pairs().any(|(name, _)| !is_known(&name)) {
            let known = PARAMETERS.join(", ");
            return Err(wrong(&format!("a parameter is none of {known}, {SINGLE_WRITER}")));
        }
        let single_writer = match parsed.query_pairs().find(|(name, _)| name == SINGLE_WRITER) {
            None => false,
            Some((_, value)) if value == "no" => false,
            Some((_, value)) if value == "yes" => true,
            Some(_) => return Err(wrong(&format!("{SINGLE_WRITER} is neither yes nor no"))),
        };
        let options = MySqlConnectOptions::from_str(&without_single_writer(&parsed))
            .map_err(|_| wrong("ssl-mode, user, password or database cannot be read"))?;
        if options.get_database().is_none() {
            return Err(wrong("it names no database"));
        }
        let options = options
            .disable_statement_logging()
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false);
        let standing = Standing::new(relaxed, single_writer);
        Ok(Connector { options, flavour: Flavour::MariaDb, has_query_cache: false, standing })
    }

    /// Sets the facts about the server on which the settings of connections depend.
    pub(crate) fn set_server(&mut self, flavour: Flavour, has_query_cache: bool) {
        (self.flavour, self.has_query_cache) = (flavour, has_query_cache);
    }

    /// Makes a connection to a server that passes the checks.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if there is no connection within [`CONNECT_WAIT`], if the
    /// server is a replica, or if its settings have risks that the options do not accept.
    pub(crate) async fn connect(&self, role: Role) -> Result<Link, StoreError> {
        self.connect_and_ask(role).await.map(|(link, _)| link)
    }

    /// Makes a connection. Returns it with the server's settings.
    pub(crate) async fn connect_and_ask(&self, role: Role) -> Result<(Link, Settings), StoreError> {
        const DOING: &str = "connecting to the metadata store";
        // Read before connecting: if a check fails meanwhile, this connection may lead to the
        // refused server and must count as old.
        let refusals = self.standing.refusals();
        let connecting = async {
            let mut connection = self.options.connect().await?;
            let answers = self.session(role).run(&mut connection).await;
            let answers = answers.map_err(|failure| failure.error)?;
            let [.., settings, id] = answers.as_slice() else {
                return Err(sqlx::Error::RowNotFound);
            };
            let settings = server::settings(settings)?;
            let id = row::integer(id.rows.first().ok_or(sqlx::Error::RowNotFound)?, 0)?;
            let follows = server::follows(&mut connection, server::flavour(&settings)).await?;
            Ok((Link { connection, id: id.unsigned_abs(), refusals }, settings, follows))
        };
        match timeout(CONNECT_WAIT, connecting).await {
            Ok(done) => {
                let (link, settings, follows) = done.map_err(while_doing(DOING))?;
                self.standing.check(&settings, follows)?;
                Ok((link, settings))
            }
            Err(_) => {
                let doing = format!("{DOING}: no answer within {CONNECT_WAIT:?}");
                Err(StoreError::new(StoreErrorKind::Unavailable, doing))
            }
        }
    }

    fn session(&self, role: Role) -> Script {
        let mut script = Script::default();
        if role != Role::Opener {
            script.statement(SESSION);
            if self.flavour == Flavour::MariaDb {
                script.statement(SESSION_MARIADB);
            }
            if self.has_query_cache {
                script.statement(NO_QUERY_CACHE);
            }
        }
        match (role, self.flavour) {
            (Role::Opener, _) => {}
            (Role::Writer, Flavour::MariaDb) => {
                script.statement(WRITER);
                script.statement(WRITER_MARIADB);
            }
            (Role::Writer, Flavour::MySql) => {
                script.statement(WRITER);
                script.statement(WRITER_MYSQL);
            }
            (Role::Reader, Flavour::MariaDb) => {
                script.statement(READER);
                script.statement(READER_MARIADB);
            }
            (Role::Reader, Flavour::MySql) => {
                script.statement(READER);
                script.statement(READER_MYSQL);
            }
        }
        // The last two statements, whose answers `connect_and_ask` takes: the settings and the
        // number of the connection.
        script.statement(server::question());
        script.statement("SELECT CONNECTION_ID()");
        script
    }
}

/// Returns the URL without the parameter that `sqlx` does not know.
fn without_single_writer(url: &Url) -> String {
    let mut rest = url.clone();
    rest.set_query(None);
    let kept: Vec<_> = url.query_pairs().filter(|(name, _)| name != SINGLE_WRITER).collect();
    if !kept.is_empty() {
        rest.query_pairs_mut().extend_pairs(kept);
    }
    rest.into()
}

#[cfg(test)]
mod tests;
