use std::cell::Cell;

use super::{ACCOUNT, Said, decide, of_bucket, of_user, root, said, session, user, web};
use crate::{
    ConditionKey, ConditionValues, Decision, Policy, PolicyKind, Principal, Question,
    ResolvedPatterns, Values,
};

fn allows(resource: &str, principal: &Principal, asked: &str, said: &Said) -> bool {
    let rest = format!(r#""Action":"s3:*","Resource":"arn:aws:s3:::{resource}""#);
    let question =
        Question { principal, action: "s3:GetObject", resource: asked, conditions: said };
    of_user("Allow", &rest).decide(&question).is_allowed()
}

#[test]
fn a_variable_is_replaced_by_the_value_of_the_request() {
    let alice = user(ACCOUNT, "alice");
    let none = Said::default();
    for (resource, asked, expected) in [
        ("b/${aws:username}/*", "b/alice/k", true),
        ("b/${aws:username}/*", "b/bob/k", false),
        ("b/${AWS:UserName}/*", "b/alice/k", true),
        ("b/${aws:PrincipalAccount}/${aws:userid}", "b/111111111111/alice", true),
        ("b/${aws:PrincipalType}", "b/User", true),
        ("b/${aws:username, 'x'}", "b/alice", true),
        ("b/${s3:prefix, 'x'}", "b/x", true),
        ("b/${s3:prefix,'x'}*", "b/xyz", true),
        ("b/${s3:prefix}", "b/", false),
        ("b/${*}/*", "b/*/k", true),
        ("b/${*}/*", "b/a/k", false),
        ("b/${?}", "b/?", true),
        ("b/${?}", "b/a", false),
        ("b/${$}{aws:username}", "b/${aws:username}", true),
        ("b/$x{y}", "b/$x{y}", true),
    ] {
        assert_eq!(allows(resource, &alice, asked, &none), expected, "{resource} {asked}");
    }
    let from = said(&[("aws:SourceIp", &["10.0.0.1"])]);
    assert!(allows("b/${aws:SourceIp}", &alice, "b/10.0.0.1", &from));
    let session = session(ACCOUNT, "alice", "r", "s");
    assert!(allows("b/${aws:userid}", &session, "b/r:s", &none));
    // The session of a user has the user's name. Root users and web identities have none.
    assert!(allows("b/${aws:username}", &session, "b/alice", &none));
    assert!(!allows("b/${aws:username}*", &web(ACCOUNT, "r", "s"), "b/r", &none));
    assert!(!allows("b/${aws:username}*", &root(ACCOUNT), "b/rootkey", &none));
}

#[test]
fn the_value_of_a_variable_is_literal() {
    let star = user(ACCOUNT, "*");
    assert!(allows("b/${aws:username}/*", &star, "b/*/k", &Said::default()));
    assert!(!allows("b/${aws:username}/*", &star, "b/alice/k", &Said::default()));
    let nested = said(&[("s3:prefix", &["${aws:username}"])]);
    let alice = user(ACCOUNT, "alice");
    assert!(allows("b/${s3:prefix}", &alice, "b/${aws:username}", &nested));
    assert!(!allows("b/${s3:prefix}", &alice, "b/alice", &nested));
}

#[test]
fn variables_are_replaced_in_strings_and_arns_of_conditions() {
    let alice = user(ACCOUNT, "alice");
    let fits = |condition: &str, prefix: &str| {
        let rest = format!(r#""Action":"s3:*","Resource":"*","Condition":{condition}"#);
        let said = said(&[("s3:prefix", &[prefix]), ("aws:FederatedProvider", &[prefix])]);
        let question = Question {
            principal: &alice,
            action: "s3:ListBucket",
            resource: "b",
            conditions: &said,
        };
        of_user("Allow", &rest).decide(&question).is_allowed()
    };
    let like = r#"{"StringLike":{"s3:prefix":"${aws:username}/*"}}"#;
    assert!(fits(like, "alice/x") && !fits(like, "bob/x"));
    let equals = r#"{"StringEquals":{"s3:prefix":"${aws:username}*"}}"#;
    assert!(fits(equals, "alice*") && !fits(equals, "alicex"));
    let folded = r#"{"StringEqualsIgnoreCase":{"s3:prefix":"X${aws:username}"}}"#;
    assert!(fits(folded, "xALICE"));
    let arn = r#"{"ArnLike":{"aws:FederatedProvider":"arn:aws:iam::${aws:PrincipalAccount}:user/${aws:username}"}}"#;
    assert!(fits(arn, "arn:aws:iam::111111111111:user/alice"));
    assert!(!fits(arn, "arn:aws:iam::111111111111:user/bob"));
    let whole = r#"{"ArnEquals":{"aws:FederatedProvider":"${aws:PrincipalArn}"}}"#;
    assert!(fits(whole, "arn:aws:iam::111111111111:user/alice"));
}

#[test]
fn a_variable_without_a_value_allows_nothing_and_denies() {
    let anonymous = Principal::Anonymous;
    let bucket = |effect: &str, element: &str| {
        let json = format!(
            r#"{{"Version":"2012-10-17","Statement":{{"Effect":"{effect}","Principal":"*","Action":"s3:*",{element}}}}}"#
        );
        Policy::parse(&json, super::in_bucket()).unwrap()
    };
    let element = r#""NotResource":"arn:aws:s3:::b/${aws:username}/*""#;
    let ask = |policy: &Policy| decide(policy, &anonymous, "s3:GetObject", "b/k");
    assert_eq!(ask(&bucket("Allow", element)), Decision::Unspecified);
    assert_eq!(ask(&bucket("Deny", element)), Decision::Denied);
    let element = r#""Resource":"arn:aws:s3:::b*","Condition":{"StringNotEquals":{"aws:userid":"${aws:username}"}}"#;
    assert_eq!(ask(&bucket("Allow", element)), Decision::Unspecified);
    assert_eq!(ask(&bucket("Deny", element)), Decision::Denied);
    let element = r#""Resource":"arn:aws:s3:::b/${aws:username}*""#;
    assert_eq!(ask(&bucket("Allow", element)), Decision::Unspecified);
    assert_eq!(ask(&bucket("Deny", element)), Decision::Unspecified);
    let everyone = of_bucket("Allow", r#""Principal":"*""#);
    assert_eq!(ask(&everyone), Decision::Allowed);
}

#[test]
fn old_documents_have_no_variables() {
    let alice = user(ACCOUNT, "alice");
    for version in ["", r#""Version":"2008-10-17","#] {
        let json = format!(
            r#"{{{version}"Statement":{{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${{aws:username}}/*"}}}}"#
        );
        let policy = Policy::parse(&json, PolicyKind::User).unwrap();
        let ask = |resource| decide(&policy, &alice, "s3:GetObject", resource);
        assert_eq!(ask("b/alice/k"), Decision::Unspecified);
        assert_eq!(ask("b/${aws:username}/k"), Decision::Allowed);
    }
}

#[test]
fn a_policy_lists_the_keys_of_its_conditions_and_variables() {
    let policy = of_user(
        "Allow",
        r#""Action":"s3:*","Resource":"arn:aws:s3:::b/${s3:ExistingObjectTag/home}/*",
           "Condition":{"StringLike":{"s3:prefix":"${aws:username}/*"}}"#,
    );
    let mut keys: Vec<_> = policy.keys().map(|key| key.name().into_owned()).collect();
    keys.sort();
    assert_eq!(keys, ["aws:username", "s3:ExistingObjectTag/home", "s3:prefix"]);
    assert!(policy.asks_existing_tags());
    assert!(!Policy::canned("readonly").unwrap().asks_existing_tags());
}

/// Counts how often it is asked for a value.
#[derive(Debug, Default)]
struct Counting {
    asked: Cell<usize>,
    resolved: ResolvedPatterns,
}

impl ConditionValues for Counting {
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        self.asked.set(self.asked.get() + 1);
        match key {
            ConditionKey::UserAgent => Values::from_borrowed(Some("tool")),
            // As of the object that each question is about, and of the headers that its action
            // uses.
            ConditionKey::ExistingObjectTag(_) | ConditionKey::KmsKeyId => {
                Values::from_owned(Some(self.asked.get().to_string()))
            }
            _ => Values::Absent,
        }
    }

    fn resolved(&self) -> Option<&ResolvedPatterns> {
        Some(&self.resolved)
    }
}

#[test]
fn a_request_resolves_a_pattern_once_for_all_its_questions() {
    let alice = user(ACCOUNT, "alice");
    let ask = |pattern: &str, conditions: &Counting, resource: &str| {
        let rest = format!(r#""Action":"s3:*","Resource":"arn:aws:s3:::{pattern}""#);
        let question = Question { principal: &alice, action: "s3:GetObject", resource, conditions };
        of_user("Allow", &rest).decide(&question).is_allowed()
    };
    let conditions = Counting::default();
    for (resource, expected) in [("b/tool/1", true), ("b/tool/2", true), ("b/else/3", false)] {
        assert_eq!(ask("b/${aws:UserAgent}/*", &conditions, resource), expected);
    }
    assert_eq!(conditions.asked.get(), 1);
    for key in ["s3:ExistingObjectTag/a", "s3:x-amz-server-side-encryption-aws-kms-key-id"] {
        let conditions = Counting::default();
        for number in 1..4 {
            let (pattern, resource) = (format!("b/${{{key}}}"), format!("b/{number}"));
            assert!(ask(&pattern, &conditions, &resource), "{key} may differ");
        }
        assert_eq!(conditions.asked.get(), 3);
    }
}

#[test]
fn statements_that_may_leave_out_a_resource_do_not_allow_all_below_a_prefix() {
    let alice = user(ACCOUNT, "alice");
    let none = Said::default();
    for (rest, expected) in [
        (r#""Resource":"*""#, true),
        (r#""Resource":"arn:aws:s3:::b/*""#, true),
        (r#""Resource":["arn:aws:s3:::x/*","arn:aws:s3:::b*"]"#, true),
        (r#""Resource":"arn:aws:s3:::${aws:PrincipalAccount, 'b'}/*""#, false),
        (r#""Resource":"arn:aws:s3:::${s3:prefix, 'b'}/*""#, true),
        (r#""Resource":"arn:aws:s3:::${s3:prefix}*""#, false),
        (r#""Resource":"arn:aws:s3:::b/?""#, false),
        (r#""Resource":"arn:aws:s3:::b/home/*""#, false),
        (r#""Resource":"arn:aws:s3:::b/*.jpg""#, false),
        (r#""NotResource":"arn:aws:s3:::b/secret/*""#, false),
        (r#""NotResource":"arn:aws:s3:::*/secret""#, false),
        (r#""NotResource":["arn:aws:s3:::c/*","arn:aws:s3:::bb/secret"]"#, true),
        (r#""Resource":"*","Condition":{"StringNotEquals":{"s3:ExistingObjectTag/a":"b"}}"#, false),
        (r#""Resource":"*","Condition":{"StringNotEquals":{"aws:username":"bob"}}"#, true),
        (r#""Resource":"*","Condition":{"StringEquals":{"aws:username":"bob"}}"#, false),
    ] {
        let policy = of_user("Allow", &format!(r#""Action":"s3:GetObject",{rest}"#));
        let question = Question {
            principal: &alice,
            action: "s3:GetObject",
            resource: "b/*",
            conditions: &none,
        };
        let decided = policy.allowing_all_below("b/", &question).decide(&question);
        assert_eq!(decided.is_allowed(), expected, "{rest}");
    }
    let deny = of_user("Deny", r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::b/?""#);
    let question =
        Question { principal: &alice, action: "s3:GetObject", resource: "b/k", conditions: &none };
    assert_eq!(deny.allowing_all_below("b/", &question), deny, "all Deny statements stay");
}
