use super::{holds, said};

/// The result of an operator for values of `aws:UserAgent` (`None`: absent).
#[track_caller]
fn check(operator: &str, key: &str, wanted: &str, cases: &[(&[&str], bool)]) {
    for (values, expected) in cases {
        let said = if values.is_empty() { said(&[]) } else { said(&[(key, values)]) };
        let condition = format!(r#"{{"{operator}":{{"{key}":{wanted}}}}}"#);
        assert_eq!(holds(&condition, &said), *expected, "{condition} {values:?}");
    }
}

const AGENT: &str = "aws:UserAgent";

#[test]
fn strings() {
    let wanted = r#"["a","B*"]"#;
    check(
        "StringEquals",
        AGENT,
        wanted,
        &[(&["a"], true), (&["A"], false), (&["B*"], true), (&["Bx"], false), (&[], false)],
    );
    check(
        "StringNotEquals",
        AGENT,
        wanted,
        &[(&["a"], false), (&["A"], true), (&["B*"], false), (&["Bx"], true), (&[], true)],
    );
    check(
        "StringEqualsIgnoreCase",
        AGENT,
        wanted,
        &[(&["A"], true), (&["b*"], true), (&["bx"], false), (&[], false)],
    );
    check(
        "StringNotEqualsIgnoreCase",
        AGENT,
        wanted,
        &[(&["A"], false), (&["bx"], true), (&[], true)],
    );
    check(
        "StringLike",
        AGENT,
        wanted,
        &[
            (&["a"], true),
            (&["ab"], false),
            (&["B"], true),
            (&["Bxy"], true),
            (&["bx"], false),
            (&[], false),
        ],
    );
    check(
        "StringNotLike",
        AGENT,
        wanted,
        &[(&["a"], false), (&["Bxy"], false), (&["bx"], true), (&[], true)],
    );
    check("StringEqualsIgnoreCase", AGENT, r#""ÉÀ""#, &[(&["éà"], true), (&["ea"], false)]);
}

#[test]
fn numbers() {
    let key = "s3:max-keys";
    for (operator, below, same, above, absent) in [
        ("NumericEquals", false, true, false, false),
        ("NumericNotEquals", true, false, true, true),
        ("NumericLessThan", true, false, false, false),
        ("NumericLessThanEquals", true, true, false, false),
        ("NumericGreaterThan", false, false, true, false),
        ("NumericGreaterThanEquals", false, true, true, false),
    ] {
        for wanted in ["10", r#""10""#, r#""1e1""#, "10.0"] {
            check(
                operator,
                key,
                wanted,
                &[
                    (&["9.5"], below),
                    (&["10"], same),
                    (&["10.0"], same),
                    (&["100"], above),
                    (&[], absent),
                ],
            );
        }
    }
    // A text that is not a number has no order, and equals no number.
    check("NumericLessThan", key, "10", &[(&["many"], false), (&["NaN"], false)]);
    check("NumericNotEquals", key, "10", &[(&["many"], true)]);
}

#[test]
fn dates() {
    let key = "aws:CurrentTime";
    for (operator, before, same, after, absent) in [
        ("DateEquals", false, true, false, false),
        ("DateNotEquals", true, false, true, true),
        ("DateLessThan", true, false, false, false),
        ("DateLessThanEquals", true, true, false, false),
        ("DateGreaterThan", false, false, true, false),
        ("DateGreaterThanEquals", false, true, true, false),
    ] {
        for wanted in [
            r#""2026-01-01T00:00:00Z""#,
            r#""2026-01-01""#,
            r#""2026-01-01T00:00Z""#,
            r#""2026-01-01T02:00+02:00""#,
            r#""1767225600""#,
            "1767225600",
        ] {
            check(
                operator,
                key,
                wanted,
                &[
                    (&["2025-12-31T23:59:59.999Z"], before),
                    (&["1767225600"], same),
                    (&["2026-01-01T00:00:00Z"], same),
                    (&["2026-01-01T00:00:01Z"], after),
                    (&[], absent),
                ],
            );
        }
    }
    check("DateLessThan", key, "1767225600", &[(&["2020-01-01é"], false), (&["2020"], true)]);
}

#[test]
fn truths_and_bytes() {
    let key = "aws:SecureTransport";
    for wanted in ["true", r#""true""#, r#""True""#] {
        check(
            "Bool",
            key,
            wanted,
            &[(&["true"], true), (&["false"], false), (&["1"], false), (&[], false)],
        );
    }
    check("BoolIfExists", key, "true", &[(&["true"], true), (&["false"], false), (&[], true)]);
    check(
        "BinaryEquals",
        AGENT,
        r#""QmluYXJ5""#,
        &[(&["QmluYXJ5"], true), (&["qmluYXJ5"], false), (&[], false)],
    );
}

#[test]
fn addresses() {
    let key = "aws:SourceIp";
    let wanted = r#"["10.0.0.0/8","192.0.2.7","2001:db8::/32"]"#;
    for (address, within) in [
        ("10.255.0.1", true),
        ("11.0.0.1", false),
        ("192.0.2.7", true),
        ("192.0.2.8", false),
        ("2001:db8:1::1", true),
        ("2001:db9::1", false),
        ("::ffff:10.0.0.1", true),
        ("x", false),
    ] {
        check("IpAddress", key, wanted, &[(&[address], within), (&[], false)]);
        check("NotIpAddress", key, wanted, &[(&[address], !within), (&[], true)]);
    }
    check("IpAddress", key, r#""0.0.0.0/0""#, &[(&["203.0.113.9"], true), (&["::1"], false)]);
    check("IpAddress", key, r#""::/0""#, &[(&["203.0.113.9"], false), (&["::1"], true)]);
}

#[test]
fn arns_are_compared_by_their_components() {
    let key = "aws:FederatedProvider";
    for (wanted, arn, fits) in [
        ("arn:aws:iam::1:user/a", "arn:aws:iam::1:user/a", true),
        ("arn:aws:iam::*:user/*", "arn:aws:iam::1:user/a", true),
        ("arn:aws:iam::1:*", "arn:aws:iam::1:user/a:b", true),
        // A star does not reach across a colon.
        ("arn:*:1:user/a:x:y", "arn:aws:iam::1:user/a:x:y", false),
        ("arn:aws:s?:::b", "arn:aws:s3:::b", true),
        ("*", "arn:aws:s3:::b", true),
        ("arn:aws:s3:::b", "b", false),
        ("*:*:*:*:*:*", "arn:aws:s3:::b", true),
        ("*:*:*:*:*:*", "b", false),
    ] {
        for operator in ["ArnEquals", "ArnLike"] {
            let wanted = format!("{wanted:?}");
            check(operator, key, &wanted, &[(&[arn], fits), (&[], false)]);
        }
        for operator in ["ArnNotEquals", "ArnNotLike"] {
            let wanted = format!("{wanted:?}");
            check(operator, key, &wanted, &[(&[arn], !fits), (&[], true)]);
        }
    }
}

#[test]
fn absence() {
    check("Null", AGENT, r#""true""#, &[(&["a"], false), (&[], true)]);
    check("Null", AGENT, "false", &[(&["a"], true), (&[], false)]);
    check("StringEqualsIfExists", AGENT, r#""a""#, &[(&["a"], true), (&["b"], false), (&[], true)]);
    check(
        "StringNotEqualsIfExists",
        AGENT,
        r#""a""#,
        &[(&["a"], false), (&["b"], true), (&[], true)],
    );
}

#[test]
fn several_values() {
    let key = "s3:RequestObjectTagKeys";
    let wanted = r#"["a","b"]"#;
    check(
        "ForAllValues:StringEquals",
        key,
        wanted,
        &[
            (&["a"], true),
            (&["a", "b"], true),
            (&["a", "c"], false),
            (&["c"], false),
            (&[], true),
            (&[""], true),
        ],
    );
    check(
        "ForAnyValue:StringEquals",
        key,
        wanted,
        &[(&["a"], true), (&["a", "c"], true), (&["c", "d"], false), (&[], false), (&[""], false)],
    );
    check(
        "ForAnyValue:StringNotEquals",
        key,
        wanted,
        &[(&["a"], false), (&["a", "c"], true), (&[], false)],
    );
    check(
        "ForAllValues:StringNotEquals",
        key,
        wanted,
        &[(&["c", "d"], true), (&["a", "c"], false), (&[], true)],
    );
    check("ForAnyValue:StringEqualsIfExists", key, wanted, &[(&[], true), (&["c"], false)]);
    // Not quantified: one that fits is enough, and for a negated operator none may.
    check("StringEquals", key, wanted, &[(&["a", "c"], true)]);
    check("StringNotEquals", key, wanted, &[(&["a", "c"], false), (&["c", "d"], true)]);
    check("ForAnyValue:Null", key, "true", &[(&["a", "b"], false), (&[], true)]);
}

#[test]
fn all_conditions_must_hold() {
    let both = r#"{"StringEquals":{"aws:UserAgent":"a","aws:Referer":"r"},"Bool":{"aws:SecureTransport":true}}"#;
    let all = [
        ("aws:UserAgent", &["a"][..]),
        ("aws:Referer", &["r"]),
        ("aws:SecureTransport", &["true"]),
    ];
    assert!(holds(both, &said(&all)));
    for missing in 0..all.len() {
        let mut some = all.to_vec();
        some.remove(missing);
        assert!(!holds(both, &said(&some)));
    }
    // Names of keys do not differ by case; that of a tag does.
    assert!(holds(r#"{"StringEquals":{"AWS:useragent":"a"}}"#, &said(&all)));
    let tagged = said(&[("s3:ExistingObjectTag/Team", &["x"])]);
    assert!(holds(r#"{"StringEquals":{"S3:existingobjecttag/Team":"x"}}"#, &tagged));
    assert!(!holds(r#"{"StringEquals":{"s3:ExistingObjectTag/team":"x"}}"#, &tagged));
    let claims = said(&[("jwt:groups", &["dev", "ops"])]);
    assert!(holds(r#"{"ForAnyValue:StringEquals":{"jwt:groups":"ops"}}"#, &claims));
}
