//! The declarations as values: the fields of the bootstrap file.
//!
//! For example, `[[bucket]]` with `name = "photos"` becomes a [`Bucket`] whose place is
//! `line 3 of boot.toml`.

use std::fmt;
use std::path::PathBuf;

use adminapi::resources::buckets::VersioningState;
use adminapi::resources::public::AnonymousAccess;
use identity::Secret;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toml::Spanned;

use crate::config::Size;

/// All declarations of one file, checked.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) policies: Vec<NamedPolicy>,
    pub(super) users: Vec<User>,
    pub(super) groups: Vec<Group>,
    pub(super) buckets: Vec<Bucket>,
}

/// A value with its place in the sources, for error texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed<T> {
    /// For example `line 3 of boot.toml`.
    pub(super) place: String,
    pub(super) value: T,
}

/// A policy for users and groups.
#[derive(Debug)]
pub(super) struct NamedPolicy {
    pub(super) name: Placed<String>,
    /// The document, in the JSON of AWS.
    pub(super) document: Placed<Value>,
}

/// A user.
#[derive(Debug)]
pub(super) struct User {
    pub(super) name: Placed<String>,
    pub(super) secret: Secret,
    pub(super) fields: UserFields,
}

/// The optional fields of a user. A field that is absent stays.
#[derive(Debug, Default)]
pub(super) struct UserFields {
    pub(super) account: Option<String>,
    pub(super) policies: Option<Vec<String>>,
    pub(super) enabled: Option<bool>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) umask: Option<String>,
}

/// A group of users.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Placed<String>,
    pub(super) policies: Option<Vec<String>>,
    pub(super) enabled: Option<bool>,
    /// The users that are members at least. Other members stay.
    pub(super) members: Vec<String>,
}

/// A bucket. A field that is absent stays.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) name: Placed<String>,
    pub(super) versioning: Option<VersioningState>,
    pub(super) object_lock: bool,
    pub(super) quota_bytes: Option<Size>,
    pub(super) quota_objects: Option<u64>,
    pub(super) trash_days: Option<u32>,
    pub(super) public: Option<AnonymousAccess>,
    pub(super) retention: Option<Placed<Value>>,
    pub(super) policy: Option<Placed<Value>>,
    pub(super) lifecycle: Option<Placed<Value>>,
    pub(super) cors: Option<Placed<Value>>,
    pub(super) tags: Option<Placed<Value>>,
}

impl Bucket {
    /// Returns the declaration of a bucket without settings.
    pub(super) fn named(name: Placed<String>) -> Bucket {
        Bucket {
            name,
            versioning: None,
            object_lock: false,
            quota_bytes: None,
            quota_objects: None,
            trash_days: None,
            public: None,
            retention: None,
            policy: None,
            lifecycle: None,
            cors: None,
            tags: None,
        }
    }
}

/// The bootstrap file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(default, rename = "policy")]
    pub(super) policies: Vec<WrittenPolicy>,
    #[serde(default, rename = "user")]
    pub(super) users: Vec<WrittenUser>,
    #[serde(default, rename = "group")]
    pub(super) groups: Vec<WrittenGroup>,
    #[serde(default, rename = "bucket")]
    pub(super) buckets: Vec<WrittenBucket>,
}

/// A table `[[policy]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPolicy {
    pub(super) name: Spanned<String>,
    pub(super) document: Spanned<Value>,
}

/// A table `[[user]]`. It names its secret in one of three ways.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenUser {
    pub(super) name: Spanned<String>,
    pub(super) secret_env: Option<String>,
    pub(super) secret_file: Option<PathBuf>,
    pub(super) secret: Option<WrittenSecret>,
    pub(super) account: Option<String>,
    pub(super) policies: Option<Vec<String>>,
    pub(super) enabled: Option<bool>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) umask: Option<String>,
}

/// The field `secret`. Errors of the parser repeat a value of a wrong type, and logs have them. So
/// each type is accepted here, and `source` refuses all but texts.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum WrittenSecret {
    Text(String),
    Other(IgnoredAny),
}

impl fmt::Debug for WrittenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrittenSecret(…)")
    }
}

/// A table `[[group]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenGroup {
    pub(super) name: Spanned<String>,
    pub(super) policies: Option<Vec<String>>,
    pub(super) enabled: Option<bool>,
    #[serde(default)]
    pub(super) members: Vec<String>,
}

/// A table `[[bucket]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenBucket {
    pub(super) name: Spanned<String>,
    pub(super) versioning: Option<Spanned<VersioningState>>,
    #[serde(default)]
    pub(super) object_lock: bool,
    pub(super) quota_bytes: Option<Size>,
    pub(super) quota_objects: Option<u64>,
    pub(super) trash_days: Option<u32>,
    pub(super) public: Option<Spanned<AnonymousAccess>>,
    pub(super) retention: Option<Spanned<Value>>,
    pub(super) policy: Option<Spanned<Value>>,
    pub(super) lifecycle: Option<Spanned<Value>>,
    pub(super) cors: Option<Spanned<Value>>,
    pub(super) tags: Option<Spanned<Value>>,
}
