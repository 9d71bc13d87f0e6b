//! The `Principal` and `NotPrincipal` elements of a bucket policy.
//!
//! For example, `{"AWS": "arn:aws:iam::000000000001:user/anna"}` names one user, and
//! `{"AWS": "000000000001"}` all users of an account.

use crate::error::PolicyError;
use crate::json::Node;
use crate::question::Principal;

/// The name of the service that delivers the access logs of buckets. No other service acts here.
pub const LOG_DELIVERY: &str = "logging.s3.amazonaws.com";

/// The name of a principal, that is, of an account, a user, a role or a session, in the policy of a
/// bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrincipalName {
    /// A whole account, named by its number of 12 digits or by the ARN of its root user.
    Account(String),
    /// `arn:aws:iam::<account>:user/<name>`: one user of an account.
    User {
        /// The number of the account.
        account: String,
        /// The user's name, which is the access key.
        name: String,
    },
    /// `arn:aws:iam::<account>:role/<role>`: all sessions of the role.
    Role {
        /// The number of the account.
        account: String,
        /// The role's name.
        role: String,
    },
    /// `arn:aws:sts::<account>:assumed-role/<role>/<session>`: one session, that is, temporary
    /// credentials, of a role.
    Session {
        /// The number of the account.
        account: String,
        /// The role's name.
        role: String,
        /// The session's own name, which the client chose.
        session: String,
    },
    /// The user of this access key, in any account. AWS does not have this form; other S3 servers
    /// do.
    AccessKey(String),
    /// An account, named by its canonical id of 64 hexadecimal digits in lower case.
    CanonicalUser(String),
    /// A service, named by the key `Service`: [`LOG_DELIVERY`].
    Service(&'static str),
}

/// The way in which a statement names a sender; the most specific way is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mention {
    /// The statement names the sender as everyone, or by its account, role or user.
    Broad,
    /// The statement names the sender by the ARN of its session. A session policy does not limit
    /// such a permission.
    Session,
}

/// The `Principal` or `NotPrincipal` of a statement in a bucket policy: the senders to which it
/// applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principals {
    Everyone,
    These(Vec<PrincipalName>),
    /// The statement applies to all senders except these. Only a Deny statement may have it.
    Not(Vec<PrincipalName>),
}

impl Principals {
    /// Parses the value of `Principal` in a statement. Fails with `PRINCIPAL`.
    pub(crate) fn parse(node: Node) -> Result<Principals, PolicyError> {
        let names = Names::parse(node)?;
        if names.everyone {
            return Ok(Principals::Everyone);
        }
        Ok(Principals::These(names.list))
    }

    /// Parses the value of `NotPrincipal` in a statement. Fails with `PRINCIPAL`.
    pub(crate) fn parse_not(node: Node) -> Result<Principals, PolicyError> {
        let names = Names::parse(node)?;
        if names.everyone {
            return Err(PolicyError::PRINCIPAL.because("NotPrincipal * excludes every principal"));
        }
        Ok(Principals::Not(names.list))
    }

    pub(crate) fn names(&self) -> &[PrincipalName] {
        match self {
            Principals::Everyone => &[],
            Principals::These(names) | Principals::Not(names) => names,
        }
    }

    /// Returns the most specific mention, that is, way of naming a sender, that these principals
    /// have for any sender.
    pub(crate) fn closest(&self) -> Mention {
        let is_session = |name: &PrincipalName| matches!(name, PrincipalName::Session { .. });
        match self {
            Principals::These(names) if names.iter().any(is_session) => Mention::Session,
            Principals::Everyone | Principals::These(_) | Principals::Not(_) => Mention::Broad,
        }
    }

    /// Returns the mention of the sender, that is, the most specific way in which these principals
    /// name it; `None` if they do not include the sender, so that the statement does not apply.
    pub(crate) fn mention(&self, principal: &Principal) -> Option<Mention> {
        match self {
            Principals::Everyone => Some(Mention::Broad),
            Principals::These(names) => {
                let mut mention = None;
                for name in names.iter().filter(|name| name.covers(principal)) {
                    // No mention is more specific, so the search ends here.
                    if matches!(name, PrincipalName::Session { .. }) {
                        return Some(Mention::Session);
                    }
                    mention = Some(Mention::Broad);
                }
                mention
            }
            Principals::Not(names) => {
                let excluded = names.iter().any(|name| name.excludes(principal));
                (!excluded).then_some(Mention::Broad)
            }
        }
    }
}

impl PrincipalName {
    /// Parses the name of a principal under `AWS`: an ARN, the number of an account, or an access
    /// key. Returns `None` for other text and for `*`.
    pub(crate) fn parse(text: &str) -> Option<PrincipalName> {
        if let Some(rest) = text.strip_prefix("arn:aws:iam::") {
            let (account, rest) = rest.split_once(':').filter(|(it, _)| is_account(it))?;
            let account = account.to_owned();
            // In a policy this ARN is the whole account, not only its root user.
            if rest == "root" {
                return Some(PrincipalName::Account(account));
            }
            let (kind, name) = rest.split_once('/').filter(|(_, name)| is_name(name))?;
            let name = name.to_owned();
            return match kind {
                "user" => Some(PrincipalName::User { account, name }),
                "role" => Some(PrincipalName::Role { account, role: name }),
                _ => None,
            };
        }
        if let Some(rest) = text.strip_prefix("arn:aws:sts::") {
            let (account, rest) = rest.split_once(':').filter(|(it, _)| is_account(it))?;
            let (role, session) = rest.strip_prefix("assumed-role/")?.split_once('/')?;
            let named = is_name(role) && is_name(session);
            return named.then(|| PrincipalName::Session {
                account: account.to_owned(),
                role: role.to_owned(),
                session: session.to_owned(),
            });
        }
        // Twelve digits are an account, so no access key has this form.
        if is_account(text) {
            return Some(PrincipalName::Account(text.to_owned()));
        }
        is_name(text).then(|| PrincipalName::AccessKey(text.to_owned()))
    }

