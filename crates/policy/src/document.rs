//! The parser of policy documents. It understands each element of a document, or it refuses the
//! document.
//!
//! For example, a document with the element `Sentence` in place of `Statement` fails with "Unknown
//! field Sentence". Of several mistakes, the error names the one that S3 finds first.

use std::fmt;

use crate::actions::{self, AppliesTo};
use crate::addresses::Network;
use crate::admin_actions;
use crate::conditions::Condition;
use crate::error::PolicyError;
use crate::glob::Glob;
use crate::json::Node;
use crate::keys::{ConditionKey, KeySource};
use crate::operators::Operator;
use crate::pattern::{Pattern, Syntax};
use crate::principals::{PrincipalName, Principals};
use crate::statement::{List, Statement};

/// The largest policy document, in bytes.
pub const POLICY_BYTES_MAX: usize = 20 * 1024;

const RESOURCE_PREFIX: &str = "arn:aws:s3:::";

/// The kind of a policy, which decides about the elements that the policy may have.
#[derive(Clone, Copy)]
pub enum PolicyKind<'a> {
    /// The policy of a user, who is the principal. No statement names a principal.
    User,
    /// The policy that limits a session, that is, temporary credentials. It may have the same
    /// elements as a user policy.
    Session,
    /// The policy of a bucket. Each statement names principals. Its resources are the bucket and
    /// objects of the bucket, and its actions apply to them.
    Bucket {
        /// The bucket's name.
        bucket: &'a str,
        /// Returns true if the principal (an account, a user or a role) exists. A document that
        /// names another one is refused. A caller that must ask a database returns true and checks
        /// [`Policy::principals`](crate::Policy::principals) afterwards.
        exists: &'a dyn Fn(&PrincipalName) -> bool,
    },
}

impl fmt::Debug for PolicyKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyKind::User => f.write_str("User"),
            PolicyKind::Session => f.write_str("Session"),
            PolicyKind::Bucket { bucket, .. } => f.debug_tuple("Bucket").field(bucket).finish(),
        }
    }
}

/// The actions that a policy may name, and the condition keys that it may combine with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// Any action of a user or session, with any key, so that a policy that was stored by an
    /// earlier release stays valid.
    Any,
    /// Actions of S3 and of the administration, and patterns that cover some, because a misspelt
    /// action would deny nothing. A statement must cover an action that has the key of a condition,
    /// because a Deny by another key would deny nothing, too.
    Known,
}

/// Parses a policy document and returns its statements. Fails if it has an unknown element.
pub(crate) fn parse(
    json: &str,
    kind: PolicyKind<'_>,
    vocabulary: Vocabulary,
) -> Result<Vec<Statement>, PolicyError> {
    // The size comes first, so that a hostile document costs no parse.
    if json.len() > POLICY_BYTES_MAX {
        return Err(PolicyError::TOO_LARGE);
    }
    // S3 looks at the first byte of a bucket policy, so it refuses a document with leading spaces,
    // too.
    if matches!(kind, PolicyKind::Bucket { .. }) && !json.starts_with('{') {
        return Err(PolicyError::NOT_AN_OBJECT);
    }
    let document: Node =
        serde_json::from_str(json).map_err(|error| PolicyError::JSON.because(error))?;
    let Node::Members(members) = document else { return Err(PolicyError::NOT_AN_OBJECT) };
    // The statements are parsed after the loop, because `Version`, which decides about variables,
    // may come behind them.
    let (mut variables, mut statements) = (false, None);
    for (name, node) in members {
        match name.as_str() {
            "Version" => variables = allows_variables(&node)?,
            "Id" => drop(text(node, "Id")?),
            "Statement" => statements = Some(node),
            _ => return Err(PolicyError::unknown_field(&name)),
        }
    }
    let statements = match statements {
        None => return Err(PolicyError::missing("Statement")),
        Some(Node::List(statements)) => statements,
        Some(statement) => vec![statement],
    };
    if statements.is_empty() {
        return Err(PolicyError::NO_STATEMENT);
    }
    let reader = Reader { kind, vocabulary, variables };
    statements.into_iter().map(|node| reader.statement(node)).collect()
}

