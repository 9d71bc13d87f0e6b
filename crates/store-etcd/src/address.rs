//! URLs of a store in etcd.
//!
//! `etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME` names the members of one cluster, and `etcds://`
//! uses TLS. The default port is 2379. NAME begins all keys of the store: 1 to 64 letters, digits,
//! `.`, `_` and `-`, by default `ashlar`.
//!
//! Parameters: `cacert`, the path of a PEM file with the authorities of the members' certificates,
//! by default those of the system; `cert` and `key`, PEM files with the certificate and the key of
//! this client; `quota`, the members' `--quota-backend-bytes`, such as `8GiB`, so that the log
//! warns before the database is full (default 2 GiB, as etcd's).

use std::fmt;
use std::fs;

use bytesize::ByteSize;
use percent_encoding::percent_decode_str;
use store::{HostList, StoreError, StoreErrorKind};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use url::Url;

/// The default port of a member.
const PORT: u16 = 2_379;

/// The default name of a store.
const NAME: &str = "ashlar";

/// Largest length of a name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The default of a member's `--quota-backend-bytes`: 2 GiB.
const QUOTA_BYTES: u64 = 2 << 30;

/// Name and password of a user.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) name: String,
    pub(crate) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The parts of a URL.
pub(crate) struct Address {
    /// The URL of each member as gRPC takes it, `http://HOST:PORT` or `https://HOST:PORT`.
    pub(crate) members: Vec<String>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) name: String,
    pub(crate) tls: Option<ClientTlsConfig>,
    /// Bytes that the database of a member may have.
    pub(crate) quota: u64,
}

/// Leaves out the key of the client's certificate, which the settings of TLS would print.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("Address");
        parts.field("members", &self.members).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Parses a URL. Errors contain no password and no value of a parameter except paths.
pub(crate) fn parse(url: &str) -> Result<Address, StoreError> {
    let list = HostList::parse(url).map_err(|why| wrong(&why.to_string()))?;
    let first = list.first();
    let with_tls = match first.scheme() {
        "etcd" => false,
        "etcds" => true,
        _ => return Err(wrong("it must begin with etcd:// or etcds://")),
    };
    let scheme = if with_tls { "https" } else { "http" };
    let member = |url: &Url| {
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("it names no host"))?;
        Ok(format!("{scheme}://{host}:{}", url.port().unwrap_or(PORT)))
    };
    let members = list.urls().iter().map(member).collect::<Result<_, StoreError>>()?;
    let (mut ca, mut cert, mut key, mut quota) = (None, None, None, QUOTA_BYTES);
    for (name, value) in first.query_pairs() {
        match &*name {
            "cacert" => ca = Some(value.into_owned()),
            "cert" => cert = Some(value.into_owned()),
            "key" => key = Some(value.into_owned()),
            "quota" => {
                let size = value.parse::<ByteSize>().ok().filter(|size| size.as_u64() > 0);
                quota = size.ok_or_else(|| wrong("quota is not a size such as 8GiB"))?.as_u64();
            }
            _ => return Err(wrong("it has a parameter that is not known")),
        }
    }
    let tls = match (with_tls, &ca, &cert, &key) {
        (true, ..) => Some(tls(ca.as_deref(), cert.as_deref(), key.as_deref())?),
        (false, None, None, None) => None,
        (false, ..) => return Err(wrong("cacert, cert and key need etcds://")),
    };
    Ok(Address { members, credentials: credentials(first)?, name: name(first)?, tls, quota })
}

fn name(url: &Url) -> Result<String, StoreError> {
    let name = match url.path().trim_matches('/') {
        "" => NAME,
        name => name,
    };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(is_word) {
        return Err(wrong(
            "the name has other bytes than letters, digits, `.`, `_` and `-`, or more \
                          than 64",
        ));
    }
    Ok(name.to_owned())
}

fn credentials(url: &Url) -> Result<Option<Credentials>, StoreError> {
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| wrong("user or password is not UTF-8"))
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err(wrong("it has a password and no user")),
        (_, None) => Err(wrong("it has a user and no password")),
        (name, Some(password)) => {
            Ok(Some(Credentials { name: decode(name)?, password: decode(password)? }))
        }
    }
}

fn tls(
    ca: Option<&str>,
    cert: Option<&str>,
    key: Option<&str>,
) -> Result<ClientTlsConfig, StoreError> {
    let read = |path: &str| {
        fs::read(path).map_err(|error| wrong(&format!("{path:?} cannot be read: {error}")))
    };
    let config = ClientTlsConfig::new();
    let config = match ca {
        Some(path) => config.ca_certificate(Certificate::from_pem(read(path)?)),
        None => config.with_native_roots(),
    };
    match (cert, key) {
        (None, None) => Ok(config),
        (Some(cert), Some(key)) => Ok(config.identity(Identity::from_pem(read(cert)?, read(key)?))),
        (Some(_), None) | (None, Some(_)) => Err(wrong("cert and key belong together")),
    }
}

fn wrong(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Malformed, format!("reading the URL of an etcd store: {why}"))
}

#[cfg(test)]
mod tests;
