//! The URL: the server, the way of connecting, and the volume's name on the server.
//!
//! For example, `rediss://db.example:6380/?prefix=prod` is the volume `prod`, over TLS, and
//! `redis+sentinel://s1,s2,s3/main?prefix=prod` is the same volume at the master of the group
//! `main`.

use std::fmt;
use std::sync::Arc;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError,
};
use store::{HostList, StoreError, StoreErrorKind};
use url::Url;

use crate::sentinel::{self, SENTINEL_PORT, Sentinels, Server, Trust};

/// The name of a volume whose URL has no `prefix`.
const DEFAULT_NAME: &str = "ashlar";

/// Limit of the bytes of a volume's name.
const NAME_BYTES_MAX: usize = 64;

/// The location of a volume.
pub(crate) struct Address {
    pub(crate) route: Route,
    /// The first bytes of all keys of the volume: a hash tag in braces, so that a server would keep
    /// all of them in one hash slot, and a colon.
    pub(crate) prefix: String,
}

/// The way to the server.
pub(crate) enum Route {
    /// The URL has the address of the server.
    Server(Box<Client>),
    /// Sentinels know the address of the server.
    Sentinels(Arc<Sentinels>),
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Server(client) => write!(f, "{}", client.get_connection_info().addr()),
            Route::Sentinels(sentinels) => sentinels.fmt(f),
        }
    }
}

impl Route {
    /// Returns the client that connects to the present server. With Sentinels, also returns the
    /// trust in that server.
    pub(crate) async fn server(&self, doing: &str) -> Result<(Client, Option<Trust>), StoreError> {
        match self {
            Route::Server(client) => Ok((Client::clone(client), None)),
            Route::Sentinels(sentinels) => {
                let (client, trust) = sentinels.master(doing).await?;
                Ok((client, Some(trust)))
            }
        }
    }
}

/// The parameters of a URL.
struct Parameters {
    /// The volume's name.
    name: String,
    /// The file with the authorities of certificates.
    authorities: Option<String>,
    /// The parameters that the driver knows.
    driver: Vec<(String, String)>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
    sentinel_tls: Option<bool>,
}

/// Parses a URL.
pub(crate) fn parse(text: &str) -> Result<Address, StoreError> {
    let hosts = HostList::parse(text).map_err(|why| malformed(&why.to_string()))?;
    let url = hosts.first();
    if url.fragment().is_some() {
        return Err(malformed("it has a fragment; TLS without verification is not offered"));
    }
    let parameters = parameters(url)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let name = &parameters.name;
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(malformed("a prefix has 1 to 64 letters, digits, '.', '_' and '-'"));
    }
    let prefix = format!("{{{name}}}:");
    let route = match url.scheme() {
        "redis+sentinel" => by_sentinels(&hosts, parameters, "redis")?,
        "rediss+sentinel" => by_sentinels(&hosts, parameters, "rediss")?,
        _ => Route::Server(Box::new(one_server(&hosts, parameters)?)),
    };
    Ok(Address { route, prefix })
}

fn parameters(url: &Url) -> Result<Parameters, StoreError> {
    let is_sentinel = url.scheme().ends_with("+sentinel");
    let mut found = Parameters {
        name: DEFAULT_NAME.to_owned(),
        authorities: None,
        driver: Vec::new(),
        sentinel_user: None,
        sentinel_password: None,
        sentinel_tls: None,
    };
    for (parameter, value) in url.query_pairs() {
        let value = value.into_owned();
        match &*parameter {
            "prefix" => found.name = value,
            "ca" => found.authorities = Some(value),
            "db" | "user" | "pass" if !is_sentinel => {
                found.driver.push((parameter.into_owned(), value));
            }
            "sentinel_user" if is_sentinel => found.sentinel_user = Some(value),
            "sentinel_password" if is_sentinel => found.sentinel_password = Some(value),
            "sentinel_tls" if is_sentinel => {
                found.sentinel_tls = Some(match &*value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(malformed("sentinel_tls is yes or no")),
                });
            }
            // Without the value, which may be a secret.
            unknown => {
                let why = format!("it has the parameter {unknown:?}, which means nothing here");
                return Err(malformed(&why));
            }
        }
    }
    Ok(found)
}

