//! Policies in JSON. A policy that was accepted stays valid, a policy decides as its statements
//! together, a deny overrides an allow, and wildcards match as in a naive matcher.

use std::borrow::Cow;

use policy::{
    BucketSide, ConditionKey, ConditionValues, Decision, POLICY_BYTES_MAX, Policy, PolicyKind,
    Principal, Question, RoleSession, Ruling, Source, Sources, Values, authorise,
};
use serde_json::{Value, json};

use crate::glob;

const BUCKET: &str = "bucket";
const ACCOUNT: &str = "111111111111";

/// The input: an action, a resource and a pattern, each on a line, and then the document.
pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.splitn(4, '\n');
    let (Some(action), Some(resource), Some(pattern), Some(document)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    wildcards(resource, pattern);
    let exists = |_: &policy::PrincipalName| true;
    let bucket = PolicyKind::Bucket { bucket: BUCKET, exists: &exists };
    let user = understood(document, PolicyKind::User);
    let session = understood(document, PolicyKind::Session);
    assert_eq!(user, session, "a session's policy may say what a user's may");
    let bucket_policy = understood(document, bucket);
    let request = Request { text: resource };
    for principal in principals() {
        let question = Question { principal: &principal, action, resource, conditions: &request };
        for (policy, kind) in [(&user, PolicyKind::User), (&bucket_policy, bucket)] {
            let Some(policy) = policy else { continue };
            says_what_its_statements_say(document, policy, kind, &question);
        }
        law(user.as_ref(), bucket_policy.as_ref(), &question);
    }
}

/// A policy that was accepted when it was added is also valid when it is read later, with the same
/// meaning.
fn understood(document: &str, kind: PolicyKind<'_>) -> Option<Policy> {
    let read = Policy::parse(document, kind);
    match Policy::parse_new(document, kind) {
        Ok(added) => {
            assert!(document.len() <= POLICY_BYTES_MAX);
            assert_eq!(read.as_ref(), Ok(&added));
        }
        Err(error) => assert!(error.to_string().len() <= 4096 + 8 * document.len()),
    }
    let policy = read.ok()?;
    assert_eq!(policy.is_of_bucket(), matches!(kind, PolicyKind::Bucket { .. }));
    assert!(policy.principals().next().is_none() || policy.is_of_bucket());
    assert!(policy.keys().count() <= document.len());
    let _ = (policy.is_public(), policy.asks_existing_tags());
    Some(policy)
}

fn says_what_its_statements_say(
    document: &str,
    policy: &Policy,
    kind: PolicyKind<'_>,
    question: &Question<'_>,
) {
    let decision = policy.decide(question);
    assert_eq!(policy.decide(question), decision);
    let document: Value = serde_json::from_str(document).expect("a policy is JSON");
    let statements = match &document["Statement"] {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let mut together = Decision::Unspecified;
    for statement in statements {
        let mut alone = document.clone();
        alone["Statement"] = statement;
        // The document, written again, may be longer and exceed the limit.
        let Ok(alone) = Policy::parse(&alone.to_string(), kind) else { return };
        together = match (together, alone.decide(question)) {
            (Decision::Denied, _) | (_, Decision::Denied) => Decision::Denied,
            (Decision::Allowed, _) | (_, Decision::Allowed) => Decision::Allowed,
            _ => Decision::Unspecified,
        };
    }
    assert_eq!(decision, together, "the statements one by one");
}

fn wildcards(resource: &str, pattern: &str) {
    if pattern.contains('$') || resource.is_empty() {
        return;
    }
    let document = json!({
        "Version": "2012-10-17",
        "Statement": [{ "Effect": "Allow", "Action": "*", "Resource": format!("arn:aws:s3:::{pattern}") }],
    });
    let Ok(policy) = Policy::parse(&document.to_string(), PolicyKind::User) else { return };
    let (principal, request) = (Principal::Anonymous, Request { text: "" });
    let question =
        Question { principal: &principal, action: "s3:GetObject", resource, conditions: &request };
    let covered = glob::covers(pattern, resource);
    assert_eq!(policy.decide(&question).is_allowed(), covered, "{pattern:?} of {resource:?}");
}

fn law(user: Option<&Policy>, bucket: Option<&Policy>, question: &Question<'_>) {
    let identity: Vec<&Policy> = user.into_iter().collect();
    for (session, acl) in [(None, false), (user, false), (None, true)] {
        let side = BucketSide { account: ACCOUNT, policy: bucket, policy_allows: true };
        let asks = || acl;
        let sources = Sources { identity: &identity, session, bucket: Some(side), acl: &asks };
        let ruling = authorise(question, &sources);
        let denied = |policy: Option<&Policy>| {
            policy.is_some_and(|policy| policy.decide(question) == Decision::Denied)
        };
        let is_root = matches!(question.principal, Principal::User { is_root: true, .. });
        if !is_root && *question.principal != Principal::Anonymous && denied(user) {
            assert_eq!(ruling, Ruling::Denied(Source::Identity), "a deny wins");
        }
        if !is_root && denied(bucket) {
            assert!(!ruling.is_allowed(), "a deny wins");
        }
        let allowed = |policy: Option<&Policy>| {
            policy.is_some_and(|policy| policy.decide(question).is_allowed())
        };
        if ruling.is_allowed() && !is_root {
            assert!(acl || allowed(user) || allowed(bucket), "nothing is allowed by default");
        }
    }
}

fn principals() -> [Principal; 4] {
    let user = |account: &str, is_root, session| Principal::User {
        account: account.to_owned(),
        canonical_id: "a".repeat(64),
        name: Some("alice".to_owned()),
        is_root,
        session,
    };
    let session = RoleSession { role: "role".to_owned(), name: "session".to_owned() };
    [
        Principal::Anonymous,
        user(ACCOUNT, false, None),
        user("222222222222", false, Some(session)),
        user(ACCOUNT, true, None),
    ]
}

/// A request whose values follow from the resource alone.
struct Request<'a> {
    text: &'a str,
}

impl ConditionValues for Request<'_> {
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        let name = key.name();
        let turn = name.bytes().chain(self.text.bytes()).fold(0_u8, u8::wrapping_add);
        match turn % 9 {
            0 => Values::Absent,
            1 => Values::One("10.0.0.1".into()),
            2 => Values::One("2013-05-24T00:00:00Z".into()),
            3 => Values::One("5".into()),
            4 => Values::One("true".into()),
            5 => Values::Many(vec!["a".into(), "b/c".into()]),
            6 => Values::Many(Vec::new()),
            7 => Values::One("arn:aws:iam::111111111111:user/alice".into()),
            _ => Values::One(Cow::Borrowed(self.text)),
        }
    }
}
