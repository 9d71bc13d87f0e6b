//! URLs with several hosts, as `postgres://user@h1,h2:5433/database`.
//!
//! The hosts of a list are the servers of one database, of which at most one accepts writes at a
//! time. Each host has a port of its own, or the engine's default port. All other parts of the URL
//! belong to every host. The URL standard has no such form, so [`HostList`] splits the text into
//! one URL for each host, which drivers can parse.
//!
//! For example, `postgres://u@h1,h2:5433/db` is the list of `postgres://u@h1/db` and
//! `postgres://u@h2:5433/db`.

use std::fmt;

use url::Url;

/// Largest number of hosts in one URL.
pub const HOSTS_MAX: usize = 16;

/// The URL of a database on one server or several: one URL for each host, in the order of the text.
/// There is at least one. `Debug` shows the hosts only, since other parts may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct HostList {
    urls: Vec<Url>,
}

/// The reason why a text is not a URL with hosts. It contains nothing of the text, which may hold a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHosts {
    /// The text has no `://`, or a part of it is malformed.
    #[error("it is no URL")]
    NoUrl,
    /// A host is empty, as in `h1,,h2`.
    #[error("a host is empty")]
    EmptyHost,
    /// There are more than [`HOSTS_MAX`] hosts.
    #[error("it names more than {HOSTS_MAX} hosts")]
    TooMany,
    /// One host with its port occurs twice.
    #[error("it names one host twice")]
    Repeated,
}

impl HostList {
    /// Parses a URL with hosts that commas separate. A URL without any host, as of a Unix socket in
    /// a parameter, is a list of that one URL.
    ///
    /// # Errors
    /// [`InvalidHosts`] says which part is wrong.
    pub fn parse(text: &str) -> Result<HostList, InvalidHosts> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidHosts::NoUrl)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let names: Vec<&str> = hosts.split(',').collect();
        if names.len() > HOSTS_MAX {
            return Err(InvalidHosts::TooMany);
        }
        if names.len() > 1 && names.iter().any(|name| name.is_empty()) {
            return Err(InvalidHosts::EmptyHost);
        }
        let parse = |name: &&str| Url::parse(&format!("{scheme}://{user}{name}{tail}"));
        let urls: Result<Vec<Url>, _> = names.iter().map(parse).collect();
        let urls = urls.map_err(|_| InvalidHosts::NoUrl)?;
        let is_repeated = |index: usize| urls[..index].contains(&urls[index]);
        if (1..urls.len()).any(is_repeated) {
            return Err(InvalidHosts::Repeated);
        }
        Ok(HostList { urls })
    }

    /// Returns one URL for each host, in the order of the text. They differ in host and port only.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// Returns the URL of the first host, for the parts that all hosts share: user, password, path
    /// and parameters.
    pub fn first(&self) -> &Url {
        &self.urls[0]
    }

    /// Returns the hosts with their ports, as `h1,h2:5433`. Contains no secret.
    pub fn hosts(&self) -> String {
        let host = |url: &Url| match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        self.urls.iter().map(host).collect::<Vec<_>>().join(",")
    }

    /// Returns the same list after a change of each URL, which must not change the host.
    ///
    /// # Errors
    /// Returns the error of `change` for the first URL that refuses it.
    pub fn map<E>(&self, change: impl Fn(&mut Url) -> Result<(), E>) -> Result<HostList, E> {
        let mut list = self.clone();
        for url in &mut list.urls {
            change(url)?;
        }
        Ok(list)
    }

    /// Returns the text of the whole list, with the password if there is one: a secret.
    pub fn to_text(&self) -> String {
        let first = self.first();
        let (scheme, user) = (first.scheme(), first.username());
        let user = match first.password() {
            Some(password) => format!("{user}:{password}@"),
            None if user.is_empty() => String::new(),
            None => format!("{user}@"),
        };
        let tail = &first[url::Position::BeforePath..];
        format!("{scheme}://{user}{}{tail}", self.hosts())
    }
}

impl fmt::Debug for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostList").field(&self.hosts()).finish()
    }
}

#[cfg(test)]
mod tests;