/// Returns true if a document with this `Version` element has policy variables, such as
/// `${aws:username}`. "You must include the Version element and set it to a version that supports
/// policy variables", which is 2012-10-17. A document without the element has the version
/// 2008-10-17.
fn allows_variables(version: &Node) -> Result<bool, PolicyError> {
    match version {
        Node::Text(version) if version == "2012-10-17" => Ok(true),
        Node::Text(version) if version == "2008-10-17" => Ok(false),
        Node::Text(_) | Node::Null | Node::Scalar(_) | Node::List(_) | Node::Members(_) => {
            Err(PolicyError::VERSION)
        }
    }
}

fn text(node: Node, field: &str) -> Result<String, PolicyError> {
    match node {
        Node::Text(text) => Ok(text),
        Node::Null | Node::Scalar(_) | Node::List(_) | Node::Members(_) => {
            Err(PolicyError::JSON.because(format_args!("{field} is not a string")))
        }
    }
}

/// The members of the JSON object of a statement, each at most once and not parsed yet.
#[derive(Default)]
struct Fields {
    effect: Option<Node>,
    principal: Option<Node>,
    not_principal: Option<Node>,
    action: Option<Node>,
    not_action: Option<Node>,
    resource: Option<Node>,
    not_resource: Option<Node>,
    condition: Option<Node>,
}

impl Fields {
    fn parse(node: Node) -> Result<Fields, PolicyError> {
        let Node::Members(members) = node else {
            return Err(PolicyError::JSON.because("a statement is not an object"));
        };
        let mut fields = Fields::default();
        for (name, node) in members {
            let field = match name.as_str() {
                "Sid" => {
                    text(node, "Sid")?;
                    continue;
                }
                "Effect" => &mut fields.effect,
                "Principal" => &mut fields.principal,
                "NotPrincipal" => &mut fields.not_principal,
                "Action" => &mut fields.action,
                "NotAction" => &mut fields.not_action,
                "Resource" => &mut fields.resource,
                "NotResource" => &mut fields.not_resource,
                "Condition" => &mut fields.condition,
                _ => return Err(PolicyError::unknown_field(&name)),
            };
            *field = Some(node);
        }
        Ok(fields)
    }
}

/// The properties of one document on which the parser of its statements depends.
struct Reader<'a> {
    kind: PolicyKind<'a>,
    vocabulary: Vocabulary,
    variables: bool,
}

