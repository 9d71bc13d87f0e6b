//! The URLs of metadata stores and block stores.
//!
//! No output contains a secret of a URL. In a valid URL only the password of a database is a
//! secret, and `Display` omits it. An invalid URL can contain a secret anywhere, so errors show
//! only its scheme. For example, the error about `s3://KEY:SECRET@bucket` shows `s3:…`.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use problem::Problem;
use store::HostList;

/// The place of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetaPlace {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A database server.
    Server(ServerPlace),
    /// The memory of this process.
    Memory,
}

/// The kind of a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    Mysql,
    /// Redis or Valkey.
    Redis,
    /// etcd.
    Etcd,
}

impl ServerKind {
    /// Returns the reason why a URL of this kind and scheme cannot name several hosts, or `None` if
    /// it can.
    fn one_host_only(self, scheme: &str) -> Option<&'static str> {
        match self {
            // The engine finds the primary among them, or a member that answers.
            ServerKind::Postgres | ServerKind::Mysql | ServerKind::Etcd => None,
            ServerKind::Redis if is_of_sentinels(scheme) => None,
            ServerKind::Redis => Some(
                "a URL of this scheme names one server; redis+sentinel:// names several Sentinels, \
                 which know the master",
            ),
        }
    }
}

/// The servers of one database: one, or several of which at most one accepts writes. `Display`
/// omits the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerPlace {
    pub(crate) kind: ServerKind,
    hosts: HostList,
}

/// The place of the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlocksPlace {
    /// A directory.
    Folder(PathBuf),
    /// The memory of this process.
    Memory,
    /// A bucket.
    Bucket(BucketPlace),
}

/// A bucket behind an S3 endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketPlace {
    pub(crate) bucket: String,
    /// The prefix of every block's name, without slashes at its ends.
    pub(crate) prefix: String,
    /// `None` means AWS.
    pub(crate) endpoint: Option<String>,
    pub(crate) region: String,
}

/// The remedy for an invalid URL of a metadata store.
const META_FORMS: &str = "--meta takes sqlite:PATH, postgres://USER@HOST:PORT,…/DATABASE, \
     mysql://USER@HOST:PORT,…/DATABASE, redis://HOST:PORT/?prefix=NAME, \
     redis+sentinel://SENTINEL:PORT,…/MASTER?prefix=NAME, etcd://HOST:PORT,…/NAME or memory:";
/// The remedy for an invalid URL of a block store.
const BLOCKS_FORMS: &str = "--blocks takes file:PATH, memory: or \
     s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=REGION";

impl MetaPlace {
    /// Returns the default metadata store of a data directory.
    pub(crate) fn default_in(data_dir: &Path) -> MetaPlace {
        MetaPlace::Sqlite(data_dir.join("meta.db"))
    }

    /// Parses the URL of a metadata store.
    pub(crate) fn parse(url: &str) -> Result<MetaPlace, Problem> {
        let problem = |wrong: String| {
            Problem::new(format!("use the metadata store {}", shown(url)), wrong).remedy(META_FORMS)
        };
        let server = |kind, url: &str| match ServerPlace::parse(kind, url) {
            Ok(place) => Ok(MetaPlace::Server(place)),
            Err(wrong) => Err(problem(wrong)),
        };
        match url.split_once(':') {
            Some(("sqlite", path)) => match file_path(path) {
                Some(path) => Ok(MetaPlace::Sqlite(path)),
                None => Err(problem("the URL has no file".to_owned())),
            },
            Some(("memory", "")) => Ok(MetaPlace::Memory),
            Some(("postgres" | "postgresql", _)) => server(ServerKind::Postgres, url),
            Some(("mysql" | "mariadb", _)) => server(ServerKind::Mysql, url),
            Some(("redis" | "rediss", _)) => server(ServerKind::Redis, url),
            Some(("etcd" | "etcds", _)) => server(ServerKind::Etcd, url),
            Some((scheme, _)) if is_of_sentinels(scheme) => server(ServerKind::Redis, url),
            _ => Err(problem("the scheme is not known".to_owned())),
        }
    }
}

