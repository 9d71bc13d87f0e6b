//! Documents and requests at random, of so few words that they often meet.

use std::collections::BTreeMap;

use policy::{Principal, RoleSession};
use serde_json::{Map, Value, json};

use crate::naive::{Asked, DATES};

/// A seeded sequence (`xorshift64*`), the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).expect("31 bits") % sides
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// One text, or a list of up to three.
    fn some(&mut self, list: &[&str]) -> Value {
        if self.percent(50) {
            return json!(self.pick(list));
        }
        let count = 1 + self.below(3);
        (0..count).map(|_| json!(self.pick(list))).collect()
    }
}

const CANONICAL: [&str; 2] = [
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];
pub(crate) const ACCOUNTS: [&str; 2] = ["111111111111", "222222222222"];

const NAMES: &[&str] = &[
    "k1",
    "k2",
    "root1",
    "111111111111",
    "arn:aws:iam::111111111111:root",
    "arn:aws:iam::222222222222:root",
    "arn:aws:iam::111111111111:user/k1",
    "arn:aws:iam::222222222222:user/k2",
    "arn:aws:iam::111111111111:user/root1",
    "arn:aws:iam::111111111111:role/r",
    "arn:aws:sts::111111111111:assumed-role/r/s",
    "arn:aws:sts::111111111111:assumed-role/r/t",
    "arn:aws:sts::222222222222:assumed-role/r/s",
];

const ACTIONS: &[&str] = &[
    "s3:*",
    "*",
    "s3:Get*",
    "s3:GetObject",
    "s3:getobject",
    "s3:?etObject",
    "s3:*Object",
    "s3:Put*t",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:ListB*",
    "s3:*BucketPolicy",
];

const ASKED_ACTIONS: &[&str] = &[
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:GetObjectAcl",
    "s3:GetBucketPolicy",
    "s3:PutBucketPolicy",
];

const RESOURCES: &[&str] = &[
    "arn:aws:s3:::b",
    "arn:aws:s3:::b/*",
    "arn:aws:s3:::b*",
    "arn:aws:s3:::b/a*",
    "arn:aws:s3:::b/a",
    "arn:aws:s3:::b/?",
    "arn:aws:s3:::b/*/x",
    "arn:aws:s3:::b/a?*x",
    "arn:aws:s3:::b/*a*?x*",
    "arn:aws:s3:::b/${aws:username}/*",
    "arn:aws:s3:::b/${aws:username, 'k1'}/*",
    "arn:aws:s3:::b/${s3:prefix}*",
    "arn:aws:s3:::b/${AWS:UserID}",
    "arn:aws:s3:::b/${*}",
    "arn:aws:s3:::b/${?}${$}",
];

const USER_RESOURCES: &[&str] =
    &["*", "arn:aws:s3:::*", "arn:aws:s3:::?/a*", "arn:aws:s3:::${aws:username}/*"];

const TEXTS: &[&str] = &[
    "a",
    "A",
    "b",
    "a/",
    "",
    "*",
    "a*",
    "?",
    "k1",
    "${aws:username}",
    "${s3:prefix}",
    "${*}",
    "${aws:username, 'a'}",
    "${aws:PrincipalAccount}",
    "111111111111",
    "x${aws:userid}",
];

const ARNS: &[&str] = &[
    "*",
    "arn:aws:iam::111111111111:user/k1",
    "arn:aws:iam::*:user/*",
    "arn:*:iam::*:root",
    "arn:aws:iam::${aws:PrincipalAccount}:user/${aws:username}",
    "arn:aws:iam:*:111111111111:*",
    "${aws:PrincipalArn}",
    "arn:aws:iam::111111111111:role/?",
];

const NUMBERS: &[&str] = &["0", "1", "10", "10.0", "-1", "1e1"];
const NETWORKS: &[&str] =
    &["10.0.0.0/8", "10.1.2.3", "10.1.2.0/24", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::1"];
const ADDRESSES: &[&str] = &["10.1.2.3", "10.9.9.9", "192.0.2.1", "2001:db8::1", "2001:db9::1"];
const TEXT_KEYS: &[&str] = &[
    "aws:UserAgent",
    "aws:username",
    "aws:userid",
    "aws:PrincipalType",
    "aws:PrincipalAccount",
    "s3:prefix",
    "aws:referer",
    "s3:RequestObjectTagKeys",
    "s3:ExistingObjectTag/T",
    "jwt:sub",
];

/// A document of a bucket called `b`, or of a user. Some of a bucket's are refused.
pub(crate) fn document(dice: &mut Dice, of_bucket: bool) -> Value {
    let count = 1 + dice.below(4);
    let statements: Vec<Value> = (0..count).map(|_| statement(dice, of_bucket)).collect();
    let mut document = json!({ "Statement": statements });
    match dice.below(10) {
        0 => {}
        1 => document["Version"] = json!("2008-10-17"),
        _ => document["Version"] = json!("2012-10-17"),
    }
    document
}

fn statement(dice: &mut Dice, of_bucket: bool) -> Value {
    let mut members = Map::new();
    let denies = dice.percent(40);
    members.insert("Effect".into(), json!(if denies { "Deny" } else { "Allow" }));
    if of_bucket {
        if denies && dice.percent(25) {
            members.insert("NotPrincipal".into(), json!({ "AWS": dice.some(NAMES) }));
        } else {
            members.insert("Principal".into(), principal(dice));
        }
    }
    let actions = dice.some(ACTIONS);
    let actions = if dice.percent(30) { json!("s3:*") } else { actions };
    members.insert(if dice.percent(15) { "NotAction" } else { "Action" }.into(), actions);
    let resources = if of_bucket || dice.percent(50) { RESOURCES } else { USER_RESOURCES };
    let resources = dice.some(resources);
    members.insert(if dice.percent(15) { "NotResource" } else { "Resource" }.into(), resources);
    let mut operators = Map::new();
    for _ in 0..dice.below(3) {
        let (operator, key, values) = condition(dice);
        let keys = operators.entry(operator).or_insert_with(|| json!({}));
        keys[key] = values;
    }
    if !operators.is_empty() {
        members.insert("Condition".into(), Value::Object(operators));
    }
    Value::Object(members)
}

fn principal(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => json!("*"),
        1 | 2 => json!({ "AWS": "*" }),
        3 => json!({ "CanonicalUser": dice.some(&CANONICAL) }),
        4 => json!({ "AWS": dice.some(NAMES), "CanonicalUser": CANONICAL[1] }),
        5 => dice.some(NAMES),
        _ => json!({ "AWS": dice.some(NAMES) }),
    }
}