fn one_server(hosts: &HostList, parameters: Parameters) -> Result<Client, StoreError> {
    let mut url = match hosts.urls() {
        [url] => url.clone(),
        _ => {
            return Err(malformed(
                "it names several hosts; if these are a master and its replicas, give the Sentinels \
                 that watch them: redis+sentinel://SENTINEL1,SENTINEL2,SENTINEL3/MASTER",
            ));
        }
    };
    url.set_query(None);
    if !parameters.driver.is_empty() {
        url.query_pairs_mut().extend_pairs(parameters.driver);
    }
    let root_cert = root_cert(parameters.authorities)?;
    sentinel::client(connection(url)?, root_cert).map_err(unreadable)
}

/// Returns the route by Sentinels, of a URL whose servers have URLs of this scheme.
fn by_sentinels(
    hosts: &HostList,
    parameters: Parameters,
    scheme: &str,
) -> Result<Route, StoreError> {
    let url = hosts.first();
    let path: Vec<&str> = url.path().trim_matches('/').split('/').collect();
    let (group, database) = match path[..] {
        [group] => (group, "0"),
        [group, database] => (group, database),
        _ => ("", ""),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if group.is_empty() || !group.bytes().all(allowed) {
        return Err(malformed(
            "a URL of Sentinels is redis+sentinel://SENTINEL1,SENTINEL2,SENTINEL3/MASTER/DB, where \
             MASTER is the name of the master at the Sentinels",
        ));
    }
    let mut server = url.clone();
    with_scheme(&mut server, scheme)?;
    server.set_path(&format!("/{database}"));
    server.set_query(None);
    let authorities = root_cert(parameters.authorities)?;
    // The driver refuses authorities of a connection without TLS.
    let of_tls = |scheme: &str| authorities.clone().filter(|_| scheme == "rediss");
    let root_cert = of_tls(scheme);
    let is_tls = parameters.sentinel_tls.unwrap_or(scheme == "rediss");
    let scheme = if is_tls { "rediss" } else { "redis" };
    let mut login = RedisConnectionInfo::default();
    if let Some(user) = parameters.sentinel_user {
        login = login.set_username(user);
    }
    if let Some(password) = parameters.sentinel_password {
        login = login.set_password(password);
    }
    let mut sentinels: Vec<(String, Client)> = Vec::new();
    for url in hosts.urls() {
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| malformed("it names no Sentinel"))?;
        let name = format!("{host}:{}", url.port().unwrap_or(SENTINEL_PORT));
        if sentinels.iter().any(|(other, _)| *other == name) {
            return Err(malformed("it names one Sentinel twice"));
        }
        let connection = format!("{scheme}://{name}/").into_connection_info();
        let connection = connection.map_err(unreadable)?.set_redis_settings(login.clone());
        let client = sentinel::client(connection, of_tls(scheme)).map_err(unreadable)?;
        sentinels.push((name, client));
    }
    let server = Server { template: connection(server)?, root_cert };
    Ok(Route::Sentinels(Arc::new(Sentinels::new(group.to_owned(), sentinels, server))))
}

fn with_scheme(url: &mut Url, scheme: &str) -> Result<(), StoreError> {
    url.set_scheme(scheme).map_err(|()| malformed("its scheme is not known"))
}

/// Returns the connection to a server.
fn connection(url: Url) -> Result<ConnectionInfo, StoreError> {
    let connection = url.into_connection_info().map_err(unreadable)?;
    // Only version 3 of the protocol reports the end of a connection.
    let session = connection.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Ok(connection
        .set_redis_settings(session)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

/// Reads the certificates of the authorities.
fn root_cert(path: Option<String>) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(path) = path else { return Ok(None) };
    let certificates = std::fs::read(&path).map_err(|error| {
        let doing = format!("reading the certificates in {path}");
        StoreError::because(StoreErrorKind::Unavailable, doing, error)
    })?;
    Ok(Some(certificates))
}

fn unreadable(error: RedisError) -> StoreError {
    let doing = "reading the URL of the metadata store";
    StoreError::because(StoreErrorKind::Malformed, doing, error)
}

fn malformed(why: &str) -> StoreError {
    let doing = format!("reading the URL of the metadata store: {why}");
    StoreError::new(StoreErrorKind::Malformed, doing)
}

#[cfg(test)]
mod tests;
