//! The combined decision of several policies and access control lists for one request.
//!
//! AWS's rules ("Policy evaluation logic"), in short:
//!
//! - "By default, all requests are denied", except those of the account's root user.
//! - "An explicit deny in any policy overrides any allows."
//! - Within an account, "if either an identity-based policy, a resource-based policy, or both allow
//!   the action, it is allowed".
//! - Across accounts, the sender's account and the account that owns the bucket must both allow the
//!   request.
//! - A session policy limits the permissions that a session inherits from its user or role. It also
//!   limits the permissions that a bucket policy grants to the user, the role or the account. It
//!   does not limit permissions that a bucket policy grants to the ARN of the session itself.
//! - "The root user of the bucket owner's account can perform the `GetBucketPolicy`,
//!   `PutBucketPolicy`, and `DeleteBucketPolicy` API actions, even if their bucket policy
//!   explicitly denies the root principal's access."
//!
//! An access control list allows and never denies. An Allow of a list counts like an Allow of the
//! bucket policy. For example, a list that grants READ to another account admits a user of that
//! account only if the user's own policies allow the read, too.

use std::cell::OnceCell;

use crate::evaluation::{Decision, Evaluated};
use crate::policy::Policy;
use crate::principals::Mention;
use crate::question::{Principal, Question};

/// The policies and access control lists that decide about a request.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The policies of the sender: of the user, or for a session (temporary credentials), of the
    /// user or role for which it was created. The policies of a root user are ignored, because it
    /// may do everything in its account.
    pub identity: &'a [&'a Policy],
    /// The policy that limits the session, that is, the temporary credentials of the sender. It was
    /// passed when the session was created. `None` without a session or without such a policy.
    pub session: Option<&'a Policy>,
    /// The owner and the policy of the bucket of the request. `None` if the request concerns the
    /// sender's own account: it lists or creates buckets.
    pub bucket: Option<BucketSide<'a>>,
    /// Returns true if the access control list of the bucket or object allows the request. It is
    /// called only if the decision depends on its result.
    pub acl: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("identity", &self.identity)
            .field("session", &self.session)
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

/// The owner and the policy of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct BucketSide<'a> {
    /// The number of the account that owns the bucket, 12 digits.
    pub account: &'a str,
    /// The bucket policy, parsed as `PolicyKind::Bucket`.
    pub policy: Option<&'a Policy>,
    /// True if the Allow statements of the policy count. They do not for an object whose owner is
    /// not the owner of the bucket: `account` is then the owner of the object. The Deny statements
    /// always count.
    pub policy_allows: bool,
}

/// A kind of policy that can deny a request, or whose Allow can be missing. `Ruling` names it for
/// the error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The policies of the sender, that is, of its user or role (identity-based policies).
    Identity,
    /// The policy that limits the session of the sender, that is, its temporary credentials.
    Session,
    /// The bucket policy or an access control list (resource-based policies).
    Bucket,
}

impl Source {
    /// Returns the name of this kind of policy in AWS's messages: "no identity-based policy allows
    /// the s3:GetObject action", "with an explicit deny in a resource-based policy".
    pub const fn words(self) -> &'static str {
        match self {
            Source::Identity => "identity-based policy",
            Source::Session => "session policy",
            Source::Bucket => "resource-based policy",
        }
    }
}

/// The combined decision of all policies and access control lists about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The request is allowed.
    Allowed,
    /// A statement of this kind of policy explicitly denies the request.
    Denied(Source),
    /// No policy denies the request, but this kind of policy, whose Allow is required, does not
    /// allow it.
    NotAllowed(Source),
}

impl Ruling {
    /// Returns true for `Allowed`.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Ruling::Allowed)
    }
}

/// The actions, in lower case, that a bucket policy cannot deny to the root user of the account
/// that owns the bucket. Without them an account could lock itself out of a bucket.
const ALWAYS_FOR_ROOT: [&str; 3] =
    ["s3:getbucketpolicy", "s3:putbucketpolicy", "s3:deletebucketpolicy"];

/// Returns true if a bucket policy cannot deny the action to the root user of the account that owns
/// the bucket.
fn is_always_for_root(action: &str) -> bool {
    ALWAYS_FOR_ROOT.iter().any(|one| one.eq_ignore_ascii_case(action))
}

