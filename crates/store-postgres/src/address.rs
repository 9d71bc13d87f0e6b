//! The URL: the hosts, and the settings of each session.
//!
//! For example, `postgres://u@h1,h2:5433/db?sslmode=require` names two hosts. If a name leads to
//! several addresses, each of them is asked for itself, because they may be different servers.
//!
//! Errors and logs contain only the hosts, ports and database of the URL.

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use store::{HostList, StoreError};
use tokio::net::lookup_host;
use url::Url;

use crate::error::unavailable;

/// How long a statement waits for a lock. A commit that fails with this has certainly not happened.
pub(crate) const LOCK_TIMEOUT: &str = "2s";

/// Limit of the time of a statement at the server. The client waits longer, so that the server
/// reports the outcome.
const STATEMENT_TIMEOUT: &str = "8s";

/// Prepared statements that a connection caches; there are about a dozen.
const STATEMENTS_CACHED: usize = 64;

/// Largest number of addresses of one name that are asked.
const ADDRESSES_MAX: usize = 16;

/// The default port of PostgreSQL.
const PORT: u16 = 5432;

/// The parameter with which the operator promises that no asynchronous standby takes over, and its
/// only value. The driver does not know it.
const ASYNC_STANDBYS: (&str, &str) = ("async_standbys", "never_promoted");

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

/// Parameters that a URL may have, in addition to [`ASYNC_STANDBYS`].
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

/// The servers of a URL.
pub(crate) struct Address {
    /// The options for each host. There is at least one.
    hosts: Vec<PgConnectOptions>,
    /// Hosts, ports and database, for messages.
    pub(crate) name: String,
    /// True if the operator promises that no asynchronous standby takes over.
    pub(crate) never_promoted: bool,
}

/// One address at which a server may answer.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) options: PgConnectOptions,
    /// The host and port, as messages show them; also the address if the host has several.
    pub(crate) name: String,
}

impl Address {
    /// Parses a URL. Errors name parameters, and contain nothing else of the URL.
    pub(crate) fn parse(url: &str) -> Result<Address, StoreError> {
        let list = HostList::parse(url).map_err(|error| wrong(&error.to_string()))?;
        let first = list.first();
        if !matches!(first.scheme(), "postgres" | "postgresql") {
            return Err(wrong("it must begin with postgres://"));
        }
        let never_promoted = promise(first)?;
        check_parameters(first)?;
        let has = |name: &str| has(first, name);
        if list.urls().len() > 1
            && let Some(name) = ["host", "port"].into_iter().find(|name| has(name))
        {
            return Err(wrong(&format!("the parameter {name} contradicts its list of hosts")));
        }
        // Otherwise the driver would take the missing parts from the environment of this process.
        if first.username().is_empty() && !has("user") {
            return Err(wrong("it names no user"));
        }
        if first.path().trim_matches('/').is_empty() && !has("dbname") {
            return Err(wrong("it names no database"));
        }
        if first.host_str().is_none_or(str::is_empty) && !has("host") {
            return Err(wrong("it names no host"));
        }
        let hosts: Result<Vec<_>, StoreError> = list.urls().iter().map(options).collect();
        let hosts = hosts?;
        let names: Vec<String> = hosts.iter().map(name_of).collect();
        let database = hosts[0].get_database().unwrap_or_default();
        let name = format!("{}/{database}", names.join(","));
        Ok(Address { hosts, name, never_promoted })
    }

    /// Returns the options for each host.
    pub(crate) fn hosts(&self) -> &[PgConnectOptions] {
        &self.hosts
    }
}

/// Returns each address of a host.
pub(crate) async fn endpoints(options: &PgConnectOptions) -> std::io::Result<Vec<Endpoint>> {
    let (host, name) = (options.get_host(), name_of(options));
    // The driver compares the name with the certificate, so it must connect by the name.
    if options.get_socket().is_some() || matches!(options.get_ssl_mode(), PgSslMode::VerifyFull) {
        return Ok(vec![Endpoint { options: options.clone(), name }]);
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = Vec::new();
    for address in lookup_host((host, options.get_port())).await?.take(ADDRESSES_MAX) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    let several = found.len() > 1;
    let endpoint = |address: std::net::SocketAddr| Endpoint {
        options: options.clone().host(&address.ip().to_string()),
        name: if several { format!("{name} ({address})") } else { name.clone() },
    };
    Ok(found.into_iter().map(endpoint).collect())
}

/// Returns the host and port of the options.
pub(crate) fn name_of(options: &PgConnectOptions) -> String {
    format!("{}:{}", options.get_host(), options.get_port())
}

fn wrong(why: &str) -> StoreError {
    unavailable(format!("reading the URL of a PostgreSQL database: {why}"))
}

/// Returns true if a parameter has a value.
fn has(url: &Url, name: &str) -> bool {
    url.query_pairs().any(|(key, value)| key == name && !value.is_empty())
}

/// Returns true if the URL has the promise about asynchronous standbys.
fn promise(url: &Url) -> Result<bool, StoreError> {
    let (name, only) = ASYNC_STANDBYS;
    let mut found = false;
    for (_, value) in url.query_pairs().filter(|(key, _)| key == name) {
        if value != only {
            return Err(wrong(&format!("{name} is not {only}")));
        }
        found = true;
    }
    Ok(found)
}

fn check_parameters(url: &Url) -> Result<(), StoreError> {
    for (key, _) in url.query_pairs() {
        // The driver would log an unknown parameter with its value, which may be a secret.
        let known = PARAMETERS.contains(&&*key) || key == ASYNC_STANDBYS.0;
        if !known && !key.starts_with("options[") {
            return Err(wrong(&format!("there is no parameter {key:?}")));
        }
    }
    Ok(())
}

/// Returns the options for the one host of a URL.
fn options(url: &Url) -> Result<PgConnectOptions, StoreError> {
    let mut plain = url.clone();
    plain.set_query(None);
    let kept: Vec<_> = url.query_pairs().filter(|(key, _)| key != ASYNC_STANDBYS.0).collect();
    if !kept.is_empty() {
        plain.query_pairs_mut().extend_pairs(kept);
    }
    let mut options =
        PgConnectOptions::from_url(&plain).map_err(|_| wrong("a part of it cannot be read"))?;
    if !has(url, "sslmode") {
        options = options.ssl_mode(PgSslMode::Prefer);
    }
    if url.port().is_none() && !has(url, "port") {
        options = options.port(PORT);
    }
    if !has(url, "application_name") {
        options = options.application_name("ashlar");
    }
    Ok(options
        .options(SETTINGS.iter().copied())
        .statement_cache_capacity(STATEMENTS_CACHED)
        .disable_statement_logging())
}

#[cfg(test)]
mod tests;
