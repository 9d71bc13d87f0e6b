//! Connecting: the search for the primary, and the checks of each server.
//!
//! In one round trip after the handshake, each new connection checks that the server is a primary,
//! and that its settings keep acknowledged commits. From time to time connections are made only for
//! this check, so that a failover or a changed setting is noticed soon. After such a change older
//! connections are not used any more, since sessions keep some of the settings with which they
//! began.
//!
//! For example, an operator sets `synchronous_commit = off` while a gateway runs. Within ten
//! seconds and one call the gateway refuses to commit, or, with relaxed durability, reports it.
//!
//! A URL may name several hosts. A *search* asks all of them side by side, each with the same
//! deadline, so a host that does not answer takes no time from the others. It waits for all of
//! them, because the first server that answers may be a former primary (`succession`). A search
//! follows each broken connection, and each periodic check is one. Between them, new connections go
//! to the primary that the last search found. For example, of `postgres://u@h1,h2/db` host `h1`
//! dies: the next call finds its connection broken, asks both hosts, and continues at `h2`, if that
//! one was promoted.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use store::{Durability, StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::{Address, Endpoint, endpoints, name_of};
use crate::error::{unavailable, while_doing};
use crate::server::{QUESTIONS, Server};
use crate::succession::{self, Newest, Terms};

/// Limit of the time to connect, with all handshakes and checks of servers.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// The limit of the time to connect to the primary of the last search. After it all hosts are
/// asked.
const HEAD_START: Duration = Duration::from_millis(500);

/// Limit of the time in which each of several hosts answers in a search. It is shorter than the
/// deadline of a health check, so that the check shows the reason of each host.
const HOST_DEADLINE: Duration = Duration::from_millis(1_300);

const _: () = assert!(
    HEAD_START.as_millis() + HOST_DEADLINE.as_millis() <= CONNECT_DEADLINE.as_millis(),
    "both parts of connecting fit into its deadline"
);

/// Limit of the time of closing a connection in good order.
const GOODBYE_DEADLINE: Duration = Duration::from_millis(500);

/// Interval of the checks of the server.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Limit of the time between two statements of a transaction, after which the server ends the
/// session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Five seconds, for transactions that hold locks: a stalled client must not keep them.
    Short,
    /// No limit, for transactions that only read, as snapshots do.
    Endless,
}

/// Makes connections to the primary of one database.
pub(crate) struct Connector {
    address: Address,
    terms: Terms,
    /// True if the last check found settings that may lose acknowledged commits.
    lax: AtomicBool,
    /// The generation of connections. It increases when a connection breaks or the server changes;
    /// connections of an older generation are not used any more.
    generation: AtomicU64,
    /// Time of the last check of the server's role and settings.
    asked: Mutex<Instant>,
    known: Mutex<Known>,
}

/// The results of earlier checks.
#[derive(Default)]
struct Known {
    /// The primary that the last successful check found.
    primary: Option<Endpoint>,
    /// The generation of connections in which it was found; `None` if it did not answer since.
    found_at: Option<u64>,
    /// Number of addresses that the last search asked.
    addresses: usize,
    /// The start time of that server, which identifies it.
    started: Option<String>,
    newest: Option<Newest>,
    /// True if the role cannot see asynchronous standbys.
    hides_standbys: bool,
}

/// A server's answer.
struct Answer {
    endpoint: Endpoint,
    connection: PgConnection,
    server: Server,
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
        f.debug_struct("Connector").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Connector {
    pub(crate) fn new(url: &str, relaxed: bool) -> Result<Connector, StoreError> {
        let address = Address::parse(url)?;
        let several_hosts = address.hosts().len() > 1;
        Ok(Connector {
            terms: Terms { relaxed, never_promoted: address.never_promoted, several_hosts },
            address,
            lax: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            asked: Mutex::new(Instant::now()),
            known: Mutex::default(),
        })
    }

    /// Returns hosts, ports and database, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.address.name
    }

