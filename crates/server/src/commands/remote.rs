//! Administrative commands over the API of a gateway instead of the metadata store.
//!
//! The output of a command is the same in both forms: this module turns the JSON of the API into
//! the values of `admin`, and the commands print them. For example, a user of `GET /users` becomes
//! an [`AccessKey`], and `ashlar user list` prints its row. Messages of errors are those of the
//! API, with the id of the request.
//!
//! A command that needs the store itself is refused before it opens anything: see `cli`.

mod accounts;
mod buckets;
mod groups;
mod jobs;
mod keys;
mod policies;
mod tokens;
mod trash;
mod users;

use admin::{AccessKey, Etag};
use problem::Problem;
use record::{AccountId, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(crate) use accounts::run as account;
pub(crate) use buckets::run as bucket;
pub(crate) use groups::run as group;
pub(crate) use jobs::run as job;
pub(crate) use keys::run as key;
pub(crate) use policies::run as policy;
pub(crate) use tokens::run as token;
pub(crate) use trash::run as trash;
pub(crate) use users::run as user;

/// An empty response.
type Nothing = Value;

/// A user, a key or a token of the API. Each has some of the fields.
#[derive(Debug, Deserialize)]
struct KeyDocument {
    #[serde(alias = "name")]
    access_key: String,
    user: Option<String>,
    #[serde(default)]
    account: String,
    enabled: bool,
    description: String,
    created: String,
    expires: Option<String>,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
    #[serde(default)]
    umask: String,
    #[serde(default)]
    policies: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    last_used: Option<String>,
    actions: Option<Vec<String>>,
}

impl KeyDocument {
    /// Returns the key as `admin` does. Its etag is unknown, so it has a value that fits no record.
    fn access_key(self) -> Result<AccessKey, Problem> {
        let unknown: Result<Etag, _> = "0".repeat(32).parse();
        let account: u64 = self.account.parse().unwrap_or(AccountId::MAIN.0);
        Ok(AccessKey {
            access_key: self.access_key,
            account: AccountId(account),
            enabled: self.enabled,
            uid: self.uid,
            gid: self.gid,
            umask: u32::from_str_radix(&self.umask, 8).unwrap_or_default(),
            policies: self.policies,
            parent: self.user,
            description: self.description,
            made: moment(&self.created)?,
            expires: self.expires.as_deref().map(moment).transpose()?,
            actions: self.actions,
            keys: self.keys,
            groups: self.groups,
            last_used: self.last_used.as_deref().map(moment).transpose()?,
            etag: unknown.map_err(|error| Problem::new("read an answer", error))?,
        })
    }
}

/// Returns keys as `admin` does.
fn access_keys(found: Vec<KeyDocument>) -> Result<Vec<AccessKey>, Problem> {
    found.into_iter().map(KeyDocument::access_key).collect()
}

/// A new key with its secret.
#[derive(Deserialize)]
struct IssuedDocument {
    access_key: String,
    secret: String,
    expires: Option<String>,
}

/// Parses a time of the API.
fn moment(text: &str) -> Result<Timestamp, Problem> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok();
    let nanoseconds = parsed.and_then(|time| i64::try_from(time.unix_timestamp_nanos()).ok());
    let wrong = || Problem::new("read an answer of the gateway", format!("{text:?} is no time"));
    nanoseconds.map(Timestamp).ok_or_else(wrong)
}

/// Returns a time in the form of the API.
fn text(at: Timestamp) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(at.0.into()).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
