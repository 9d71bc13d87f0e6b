//! `cargo bench -p policy`: the time of a decision by a policy of twenty statements, and the time
//! to read one.
//!
//! A line is the best of many short runs, because others share the machine.

use std::hint::black_box;
use std::time::Instant;

use policy::{
    BucketSide, ConditionKey, ConditionValues, Policy, PolicyKind, Principal, Question, Sources,
    Values, authorise,
};

const STATEMENTS: usize = 20;
const RUNS: u32 = 400;
const REQUESTS_EACH: u32 = 1_000;

struct Request;

impl ConditionValues for Request {
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        Values::from_borrowed(match key {
            ConditionKey::SourceIp => Some("10.1.2.3"),
            ConditionKey::SecureTransport => Some("true"),
            ConditionKey::CurrentTime => Some("2026-11-26T12:00:00Z"),
            ConditionKey::Prefix => Some("home/k19/"),
            _ => None,
        })
    }
}

/// A typical bucket policy: users with folders of their own, networks, and a Deny for everyone.
fn document() -> String {
    let statement = |number: usize| {
        let (effect, rest) = match number % 4 {
            0 => (
                "Allow",
                r#""Action":["s3:GetObject","s3:PutObject"],"Condition":{"IpAddress":{"aws:SourceIp":["192.0.2.0/24","10.0.0.0/8"]}}"#,
            ),
            1 => ("Allow", r#""Action":"s3:Get*""#),
            2 => {
                ("Deny", r#""Action":"s3:*","Condition":{"Bool":{"aws:SecureTransport":"false"}}"#)
            }
            _ => (
                "Allow",
                r#""Action":"s3:*Object*","Condition":{"DateLessThan":{"aws:CurrentTime":"2030-01-01T00:00:00Z"}}"#,
            ),
        };
        let principal = if number % 4 == 2 {
            r#""*""#.to_owned()
        } else {
            format!(r#"{{"AWS":["arn:aws:iam::111111111111:user/k{number}","k18","k19"]}}"#)
        };
        let resource = match number % 3 {
            0 => "b/home/${aws:username}/*".to_owned(),
            1 => format!("b/share{number}/*"),
            _ => "b/*/public/*.jpg".to_owned(),
        };
        format!(
            r#"{{"Sid":"s{number}","Effect":"{effect}","Principal":{principal},"Resource":["arn:aws:s3:::b","arn:aws:s3:::{resource}"],{rest}}}"#
        )
    };
    let statements: Vec<String> = (0..STATEMENTS).map(statement).collect();
    format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","))
}

fn main() {
    let document = document();
    let kind = PolicyKind::Bucket { bucket: "b", exists: &|_| true };
    let policy = Policy::parse(&document, kind).expect("a policy");
    println!("a bucket's policy of {STATEMENTS} statements, {} bytes", document.len());
    best("read it", 10, || drop(black_box(Policy::parse(&document, kind))));
    let user = |name: &str| Principal::User {
        account: "111111111111".to_owned(),
        canonical_id: "a".repeat(64),
        name: Some(name.to_owned()),
        is_root: false,
        session: None,
    };
    let owner = Policy::canned("readonly").expect("a policy");
    let given = "b/home/k19/photos/public/2026/summer/img_0001.jpg";
    let other = "b/home/k20/photos/private/2026/summer/img_0001.jpg";
    for (what, principal, resource) in [
        ("of a user whom it names", user("k19"), given),
        ("of such a user for another's", user("k19"), other),
        ("of another user", user("stranger"), given),
        ("of an anonymous client", Principal::Anonymous, given),
    ] {
        let question = Question {
            principal: &principal,
            action: "s3:GetObject",
            resource,
            conditions: &Request,
        };
        best(&format!("decide on a request {what}"), REQUESTS_EACH, || {
            black_box(policy.decide(black_box(&question)));
        });
        let sources = Sources {
            identity: &[&owner],
            session: None,
            bucket: Some(BucketSide {
                account: "111111111111",
                policy: Some(&policy),
                policy_allows: true,
            }),
            acl: &|| false,
        };
        best(&format!("authorise a request {what}"), REQUESTS_EACH, || {
            black_box(authorise(black_box(&question), black_box(&sources)));
        });
    }
}

fn best(name: &str, times: u32, mut work: impl FnMut()) {
    let mut least = f64::MAX;
    for _ in 0..RUNS {
        let began = Instant::now();
        for _ in 0..times {
            work();
        }
        least = least.min(began.elapsed().as_secs_f64() / f64::from(times));
    }
    println!("{name:<56} {:>9.2} µs", least * 1e6);
}
