//! The records that decide about access: access keys and bearer tokens, groups, policies, and the
//! last use of each key.
//!
//! A *user* is an access key without a parent. A *further key* has a user as its parent, whose
//! policies, account, uid, gid and umask it has. A *token* is accepted by the API of administrators
//! only. The record of a user lists its further keys and tokens and its groups, and the record of a
//! group lists its members, so that a plan that removes one of them finds the others without a
//! scan.
//!
//! For example, `anna` with the further key `AKNIGHTLY` and the group `lab` has the lists
//! `["AKNIGHTLY"]` and `["lab"]`; `AKNIGHTLY` has the parent `anna`, and `lab` the member `anna`.

use std::fmt;

use crate::Timestamp;
use crate::account::AccountId;
use crate::codec::{DecodeError, Reader, Writer, record};

/// The record of an access key of S3, or of a bearer token for administrators.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The account to which the access key belongs. That of the parent is in force, if there is
    /// one.
    pub account: AccountId,
    /// The secret key, encrypted with a key that only gateways have.
    pub sealed_secret: Vec<u8>,
    /// True if clients may use the access key. If a user is disabled, its further keys and tokens
    /// are disabled, too.
    pub enabled: bool,
    /// The user id that owns the files that this access key creates. That of the parent is in
    /// force, if there is one; so are the next three fields.
    pub uid: u32,
    /// The group id of these files.
    pub gid: u32,
    /// Permission bits that files and directories of this access key do not get.
    pub umask: u32,
    /// The names of the policies of the user. Without any, every request is denied.
    pub policies: Vec<String>,
    /// The user of a further key or token. `None` for a user, and for a token of the operator.
    pub parent: Option<String>,
    /// A note of the operator.
    pub description: String,
    /// The time at which the record was created.
    pub made: Timestamp,
    /// The time from which the access key or token is refused. The expiry of a user ends this
    /// access key alone, and none of its further keys.
    pub expires: Option<Timestamp>,
    /// The protocol that accepts the secret.
    pub kind: UserKind,
    /// The further keys and tokens of a user, sorted.
    pub keys: Vec<String>,
    /// The groups of a user, sorted.
    pub groups: Vec<String>,
}

/// The protocol that accepts the secret of a [`User`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserKind {
    /// An access key of S3.
    Key,
    /// A bearer token for the API of administrators.
    Token {
        /// The patterns of the permitted actions. For example, `admin:ListUsers` or `admin:*`.
        actions: Vec<String>,
    },
}

impl User {
    /// Returns an enabled user without policies, made at the start of 1970. The caller sets the
    /// other fields.
    pub fn new(account: AccountId, sealed_secret: Vec<u8>) -> User {
        User {
            account,
            sealed_secret,
            enabled: true,
            uid: 0,
            gid: 0,
            umask: 0,
            policies: Vec::new(),
            parent: None,
            description: String::new(),
            made: Timestamp(0),
            expires: None,
            kind: UserKind::Key,
            keys: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Returns true for a user: neither a further key nor a token.
    pub fn is_user(&self) -> bool {
        self.parent.is_none() && self.kind == UserKind::Key
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The sealed secret must not appear in logs.
        f.debug_struct("User")
            .field("enabled", &self.enabled)
            .field("policies", &self.policies)
            .field("parent", &self.parent)
            .field("expires", &self.expires)
            .field("kind", &self.kind)
            .field("keys", &self.keys)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

const KEY: u8 = 0;
const TOKEN: u8 = 1;

fn write_names(to: &mut Writer, names: &[String]) {
    to.varint(names.len() as u64);
    for name in names {
        to.bytes(name.as_bytes());
    }
}

fn read_names(from: &mut Reader<'_>, field: &'static str) -> Result<Vec<String>, DecodeError> {
    let count = from.varint(field)?;
    (0..count).map(|_| from.string(field)).collect()
}

/// Writes an optional field: a byte 0, or a byte 1 and the output of `write`.
fn write_optional<T>(to: &mut Writer, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
    to.u8(u8::from(value.is_some()));
    if let Some(value) = value {
        write(to, value);
    }
}

fn read_optional<'a, T>(
    from: &mut Reader<'a>,
    field: &'static str,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    match from.u8(field)? {
        0 => Ok(None),
        1 => read(from).map(Some),
        _ => Err(DecodeError::Field(field)),
    }
}

record!(
    User,
    1,
    |this, to| {
        to.bytes(&this.sealed_secret)
            .u8(u8::from(this.enabled))
            .varint(u64::from(this.uid))
            .varint(u64::from(this.gid))
            .varint(u64::from(this.umask))
            .varint(this.account.0);
        write_names(&mut to, &this.policies);
        write_optional(&mut to, this.parent.as_ref(), |to, parent| {
            to.bytes(parent.as_bytes());
        });
        to.bytes(this.description.as_bytes()).signed(this.made.0);
        write_optional(&mut to, this.expires, |to, expires| {
            to.signed(expires.0);
        });
        match &this.kind {
            UserKind::Key => {
                to.u8(KEY);
            }
            UserKind::Token { actions } => write_names(to.u8(TOKEN), actions),
        }
        write_names(&mut to, &this.keys);
        write_names(&mut to, &this.groups);
    },
    |from| {
        let sealed_secret = from.bytes("secret")?.into();
        let enabled = from.u8("enabled")? != 0;
        let (uid, gid) = (from.narrow("uid")?, from.narrow("gid")?);
        let umask = from.narrow("umask")?;
        let account = AccountId::read(&mut from)?;
        let policies = read_names(&mut from, "policy")?;
        let parent = read_optional(&mut from, "parent", |from| from.string("parent"))?;
        let description = from.string("description")?;
        let made = Timestamp(from.signed("made")?);
        let expires =
            read_optional(&mut from, "expires", |from| from.signed("expires").map(Timestamp))?;
        let kind = match from.u8("kind")? {
            KEY => UserKind::Key,
            TOKEN => UserKind::Token { actions: read_names(&mut from, "action")? },
            _ => return Err(DecodeError::Field("kind")),
        };
        let keys = read_names(&mut from, "key")?;
        let groups = read_names(&mut from, "group")?;
        User {
            account,
            sealed_secret,
            enabled,
            uid,
            gid,
            umask,
            policies,
            parent,
            description,
            made,
            expires,
            kind,
            keys,
            groups,
        }
    }
);

/// The record of a group: users that have further policies together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// True if the members have the policies of the group. A Deny in the policies of a disabled
    /// group has no effect either.
    pub enabled: bool,
    /// The names of the members, which are users, sorted.
    pub members: Vec<String>,
    /// The names of the policies.
    pub policies: Vec<String>,
}

record!(
    Group,
    1,
    |this, to| {
        to.u8(u8::from(this.enabled));
        write_names(&mut to, &this.members);
        write_names(&mut to, &this.policies);
    },
    |from| {
        let enabled = from.u8("enabled")? != 0;
        let members = read_names(&mut from, "member")?;
        Group { enabled, members, policies: read_names(&mut from, "policy")? }
    }
);

/// The record of a named policy: its JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRecord(pub String);

record!(
    PolicyRecord,
    1,
    |this, to| {
        to.bytes(this.0.as_bytes());
    },
    |from| { PolicyRecord(from.string("document")?) }
);

/// The record of the last use of an access key or token. Gateways write it at most once an hour, so
/// it can be older than the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastUse {
    /// The time of the request, by the clock of the gateway.
    pub at: Timestamp,
}

record!(
    LastUse,
    1,
    |this, to| {
        to.signed(this.at.0);
    },
    |from| { LastUse { at: Timestamp(from.signed("at")?) } }
);
