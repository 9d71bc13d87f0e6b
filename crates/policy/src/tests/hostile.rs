use super::{ACCOUNT, Said, in_bucket, user};
use crate::{Policy, PolicyKind, Principal, Question};

const ROUNDS: usize = 12_000;

/// A seeded sequence (`xorshift64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides.max(1)
    }
}

const DOCUMENTS: [&str; 3] = [
    r#"{"Version":"2012-10-17","Id":"i","Statement":[{"Sid":"s","Effect":"Allow","Principal":{"AWS":["arn:aws:iam::111111111111:user/alice","arn:aws:sts::111111111111:assumed-role/r/s"]},"Action":["s3:Get*","s3:PutObject"],"Resource":["arn:aws:s3:::b/${aws:username, 'x'}/*","arn:aws:s3:::b/?${*}"]}]}"#,
    r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","NotPrincipal":{"CanonicalUser":"00000000000000000000000000000000000000000000000000000000000000aa"},"NotAction":"s3:List*","NotResource":"arn:aws:s3:::b*","Condition":{"ForAllValues:StringLikeIfExists":{"s3:RequestObjectTagKeys":["a*",""]},"DateLessThan":{"aws:CurrentTime":"2026-01-01T00:00:00Z"},"NumericGreaterThan":{"aws:EpochTime":1e3},"IpAddress":{"aws:SourceIp":"10.0.0.0/8"},"ArnLike":{"aws:FederatedProvider":"arn:aws:s3:::${s3:prefix}"},"Null":{"aws:Referer":true}}}}"#,
    r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"BinaryEquals":{"aws:UserAgent":"QQ=="},"Bool":{"aws:SecureTransport":"true"},"NotIpAddress":{"aws:SourceIp":["::1/128","2001:db8::/32"]}}}]}"#,
];

const SCRAPS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "${",
    "${*}",
    "*",
    "?",
    "é",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-1",
    "1e999",
    "'",
    "arn:aws:s3:::",
    "/",
    "Statement",
    "IfExists",
    "😀",
];

/// Parses a text. If it is a policy, evaluates it; neither step may panic.
fn read(text: &str) -> usize {
    let alice = user(ACCOUNT, "alice");
    let kinds = [in_bucket(), PolicyKind::User, PolicyKind::Session];
    let policies: Vec<Policy> =
        kinds.iter().filter_map(|kind| Policy::parse(text, *kind).ok()).collect();
    for policy in &policies {
        for principal in [&alice, &Principal::Anonymous] {
            let said = Said::default();
            let question =
                Question { principal, action: "s3:GetObject", resource: "b/é", conditions: &said };
            let _ = policy.decide(&question);
        }
        let _ = (policy.is_public(), policy.keys().count(), policy.principals().count());
    }
    policies.len()
}

#[test]
fn a_mutated_document_is_parsed_or_refused_without_a_panic() {
    let mut dice = Dice(0x5eed);
    let mut understood = 0;
    for _ in 0..ROUNDS {
        let mut text: Vec<char> = DOCUMENTS[dice.below(DOCUMENTS.len())].chars().collect();
        for _ in 0..=dice.below(3) {
            if text.len() < 2 {
                break;
            }
            let at = dice.below(text.len());
            match dice.below(4) {
                0 => drop(text.remove(at)),
                1 => text.truncate(at.max(1)),
                2 => {
                    let end = (at + dice.below(30)).min(text.len());
                    let piece = text[at..end].to_vec();
                    let to = dice.below(text.len());
                    drop(text.splice(to..to, piece));
                }
                _ => drop(text.splice(at..=at, SCRAPS[dice.below(SCRAPS.len())].chars())),
            }
        }
        understood += read(&text.iter().collect::<String>());
    }
    assert!(understood > ROUNDS / 100, "mutations should not only break JSON: {understood}");
}

#[test]
fn random_text_is_parsed_or_refused_without_a_panic() {
    let mut dice = Dice(0xbad_5eed);
    for _ in 0..ROUNDS {
        let count = dice.below(40);
        let text: String = (0..count).map(|_| SCRAPS[dice.below(SCRAPS.len())]).collect();
        read(&text);
        // The same text as a value of each operator.
        let value = serde_json::to_string(&text).unwrap();
        for (place, good) in [
            ("Resource", r#""arn:aws:s3:::b/k""#),
            ("Action", r#""s3:GetObject""#),
            ("Principal", r#""*""#),
            ("Condition", r#"{"StringLike":{"s3:prefix":"x"}}"#),
        ] {
            let field = |name: &str, good: &str| {
                let value = match name {
                    _ if name != place => good.to_owned(),
                    "Condition" => format!(r#"{{"StringLike":{{"aws:UserAgent":{value}}}}}"#),
                    "Resource" => format!("\"arn:aws:s3:::b/{}", &value[1..]),
                    _ => value.clone(),
                };
                format!(r#""{name}":{value}"#)
            };
            let mut fields = vec![
                field("Resource", r#""arn:aws:s3:::b/k""#),
                field("Action", r#""s3:GetObject""#),
                field("Principal", r#""*""#),
            ];
            if place == "Condition" {
                fields.push(field(place, good));
            }
            read(&format!(
                r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow",{}}}}}"#,
                fields.join(",")
            ));
        }
    }
}

#[test]
fn deep_documents_are_refused() {
    for open in ["[", "{\"a\":"] {
        let deep = format!("{{\"Statement\":{}", open.repeat(3_000));
        assert_eq!(read(&deep), 0);
    }
}
