//! How several policies decide together.
//!
//! AWS's rules ("Policy evaluation logic"), in short:
//!
//! - "By default, all requests are denied", but those of the account's root user.
//! - "An explicit deny in any policy overrides any allows."
//! - Within an account, "if either an identity-based policy, a resource-based policy, or both allow
//!   the action, it is allowed".
//! - Across accounts, both the account of the one who asks and the account that owns the bucket
//!   must allow it.
//! - A session policy limits what the session gets of its user's or role's permissions. What a
//!   bucket's policy gives to the ARN of the session itself is not limited by it; what it gives to
//!   the user, the role or the account is.
//! - "The root user of the bucket owner's account can perform the `GetBucketPolicy`,
//!   `PutBucketPolicy`, and `DeleteBucketPolicy` API actions, even if their bucket policy
//!   explicitly denies the root principal's access."
//!
//! An ACL allows and never denies. It stands where the bucket's policy stands.

use crate::evaluation::{Decision, Weighed};
use crate::policy::Policy;
use crate::principals::Mention;
use crate::question::{Principal, Question};

/// What decides over a request.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The policies of the user, or of the user or role behind the session. Those of a root user do
    /// not count: it may do everything in its account.
    pub identity: &'a [&'a Policy],
    /// The policy that the session was given when it began.
    pub session: Option<&'a Policy>,
    /// The bucket, where there is one that the request is about. Without one it is about the
    /// sender's own account: to list buckets, to create one.
    pub bucket: Option<BucketSide<'a>>,
    /// Whether an ACL allows it. Only asked where that decides.
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

/// What a bucket says about who may do what to it.
#[derive(Clone, Copy, Debug)]
pub struct BucketSide<'a> {
    /// The number of the account that owns the bucket, 12 digits.
    pub account: &'a str,
    /// Its policy, read as `PolicyKind::Bucket`.
    pub policy: Option<&'a Policy>,
    /// Whether what the policy allows counts. It does not for an object that belongs to another
    /// account than the bucket: then `account` is that one. What it denies always counts.
    pub policy_allows: bool,
}

/// One of those who have a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The sender's own policies.
    Identity,
    /// The policy of the session.
    Session,
    /// The bucket's policy, or an ACL.
    Bucket,
}

impl Source {
    /// What AWS's messages call it: "no identity-based policy allows the s3:GetObject action",
    /// "with an explicit deny in a resource-based policy".
    pub const fn words(self) -> &'static str {
        match self {
            Source::Identity => "identity-based policy",
            Source::Session => "session policy",
            Source::Bucket => "resource-based policy",
        }
    }
}

/// What the law says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The request may go on.
    Allowed,
    /// This source denies it in so many words.
    Denied(Source),
    /// No source denies it, but this one would have had to allow it.
    NotAllowed(Source),
}

impl Ruling {
    /// Whether the request may go on.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Ruling::Allowed)
    }
}

/// What only the owner's root user may always do, lest an account lock itself out of a bucket.
const ALWAYS_FOR_ROOT: [&str; 3] =
    ["s3:getbucketpolicy", "s3:putbucketpolicy", "s3:deletebucketpolicy"];

/// The whole law: whether the request that is asked about may go on.
pub fn authorise(question: &Question<'_>, sources: &Sources<'_>) -> Ruling {
    let action = question.action.to_ascii_lowercase();
    let bucket_account = sources.bucket.map(|bucket| bucket.account);
    let own_account = match (question.principal.account(), bucket_account) {
        (Some(own), Some(bucket)) => own == bucket,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let is_root = matches!(question.principal, Principal::User { is_root: true, .. });
    let beyond_policy = is_root && own_account && ALWAYS_FOR_ROOT.contains(&action.as_str());

    let identity =
        if is_root { Decision::Allowed } else { decide_all(sources.identity, &action, question) };
    let session = sources.session.map(|policy| weigh(policy, false, &action, question).decision);
    let bucket = sources.bucket.and_then(|bucket| bucket.policy).filter(|_| !beyond_policy);
    let bucket = bucket.map(|policy| weigh(policy, true, &action, question));

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
    if matches!(question.principal, Principal::Anonymous) {
        return if by_bucket() { Ruling::Allowed } else { Ruling::NotAllowed(Source::Bucket) };
    }
    let mention = bucket.and_then(|it| it.mention).filter(|_| policy_allows);
    if own_account && mention == Some(Mention::Session) {
        return Ruling::Allowed;
    }
    if !session.is_none_or(Decision::is_allowed) {
        return Ruling::NotAllowed(Source::Session);
    }
    match (own_account, identity.is_allowed()) {
        (true, true) => Ruling::Allowed,
        // Either is enough within the account; beyond it, the bucket is what is missing.
        (true, false) | (false, true) if by_bucket() => Ruling::Allowed,
        (_, false) => Ruling::NotAllowed(Source::Identity),
        (false, true) => Ruling::NotAllowed(Source::Bucket),
    }
}

/// What the user's policies say together.
fn decide_all(policies: &[&Policy], action: &str, question: &Question<'_>) -> Decision {
    let mut all = Decision::Unspecified;
    if matches!(question.principal, Principal::Anonymous) {
        return all;
    }
    for policy in policies {
        match weigh(policy, false, action, question).decision {
            Decision::Denied => return Decision::Denied,
            Decision::Allowed => all = Decision::Allowed,
            Decision::Unspecified => {}
        }
    }
    all
}

/// What a policy says in its place. One that was read for another place allows nothing, because
/// only a bucket's names those whom it allows.
fn weigh(policy: &Policy, for_bucket: bool, action: &str, question: &Question<'_>) -> Weighed {
    let weighed = policy.weigh(action, question);
    if policy.is_of_bucket() != for_bucket && weighed.decision.is_allowed() {
        return Weighed { decision: Decision::Unspecified, mention: None };
    }
    weighed
}
