//! Connecting: the search for the primary, and the settings of each connection.
//!
//! A URL may name several hosts. A *search* asks all of them side by side, each with the same
//! deadline, so a host that does not answer takes no time from the others. It waits for all of
//! them, because the first server that answers may be a former primary (`standing`). A search
//! follows each broken connection, and each periodic check is one. Between them, new connections go
//! to the primary that the last search found. For example, of `mysql://u@h1,h2/db` host `h1` dies:
//! the next call finds its connection broken, asks both hosts, and continues at `h2`, if that one
//! was promoted.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{ConnectOptions, Connection};
use store::{StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::{Address, Endpoint, endpoints, name_of};
use crate::error::while_doing;
use crate::row;
use crate::script::Script;
use crate::server::{self, Flavour, Settings};
use crate::standing::Standing;

/// Limit of the time to connect, with TLS, authentication and settings.
const CONNECT_WAIT: Duration = Duration::from_millis(1_800);

/// How long a connection to the primary of the last search may take before all hosts are asked.
const HEAD_START: Duration = Duration::from_millis(500);

/// Limit of the time in which each of several hosts answers in a search. It is shorter than the
/// deadline of a health check, so that the check shows the reason of each host.
const HOST_WAIT: Duration = Duration::from_millis(1_300);

const _: () = assert!(
    HEAD_START.as_millis() + HOST_WAIT.as_millis() <= CONNECT_WAIT.as_millis(),
    "both parts of connecting fit into its limit"
);

/// Limit of the time to close a connection in good order. Then the socket is dropped.
const CLOSE_WAIT: Duration = Duration::from_millis(500);

const DOING: &str = "connecting to the metadata store";

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

/// Makes connections: the addresses, credentials and checked settings of the servers. Its `Debug`
/// shows neither user nor password.
pub(crate) struct Connector {
    address: Address,
    flavour: Flavour,
    has_query_cache: bool,
    known: Mutex<Known>,
    /// The result of the last check of the server: its risks, and the number of failed checks.
    pub(crate) standing: Standing,
}

/// The results of earlier checks.
#[derive(Default)]
struct Known {
    /// The primary that the last successful check found.
    primary: Option<Endpoint>,
    /// True if no connection to it has failed since.
    answers: bool,
    /// Number of addresses that the last search asked.
    addresses: usize,
}

/// A server's answer.
struct Answer {
    endpoint: Endpoint,
    link: Link,
    settings: Settings,
    /// True if the server applies changes of another one.
    follows: bool,
}

/// The reason why a host cannot be used, with its name.
struct Failure {
    name: String,
    why: Why,
}

enum Why {
    Late(Duration),
    Driver(sqlx::Error),
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Late(limit) => write!(f, "{}: no answer within {limit:?}", self.name),
            Why::Driver(error) => write!(f, "{}: {error}", self.name),
            Why::Refused(why) => write!(f, "{}: {why}", self.name),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("name", &self.address.name)
            .field("flavour", &self.flavour)
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// Parses a URL. The servers are checked later.
    pub(crate) fn new(url: &str, relaxed: bool) -> Result<Connector, StoreError> {
        let address = Address::parse(url)?;
        let standing = Standing::new(relaxed, address.promises);
        Ok(Connector {
            address,
            flavour: Flavour::MariaDb,
            has_query_cache: false,
            known: Mutex::default(),
            standing,
        })
    }

    /// Sets the facts about the server on which the settings of connections depend.
    pub(crate) fn set_server(&mut self, flavour: Flavour, has_query_cache: bool) {
        (self.flavour, self.has_query_cache) = (flavour, has_query_cache);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next connection ask all hosts, because a connection broke.
    pub(crate) fn broke(&self) {
        self.known().answers = false;
    }

    /// Returns the primary that the last search found among several addresses, if no connection
    /// broke since.
    fn trusted(&self) -> Option<Endpoint> {
        let known = self.known();
        let is_current = known.answers && known.addresses > 1;
        known.primary.clone().filter(|_| is_current)
    }

    /// Makes a connection to a primary that passes the checks.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if there is no connection within [`CONNECT_WAIT`], if no
    /// server is a primary, or if its settings have risks that the options do not accept. The error
    /// has the reason of each host.
    pub(crate) async fn connect(&self, role: Role) -> Result<Link, StoreError> {
        self.connect_and_ask(role).await.map(|(link, _)| link)
    }

    /// Makes a connection. Returns it with the server's settings.
    pub(crate) async fn connect_and_ask(&self, role: Role) -> Result<(Link, Settings), StoreError> {
        if let Some(endpoint) = self.trusted() {
            let asked = Box::pin(self.ask(endpoint, role, HEAD_START)).await;
            // If this fails, the search reports the reason of each host.
            if let Ok(found) = Box::pin(self.conclude(vec![asked])).await {
                return Ok(found);
            }
            self.broke();
        }
        Box::pin(self.search(role)).await
    }

    /// Checks all hosts. If the primary has changed, older connections are not used any more.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        Box::pin(self.search(Role::Opener)).await?.0.close().await;
        Ok(())
    }

    /// Asks all hosts side by side, and returns a connection to the primary.
    async fn search(&self, role: Role) -> Result<(Link, Settings), StoreError> {
        let hosts = self.address.hosts();
        let limit = if hosts.len() > 1 { HOST_WAIT } else { CONNECT_WAIT };
        let asked = hosts.iter().map(|options| self.ask_host(options, role, limit));
        let answers: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        self.known().addresses = answers.len();
        self.conclude(answers).await
    }

    /// Returns the connection to the primary, and closes all others. Remembers what the answers
    /// show. Fails with the reason of each host if there is no primary that can be used.
    async fn conclude(
        &self,
        answers: Vec<Result<Answer, Failure>>,
    ) -> Result<(Link, Settings), StoreError> {
        let (mut failures, mut usable, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for answer in answers {
            match answer.map(|answer| {
                let checked = self.standing.check(&answer.settings, answer.follows);
                (answer, checked.err())
            }) {
                Ok((answer, None)) => usable.push(answer),
                Ok((answer, Some(why))) => refused.push((answer, why)),
                Err(failure) => failures.push(failure),
            }
        }
        let settings: Vec<&Settings> = usable.iter().map(|answer| &answer.settings).collect();
        let reasons = self.standing.compare(&settings);
        let mut chosen: Option<Answer> = None;
        let mut unused = Vec::new();
        for (answer, reason) in usable.into_iter().zip(reasons) {
            match reason {
                Some(why) => refused.push((answer, why)),
                None if chosen.is_none() => chosen = Some(answer),
                // Another address of the same server.
                None => unused.push(answer.link),
            }
        }
        self.remember(chosen.as_ref(), &refused);
        for (answer, why) in refused {
            failures.push(Failure { name: answer.endpoint.name, why: Why::Refused(why) });
            unused.push(answer.link);
        }
        join_all(unused.into_iter().map(Link::close)).await;
        chosen
            .map(|answer| (answer.link, answer.settings))
            .ok_or_else(|| none(&self.address.name, failures))
    }

    /// Remembers the primary. If it is refused, no older connection is used any more.
    fn remember(&self, chosen: Option<&Answer>, refused: &[(Answer, String)]) {
        let mut known = self.known();
        if let Some(answer) = chosen {
            self.standing.record(&answer.settings);
            known.primary = Some(answer.endpoint.clone());
            known.answers = true;
            return;
        }
        // Otherwise the next connection would ask the former primary alone, and not see the other.
        known.answers = false;
        let is_primary = |(answer, _): &(Answer, String)| match &known.primary {
            Some(endpoint) => endpoint.name == answer.endpoint.name,
            None => true,
        };
        if refused.iter().any(is_primary) {
            self.standing.refuse();
        }
    }

    /// Asks each address of a host.
    async fn ask_host(
        &self,
        options: &MySqlConnectOptions,
        role: Role,
        limit: Duration,
    ) -> Vec<Result<Answer, Failure>> {
        let failed = |why| vec![Err(Failure { name: name_of(options), why })];
        let until = Instant::now() + limit;
        match timeout_at(until, endpoints(options)).await {
            Ok(Ok(endpoints)) if endpoints.is_empty() => {
                failed(Why::Refused("its name has no address".to_owned()))
            }
            Ok(Ok(endpoints)) => {
                let left = until - Instant::now();
                let asked = endpoints.into_iter().map(|endpoint| self.ask(endpoint, role, left));
                join_all(asked).await
            }
            Ok(Err(error)) => failed(Why::Driver(error.into())),
            Err(_) => failed(Why::Late(limit)),
        }
    }

    /// Connects to a server, and asks it for its role and settings.
    async fn ask(
        &self,
        endpoint: Endpoint,
        role: Role,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        // Read before connecting: if a check fails meanwhile, this connection may lead to the
        // refused server and must count as old.
        let refusals = self.standing.refusals();
        let asking = async {
            let mut connection = endpoint.options.connect().await?;
            let answers = self.session(role).run(&mut connection).await;
            let answers = answers.map_err(|failure| failure.error)?;
            let [.., settings, figures, id] = &*answers else {
                return Err(sqlx::Error::RowNotFound);
            };
            let id = row::integer(id.rows.first().ok_or(sqlx::Error::RowNotFound)?, 0)?;
            let settings = server::settings(&[settings, figures])?;
            let follows = server::follows(&mut connection, server::flavour(&settings)).await?;
            Ok((Link { connection, id: id.unsigned_abs(), refusals }, settings, follows))
        };
        let why = match timeout(limit, asking).await {
            Ok(Ok((link, settings, follows))) => {
                return Ok(Answer { endpoint, link, settings, follows });
            }
            Ok(Err(error)) => Why::Driver(error),
            Err(_) => Why::Late(limit),
        };
        Err(Failure { name: endpoint.name, why })
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
        // The last three statements, whose answers `ask` takes: the settings, the figures and the
        // number of the connection.
        script.statement(server::question());
        script.statement(server::figures());
        script.statement("SELECT CONNECTION_ID()");
        script
    }
}

/// Returns the error of a search that found no primary.
fn none(name: &str, mut failures: Vec<Failure>) -> StoreError {
    let unavailable = |doing: String| StoreError::new(StoreErrorKind::Unavailable, doing);
    if let [_] = &*failures
        && let Some(failure) = failures.pop()
    {
        return match failure.why {
            Why::Driver(error) => while_doing(DOING)(error),
            Why::Refused(why) => unavailable(format!("checking the server's settings: {why}")),
            Why::Late(limit) => unavailable(format!("{DOING}: no answer within {limit:?}")),
        };
    }
    let reasons: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let doing = format!("{DOING} at {name}: none of its hosts is a primary that can be used");
    StoreError::because(StoreErrorKind::Unavailable, doing, reasons.join("; "))
}

#[cfg(test)]
mod tests;
