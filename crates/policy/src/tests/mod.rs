mod authorisation;
mod globs;
mod hostile;
mod keys;
mod operators;
mod principals;
mod public;
mod sentences;
mod variables;

use std::collections::BTreeMap;

use crate::{
    ConditionKey, ConditionValues, Decision, Policy, PolicyKind, Principal, Question, RoleSession,
    Values,
};

const ACCOUNT: &str = "111111111111";
const OTHER: &str = "222222222222";
const CANONICAL: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

/// The values of a request, by the names of keys.
#[derive(Default)]
struct Said(BTreeMap<String, Vec<String>>);

impl ConditionValues for Said {
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        match self.0.get(&*key.name()).map(Vec::as_slice) {
            None => Values::Absent,
            Some([value]) => Values::One(value.into()),
            Some(values) => Values::Many(values.iter().map(Into::into).collect()),
        }
    }
}

fn said(pairs: &[(&str, &[&str])]) -> Said {
    let pair = |(key, values): &(&str, &[&str])| {
        ((*key).to_owned(), values.iter().map(|&it| it.to_owned()).collect())
    };
    Said(pairs.iter().map(pair).collect())
}

fn user(account: &str, name: &str) -> Principal {
    Principal::User {
        account: account.to_owned(),
        canonical_id: CANONICAL.to_owned(),
        name: Some(name.to_owned()),
        is_root: false,
        session: None,
    }
}

fn root(account: &str) -> Principal {
    Principal::User {
        account: account.to_owned(),
        canonical_id: CANONICAL.to_owned(),
        name: Some("rootkey".to_owned()),
        is_root: true,
        session: None,
    }
}

fn session(account: &str, name: &str, role: &str, session: &str) -> Principal {
    Principal::User {
        account: account.to_owned(),
        canonical_id: CANONICAL.to_owned(),
        name: Some(name.to_owned()),
        is_root: false,
        session: Some(RoleSession { role: role.to_owned(), name: session.to_owned() }),
    }
}

/// A session of a web identity, which has no user.
fn web(account: &str, role: &str, session: &str) -> Principal {
    Principal::User {
        account: account.to_owned(),
        canonical_id: CANONICAL.to_owned(),
        name: None,
        is_root: false,
        session: Some(RoleSession { role: role.to_owned(), name: session.to_owned() }),
    }
}

fn in_bucket() -> PolicyKind<'static> {
    PolicyKind::Bucket { bucket: "b", exists: &|_| true }
}

/// A user's policy of one statement.
fn of_user(effect: &str, rest: &str) -> Policy {
    let json = format!(r#"{{"Version":"2012-10-17","Statement":{{"Effect":"{effect}",{rest}}}}}"#);
    Policy::parse_new(&json, PolicyKind::User).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// The policy of the bucket `b`, of one statement about all its objects.
fn of_bucket(effect: &str, principal: &str) -> Policy {
    let json = format!(
        r#"{{"Statement":{{"Effect":"{effect}",{principal},"Action":"s3:*","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]}}}}"#
    );
    Policy::parse(&json, in_bucket()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn decide(policy: &Policy, principal: &Principal, action: &str, resource: &str) -> Decision {
    policy.decide(&Question { principal, action, resource, conditions: &Said::default() })
}

/// Returns true if a user policy with this condition allows the listing of a bucket.
fn holds(condition: &str, said: &Said) -> bool {
    let rest = format!(r#""Action":"s3:*","Resource":"*","Condition":{condition}"#);
    let question = Question {
        principal: &user(ACCOUNT, "alice"),
        action: "s3:ListBucket",
        resource: "b",
        conditions: said,
    };
    let allows = of_user("Allow", &rest).decide(&question).is_allowed();
    let denies = of_user("Deny", &rest).decide(&question) == Decision::Denied;
    assert_eq!(allows, denies, "a condition holds with any effect");
    allows
}
