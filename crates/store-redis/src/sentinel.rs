//! Redis Sentinel: finds the present master, and notices that it has changed.
//!
//! Sentinels watch a master and its replicas, and make a replica the master if the old one fails.
//! This process asks all Sentinels of the URL at the same time; [`crate::agreement`] says
//! which master their answers name. It asks before it makes a connection, and about each second
//! while calls are made.
//!
//! A master that was frozen, or that only some machines reach, takes itself for the master until a
//! Sentinel reaches it again. So each connection has a [`Trust`]. A call is sent, and its answer is
//! used, only if a lookup that began at most two seconds before has named the same master. If too
//! few Sentinels answer, older lookups are trusted, until they are ten seconds old. For example,
//! the old master thaws after a failover and acknowledges a commit, which will be lost. If a lookup
//! has seen the failover by then, the outcome of the commit is unknown, and the caller resolves it
//! at the new master.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError,
    TlsCertificates, Value,
};
use store::{StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout};

use crate::agreement::{self, Answer, Master};
use crate::error;

/// The default port of a Sentinel.
pub(crate) const SENTINEL_PORT: u16 = 26_379;

/// How long a lookup waits for the answer of a Sentinel, with the time to connect to it.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval of the lookups while calls are made.
const LOOK_UP_EVERY: Duration = Duration::from_secs(1);

/// The age of a successful lookup from which on calls wait for another one.
const FRESH: Duration = Duration::from_secs(2);

/// The age of a successful lookup from which on it is not trusted any more.
const TRUST: Duration = Duration::from_secs(10);

// While calls are made, none of them waits for a lookup, also if a Sentinel does not answer.
const _: () = assert!(LOOK_UP_EVERY.as_millis() + SENTINEL_TIMEOUT.as_millis() < FRESH.as_millis());
const _: () = assert!(FRESH.as_millis() < TRUST.as_millis());

/// One Sentinel of the URL.
struct Sentinel {
    /// Its host and port.
    name: String,
    client: Client,
    /// The connection of the last lookup, if that succeeded.
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// The way to connect to the master: everything except its address.
pub(crate) struct Server {
    /// The connection of some server of the master's group.
    pub(crate) template: ConnectionInfo,
    /// The authorities whose certificates are accepted, in PEM.
    pub(crate) root_cert: Option<Vec<u8>>,
}

/// The results of the lookups.
#[derive(Default)]
struct Known {
    master: Option<Master>,
    /// Number of times that the master or its epoch has changed.
    term: u64,
    /// The time at which the last successful lookup began.
    confirmed: Option<Instant>,
    /// The time at which the last lookup began.
    asked: Option<Instant>,
    /// The time at which the last lookup ended.
    ended: Option<Instant>,
    /// True if the last lookup failed.
    fails: bool,
}

impl Known {
    fn epoch(&self) -> u64 {
        self.master.as_ref().map_or(0, |master| master.epoch)
    }

    /// Returns true if the master is that of `term`, and a successful lookup is younger than `age`.
    fn is_confirmed(&self, term: u64, age: Duration) -> bool {
        self.term == term && self.confirmed.is_some_and(|begun| begun.elapsed() < age)
    }
}

/// The Sentinels of a URL, and the master that they name.
pub(crate) struct Sentinels {
    /// The name of the master's group at the Sentinels.
    group: String,
    /// The Sentinels of the URL.
    members: Vec<Sentinel>,
    server: Server,
    known: Mutex<Known>,
    /// Locked by the call for which others wait, so that one lookup serves all.
    refreshing: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.members.iter().map(|one| &*one.name).collect();
        write!(f, "Sentinels({} at {})", self.group, names.join(","))
    }
}

/// The trust in a connection to a master that the Sentinels named.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    sentinels: Arc<Sentinels>,
    term: u64,
    /// The address and the epoch of the master, for errors.
    master: Arc<str>,
}

impl Trust {
    /// Returns the address and the epoch of the master, for errors.
    pub(crate) fn master(&self) -> &str {
        &self.master
    }

    /// Returns true if the connection may be used.
    pub(crate) fn holds(&self) -> bool {
        self.sentinels.known().is_confirmed(self.term, TRUST)
    }

