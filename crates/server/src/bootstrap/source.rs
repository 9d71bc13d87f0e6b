//! The bootstrap file: TOML becomes checked declarations.
//!
//! A document of a bucket, such as its lifecycle, is a table with the names of the AWS CLI, or a
//! text with its JSON. For example, `tags = { team = "lab" }` is the tag set with one tag. Secrets
//! come from the environment or from files of their own; the field `secret` is for tests.

use std::io::Read;
use std::path::Path;

use adminapi::resources::buckets::VersioningState;
use adminapi::resources::public::AnonymousAccess;
use identity::Secret;
use problem::{Cause, Problem};
use serde_json::{Map, Value, json};
use toml::Spanned;

use super::document::{
    Bucket, Document, Group, NamedPolicy, Placed, User, UserFields, Written, WrittenBucket,
    WrittenSecret, WrittenUser,
};
use crate::environment::{secret_file, variable};
use crate::private;

/// The limit of a bootstrap file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads a bootstrap file and the secrets that it names.
pub(super) fn read(path: &Path) -> Result<Document, Problem> {
    let doing = || format!("read the bootstrap file {}", path.display());
    let problem = |wrong: &dyn std::fmt::Display| {
        Problem::new(doing(), wrong)
            .remedy("--bootstrap (ASHLAR_BOOTSTRAP) must be a TOML file that this user can read")
            .because(Cause::Settings)
    };
    let file = std::fs::File::open(path).map_err(|error| problem(&error))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| problem(&error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(problem(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let document = parse(&text, &path.display().to_string()).map_err(|wrong| {
        Problem::new(doing(), wrong)
            .remedy("docs/OPERATING.md lists the fields of the file")
            .because(Cause::Settings)
    })?;
    Ok(document)
}

/// Parses a bootstrap file. `file` is its name for error texts. The error is one line with the
/// number of the wrong line.
pub(super) fn parse(text: &str, file: &str) -> Result<Document, String> {
    let lines = Lines { text, file };
    let written: Written = toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| lines.number(span.start));
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    if written.users.iter().any(|user| user.secret.is_some()) {
        // The file is a file with a secret then.
        private::given(Path::new(file)).map_err(|problem| problem.to_string())?;
    }
    let Written { policies, users, groups, buckets } = written;
    let policies = policies.into_iter().map(|policy| {
        let name = lines.placed(policy.name);
        Ok(NamedPolicy { name, document: lines.json(policy.document)? })
    });
    let groups = groups.into_iter().map(|group| {
        let (policies, enabled, members) = (group.policies, group.enabled, group.members);
        Group { name: lines.placed(group.name), policies, enabled, members }
    });
    let document = Document {
        policies: policies.collect::<Result<_, String>>()?,
        users: users.into_iter().map(|user| lines.user(user)).collect::<Result<_, _>>()?,
        groups: groups.collect(),
        buckets: buckets
            .into_iter()
            .map(|bucket| lines.bucket(bucket))
            .collect::<Result<_, _>>()?,
    };
    check_unique("policy", document.policies.iter().map(|policy| &policy.name))?;
    check_unique("user", document.users.iter().map(|user| &user.name))?;
    check_unique("group", document.groups.iter().map(|group| &group.name))?;
    check_unique("bucket", document.buckets.iter().map(|bucket| &bucket.name))?;
    Ok(document)
}

/// The text of the file, for the numbers of its lines.
struct Lines<'a> {
    text: &'a str,
    file: &'a str,
}

impl Lines<'_> {
    /// Returns the number of the line with the byte at `offset`.
    fn number(&self, offset: usize) -> usize {
        self.text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
    }

    fn placed<T>(&self, spanned: Spanned<T>) -> Placed<T> {
        let line = self.number(spanned.span().start);
        Placed { place: format!("line {line} of {}", self.file), value: spanned.into_inner() }
    }

    /// Returns a document: a table as it is, or the JSON in a text.
    fn json(&self, spanned: Spanned<Value>) -> Result<Placed<Value>, String> {
        let line = self.number(spanned.span().start);
        let mut placed = self.placed(spanned);
        if let Value::String(text) = &placed.value {
            let parsed = serde_json::from_str(text);
            placed.value = parsed.map_err(|error| format!("line {line}: no JSON: {error}"))?;
        }
        if placed.value.is_object() {
            return Ok(placed);
        }
        Err(format!("line {line}: a document is a table, or a text with a JSON object"))
    }

    fn user(&self, written: WrittenUser) -> Result<User, String> {
        let name = self.placed(written.name);
        let wrong = |wrong: &dyn std::fmt::Display| {
            format!("{}: the user {:?}: {wrong}", name.place, name.value)
        };
        let secret = match (written.secret_env, written.secret_file, written.secret) {
            (Some(env), None, None) => {
                let found = variable(&env).map_err(|problem| wrong(&problem))?;
                let found =
                    found.ok_or_else(|| wrong(&format!("the variable {env} is not set")))?;
                Secret::new(found)
            }
            (None, Some(file), None) => secret_file(&file).map_err(|problem| wrong(&problem))?,
            (None, None, Some(WrittenSecret::Text(secret))) => Secret::new(secret),
            (None, None, Some(WrittenSecret::Other(_))) => {
                return Err(wrong(&"the secret is no text in quotes"));
            }
            (None, None, None)
            | (Some(_), Some(_), _)
            | (Some(_), _, Some(_))
            | (_, Some(_), Some(_)) => {
                return Err(wrong(&"it needs one of secret_env, secret_file and secret"));
            }
        };
        admin::check_access_key(&name.value).map_err(|error| wrong(&error))?;
        admin::check_secret(secret.expose()).map_err(|error| wrong(&error))?;
        let fields = UserFields {
            account: written.account,
            policies: written.policies,
            enabled: written.enabled,
            uid: written.uid,
            gid: written.gid,
            umask: written.umask,
        };
        Ok(User { name, secret, fields })
    }

    fn bucket(&self, written: WrittenBucket) -> Result<Bucket, String> {
        let name = self.placed(written.name);
        let wrong =
            |place: &str, wrong: &str| format!("{place}: the bucket {:?}: {wrong}", name.value);
        s3::BucketName::parse(&name.value).map_err(|fault| wrong(&name.place, &fault.message))?;
        let versioning = written.versioning.map(|versioning| self.placed(versioning));
        if let Some(Placed { place, value: VersioningState::Off | VersioningState::Trash }) =
            &versioning
        {
            return Err(wrong(place, "versioning is \"enabled\" or \"suspended\""));
        }
        let public = written.public.map(|public| self.placed(public));
        if let Some(Placed { place, value: AnonymousAccess::Custom }) = &public {
            return Err(wrong(place, "public is private, download, upload or public"));
        }
        if let (Some(public), Some(_)) = (&public, &written.policy) {
            // Both decide about the bucket policy.
            return Err(wrong(&public.place, "it has both public and policy; remove one of them"));
        }
        if written.retention.is_some() && !written.object_lock {
            return Err(wrong(&name.place, "retention needs object_lock = true"));
        }
        let document =
            |spanned: Option<Spanned<Value>>| spanned.map(|spanned| self.json(spanned)).transpose();
        let retention = document(written.retention)?.map(|Placed { place, value }| Placed {
            place,
            value: json!({
                "ObjectLockEnabled": "Enabled",
                "Rule": { "DefaultRetention": value },
            }),
        });
        let tags = document(written.tags)?.map(|Placed { place, value }| {
            let tags = value.as_object().map(tag_set).unwrap_or_default();
            Placed { place, value: json!({ "TagSet": tags }) }
        });
        Ok(Bucket {
            versioning: versioning.map(|placed| placed.value),
            object_lock: written.object_lock,
            quota_bytes: written.quota_bytes,
            quota_objects: written.quota_objects,
            trash_days: written.trash_days,
            public: public.map(|placed| placed.value),
            retention,
            policy: document(written.policy)?,
            lifecycle: document(written.lifecycle)?,
            cors: document(written.cors)?,
            tags,
            name,
        })
    }
}

/// Fails if two tables of one kind have one name.
fn check_unique<'n>(
    kind: &str,
    names: impl Iterator<Item = &'n Placed<String>>,
) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(&name.value) {
            return Err(format!("{}: a second {kind} {:?}", name.place, name.value));
        }
    }
    Ok(())
}

/// Returns the tags of a table, in the form of the AWS CLI.
fn tag_set(table: &Map<String, Value>) -> Vec<Value> {
    let mut tags: Vec<(&String, &Value)> = table.iter().collect();
    // The order of a table is no part of the declaration.
    tags.sort_by_key(|(key, _)| *key);
    tags.into_iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect()
}