fn condition(dice: &mut Dice) -> (String, String, Value) {
    let order =
        ["Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals"];
    let texts =
        ["Equals", "NotEquals", "EqualsIgnoreCase", "NotEqualsIgnoreCase", "Like", "NotLike"];
    let dates: Vec<&str> = DATES.iter().map(|(date, _)| *date).chain(["1767225600"]).collect();
    let (name, key, values) = match dice.below(10) {
        0..=3 => (format!("String{}", dice.pick(&texts)), dice.pick(TEXT_KEYS), dice.some(TEXTS)),
        4 => (format!("Numeric{}", dice.pick(&order)), "s3:max-keys", dice.some(NUMBERS)),
        5 => (format!("Date{}", dice.pick(&order)), "aws:CurrentTime", dice.some(&dates)),
        6 => {
            let names = ["IpAddress", "NotIpAddress"];
            (dice.pick(&names).to_owned(), "aws:SourceIp", dice.some(NETWORKS))
        }
        7 => {
            let names = ["ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike"];
            (dice.pick(&names).to_owned(), "aws:PrincipalArn", dice.some(ARNS))
        }
        8 => ("Bool".to_owned(), "aws:SecureTransport", json!(dice.percent(50))),
        _ => {
            let key = dice.pick(TEXT_KEYS);
            let quantifier = dice.pick(&["", "ForAllValues:", "ForAnyValue:"]);
            return (format!("{quantifier}Null"), key.to_owned(), dice.some(&["true", "false"]));
        }
    };
    let quantifier = dice.pick(&["", "", "", "ForAllValues:", "ForAnyValue:"]);
    let suffix = if dice.percent(25) { "IfExists" } else { "" };
    let key = if dice.percent(10) {
        key.to_uppercase().replace("TAG/T", "Tag/T")
    } else {
        key.to_owned()
    };
    let key = if key.starts_with("JWT") { "jwt:sub".to_owned() } else { key };
    (format!("{quantifier}{name}{suffix}"), key, values)
}

/// A request, mostly about the bucket `b`.
pub(crate) fn asked(dice: &mut Dice) -> Asked {
    let fixed = ["b", "b/a", "b/ab", "b/a/x", "b/k1/x", "b/*", "b/?$", "b/x", "c/a", "k1/a", "*"];
    let resource = if dice.percent(70) {
        dice.pick(&fixed).to_owned()
    } else {
        let count = 1 + dice.below(5);
        let letters: String =
            (0..count).map(|_| dice.pick(&['a', 'b', 'x', '/', 'é', '*'])).collect();
        format!("b/{letters}")
    };
    let mut values = BTreeMap::new();
    let dates: Vec<&str> = DATES.iter().map(|(date, _)| *date).collect();
    let found = ["a", "A", "b", "a/", "", "*", "k1", "ab"];
    for (key, list) in [
        ("aws:useragent", &found[..]),
        ("s3:prefix", &found),
        ("aws:referer", &found),
        ("s3:existingobjecttag/t", &found),
        ("jwt:sub", &found),
        ("s3:max-keys", &["0", "1", "5", "10", "100", "many"]),
        ("aws:currenttime", &dates),
        ("aws:sourceip", ADDRESSES),
        ("aws:securetransport", &["true", "false"]),
    ] {
        if dice.percent(65) {
            values.insert(key.to_owned(), vec![dice.pick(list).to_owned()]);
        }
    }
    let keys = dice.below(4);
    if keys > 0 {
        let keys = (0..keys).map(|_| dice.pick(&found).to_owned()).collect();
        values.insert("s3:requestobjecttagkeys".to_owned(), keys);
    }
    Asked { principal: sender(dice), action: dice.pick(ASKED_ACTIONS).to_owned(), resource, values }
}

fn sender(dice: &mut Dice) -> Principal {
    if dice.percent(15) {
        return Principal::Anonymous;
    }
    let at = dice.below(ACCOUNTS.len());
    let is_root = dice.percent(15);
    let session = dice.percent(40).then(|| RoleSession {
        role: dice.pick(&["r", "q"]).to_owned(),
        name: dice.pick(&["s", "t"]).to_owned(),
    });
    let name = match &session {
        _ if is_root => Some(format!("root{}", at + 1)),
        // Of a web identity.
        Some(_) if dice.percent(30) => None,
        _ => Some(dice.pick(&["k1", "k2"]).to_owned()),
    };
    Principal::User {
        account: ACCOUNTS[at].to_owned(),
        canonical_id: CANONICAL[at].to_owned(),
        name,
        is_root,
        session,
    }
}
