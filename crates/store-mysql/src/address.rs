//! The URL: the hosts, and the promises of the operator.
//!
//! For example, `mysql://u:p@h1,h2:3307/ashlar?ssl-mode=VERIFY_CA&ssl-ca=/etc/ca.pem` names two
//! hosts, whose certificates must be of that authority. If a name leads to several addresses, each
//! of them is asked on its own, because they may be different servers.
//!
//! No error contains a part of the URL, which has a password in it.

use std::net::SocketAddr;
use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use store::{HostList, StoreError, StoreErrorKind};
use tokio::net::lookup_host;
use url::Url;

/// The limit of the addresses of one name that are asked.
const ADDRESSES_MAX: usize = 16;

/// The parameter with which the operator confirms that all gateways of the volume use one node of a
/// cluster: see [`crate::standing::Standing`]. It is `yes` or `no`.
const SINGLE_WRITER: &str = "single_writer";

/// The parameter with which the operator promises that no asynchronous replica takes over, and its
/// only value.
const ASYNC_STANDBYS: (&str, &str) = ("async_standbys", "never_promoted");

/// The parameters that `sqlx` does not know.
const OURS: [&str; 2] = [SINGLE_WRITER, ASYNC_STANDBYS.0];

/// The parameters that `sqlx` reads. All others except [`OURS`] are refused.
const PARAMETERS: [&str; 9] = [
    "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey", "socket",
];

/// The servers of a URL.
pub(crate) struct Address {
    /// The options for each host. There is at least one.
    hosts: Vec<MySqlConnectOptions>,
    /// Hosts, ports and database, for messages.
    pub(crate) name: String,
    pub(crate) promises: Promises,
}

/// The promises of the operator in the URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promises {
    /// All gateways use one node of the cluster.
    pub(crate) single_writer: bool,
    /// No asynchronous replica takes over.
    pub(crate) never_promoted: bool,
}

/// One address at which a server may answer.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) options: MySqlConnectOptions,
    /// The host and port, as messages show them; also the address if the host has several.
    pub(crate) name: String,
}

impl Address {
    /// Parses a URL.
    ///
    /// Fails with `Unavailable` and the reason if the URL is malformed, has an unknown parameter or
    /// value, names no database, or has parameters that contradict its list of hosts.
    pub(crate) fn parse(url: &str) -> Result<Address, StoreError> {
        let list = HostList::parse(url).map_err(|error| wrong(&error.to_string()))?;
        let first = list.first();
        if !matches!(first.scheme(), "mysql" | "mariadb") {
            return Err(wrong("it begins with neither mysql:// nor mariadb://"));
        }
        let is_known = |name: &str| OURS.contains(&name) || PARAMETERS.contains(&name);
        if first.query_pairs().any(|(name, _)| !is_known(&name)) {
            let known = [&PARAMETERS[..], &OURS[..]].concat().join(", ");
            return Err(wrong(&format!("a parameter is none of {known}")));
        }
        let promises = promises(first)?;
        if list.urls().len() > 1 {
            if first.query_pairs().any(|(name, _)| name == "socket") {
                return Err(wrong("the parameter socket contradicts its list of hosts"));
            }
            if promises.single_writer {
                return Err(wrong(
                    "single_writer=yes contradicts its list of hosts: gateways could use \
                     different nodes",
                ));
            }
        }
        let hosts: Result<Vec<_>, StoreError> = list.urls().iter().map(options).collect();
        let hosts = hosts?;
        let Some(database) = hosts[0].get_database() else {
            return Err(wrong("it names no database"));
        };
        let names: Vec<String> = hosts.iter().map(name_of).collect();
        let name = format!("{}/{database}", names.join(","));
        Ok(Address { hosts, name, promises })
    }

    /// Returns the options for each host.
    pub(crate) fn hosts(&self) -> &[MySqlConnectOptions] {
        &self.hosts
    }
}

/// Returns each address of a host.
pub(crate) async fn endpoints(options: &MySqlConnectOptions) -> std::io::Result<Vec<Endpoint>> {
    let (host, name) = (options.get_host(), name_of(options));
    // The driver compares the name with the certificate, so it must connect by the name.
    let by_name = matches!(options.get_ssl_mode(), MySqlSslMode::VerifyIdentity);
    if by_name || options.get_socket().is_some() {
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
    let endpoint = |address: SocketAddr| Endpoint {
        options: options.clone().host(&address.ip().to_string()),
        name: if several { format!("{name} ({address})") } else { name.clone() },
    };
    Ok(found.into_iter().map(endpoint).collect())
}

/// Returns the host and port of the options.
pub(crate) fn name_of(options: &MySqlConnectOptions) -> String {
    format!("{}:{}", options.get_host(), options.get_port())
}

fn wrong(why: &str) -> StoreError {
    let doing = format!("reading the URL of the metadata store: {why}");
    StoreError::new(StoreErrorKind::Unavailable, doing)
}

fn promises(url: &Url) -> Result<Promises, StoreError> {
    let mut promises = Promises::default();
    for (name, value) in url.query_pairs() {
        if name == SINGLE_WRITER {
            promises.single_writer = match &*value {
                "yes" => true,
                "no" => false,
                _ => return Err(wrong(&format!("{SINGLE_WRITER} is neither yes nor no"))),
            };
        } else if name == ASYNC_STANDBYS.0 {
            if value != ASYNC_STANDBYS.1 {
                return Err(wrong(&format!("{name} is not {}", ASYNC_STANDBYS.1)));
            }
            promises.never_promoted = true;
        }
    }
    Ok(promises)
}

/// Returns the options for the one host of a URL.
fn options(url: &Url) -> Result<MySqlConnectOptions, StoreError> {
    let mut plain = url.clone();
    plain.set_query(None);
    let kept: Vec<_> = url.query_pairs().filter(|(name, _)| !OURS.contains(&&**name)).collect();
    if !kept.is_empty() {
        plain.query_pairs_mut().extend_pairs(kept);
    }
    let options = MySqlConnectOptions::from_str(plain.as_str())
        .map_err(|_| wrong("ssl-mode, user, password or database cannot be read"))?;
    Ok(options
        .disable_statement_logging()
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .set_names(false))
}

#[cfg(test)]
mod tests;
