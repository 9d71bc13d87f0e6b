//! The question that policies answer: the sender, the action, the resource, and the values for
//! conditions.
//!
//! For example, `GET /box/k` by the user `anna` asks for the action `s3:GetObject` on the resource
//! `box/k`.

use std::borrow::Cow;

use crate::keys::{ConditionKey, KeySource, PrincipalKey};
use crate::template::ResolvedPatterns;

/// The sender of a request, as policies name it.
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
        /// The user's name, which is the access key. For a session, the name of the user that it
        /// acts for. `None` for the session of a web identity, which has no user.
        name: Option<String>,
        /// True for the root user of the account.
        is_root: bool,
        /// The session, if the sender uses temporary credentials; `None` for the permanent access
        /// key of a user.
        session: Option<RoleSession>,
    },
    /// A part of the gateway that acts by itself, by the name that AWS gives to its service, for
    /// example [`LOG_DELIVERY`](crate::LOG_DELIVERY). It has no account and no policies.
    Service(&'static str),
}

/// The names of a session, that is, of temporary credentials that a sender got for a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSession {
    /// The name of the role.
    pub role: String,
    /// The name of the session, which the client chooses.
    pub name: String,
}

impl Principal {
    /// Returns the value of `aws:PrincipalArn`: the ARN of the user or of the root user, also for
    /// its sessions. For a web identity it is the ARN of the role, as on AWS. `None` for
    /// `Anonymous` and `Service`.
    pub fn arn(&self) -> Option<String> {
        let Principal::User { account, name, is_root, session, .. } = self else { return None };
        match (session, name) {
            _ if *is_root => Some(format!("arn:aws:iam::{account}:root")),
            (_, Some(name)) => Some(format!("arn:aws:iam::{account}:user/{name}")),
            (Some(session), None) => Some(format!("arn:aws:iam::{account}:role/{}", session.role)),
            (None, None) => None,
        }
    }

    /// Returns the ARN of the sender for error messages; `None` for `Anonymous` and `Service`. For
    /// a session it is the ARN of the session itself.
    pub fn sender_arn(&self) -> Option<String> {
        match self {
            Principal::User { account, session: Some(session), .. } => Some(format!(
                "arn:aws:sts::{account}:assumed-role/{}/{}",
                session.role, session.name
            )),
            Principal::User { session: None, .. }
            | Principal::Anonymous
            | Principal::Service(_) => self.arn(),
        }
    }

    /// Returns the number of the account. `None` for `Anonymous` and `Service`.
    pub fn account(&self) -> Option<&str> {
        match self {
            Principal::Anonymous | Principal::Service(_) => None,
            Principal::User { account, .. } => Some(account),
        }
    }

    /// Returns the sender's value for a condition key that is about the sender, by AWS's table of
    /// principal keys.
    pub(crate) fn value(&self, key: PrincipalKey) -> Values<'_> {
        match key {
            PrincipalKey::Arn => Values::from_owned(self.arn()),
            PrincipalKey::Account => Values::from_borrowed(self.account()),
            PrincipalKey::Type => Values::from_borrowed(Some(self.kind())),
            PrincipalKey::Username => match self {
                // Also for the session of a user, which the user begins without a permission: a
                // Deny by this key would otherwise not limit the user. A web identity has no name.
                Principal::User { name, is_root: false, .. } => {
                    Values::from_borrowed(name.as_deref())
                }
                Principal::User { .. } | Principal::Anonymous | Principal::Service(_) => {
                    Values::Absent
                }
            },
            PrincipalKey::UserId => match self {
                Principal::Anonymous => Values::from_borrowed(Some("anonymous")),
                Principal::Service(_) => Values::Absent,
                // The name of the session is chosen by the client, so this value does not identify
                // a person.
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
            Principal::Service(_) => "Service",
            Principal::User { session: Some(_), .. } => "AssumedRole",
            Principal::User { is_root: true, .. } => "Account",
            Principal::User { .. } => "User",
        }
    }
}

/// The values that a request has for one condition key, such as `aws:SourceIp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values<'a> {
    /// The request has no value for the condition key.
    Absent,
    /// The request has one value for the condition key.
    One(Cow<'a, str>),
    /// The request has a list of values. An empty list counts as no value.
    Many(Vec<Cow<'a, str>>),
}

impl<'a> Values<'a> {
    /// Returns `One` for a value, and `Absent` for `None`.
    pub fn from_borrowed(value: Option<&'a str>) -> Values<'a> {
        value.map_or(Values::Absent, |value| Values::One(Cow::Borrowed(value)))
    }

    /// Returns `One` for a value, and `Absent` for `None`.
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

/// The values that a request has for the keys of conditions and policy variables. The evaluation
/// calls this only for the keys that a statement names, so no value is computed in vain.
pub trait ConditionValues {
    /// Returns the request's values for the key. Never called for keys with the source
    /// `KeySource::Principal`, whose values follow from `Principal`.
    fn values(&self, key: &ConditionKey) -> Values<'_>;

    /// Returns the cache of patterns whose policy variables were already replaced by values for
    /// other questions of the same request and sender. `None` if the caller keeps none.
    fn resolved(&self) -> Option<&ResolvedPatterns> {
        None
    }
}

/// A request that has no value for any condition key.
#[derive(Clone, Copy, Debug)]
pub struct NoValues;

impl ConditionValues for NoValues {
    fn values(&self, _: &ConditionKey) -> Values<'_> {
        Values::Absent
    }
}

/// The question of a policy evaluation: has a principal the permission for an action on a resource?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The sender of the request.
    pub principal: &'a Principal,
    /// The action, for example `s3:GetObject`. The case is ignored.
    pub action: &'a str,
    /// The resource without `arn:aws:s3:::`: `bucket`, `bucket/key`, or `*` for the service.
    pub resource: &'a str,
    /// The values that the request has for condition keys.
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
    /// Returns the values that the sender or the request has for a condition key.
    pub(crate) fn values(&self, key: &ConditionKey) -> Values<'_> {
        match key.source() {
            KeySource::Principal(key) => self.principal.value(key),
            KeySource::Sender
            | KeySource::Service
            | KeySource::Header(_)
            | KeySource::Transport(_)
            | KeySource::Request
            | KeySource::Object
            | KeySource::Lock => self.conditions.values(key),
            // The parser refuses policies that name such a key.
            KeySource::Unsupported => Values::Absent,
        }
    }

    /// Returns the value of a condition key that has exactly one value, to replace a policy
    /// variable; `None` if it has none or several. Several values have no order, so none of them
    /// can be chosen.
    pub(crate) fn one_value(&self, key: &ConditionKey) -> Option<Cow<'_, str>> {
        match self.values(key) {
            Values::One(value) => Some(value),
            Values::Many(mut values) if values.len() == 1 => values.pop(),
            Values::Absent | Values::Many(_) => None,
        }
    }
}