impl Reader<'_> {
    /// Parses a statement. The checks have the order of S3, so that the error names the same
    /// mistake.
    fn statement(&self, node: Node) -> Result<Statement, PolicyError> {
        let fields = Fields::parse(node)?;
        let denies = denies(fields.effect)?;
        let principals = self.principals(fields.principal, fields.not_principal, denies)?;
        let actions = Written::parse(
            ("Action", fields.action),
            ("NotAction", fields.not_action),
            PolicyError::ACTION,
        )?;
        let patterns = self.actions(&actions.texts)?;
        let covered = List { negated: actions.negated, patterns };
        // An administrative action concerns the volume, so its statements often have no resource,
        // as in MinIO's documents. Then the statement covers all resources.
        let needs_no_resource = !matches!(self.kind, PolicyKind::Bucket { .. })
            && !actions.negated
            && actions.texts.iter().all(|text| admin_actions::is_admin_only(text));
        let resources = match (fields.resource, fields.not_resource) {
            (None, None) if needs_no_resource => {
                Written { negated: false, texts: vec!["*".to_owned()] }
            }
            (resource, not_resource) => Written::parse(
                ("Resource", resource),
                ("NotResource", not_resource),
                PolicyError::RESOURCE,
            )?,
        };
        let resources = self.resources(resources)?;
        let conditions = match fields.condition {
            Some(node) => self.conditions(node, &actions, &covered)?,
            None => Vec::new(),
        };
        let admin_actions = if actions.negated { &[][..] } else { &actions.texts };
        let admin_actions = admin_actions.iter().filter(|text| admin_actions::is_admin_only(text));
        let statement = Statement {
            denies,
            principals,
            admin_actions: admin_actions
                .map(|text| Glob::new(&text.to_ascii_lowercase()))
                .collect(),
            actions: covered,
            resources: List { negated: resources.negated, patterns: resources.patterns },
            conditions,
        };
        if !actions.negated && !resources.negated {
            self.check_pairs(&actions.texts, &statement.actions.patterns, resources.reach)?;
        }
        Ok(statement)
    }

    fn principals(
        &self,
        named: Option<Node>,
        excluded: Option<Node>,
        denies: bool,
    ) -> Result<Option<Principals>, PolicyError> {
        let PolicyKind::Bucket { exists, .. } = self.kind else {
            return match (named, excluded) {
                (None, None) => Ok(None),
                _ => Err(PolicyError::PRINCIPAL
                    .because("the policy of a user or session names no principal")),
            };
        };
        let principals = match (named, excluded) {
            (Some(node), None) => Principals::parse(node)?,
            (None, Some(_)) if !denies => {
                let why = "NotPrincipal is allowed only with Deny";
                return Err(PolicyError::PRINCIPAL.because(why));
            }
            (None, Some(node)) => Principals::parse_not(node)?,
            (None, None) => return Err(PolicyError::missing("Principal")),
            (Some(_), Some(_)) => {
                return Err(
                    PolicyError::PRINCIPAL.because("it has both NotPrincipal and Principal")
                );
            }
        };
        match principals.names().iter().find(|name| !exists(name)) {
            Some(name) => Err(PolicyError::PRINCIPAL.because(format_args!("there is no {name:?}"))),
            None => Ok(Some(principals)),
        }
    }

    fn actions(&self, texts: &[String]) -> Result<Vec<Glob>, PolicyError> {
        let in_bucket = matches!(self.kind, PolicyKind::Bucket { .. });
        let action = |text: &String| {
            let lower = text.to_ascii_lowercase();
            let glob = Glob::new(&lower);
            let known = if in_bucket {
                (lower == "*" || lower.starts_with("s3:")) && actions::applies_to(&glob).is_some()
            } else {
                // A stored policy may name actions of other services, such as `iam:PassRole`. They
                // match no request.
                (lower == "*" || lower.contains(':'))
                    && (self.vocabulary == Vocabulary::Any
                        || actions::covers_any(&glob)
                        || admin_actions::covers_any(&glob))
            };
            let why = || PolicyError::ACTION.because(format_args!("{text:?}"));
            known.then_some(glob).ok_or_else(why)
        };
        texts.iter().map(action).collect()
    }

    fn resources(&self, written: Written) -> Result<Resources, PolicyError> {
        let mut resources = Resources {
            negated: written.negated,
            patterns: Vec::new(),
            reach: Reach { bucket: false, objects: false },
        };
        let syntax = Syntax { wildcards: true, variables: self.variables, fold: false };
        for text in written.texts {
            let bare = self.bare_resource(&text, &mut resources.reach);
            let why = || PolicyError::RESOURCE.because(format_args!("{text:?}"));
            let pattern = Pattern::parse(bare.ok_or_else(why)?, syntax);
            let pattern = pattern.map_err(|why| PolicyError::RESOURCE.because(why))?;
            resources.patterns.push(pattern);
        }
        Ok(resources)
    }

    /// Returns the resource without its prefix `arn:aws:s3:::`, and adds its kind to `reach`.
    /// Returns `None` if the policy may not name the resource.
    fn bare_resource<'t>(&self, text: &'t str, reach: &mut Reach) -> Option<&'t str> {
        let bare = text.strip_prefix(RESOURCE_PREFIX);
        let PolicyKind::Bucket { bucket, .. } = self.kind else {
            let bare = if text == "*" { "*" } else { bare? };
            return (!bare.is_empty() && !bare.starts_with('/')).then_some(bare);
        };
        let bare = bare?;
        let within = bare.strip_prefix(bucket)?;
        match within.as_bytes().first() {
            None => reach.bucket = true,
            Some(b'/') => reach.objects = true,
            // `bucket*` is the bucket and its objects; `bucket*/x` is objects only.
            Some(b'*') => {
                reach.bucket |= !within.contains('/');
                reach.objects = true;
            }
            Some(_) => return None,
        }
        Some(bare)
    }

    fn conditions(
        &self,
        node: Node,
        actions: &Written,
        covered: &List<Glob>,
    ) -> Result<Vec<Condition>, PolicyError> {
        let bad = |why: &str| PolicyError::JSON.because(why);
        let Node::Members(operators) = node else { return Err(bad("Condition is not an object")) };
        let known = |(name, keys): (String, Node)| match Operator::parse(&name) {
            Some(operator) => Ok((operator, keys)),
            None => Err(PolicyError::operator(&name)),
        };
        // All operators are parsed before the first key, because S3 reports an unknown operator
        // first.
        let operators = operators.into_iter().map(known).collect::<Result<Vec<_>, _>>()?;
        // The actions are compared with the patterns once, not for each key, and only in a new
        // policy.
        let covered: Vec<String> = match self.vocabulary {
            Vocabulary::Any => Vec::new(),
            Vocabulary::Known => known_actions().filter(|action| covered.covers(action)).collect(),
        };
        let mut conditions = Vec::new();
        for (operator, keys) in operators {
            let Node::Members(keys) = keys else {
                return Err(bad("the value of an operator is not an object"));
            };
            for (name, values) in keys {
                let why = || PolicyError::CONDITION_KEY.because(format_args!("{name:?}"));
                let key = ConditionKey::parse(&name).ok_or_else(why)?;
                // Without this check a Deny by such a key would be stored and never apply.
                if key.source() == KeySource::Unsupported {
                    let why = format_args!("{name:?}: no request has a value for this key here");
                    return Err(PolicyError::CONDITION_KEY.because(why));
                }
                let values = values
                    .into_scalars()
                    .ok_or_else(|| bad("the values of a condition are not scalars"))?;
                self.check_key(&key, &values, actions)?;
                self.check_effect(&key, &covered)?;
                let values = without_leading_slash(&key, values);
                conditions.push(Condition::parse(key, operator, &values, self.variables)?);
            }
        }
        Ok(conditions)
    }

    /// Makes the checks of S3 for a condition key in a bucket policy. Each action without wildcards
    /// must have the key, unless the policy is stored already. Each value of `aws:SourceIp` must be
    /// an address, with any operator.
    fn check_key(
        &self,
        key: &ConditionKey,
        values: &[String],
        actions: &Written,
    ) -> Result<(), PolicyError> {
        if !matches!(self.kind, PolicyKind::Bucket { .. }) {
            return Ok(());
        }
        // A pattern is not compared alone: `check_effect` compares all actions that it covers.
        let lacks_key = |action: &&String| {
            self.vocabulary == Vocabulary::Known
                && !action.contains(['*', '?'])
                && !key.applies_to(&action.to_ascii_lowercase())
        };
        if !actions.negated
            && let Some(action) = actions.texts.iter().find(lacks_key)
        {
            let why = format_args!("{action} has no {}", key.name());
            return Err(PolicyError::CONDITION_MISMATCH.because(why));
        }
        // S3 checks this even for `Null` and `StringLike`, whose values are not addresses.
        let is_address = |value: &String| Network::parse(value).is_some();
        if *key == ConditionKey::SourceIp && !values.iter().all(is_address) {
            return Err(PolicyError::ADDRESS);
        }
        Ok(())
    }

    /// Fails if the key applies to no action of the statement, whose known actions are `covered`.
    /// No request has a value for the key then, so a Deny would deny nothing. For example,
    /// `s3:prefix` with `s3:GetObject` is refused, and with `s3:*` it is not, because
    /// `s3:ListBucket` has it.
    fn check_effect(&self, key: &ConditionKey, covered: &[String]) -> Result<(), PolicyError> {
        match self.vocabulary {
            Vocabulary::Any => Ok(()),
            Vocabulary::Known if covered.iter().any(|action| key.applies_to(action)) => Ok(()),
            Vocabulary::Known => {
                let why = format_args!("no action of the statement has {}", key.name());
                Err(PolicyError::CONDITION_MISMATCH.because(why))
            }
        }
    }

    /// Fails if a bucket policy has an action without a resource of its kind. A pattern that covers
    /// an action on objects needs objects. `s3:*` is satisfied by a resource of either kind.
    fn check_pairs(
        &self,
        texts: &[String],
        patterns: &[Glob],
        reach: Reach,
    ) -> Result<(), PolicyError> {
        if !matches!(self.kind, PolicyKind::Bucket { .. }) {
            return Ok(());
        }
        for (text, pattern) in texts.iter().zip(patterns) {
            // All actions together need only one kind of resource: those of the other kind never
            // match.
            if matches!(text.as_str(), "*" | "s3:*" | "S3:*") {
                continue;
            }
            let objects = actions::applies_to(pattern) == Some(AppliesTo::Objects);
            let reached = if objects { reach.objects } else { reach.bucket };
            if !reached {
                return Err(PolicyError::NO_RESOURCE_FOR_ACTION.because(text));
            }
        }
        Ok(())
    }
}