impl ServerPlace {
    /// Parses the URL of a database server. The error is the cause, without secrets.
    fn parse(kind: ServerKind, text: &str) -> Result<ServerPlace, String> {
        // The driver knows the scheme `mysql` only.
        let text = match (kind, text.split_once(':')) {
            (ServerKind::Mysql, Some((_, rest))) => format!("mysql:{rest}"),
            _ => text.to_owned(),
        };
        let hosts = HostList::parse(&text).map_err(|error| error.to_string())?;
        let url = hosts.first();
        if url.host_str().is_none_or(str::is_empty) {
            return Err("the URL has no host".to_owned());
        }
        if hosts.urls().len() > 1
            && let Some(why) = kind.one_host_only(url.scheme())
        {
            return Err(why.to_owned());
        }
        let has_default = match kind {
            ServerKind::Postgres | ServerKind::Mysql => false,
            ServerKind::Redis | ServerKind::Etcd => true,
        };
        let named = !url.path().trim_matches('/').is_empty();
        if !named && !has_default {
            return Err("the URL has no database".to_owned());
        }
        if !named && is_of_sentinels(url.scheme()) {
            return Err("the URL has no name of a master".to_owned());
        }
        Ok(ServerPlace { kind, hosts })
    }

    /// Returns true if Sentinels may replace the server by one that has not received all commits.
    pub(crate) fn has_sentinels(&self) -> bool {
        is_of_sentinels(self.hosts.first().scheme())
    }

    /// Returns the URL for the engine. `password` is added if the URL has none.
    pub(crate) fn url(&self, password: Option<&str>) -> Result<String, String> {
        let hosts = match (self.hosts.first().password(), password) {
            (None, Some(password)) => {
                // Engines decode what looks like an escaped byte, and `set_password` leaves it.
                let password = password.replace('%', "%25");
                self.hosts.map(|url| url.set_password(Some(&password)))
            }
            (Some(_), _) | (None, None) => Ok(self.hosts.clone()),
        };
        let hosts = hosts.map_err(|()| "a URL of this form cannot have a password".to_owned())?;
        Ok(hosts.to_text())
    }
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Drivers also accept passwords and keys as parameters, so a query with one is omitted.
        let secret = |name: &str| name.contains("password") || name.contains("key");
        let without_secrets = self.hosts.map(|url| {
            // Fails only for URLs that cannot have a password.
            let _none = url.set_password(None);
            if url.query_pairs().any(|(name, _)| secret(&name)) {
                url.set_query(None);
            }
            Ok::<(), fmt::Error>(())
        });
        f.write_str(&without_secrets?.to_text())
    }
}

impl fmt::Debug for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl BlocksPlace {
    /// Parses the URL of a block store.
    pub(crate) fn parse(url: &str) -> Result<BlocksPlace, Problem> {
        let problem = |wrong: String| {
            Problem::new(format!("use the block store {}", shown(url)), wrong).remedy(BLOCKS_FORMS)
        };
        match url.split_once(':') {
            Some(("file", path)) => match file_path(path) {
                Some(path) => Ok(BlocksPlace::Folder(path)),
                None => Err(problem("the URL has no directory".to_owned())),
            },
            Some(("memory", "")) => Ok(BlocksPlace::Memory),
            Some(("s3", _)) => BucketPlace::parse(url).map(BlocksPlace::Bucket).map_err(problem),
            _ => Err(problem("the scheme is not known".to_owned())),
        }
    }
}

