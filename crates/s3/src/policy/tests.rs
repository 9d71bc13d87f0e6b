use proptest::prelude::*;

use super::{Caller, Decision, Policy, evaluate, evaluate_for_caller};
use crate::Code;
use crate::operation::{Context, Operation, Permission};

fn permission(action: &'static str, resource: &str) -> Permission {
    Permission { action, resource: resource.to_owned(), context: Context::default() }
}

fn statement(effect: &str, rest: &str) -> String {
    format!(r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}",{rest}}}]}}"#)
}

fn allow(rest: &str) -> Policy {
    Policy::parse(&statement("Allow", rest)).expect("a policy")
}

fn deny(rest: &str) -> Policy {
    Policy::parse(&statement("Deny", rest)).expect("a policy")
}

#[track_caller]
fn check(policies: &[Policy], action: &'static str, resource: &str, expected: Decision) {
    assert_eq!(evaluate(policies, &permission(action, resource)), expected);
}

const ALL: &str = r#""Action":"s3:*","Resource":"*""#;

#[test]
fn s3_s10_nothing_is_allowed_by_default() {
    check(&[], "s3:GetObject", "b/k", Decision::Unspecified);
    let other = allow(r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::other/*""#);
    check(&[other], "s3:GetObject", "b/k", Decision::Unspecified);
    check(
        &[deny(r#""Action":"s3:PutObject","Resource":"*""#)],
        "s3:GetObject",
        "b/k",
        Decision::Unspecified,
    );
}

#[test]
fn s3_s10_explicit_deny_wins_in_any_order() {
    let denies = deny(r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::b/secret/*""#);
    for policies in [[allow(ALL), denies.clone()], [denies.clone(), allow(ALL)]] {
        check(&policies, "s3:GetObject", "b/secret/k", Decision::Denied);
        check(&policies, "s3:GetObject", "b/open/k", Decision::Allowed);
        check(&policies, "s3:PutObject", "b/secret/k", Decision::Allowed);
    }
}

#[test]
fn s3_s10_patterns_and_their_negation() {
    let policy = [allow(r#""Action":["s3:get*","s3:?utObject"],"Resource":"arn:aws:s3:::b/a?/*""#)];
    check(&policy, "s3:GetObject", "b/ab/k", Decision::Allowed);
    check(&policy, "s3:PutObject", "b/aé/", Decision::Allowed);
    check(&policy, "s3:GetObject", "b/abc/k", Decision::Unspecified);
    check(&policy, "s3:DeleteObject", "b/ab/k", Decision::Unspecified);
    let negated = [allow(r#""NotAction":"s3:Delete*","NotResource":"arn:aws:s3:::b/x*""#)];
    check(&negated, "s3:GetObject", "b/k", Decision::Allowed);
    check(&negated, "s3:DeleteObject", "b/k", Decision::Unspecified);
    check(&negated, "s3:GetObject", "b/xk", Decision::Unspecified);
    // A bucket's objects are not the bucket.
    let objects = [allow(r#""Action":"s3:*","Resource":"arn:aws:s3:::b/*""#)];
    check(&objects, "s3:ListBucket", "b", Decision::Unspecified);
    // A star in a key is no wildcard.
    let exact = [allow(r#""Action":"s3:*","Resource":"arn:aws:s3:::b/k""#)];
    check(&exact, "s3:GetObject", "b/*", Decision::Unspecified);
}

#[test]
fn s3_s10_conditions_on_listings() {
    let home = [allow(
        r#""Action":"s3:ListBucket","Resource":"arn:aws:s3:::b",
           "Condition":{"StringLike":{"s3:prefix":["home/*",""]},"StringNotEquals":{"s3:delimiter":"|"}}"#,
    )];
    let list = |prefix: Option<&str>, delimiter: Option<&str>| {
        let mut one = permission("s3:ListBucket", "b");
        one.context.prefix = prefix.map(str::to_owned);
        one.context.delimiter = delimiter.map(str::to_owned);
        evaluate(&home, &one)
    };
    assert_eq!(list(Some("home/a"), None), Decision::Allowed);
    assert_eq!(list(Some(""), Some("/")), Decision::Allowed);
    assert_eq!(list(Some("other"), None), Decision::Unspecified);
    assert_eq!(list(None, None), Decision::Unspecified);
    assert_eq!(list(Some("home/a"), Some("|")), Decision::Unspecified);
}

#[test]
fn s3_s10_what_is_not_understood_is_refused() {
    let bad = [
        "",
        "{}",
        "[]",
        "null",
        r#"{"Statement":[]}"#,
        r#"{"Version":"2013","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"allow","Action":"*","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":[],"Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","NotAction":"x:y","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"GetObject","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"bucket/*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::${aws:username}/*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Surprise":1}]}"#,
        r#"{"Statement":[{"Effect":"Deny","Effect":"Allow","Action":"*","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"::1"}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"aws:Referer":"x"}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"s3:prefix":[]}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"s3:prefix":"a"},"StringLike":{"s3:prefix":"b"}}}]}"#,
    ];
    for json in bad {
        assert_eq!(Policy::parse(json).expect_err(json).code, Code::MalformedPolicy);
    }
    let large = statement("Allow", ALL) + &" ".repeat(super::POLICY_BYTES_MAX);
    assert_eq!(Policy::parse(&large).expect_err("too large").code, Code::MalformedPolicy);
}

#[test]
fn s3_s10_a_new_policy_names_actions_that_there_are() {
    let new = |action: &str| {
        let rest = format!(r#""Action":["s3:PutObject","{action}"],"Resource":"*""#);
        Policy::parse_new(&statement("Deny", &rest))
    };
    for good in ["*", "s3:*", "S3:getobject", "s3:Get*", "s3:*Tagging", "s?:PutObject"] {
        assert!(new(good).is_ok(), "{good}");
    }
    for operation in Operation::ALL.iter().filter(|operation| !operation.is_open()) {
        for action in [operation.action(), operation.versioned_action(true)] {
            assert!(new(action.expect("one that is not open")).is_ok(), "{operation:?}");
        }
    }
    for bad in ["s3:GetObjcet", "s3:Gte*", "s3:", "s3: GetObject", "ec2:*", "s3:GetObject ", "?:*"]
    {
        let fault = new(bad).expect_err(bad);
        assert_eq!(fault.code, Code::MalformedPolicy);
        assert!(fault.message.contains(&format!("{bad:?}")), "{}", fault.message);
        // What was once added stays what it was.
        let rest = format!(r#""Action":"{bad}","Resource":"*""#);
        assert!(Policy::parse(&statement("Deny", &rest)).is_ok(), "{bad}");
    }
    assert!(Policy::parse_new("{").is_err());
}

#[test]
fn s3_s10_what_is_denied_by_half_is_told() {
    let half = |actions: &str| {
        let rest = format!(r#""Action":{actions},"Resource":"arn:aws:s3:::b/*""#);
        deny(&rest).half_denied()
    };
    assert_eq!(half(r#""s3:GetObject""#), [("s3:GetObject", "s3:GetObjectVersion")]);
    assert_eq!(
        half(r#"["s3:DeleteObjectVersion","s3:ListBucket"]"#),
        [("s3:DeleteObjectVersion", "s3:DeleteObject")]
    );
    for whole in [r#""*""#, r#""s3:GetObject*""#, r#"["s3:DeleteObject","s3:DeleteObjectVersion"]"#]
    {
        assert_eq!(half(whole), []);
    }
    assert_eq!(allow(r#""Action":"s3:GetObject","Resource":"*""#).half_denied(), []);
    for operation in Operation::ALL {
        let told = Operation::VERSIONED.iter().any(|one| one.action() == operation.action());
        assert!(told || operation.versioned_action(true) == operation.action(), "{operation:?}");
    }
    for operation in Operation::VERSIONED {
        assert_ne!(operation.versioned_action(true), operation.action(), "{operation:?}");
    }
}

#[test]
fn s3_b7_bucket_policies_name_their_callers() {
    let bucket = |principal: &str| {
        let rest = format!(r#""Principal":{principal},"Action":"s3:GetObject","Resource":"*""#);
        Policy::parse_for_bucket(&statement("Allow", &rest))
    };
    let get = permission("s3:GetObject", "b/k");
    let public = bucket(r#"{"AWS":["*"]}"#).expect("a policy");
    assert_eq!(evaluate_for_caller(&public, Caller::Anonymous, &get), Decision::Allowed);
    // Whatever it says to others, it is no user's own policy.
    assert_eq!(evaluate([&public], &get), Decision::Unspecified);
    let one = bucket(r#"{"AWS":"ALICE"}"#).expect("a policy");
    assert_eq!(evaluate_for_caller(&one, Caller::AccessKey("ALICE"), &get), Decision::Allowed);
    assert_eq!(evaluate_for_caller(&one, Caller::AccessKey("BOB"), &get), Decision::Unspecified);
    assert_eq!(evaluate_for_caller(&one, Caller::Anonymous, &get), Decision::Unspecified);
    for bad in [r#""x""#, r#"{"AWS":[]}"#, r#"{"Service":"x"}"#, r#"{"AWS":"arn:aws:iam::1:root"}"#]
    {
        assert_eq!(bucket(bad).expect_err(bad).code, Code::MalformedPolicy);
    }
    assert!(Policy::parse_for_bucket(&statement("Allow", ALL)).is_err());
}

#[test]
fn s3_s10_canned_policies_do_what_their_names_say() {
    let may = |name: &str, action| {
        evaluate(&[Policy::canned(name).expect("canned")], &permission(action, "b/k")).is_allowed()
    };
    for (action, read, write) in [
        ("s3:GetObject", true, false),
        ("s3:ListBucket", true, false),
        ("s3:ListAllMyBuckets", true, false),
        ("s3:GetBucketLocation", true, true),
        ("s3:PutObject", false, true),
        ("s3:AbortMultipartUpload", false, true),
        ("s3:DeleteObject", false, false),
        ("s3:CreateBucket", false, false),
        ("s3:GetBucketPolicy", false, false),
    ] {
        assert_eq!(may("readonly", action), read, "{action}");
        assert_eq!(may("writeonly", action), write, "{action}");
        assert!(may("readwrite", action), "{action}");
    }
    assert_eq!(Policy::canned("admin"), None);
}

/// A pattern by its definition, with no thought for speed.
fn naive_match(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=text.len()).any(|skip| naive_match(rest, &text[skip..])),
        (Some((wanted, pattern)), Some((found, text))) => {
            (*wanted == '?' || wanted == found) && naive_match(pattern, text)
        }
        _ => false,
    }
}

fn naive_covers(patterns: &[String], negated: bool, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut any = false;
    for pattern in patterns {
        any |= naive_match(&pattern.chars().collect::<Vec<_>>(), &text);
    }
    if negated { !any } else { any }
}

#[derive(Clone, Debug)]
struct Plain {
    denies: bool,
    actions: (bool, Vec<String>),
    resources: (bool, Vec<String>),
}

impl Plain {
    fn json(&self) -> String {
        let list = |prefix: &str, patterns: &[String]| {
            let quoted: Vec<_> = patterns.iter().map(|one| format!("\"{prefix}{one}\"")).collect();
            quoted.join(",")
        };
        format!(
            r#"{{"Effect":"{}","{}Action":[{}],"{}Resource":[{}]}}"#,
            if self.denies { "Deny" } else { "Allow" },
            if self.actions.0 { "Not" } else { "" },
            list("s3:", &self.actions.1),
            if self.resources.0 { "Not" } else { "" },
            list("arn:aws:s3:::", &self.resources.1),
        )
    }
}

fn naive(statements: &[Plain], action: &str, resource: &str) -> Decision {
    let hits: Vec<bool> = statements
        .iter()
        .filter(|one| naive_covers(&one.actions.1, one.actions.0, &action.to_lowercase()[3..]))
        .filter(|one| naive_covers(&one.resources.1, one.resources.0, resource))
        .map(|one| one.denies)
        .collect();
    if hits.contains(&true) {
        Decision::Denied
    } else if hits.contains(&false) {
        Decision::Allowed
    } else {
        Decision::Unspecified
    }
}

fn plain() -> impl Strategy<Value = Plain> {
    let actions = (any::<bool>(), prop::collection::vec("[getpuobjc*?]{1,6}|\\*|getobject", 1..3));
    let resources = (any::<bool>(), prop::collection::vec("[ab*?][ab/*?]{0,6}", 1..3));
    (any::<bool>(), actions, resources).prop_map(|(denies, actions, resources)| Plain {
        denies,
        actions,
        resources,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn s3_s10_fast_evaluator_equals_the_naive_one(
        statements in prop::collection::vec(plain(), 1..5),
        action in prop::sample::select(vec!["s3:GetObject", "s3:PutObject", "s3:Get", "s3:TopBucket"]),
        resource in "[ab][ab/]{0,6}",
    ) {
        let json: Vec<_> = statements.iter().map(Plain::json).collect();
        let whole = Policy::parse(&format!(r#"{{"Statement":[{}]}}"#, json.join(","))).unwrap();
        let expected = naive(&statements, action, &resource);
        let asked = permission(action, &resource);
        prop_assert_eq!(evaluate([&whole], &asked), expected);
        // The same statements in as many policies decide the same.
        let apart: Vec<_> = json
            .iter()
            .map(|one| Policy::parse(&format!(r#"{{"Statement":{one}}}"#)).unwrap())
            .collect();
        prop_assert_eq!(evaluate(&apart, &asked), expected);
    }

    #[test]
    fn s3_s16_policies_never_panic(text in any::<String>()) {
        let _ = Policy::parse(&text);
        let _ = Policy::parse_for_bucket(&statement("Allow", &text));
    }

    #[test]
    fn s3_s10_wildcards_equal_their_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(
            super::wildcard::matches(&pattern, &text), naive_match(&chars(&pattern), &chars(&text))
        );
    }
}
