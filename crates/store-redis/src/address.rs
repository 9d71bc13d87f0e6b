//! The URL: the server, the way of connecting, and the volume's name on the server.
//!
//! For example, `rediss://db.example:6380/?prefix=prod` is the volume `prod`, over TLS.

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError, TlsCertificates,
};
use store::{StoreError, StoreErrorKind};
use url::Url;

/// The name of a volume whose URL has no `prefix`.
const DEFAULT_NAME: &str = "ashlar";

/// Limit of the bytes of a volume's name.
const NAME_BYTES_MAX: usize = 64;

/// The location of a volume.
pub(crate) struct Address {
    pub(crate) client: Client,
    /// The first bytes of all keys of the volume: a hash tag in braces, so that a server would keep
    /// all of them in one hash slot, and a colon.
    pub(crate) prefix: String,
}

/// Parses a URL.
pub(crate) fn parse(url: &str) -> Result<Address, StoreError> {
    let mut url = Url::parse(url).map_err(|_| malformed("it is no URL"))?;
    if url.fragment().is_some() {
        return Err(malformed("it has a fragment; TLS without verification is not offered"));
    }
    let (mut name, mut authorities) = (DEFAULT_NAME.to_owned(), None);
    let mut others = Vec::new();
    for (parameter, value) in url.query_pairs() {
        match &*parameter {
            "prefix" => name = value.into_owned(),
            "ca" => authorities = Some(value.into_owned()),
            "db" | "user" | "pass" => others.push((parameter.into_owned(), value.into_owned())),
            _ => return Err(malformed("it has a parameter that means nothing here")),
        }
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(malformed("a prefix has 1 to 64 letters, digits, '.', '_' and '-'"));
    }
    url.set_query(None);
    if !others.is_empty() {
        url.query_pairs_mut().extend_pairs(others);
    }
    Ok(Address { client: client(url, authorities)?, prefix: format!("{{{name}}}:") })
}

fn client(url: Url, authorities: Option<String>) -> Result<Client, StoreError> {
    let unreadable = |error: RedisError| {
        let doing = "reading the URL of the metadata store";
        StoreError::because(StoreErrorKind::Malformed, doing, error)
    };
    let connection: ConnectionInfo = url.into_connection_info().map_err(unreadable)?;
    // Only version 3 of the protocol reports the end of a connection.
    let session = connection.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let connection = connection
        .set_redis_settings(session)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let Some(path) = authorities else { return Client::open(connection).map_err(unreadable) };
    let root_cert = std::fs::read(&path).map_err(|error| {
        let doing = format!("reading the certificates in {path}");
        StoreError::because(StoreErrorKind::Unavailable, doing, error)
    })?;
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(root_cert) };
    Client::build_with_tls(connection, certificates).map_err(unreadable)
}

fn malformed(why: &str) -> StoreError {
    let doing = format!("reading the URL of the metadata store: {why}");
    StoreError::new(StoreErrorKind::Malformed, doing)
}

#[cfg(test)]
mod tests;