/// Returns the names of all actions of S3 and of the administration, in lower case.
fn known_actions() -> impl Iterator<Item = String> {
    actions::names().chain(admin_actions::names()).map(str::to_ascii_lowercase)
}

/// Returns the values of a condition without the slash before the source of a copy. Policies for
/// AWS have `bucket/key` or `/bucket/key`; requests always have the first form here.
fn without_leading_slash(key: &ConditionKey, mut values: Vec<String>) -> Vec<String> {
    if *key == ConditionKey::CopySource {
        for value in &mut values {
            if let Some(rest) = value.strip_prefix('/') {
                *value = rest.to_owned();
            }
        }
    }
    values
}

fn denies(effect: Option<Node>) -> Result<bool, PolicyError> {
    let effect = effect.ok_or_else(|| PolicyError::missing("Effect"))?;
    match text(effect, "Effect")?.as_str() {
        "Allow" => Ok(false),
        "Deny" => Ok(true),
        other => Err(PolicyError::effect(other)),
    }
}

/// The texts of `Action` or `Resource` as written, or those of `NotAction` or `NotResource`, which
/// are negated.
struct Written {
    negated: bool,
    texts: Vec<String>,
}

impl Written {
    fn parse(
        (name, plain): (&str, Option<Node>),
        (not_name, negated): (&str, Option<Node>),
        bad: PolicyError,
    ) -> Result<Written, PolicyError> {
        let (negated, node) = match (plain, negated) {
            (Some(node), None) => (false, node),
            (None, Some(node)) => (true, node),
            (None, None) => return Err(PolicyError::missing(name)),
            (Some(_), Some(_)) => {
                return Err(
                    bad.because(format_args!("the statement has both {not_name} and {name}"))
                );
            }
        };
        match node.into_texts() {
            Some(texts) if !texts.is_empty() => Ok(Written { negated, texts }),
            _ => Err(bad.because(format_args!("{name} is neither a string nor a list of strings"))),
        }
    }
}

struct Resources {
    negated: bool,
    patterns: Vec<Pattern>,
    reach: Reach,
}

/// The kinds of resources that a statement of a bucket policy names: the bucket itself, objects in
/// it, or both.
#[derive(Clone, Copy)]
struct Reach {
    bucket: bool,
    objects: bool,
}