    pub(crate) fn durability(&self) -> Durability {
        if self.lax.load(Ordering::SeqCst) { Durability::Relaxed } else { Durability::Strict }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Ends the generation of connections with this number, because one of them broke: none of them
    /// is used again.
    pub(crate) fn broke(&self, generation: u64) {
        // If the generation has ended already, newer connections are not affected.
        let _ = self.generation.compare_exchange(
            generation,
            generation + 1,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
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

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection to a primary that passes the checks.
    ///
    /// Fails with `Unavailable` and the reason of each host if there is no such primary, or with
    /// the error of the only server.
    pub(crate) async fn connect(&self, idle: Idle) -> Result<PgConnection, StoreError> {
        if let Some(endpoint) = self.trusted() {
            let asked = Box::pin(ask(endpoint, idle, HEAD_START)).await;
            // If this fails, the search reports the reason of each host.
            if let Ok(connection) = Box::pin(self.conclude(vec![asked])).await {
                return Ok(connection);
            }
            self.known().found_at = None;
        }
        Box::pin(self.search(idle)).await
    }

    /// Returns the primary that the last search found among several addresses, if no connection
    /// broke since.
    fn trusted(&self) -> Option<Endpoint> {
        let known = self.known();
        let is_current = known.found_at == Some(self.generation()) && known.addresses > 1;
        known.primary.clone().filter(|_| is_current)
    }

    /// Checks all hosts. If the primary has changed, ends the generation of connections.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        close_gracefully(Box::pin(self.search(Idle::Short)).await?).await;
        Ok(())
    }

    /// Asks all hosts side by side, and returns a connection to the primary.
    async fn search(&self, idle: Idle) -> Result<PgConnection, StoreError> {
        let hosts = self.address.hosts();
        let limit = if hosts.len() > 1 { HOST_DEADLINE } else { CONNECT_DEADLINE };
        let asked = join_all(hosts.iter().map(|options| ask_host(options, idle, limit))).await;
        let answers: Vec<_> = asked.into_iter().flatten().collect();
        self.known().addresses = answers.len();
        self.conclude(answers).await
    }

    /// Returns the connection to the primary, and closes all others. Remembers what the answers
    /// show. Fails with the reason of each host if there is no primary that can be used.
    async fn conclude(
        &self,
        answers: Vec<Result<Answer, Failure>>,
    ) -> Result<PgConnection, StoreError> {
        let (mut failures, mut answered) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Ok(answer) => answered.push(answer),
                Err(failure) => failures.push(failure),
            }
        }
        let (usable, refused) = self.judge(answered);
        let mut unused = Vec::new();
        for (answer, why) in refused {
            failures.push(Failure { name: answer.endpoint.name, why: Why::Refused(why) });
            unused.push(answer.connection);
        }
        let mut usable = usable.into_iter();
        let primary = usable.next();
        unused.extend(usable.map(|answer| answer.connection));
        if let Some(answer) = &primary {
            self.record(answer, &failures);
        }
        join_all(unused.into_iter().map(close_gracefully)).await;
        primary.map(|answer| answer.connection).ok_or_else(|| self.none(failures))
    }