    fn parse_canonical(text: &str) -> Option<PrincipalName> {
        let valid = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        valid.then(|| PrincipalName::CanonicalUser(text.to_ascii_lowercase()))
    }

    /// Parses the name of a service. A service that never acts here is refused, because a Deny of
    /// it would deny nothing.
    fn parse_service(text: &str) -> Option<PrincipalName> {
        (text == LOG_DELIVERY).then_some(PrincipalName::Service(LOG_DELIVERY))
    }

    /// Returns true if the name of a principal includes the sender. The name of an account includes
    /// its root user, its users and their sessions ("When you specify an AWS account, …"). The name
    /// of a user includes the user's sessions.
    fn covers(&self, principal: &Principal) -> bool {
        let (account, canonical_id, name, is_root, session) = match principal {
            Principal::User { account, canonical_id, name, is_root, session } => {
                (account, canonical_id, name, is_root, session)
            }
            Principal::Service(service) => return *self == PrincipalName::Service(service),
            Principal::Anonymous => return false,
        };
        match self {
            PrincipalName::Account(named) => named == account,
            PrincipalName::CanonicalUser(named) => named == canonical_id,
            PrincipalName::AccessKey(key) => name.as_ref() == Some(key),
            PrincipalName::User { account: of, name: named } => {
                !is_root && of == account && name.as_ref() == Some(named)
            }
            PrincipalName::Role { account: of, role } => {
                of == account && session.as_ref().is_some_and(|it| it.role == *role)
            }
            PrincipalName::Session { account: of, role, session: named } => {
                of == account
                    && session.as_ref().is_some_and(|it| it.role == *role && it.name == *named)
            }
            PrincipalName::Service(_) => false,
        }
    }

    /// Returns true if a `NotPrincipal` with this name excludes the sender from the Deny. An
    /// account includes only its root user here: AWS's own example lists a user and the user's
    /// account, and denies all other users of that account.
    fn excludes(&self, principal: &Principal) -> bool {
        match self {
            PrincipalName::Account(_) | PrincipalName::CanonicalUser(_) => {
                let root =
                    matches!(principal, Principal::User { is_root: true, session: None, .. });
                root && self.covers(principal)
            }
            PrincipalName::User { .. }
            | PrincipalName::Role { .. }
            | PrincipalName::Session { .. }
            | PrincipalName::AccessKey(_)
            | PrincipalName::Service(_) => self.covers(principal),
        }
    }
}

/// The key under which an object of principals has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Aws,
    CanonicalUser,
    Service,
}

struct Names {
    everyone: bool,
    list: Vec<PrincipalName>,
}

impl Names {
    /// Parses `"*"`, a name, a list of names, or an object with names by kind. `*` must be alone.
    fn parse(node: Node) -> Result<Names, PolicyError> {
        let mut names = Names { everyone: false, list: Vec::new() };
        match node {
            Node::Members(kinds) => {
                for (kind, node) in kinds {
                    let kind = match kind.as_str() {
                        "AWS" => NameKind::Aws,
                        "CanonicalUser" => NameKind::CanonicalUser,
                        "Service" => NameKind::Service,
                        _ => {
                            let why = format_args!("principals of kind {kind:?} are not known");
                            return Err(PolicyError::PRINCIPAL.because(why));
                        }
                    };
                    names.add(node, kind)?;
                }
            }
            Node::Null | Node::Text(_) | Node::Scalar(_) | Node::List(_) => {
                names.add(node, NameKind::Aws)?;
            }
        }
        // It must be `*` alone, or at least one name.
        if names.everyone != names.list.is_empty() {
            return Err(PolicyError::PRINCIPAL.because("it is empty, or it has * and names"));
        }
        Ok(names)
    }

    fn add(&mut self, node: Node, kind: NameKind) -> Result<(), PolicyError> {
        let texts = node.into_texts().ok_or(PolicyError::PRINCIPAL)?;
        if texts.is_empty() {
            return Err(PolicyError::PRINCIPAL.because("it is empty"));
        }
        for text in texts {
            if text == "*" && kind == NameKind::Aws {
                self.everyone = true;
                continue;
            }
            let name = match kind {
                NameKind::Aws => PrincipalName::parse(&text),
                NameKind::CanonicalUser => PrincipalName::parse_canonical(&text),
                NameKind::Service => PrincipalName::parse_service(&text),
            };
            let why = || PolicyError::PRINCIPAL.because(format_args!("{text:?}"));
            self.list.push(name.ok_or_else(why)?);
        }
        Ok(())
    }
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// Returns true if the text can be the name of a user, a role or a session. It has no wildcard,
/// because principals have none, and no colon or slash, which separate the parts of an ARN.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['*', '?', ':', '/']) && !text.contains(char::is_whitespace)
}
