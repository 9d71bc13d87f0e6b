//! The table of condition keys: where the values come from, and the keys that no request has.

use super::in_bucket;
use crate::{ConditionKey, KeySource, Policy, PolicyError, PolicyKind};

fn read(kind: PolicyKind<'_>, rest: &str) -> Result<Policy, PolicyError> {
    let principal = match kind {
        PolicyKind::Bucket { .. } => r#""Principal":"*","#,
        PolicyKind::User | PolicyKind::Session => "",
    };
    let json = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Deny",{principal}"Action":"s3:*",{rest}}}}}"#
    );
    Policy::parse(&json, kind)
}

fn kinds() -> [PolicyKind<'static>; 3] {
    [PolicyKind::User, PolicyKind::Session, in_bucket()]
}

#[test]
fn an_unsupported_key_is_refused_as_condition_and_as_variable() {
    let mut refused = 0;
    for (name, key) in ConditionKey::NAMED {
        let unsupported = key.source() == KeySource::Unsupported;
        refused += usize::from(unsupported);
        for kind in kinds() {
            let condition = format!(
                r#""Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"],"Condition":{{"Null":{{"{name}":"true"}}}}"#
            );
            let outcome = read(kind, &condition);
            if unsupported {
                let error = outcome.expect_err(name);
                assert_eq!(error.sentence(), "Policy has an invalid condition key", "{name}");
                assert!(error.detail().is_some_and(|why| why.contains(name)), "{error}");
            } else if *key != ConditionKey::SourceIp {
                // A bucket policy needs an address for this key, with any operator.
                outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            if !key.is_multivalued() {
                let variable = format!(r#""Resource":"arn:aws:s3:::b/${{{name}}}""#);
                assert_eq!(read(kind, &variable).is_err(), unsupported, "{name}");
            }
        }
    }
    assert!(refused > 0, "the table has keys without a value");
}

#[test]
fn a_new_policy_needs_an_action_that_has_the_key_of_its_condition() {
    const ALL: &str = r#"["arn:aws:s3:::b","arn:aws:s3:::b/*"]"#;
    for (actions, key, accepted) in [
        (r#""Action":"s3:GetObject""#, "s3:prefix", false),
        (r#""Action":"s3:ListBucketMultipartUplo*""#, "s3:prefix", false),
        (r#""Action":"s3:GetObj*""#, "s3:x-amz-acl", false),
        (r#""Action":["s3:Get*","s3:Delete*"]"#, "s3:if-none-match", false),
        (r#""Action":"s3:DeleteObject""#, "s3:if-none-match", false),
        (r#""Action":"s3:DeleteObject""#, "s3:if-match", true),
        (r#""NotAction":"s3:PutObject""#, "s3:x-amz-storage-class", true),
        (r#""NotAction":["s3:PutObject","s3:Replicate*"]"#, "s3:x-amz-storage-class", false),
        (r#""NotAction":"s3:Get*""#, "s3:prefix", true),
        (r#""Action":"s3:*""#, "s3:prefix", true),
        (r#""Action":"*""#, "s3:VersionId", true),
        (r#""Action":"s3:List*""#, "s3:prefix", true),
        (r#""Action":"S3:PUTOBJECT""#, "s3:x-amz-acl", true),
        (r#""Action":"s3:GetObject""#, "aws:UserAgent", true),
    ] {
        for effect in ["Allow", "Deny"] {
            for kind in kinds() {
                let principal = match kind {
                    PolicyKind::Bucket { .. } => r#""Principal":"*","#,
                    PolicyKind::User | PolicyKind::Session => "",
                };
                let json = format!(
                    r#"{{"Statement":{{"Effect":"{effect}",{principal}{actions},"Resource":{ALL},"Condition":{{"Null":{{"{key}":"false"}}}}}}}}"#
                );
                let new = Policy::parse_new(&json, kind);
                assert_eq!(new.is_ok(), accepted, "{kind:?} {json}: {new:?}");
                if let Err(error) = new {
                    let sentence = "Conditions do not apply to combination of actions and \
                                    resources in statement";
                    assert_eq!(error.sentence(), sentence, "{json}");
                }
                // A policy that is stored already stays in force.
                assert!(Policy::parse(&json, kind).is_ok(), "{kind:?} {json}");
            }
        }
    }
    // A user's statement may also name actions that a bucket policy cannot.
    for (action, key, accepted) in [
        ("s3:ListAllMyBuckets", "s3:prefix", false),
        ("admin:*", "s3:prefix", false),
        ("admin:ListUsers", "aws:SourceIp", true),
    ] {
        let json = format!(
            r#"{{"Statement":{{"Effect":"Deny","Action":"{action}","Resource":"*","Condition":{{"Null":{{"{key}":"false"}}}}}}}}"#
        );
        assert_eq!(Policy::parse_new(&json, PolicyKind::User).is_ok(), accepted, "{json}");
    }
    // Of several actions, one with the key is enough in the policy of a user.
    let json = r#"{"Statement":{"Effect":"Allow","Action":["s3:ListBucket","s3:GetObject"],"Resource":"*","Condition":{"StringLike":{"s3:prefix":"a/*"}}}}"#;
    assert!(Policy::parse_new(json, PolicyKind::User).is_ok());
}

#[test]
fn the_source_of_a_copy_is_compared_without_a_leading_slash() {
    use crate::{Decision, Question, Values};

    struct Copies;
    impl crate::ConditionValues for Copies {
        fn values(&self, key: &ConditionKey) -> Values<'_> {
            match key {
                ConditionKey::CopySource => Values::from_borrowed(Some("src/a b")),
                _ => Values::Absent,
            }
        }
    }

    for pattern in ["src/*", "/src/*", "/src/a b"] {
        let rest = format!(
            r#""Resource":"*","Condition":{{"StringLike":{{"s3:x-amz-copy-source":"{pattern}"}}}}"#
        );
        let policy = read(PolicyKind::User, &rest).expect("a policy");
        let question = Question {
            principal: &super::user(super::ACCOUNT, "alice"),
            action: "s3:PutObject",
            resource: "b/k",
            conditions: &Copies,
        };
        assert_eq!(policy.decide(&question), Decision::Denied, "{pattern}");
    }
}

/// Returns the text in backticks of one cell of a table.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_page_lists_each_key_once_and_says_which_keys_are_refused() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/S3.md");
    let page = std::fs::read_to_string(page).expect("the page is readable");
    let (_, rest) = page.split_once("<!-- condition keys:").expect("the table of keys");
    let (table, _) = rest.split_once("<!-- end -->").expect("the end of the table");
    let mut listed = std::collections::BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let (keys, source) = row.trim_start_matches("| ").split_once(" | ").expect("two cells");
        for name in names(keys).filter(|name| !name.ends_with('…')) {
            let twice = listed.insert(name, source.starts_with("none"));
            assert!(twice.is_none(), "{name} is listed twice");
        }
    }
    let table = ConditionKey::NAMED.iter();
    let table = table.map(|(name, key)| (*name, key.source() == KeySource::Unsupported));
    assert_eq!(listed, table.collect(), "docs/S3.md and the table of keys differ");
}