    /// Returns true if a call may be sent, or if its answer may be used. Asks the Sentinels first
    /// if the last lookup is not fresh.
    pub(crate) async fn is_confirmed(&self, doing: &str) -> bool {
        let (is_of_now, is_fresh) = {
            let known = self.sentinels.known();
            (known.term == self.term, known.is_confirmed(self.term, FRESH))
        };
        if is_of_now && !is_fresh {
            self.sentinels.refresh(doing).await;
        }
        self.holds()
    }
}

impl Sentinels {
    /// `sentinels` are the names of the Sentinels, as errors show them, with the way to connect to
    /// each.
    pub(crate) fn new(
        group: String,
        sentinels: Vec<(String, Client)>,
        server: Server,
    ) -> Sentinels {
        let sentinel = |(name, client)| Sentinel { name, client, connection: Mutex::default() };
        let members = sentinels.into_iter().map(sentinel).collect();
        Sentinels {
            group,
            members,
            server,
            known: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the last lookup is so old that another one should be made.
    pub(crate) fn is_due(&self) -> bool {
        let mut known = self.known();
        if known.asked.is_some_and(|asked| asked.elapsed() < LOOK_UP_EVERY) {
            return false;
        }
        known.asked = Some(Instant::now());
        true
    }

    /// Asks the Sentinels for the master. Returns the client that connects to it.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the Sentinels name none. The error has the answer of
    /// each.
    pub(crate) async fn master(
        self: &Arc<Self>,
        doing: &str,
    ) -> Result<(Client, Trust), StoreError> {
        let (master, term) = self.look_up(doing).await?;
        let shown = master.to_string().into();
        let address = match self.server.template.addr() {
            ConnectionAddr::TcpTls { .. } => ConnectionAddr::TcpTls {
                host: master.host,
                port: master.port,
                insecure: false,
                tls_params: None,
            },
            _ => ConnectionAddr::Tcp(master.host, master.port),
        };
        let connection = self.server.template.clone().set_addr(address);
        let client = client(connection, self.server.root_cert.clone());
        let client = client.map_err(|error| error::unreachable(doing, error))?;
        Ok((client, Trust { sentinels: Arc::clone(self), term, master: shown }))
    }

    /// Asks the Sentinels, or waits until another call has asked them. Returns at once if a lookup
    /// has failed a moment before.
    async fn refresh(&self, doing: &str) {
        let _turn = self.refreshing.lock().await;
        let is_recent = self.known().ended.is_some_and(|ended| ended.elapsed() < LOOK_UP_EVERY);
        if !is_recent {
            // The lookup records and logs its result.
            let _ = self.look_up(doing).await;
        }
    }

    /// Asks the Sentinels for the master, and records it with its term.
    async fn look_up(&self, doing: &str) -> Result<(Master, u64), StoreError> {
        let begun = Instant::now();
        let epoch = {
            let mut known = self.known();
            known.asked = Some(begun);
            known.epoch()
        };
        let questions = self.members.iter().map(|sentinel| sentinel.ask(&self.group));
        let answers = futures::future::join_all(questions).await;
        let mut known = self.known();
        known.ended = Some(Instant::now());
        match agreement::agree(&answers, epoch, known.epoch()) {
            Ok(master) => Ok(self.learn(&mut known, master, begun)),
            Err(why) => {
                let error = self.refused(doing, &why, &answers);
                if !known.fails {
                    tracing::warn!(%error, "asking the Sentinels of the metadata store");
                }
                known.fails = true;
                Err(error)
            }
        }
    }

    fn learn(&self, known: &mut Known, master: Master, begun: Instant) -> (Master, u64) {
        if known.master.as_ref() != Some(&master) {
            let before = known.master.replace(master.clone());
            known.term += 1;
            let (group, master) = (&self.group, &master);
            match before {
                Some(before) => {
                    tracing::warn!(%group, %before, %master, "the Sentinels name another master");
                }
                None => tracing::info!(%group, %master, "the Sentinels name the master"),
            }
        } else if known.fails {
            tracing::info!(group = %self.group, %master, "the Sentinels name the master again");
        }
        known.fails = false;
        known.confirmed = known.confirmed.max(Some(begun));
        (master, known.term)
    }

    fn refused(&self, doing: &str, why: &str, answers: &[Answer]) -> StoreError {
        let each = self.members.iter().zip(answers).map(|(sentinel, answer)| match answer {
            Ok(master) => format!("{}: names {master}", sentinel.name),
            Err(why) => format!("{}: {why}", sentinel.name),
        });
        let each = each.collect::<Vec<_>>().join("; ");
        StoreError::new(StoreErrorKind::Unavailable, format!("{doing}: {why} ({each})"))
    }
}

impl Sentinel {
    fn connection(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the master of a group. The error is the reason why there is none.
    async fn ask(&self, group: &str) -> Answer {
        let answer = timeout(SENTINEL_TIMEOUT, self.ask_twice(group)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(format!("no answer within {} ms", SENTINEL_TIMEOUT.as_millis()))
        });
        if answer.is_err() {
            *self.connection() = None;
        }
        answer
    }

    /// Asks over the connection of the last lookup, and over a new one if that has ended.
    async fn ask_twice(&self, group: &str) -> Answer {
        let kept = self.connection().clone();
        if let Some(mut connection) = kept {
            match question(&mut connection, group).await {
                Err(error) if !error::is_answer(&error) => {}
                answer => return parse(answer, group),
            }
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(SENTINEL_TIMEOUT))
            .set_response_timeout(Some(SENTINEL_TIMEOUT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(|error| reason(&error, group))?;
        let answer = question(&mut connection, group).await;
        *self.connection() = Some(connection);
        parse(answer, group)
    }
}

/// Asks a Sentinel for a group's master: its configuration, which has the epoch, and its address.
async fn question(
    connection: &mut MultiplexedConnection,
    group: &str,
) -> Result<Vec<Value>, RedisError> {
    let mut questions = redis::pipe();
    // The epoch first. In a failover the Sentinel that leads it changes the address and the epoch
    // at different times, and the old address with the new epoch would be wrong. The address in
    // the configuration remains the old one for longer, so it is not used.
    questions.cmd("SENTINEL").arg("MASTER").arg(group);
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(group);
    questions.ignore_errors();
    let answers: Vec<Value> = questions.query_async(connection).await?;
    answers.into_iter().map(Value::extract_error).collect()
}

/// Parses the answers of a Sentinel.
fn parse(answers: Result<Vec<Value>, RedisError>, group: &str) -> Answer {
    let answers = answers.map_err(|error| reason(&error, group))?;
    let garbled = || "its answer has an unexpected form".to_owned();
    let [configuration, address] = <[Value; 2]>::try_from(answers).map_err(|_| garbled())?;
    let configuration: HashMap<String, String> =
        redis::from_redis_value(configuration).map_err(|_| garbled())?;
    let epoch = configuration.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let epoch = epoch.ok_or_else(garbled)?;
    let address: Option<(String, u16)> = redis::from_redis_value(address).map_err(|_| garbled())?;
    let (host, port) = address.ok_or_else(|| unknown(group))?;
    Ok(Master { host, port, epoch })
}

fn unknown(group: &str) -> String {
    format!("it knows no master named {group}")
}

/// Returns the reason why a Sentinel names no master.
fn reason(error: &RedisError, group: &str) -> String {
    let text = error.to_string();
    if error.kind() == ErrorKind::AuthenticationFailed {
        return format!("correct sentinel_user and sentinel_password in the URL: {text}");
    }
    match error.code() {
        Some("NOAUTH") => "it needs a password: give sentinel_password in the URL".to_owned(),
        Some(_) if text.contains("No such master") => unknown(group),
        Some(_) if text.contains("unknown command") => {
            "it is a server and no Sentinel, whose default port is 26379".to_owned()
        }
        Some(_) | None => text,
    }
}

/// Returns the client of a server.
pub(crate) fn client(
    connection: ConnectionInfo,
    root_cert: Option<Vec<u8>>,
) -> Result<Client, RedisError> {
    if root_cert.is_none() {
        return Client::open(connection);
    }
    Client::build_with_tls(connection, TlsCertificates { client_tls: None, root_cert })
}