/// Returns the combined decision of all policies and access control lists in `sources` about one
/// question: whether a sender may do an action on a resource.
pub fn authorise(question: &Question<'_>, sources: &Sources<'_>) -> Ruling {
    // Without a policy to evaluate, the action is not needed in lower case.
    let lower_case = OnceCell::new();
    let action = || lower_case.get_or_init(|| question.action.to_ascii_lowercase()).as_str();
    let bucket_account = sources.bucket.map(|bucket| bucket.account);
    // A request without a bucket is about the sender's own account. An anonymous sender has none.
    let own_account = match (question.principal.account(), bucket_account) {
        (Some(own), Some(bucket)) => own == bucket,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let is_root = matches!(question.principal, Principal::User { is_root: true, .. });
    // The exception is for the owner of the bucket only: another account's root user must not read
    // the policy.
    let beyond_policy = is_root && own_account && is_always_for_root(question.action);

    let identity =
        if is_root { Decision::Allowed } else { decide_all(sources.identity, action, question) };
    let session =
        sources.session.map(|policy| evaluate(policy, false, action(), question).decision);
    let bucket = sources.bucket.and_then(|bucket| bucket.policy).filter(|_| !beyond_policy);
    let bucket = bucket.map(|policy| evaluate(policy, true, action(), question));

    // An explicit Deny of any source comes before each Allow.
    if identity == Decision::Denied {
        return Ruling::Denied(Source::Identity);
    }
    if session == Some(Decision::Denied) {
        return Ruling::Denied(Source::Session);
    }
    if bucket.is_some_and(|it| it.decision == Decision::Denied) {
        return Ruling::Denied(Source::Bucket);
    }

    let policy_allows = sources.bucket.is_some_and(|bucket| bucket.policy_allows);
    let by_policy = policy_allows && bucket.is_some_and(|it| it.decision.is_allowed());
    let by_bucket = || by_policy || (sources.acl)();
    // An anonymous sender and a service have no policies of their own, so the bucket alone decides.
    if matches!(question.principal, Principal::Anonymous | Principal::Service(_)) {
        return if by_bucket() { Ruling::Allowed } else { Ruling::NotAllowed(Source::Bucket) };
    }
    let mention = bucket.and_then(|it| it.mention).filter(|_| policy_allows);
    // The session policy does not limit a permission that is granted to the session itself.
    if own_account && mention == Some(Mention::Session) {
        return Ruling::Allowed;
    }
    // All other permissions of a session need an Allow of its policy, too.
    if !session.is_none_or(Decision::is_allowed) {
        return Ruling::NotAllowed(Source::Session);
    }
    match (own_account, identity.is_allowed()) {
        (true, true) => Ruling::Allowed,
        // Within an account one of the two is enough. Across accounts the bucket must allow, too.
        (true, false) | (false, true) if by_bucket() => Ruling::Allowed,
        (_, false) => Ruling::NotAllowed(Source::Identity),
        (false, true) => Ruling::NotAllowed(Source::Bucket),
    }
}

/// Returns the combined decision of the policies of the sender: a Deny of one policy overrides the
/// Allows of the others. `action` returns the action in lower case.
fn decide_all<'a>(
    policies: &[&Policy],
    action: impl Fn() -> &'a str,
    question: &Question<'_>,
) -> Decision {
    let mut all = Decision::Unspecified;
    if matches!(question.principal, Principal::Anonymous | Principal::Service(_)) {
        return all;
    }
    for policy in policies {
        match evaluate(policy, false, action(), question).decision {
            Decision::Denied => return Decision::Denied,
            Decision::Allowed => all = Decision::Allowed,
            Decision::Unspecified => {}
        }
    }
    all
}

/// Returns the decision of a policy in one of two roles: as the bucket policy if `for_bucket` is
/// true, otherwise as a policy of the sender. A policy of the other kind allows nothing there,
/// because only bucket policies name the principals that they allow.
fn evaluate(policy: &Policy, for_bucket: bool, action: &str, question: &Question<'_>) -> Evaluated {
    let evaluated = policy.evaluate(action, question);
    if policy.is_of_bucket() != for_bucket && evaluated.decision.is_allowed() {
        return Evaluated { decision: Decision::Unspecified, mention: None };
    }
    evaluated
}