    /// Separates the servers that can be used from those that cannot, with the reason. All of the
    /// former are one server. If the primary is refused, ends the generation of connections.
    fn judge(&self, answered: Vec<Answer>) -> (Vec<Answer>, Vec<(Answer, String)>) {
        let mut known = self.known();
        let (mut usable, mut refused) = (Vec::new(), Vec::new());
        let servers: Vec<Server> = answered.iter().map(|answer| answer.server.clone()).collect();
        let servers: Vec<&Server> = servers.iter().collect();
        for answer in answered {
            let why =
                succession::refused(&answer.server, known.newest.as_ref(), &servers, self.terms);
            match why {
                None => usable.push(answer),
                Some(why) => refused.push((answer, why)),
            }
        }
        let candidates: Vec<&Server> = usable.iter().map(|answer| &answer.server).collect();
        if let Some(why) = succession::conflict(&candidates) {
            refused.extend(usable.drain(..).map(|answer| (answer, why.to_owned())));
        }
        // Also a server that cannot be used may show that another one has taken over.
        let newest = match (usable.first(), &known.newest) {
            (Some(answer), _) => {
                Some(succession::newest(&answer.server, known.newest.as_ref(), &servers))
            }
            (None, Some(newest)) => Some(newest.advanced(&servers)),
            (None, None) => None,
        };
        let has_advanced = match (&known.newest, &newest) {
            (Some(known), Some(newest)) => newest.succeeds(known),
            (None, _) | (_, None) => false,
        };
        known.newest = newest;
        let is_primary = |(answer, _): &(Answer, String)| match &known.primary {
            Some(endpoint) => endpoint.name == answer.endpoint.name,
            None => true,
        };
        // After a promotion, connections to the former primary still answer.
        if has_advanced || usable.is_empty() && refused.iter().any(is_primary) {
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
        (usable, refused)
    }

    /// Records the primary that a check found. If it differs from that of the last check, ends the
    /// generation of connections: all connections that were made before are not used again.
    fn record(&self, answer: &Answer, failures: &[Failure]) {
        let (name, server) = (self.name(), &answer.server);
        let mut known = self.known();
        if known.started.as_ref() != Some(&server.started) {
            // Older connections may lead to the previous server, which has old data.
            if known.started.replace(server.started.clone()).is_some() {
                self.generation.fetch_add(1, Ordering::SeqCst);
                let others: Vec<String> = failures.iter().map(ToString::to_string).collect();
                let (primary, others) = (&answer.endpoint.name, others.join("; "));
                tracing::warn!(server = name, primary, others, "another server is the primary now");
            }
        }
        let hides = server.hides_standbys() && !self.terms.never_promoted;
        if hides && !known.hides_standbys {
            tracing::warn!(
                server = name,
                "this role may not see if the standbys are asynchronous, so this was not checked; \
                 grant it pg_monitor"
            );
        }
        known.hides_standbys = hides;
        let reasons = server.lax(self.terms.never_promoted).join("; ");
        let lax = !reasons.is_empty();
        if self.lax.swap(lax, Ordering::SeqCst) != lax {
            self.generation.fetch_add(1, Ordering::SeqCst);
            if lax {
                tracing::warn!(server = name, "acknowledged commits may be lost: {reasons}");
            } else {
                tracing::info!(server = name, "acknowledged commits are kept again");
            }
        }
        known.primary = Some(answer.endpoint.clone());
        known.found_at = Some(self.generation());
    }

    /// Returns the error of a search that found no primary.
    fn none(&self, mut failures: Vec<Failure>) -> StoreError {
        let doing = format!("connecting to PostgreSQL at {}", self.name());
        if let [_] = &*failures
            && let Some(failure) = failures.pop()
        {
            return match failure.why {
                Why::Driver(error) => while_doing(&doing)(error),
                Why::Refused(why) => unavailable(format!("{doing}: {why}")),
                Why::Late(limit) => unavailable(format!("{doing}: no answer within {limit:?}")),
            };
        }
        let reasons: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let doing = format!("{doing}: none of its hosts is a primary that can be used");
        StoreError::because(StoreErrorKind::Unavailable, doing, reasons.join("; "))
    }
}

/// Closes a connection in good order, if the server answers.
pub(crate) async fn close_gracefully(connection: PgConnection) {
    // If the server is gone, this fails, and there is nothing to close.
    let _ = timeout(GOODBYE_DEADLINE, connection.close()).await;
}

/// Asks each address of a host.
async fn ask_host(
    options: &PgConnectOptions,
    idle: Idle,
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
            join_all(endpoints.into_iter().map(|endpoint| ask(endpoint, idle, left))).await
        }
        Ok(Err(error)) => failed(Why::Driver(error.into())),
        Err(_) => failed(Why::Late(limit)),
    }
}

/// Connects to a server, and asks it the questions.
async fn ask(endpoint: Endpoint, idle: Idle, limit: Duration) -> Result<Answer, Failure> {
    let idle = match idle {
        Idle::Short => "5s",
        Idle::Endless => "0",
    };
    let options = endpoint.options.clone();
    let options = options.options([("idle_in_transaction_session_timeout", idle)]);
    let asking = async {
        let mut connection = options.connect().await?;
        let row = sqlx::raw_sql(QUESTIONS).fetch_one(&mut connection).await?;
        let server = Server::of(&row)?;
        Ok((connection, server))
    };
    let why = match timeout(limit, asking).await {
        Ok(Ok((connection, server))) => return Ok(Answer { endpoint, connection, server }),
        Ok(Err(error)) => Why::Driver(error),
        Err(_) => Why::Late(limit),
    };
    Err(Failure { name: endpoint.name, why })
}