impl BucketPlace {
    /// Parses the URL of a bucket. The error is the cause, without secrets.
    fn parse(text: &str) -> Result<BucketPlace, String> {
        // Before the URL is parsed, because a slash in a secret would shift the parts of the URL.
        let authority = text.strip_prefix("s3://").unwrap_or_default();
        if authority.split(['/', '?', '#']).next().is_some_and(|name| name.contains([':', '@'])) {
            return Err(NO_CREDENTIALS.to_owned());
        }
        let url = url::Url::parse(text).map_err(|error| error.to_string())?;
        let bucket = url.host_str().unwrap_or_default().to_owned();
        if bucket.is_empty() {
            return Err("the URL has no bucket".to_owned());
        }
        let prefix = url.path().trim_matches('/').to_owned();
        let (mut endpoint, mut region) = (None, "us-east-1".to_owned());
        for (name, value) in url.query_pairs() {
            match &*name {
                "endpoint" => endpoint = Some(checked_endpoint(&value)?),
                "region" => region = value.into_owned(),
                name if is_word(name) => return Err(format!("the parameter {name} is not known")),
                // The value is not shown, because it may be a secret.
                _ => return Err("a parameter is not known".to_owned()),
            }
        }
        Ok(BucketPlace { bucket, prefix, endpoint, region })
    }
}

/// Returns true if a text looks like the name of a parameter, not like a secret.
fn is_word(text: &str) -> bool {
    const WORD_BYTES_MAX: usize = 20;
    text.len() <= WORD_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-'))
}

/// The error of a URL with credentials.
const NO_CREDENTIALS: &str = "credentials do not belong in a URL: set ASHLAR_BLOCKS_ACCESS_KEY and \
     ASHLAR_BLOCKS_SECRET_KEY";

/// Returns an endpoint if it is the URL of a server without credentials and parameters. Output
/// shows it unchanged.
fn checked_endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let Some(rest) = rest else {
        return Err("the endpoint is neither http:// nor https://".to_owned());
    };
    if rest.contains('@') {
        return Err(NO_CREDENTIALS.to_owned());
    }
    if rest.contains(['?', '#']) {
        return Err("the endpoint has parameters, which are not known".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns the part of an invalid URL that errors may show: its scheme, if it is in [`SCHEMES`].
fn shown(url: &str) -> String {
    match url.split_once(':') {
        Some((scheme, _)) if SCHEMES.contains(&scheme) => format!("{scheme}:…"),
        _ => "…".to_owned(),
    }
}

/// Schemes that errors may show. Any other text before a colon may be an access key.
const SCHEMES: [&str; 17] = [
    "etcd",
    "etcds",
    "file",
    "http",
    "https",
    "mariadb",
    "memory",
    "minio",
    "mysql",
    "postgres",
    "postgresql",
    "redis",
    "redis+sentinel",
    "rediss",
    "rediss+sentinel",
    "s3",
    "sqlite",
];

/// Returns true for the schemes of a URL that names Redis Sentinels.
fn is_of_sentinels(scheme: &str) -> bool {
    matches!(scheme, "redis+sentinel" | "rediss+sentinel")
}

/// Returns the path after `sqlite:` or `file:`, which two slashes may precede. Returns `None` for
/// an empty path.
fn file_path(text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("//").unwrap_or(text);
    (!path.is_empty()).then(|| PathBuf::from(path))
}

impl fmt::Display for MetaPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetaPlace::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            MetaPlace::Server(place) => place.fmt(f),
            MetaPlace::Memory => f.write_str("memory:"),
        }
    }
}

impl fmt::Display for BlocksPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlocksPlace::Folder(path) => write!(f, "file:{}", path.display()),
            BlocksPlace::Memory => f.write_str("memory:"),
            BlocksPlace::Bucket(place) => {
                write!(f, "s3://{}/{}?", place.bucket, place.prefix)?;
                if let Some(endpoint) = &place.endpoint {
                    write!(f, "endpoint={}&", in_query(endpoint))?;
                }
                write!(f, "region={}", in_query(&place.region))
            }
        }
    }
}

/// Returns a value of a query, escaped only if necessary.
fn in_query(value: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
    if value.bytes().all(plain) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(url::form_urlencoded::byte_serialize(value.as_bytes()).collect())
}
