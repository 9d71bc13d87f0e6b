//! Where metadata and blocks live, as URLs say it.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use crate::problem::Problem;

/// Where metadata lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetaPlace {
    /// In a file.
    Sqlite(PathBuf),
    /// In this process, until it ends.
    Memory,
}

/// Where blocks live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlocksPlace {
    /// In a folder.
    Folder(PathBuf),
    /// In this process, until it ends.
    Memory,
    /// In a bucket.
    Bucket(BucketPlace),
}

/// A bucket behind an S3 endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketPlace {
    pub(crate) bucket: String,
    /// Before every block's name; without slashes at its ends.
    pub(crate) prefix: String,
    /// `None` is AWS itself.
    pub(crate) endpoint: Option<String>,
    pub(crate) region: String,
}

const META_FORMS: &str = "--meta takes sqlite:PATH or memory:";
const BLOCKS_FORMS: &str = "--blocks takes file:PATH, memory: or \
     s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=REGION";

impl MetaPlace {
    pub(crate) fn parse(url: &str) -> Result<MetaPlace, Problem> {
        let problem = |wrong: String| {
            Problem::new(format!("use the metadata store {url:?}"), wrong).remedy(META_FORMS)
        };
        match url.split_once(':') {
            Some(("sqlite", path)) => match file_path(path) {
                Some(path) => Ok(MetaPlace::Sqlite(path)),
                None => Err(problem("it names no file".to_owned())),
            },
            Some(("memory", "")) => Ok(MetaPlace::Memory),
            Some((
                scheme @ ("postgres" | "postgresql" | "mysql" | "mariadb" | "redis" | "rediss"
                | "etcd"),
                _,
            )) => Err(problem(format!("this release does not have {scheme}"))),
            _ => Err(problem("it is none that is known".to_owned())),
        }
    }
}

impl BlocksPlace {
    pub(crate) fn parse(url: &str) -> Result<BlocksPlace, Problem> {
        let problem = |wrong: String| {
            Problem::new(format!("use the block store {url:?}"), wrong).remedy(BLOCKS_FORMS)
        };
        match url.split_once(':') {
            Some(("file", path)) => match file_path(path) {
                Some(path) => Ok(BlocksPlace::Folder(path)),
                None => Err(problem("it names no folder".to_owned())),
            },
            Some(("memory", "")) => Ok(BlocksPlace::Memory),
            Some(("s3", _)) => BucketPlace::parse(url).map(BlocksPlace::Bucket).map_err(problem),
            _ => Err(problem("it is none that is known".to_owned())),
        }
    }
}

impl BucketPlace {
    fn parse(text: &str) -> Result<BucketPlace, String> {
        let url = url::Url::parse(text).map_err(|error| error.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("credentials do not belong in a URL: set ASHLAR_BLOCKS_ACCESS_KEY and \
                        ASHLAR_BLOCKS_SECRET_KEY"
                .to_owned());
        }
        let bucket = url.host_str().unwrap_or_default().to_owned();
        if bucket.is_empty() {
            return Err("it names no bucket".to_owned());
        }
        let prefix = url.path().trim_matches('/').to_owned();
        let (mut endpoint, mut region) = (None, "us-east-1".to_owned());
        for (name, value) in url.query_pairs() {
            match &*name {
                "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                    endpoint = Some(value.into_owned());
                }
                "endpoint" => {
                    return Err(format!("its endpoint {value:?} is neither http:// nor https://"));
                }
                "region" => region = value.into_owned(),
                _ => return Err(format!("its parameter {name:?} is not known")),
            }
        }
        Ok(BucketPlace { bucket, prefix, endpoint, region })
    }
}

/// The path behind `sqlite:` or `file:`, which may begin with two slashes of its own.
fn file_path(text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("//").unwrap_or(text);
    (!path.is_empty()).then(|| PathBuf::from(path))
}

impl fmt::Display for MetaPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetaPlace::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
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

/// A value as it stands in a query: as people write it if that is not ambiguous.
fn in_query(value: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
    if value.bytes().all(plain) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(url::form_urlencoded::byte_serialize(value.as_bytes()).collect())
}
