//! What is asked of policies: who wants to do what, to what, and how.

use std::borrow::Cow;

use crate::keys::{ConditionKey, KeySource, PrincipalKey};
use crate::template::ResolvedPatterns;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The request is not signed.
    Anonymous,
    /// A user, the root user of an account, or a session of one of them.
    User {
        /// The number of the user's account, 12 digits.
        account: String,
        /// The canonical id of the user's account, 64 hexadecimal digits in lower case.
        canonical_id: String,
        /// The user's name, which is the access key. For a session, of the user that it acts for;
        /// one of a web identity acts for none.
        name: Option<String>,
        /// Whether it is the root user of the account.
        is_root: bool,
        /// Set for temporary credentials.
        session: Option<RoleSession>,
    },
}

/// The names of an assumed role's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSession {
    /// The role.
    pub role: String,
    /// The session's own name.
    pub name: String,
}

impl Principal {
    /// The value of `aws:PrincipalArn`: of the user, of the account's root user, or, as AWS has it,
    /// of the role and not of its session. None for `Anonymous`.
    pub fn arn(&self) -> Option<String> {
        let Principal::User { account, name, is_root, session, .. } = self else { return None };
        match (session, name) {
            (Some(session), _) => Some(format!("arn:aws:iam::{account}:role/{}", session.role)),
            (None, _) if *is_root => Some(format!("arn:aws:iam::{account}:root")),
            (None, Some(name)) => Some(format!("arn:aws:iam::{account}:user/{name}")),
            (None, None) => None,
        }
    }

    /// The ARN of the very sender, as messages have it: for a session the session's own.
    pub fn sender_arn(&self) -> Option<String> {
        match self {
            Principal::User { account, session: Some(session), .. } => Some(format!(
                "arn:aws:sts::{account}:assumed-role/{}/{}",
                session.role, session.name
            )),
            Principal::User { session: None, .. } | Principal::Anonymous => self.arn(),
        }
    }

    /// The number of the account; none for `Anonymous`.
    pub fn account(&self) -> Option<&str> {
        match self {
            Principal::Anonymous => None,
            Principal::User { account, .. } => Some(account),
        }
    }

    /// Returns the value of a key that is about the sender, by AWS's table of principal keys.
    pub(crate) fn value(&self, key: PrincipalKey) -> Values<'_> {
        match key {
            PrincipalKey::Arn => Values::from_owned(self.arn()),
            PrincipalKey::Account => Values::from_borrowed(self.account()),
            PrincipalKey::Type => Values::from_borrowed(Some(self.kind())),
            PrincipalKey::Username => match self {
                Principal::User { name, is_root: false, session: None, .. } => {
                    Values::from_borrowed(name.as_deref())
                }
                Principal::User { .. } | Principal::Anonymous => Values::Absent,
            },
            PrincipalKey::UserId => match self {
                Principal::Anonymous => Values::from_borrowed(Some("anonymous")),
                Principal::User { session: Some(session), .. } => {
                    Values::from_owned(Some(format!("{}:{}", session.role, session.name)))
                }
                Principal::User { account, is_root: true, .. } => {
                    Values::from_borrowed(Some(account))
                }
                Principal::User { name, .. } => Values::from_borrowed(name.as_deref()),
            },
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Principal::Anonymous => "Anonymous",
            Principal::User { session: Some(_), .. } => "AssumedRole",
            Principal::User { is_root: true, .. } => "Account",
            Principal::User { .. } => "User",
        }
    }
}

/// What a request says about a condition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values<'a> {
    /// Nothing.
    Absent,
    /// One value.
    One(Cow<'a, str>),
    /// Several; none of them is the same as `Absent`.
    Many(Vec<Cow<'a, str>>),
}

impl<'a> Values<'a> {
    /// One value, if there is one.
    pub fn from_borrowed(value: Option<&'a str>) -> Values<'a> {
        value.map_or(Values::Absent, |value| Values::One(Cow::Borrowed(value)))
    }

    /// One value, if there is one.
    pub fn from_owned(value: Option<String>) -> Values<'a> {
        value.map_or(Values::Absent, |value| Values::One(Cow::Owned(value)))
    }

    pub(crate) fn as_slice(&self) -> &[Cow<'a, str>] {
        match self {
            Values::Absent => &[],
            Values::One(value) => std::slice::from_ref(value),
            Values::Many(values) => values,
        }
    }
}

/// Where conditions get a request's values. Only what a statement asks for is asked here, so that
/// nothing is computed in vain.
pub trait ConditionValues {
    /// What the request says about the key. Never called for the keys of the sender
    /// (`aws:username`, `aws:userid`, `aws:PrincipalArn`, `aws:PrincipalAccount` and
    /// `aws:PrincipalType`), which follow from `Principal`.
    fn values(&self, key: &ConditionKey) -> Values<'_>;

    /// What has been resolved for other questions of the same request and sender, if that is kept.
    fn resolved(&self) -> Option<&ResolvedPatterns> {
        None
    }
}

/// A request about which conditions learn nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoValues;

impl ConditionValues for NoValues {
    fn values(&self, _: &ConditionKey) -> Values<'_> {
        Values::Absent
    }
}

/// May this principal do this?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The sender.
    pub principal: &'a Principal,
    /// `s3:GetObject`; upper and lower case do not differ.
    pub action: &'a str,
    /// Without its `arn:aws:s3:::`: `bucket`, `bucket/key`, or `*` for the service.
    pub resource: &'a str,
    /// What conditions may ask about.
    pub conditions: &'a dyn ConditionValues,
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("principal", &self.principal)
            .field("action", &self.action)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

impl Question<'_> {
    /// What the sender and the request say about a key.
    pub(crate) fn values(&self, key: &ConditionKey) -> Values<'_> {
        match key.source() {
            KeySource::Principal(key) => self.principal.value(key),
            KeySource::Sender
            | KeySource::Header(_)
            | KeySource::Transport(_)
            | KeySource::Request
            | KeySource::Object
            | KeySource::Lock => self.conditions.values(key),
            // The parser refuses policies that name such a key.
            KeySource::Unsupported => Values::Absent,
        }
    }

    /// The one value of a key. Several have no order, so none of them is the one.
    pub(crate) fn one_value(&self, key: &ConditionKey) -> Option<Cow<'_, str>> {
        match self.values(key) {
            Values::One(value) => Some(value),
            Values::Many(mut values) if values.len() == 1 => values.pop(),
            Values::Absent | Values::Many(_) => None,
        }
    }
}
