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
