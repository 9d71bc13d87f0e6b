use super::*;

/// Parses a claim with this JSON value.
fn read(claim: &str) -> FirstClaim {
    let text = format!(r#"{{"aud":{claim},"iss":"i"}}"#);
    let claims: FirstClaims = serde_json::from_str(&text).expect(claim);
    assert_eq!(claims.iss.text(), Some("i"), "what stands behind {claim}");
    claims.aud
}

fn texts(texts: &[&str]) -> FirstClaim {
    FirstClaim::Texts(texts.iter().map(|&text| text.to_owned()).collect())
}

#[test]
fn claim_values_are_read_by_type() {
    for (claim, expected) in [
        (r#""a""#, FirstClaim::Text("a".to_owned())),
        ("7", FirstClaim::Whole(7)),
        ("-7", FirstClaim::Whole(-7)),
        ("7.9", FirstClaim::Whole(7)),
        ("18446744073709551615", FirstClaim::Other),
        ("null", FirstClaim::Other),
        ("true", FirstClaim::Other),
        (r#"{"a":["b"]}"#, FirstClaim::Other),
        ("[]", texts(&[])),
        (r#"["a","b"]"#, texts(&["a", "b"])),
        (r#"["a",7,["c"],{"d":"e"},null,"b"]"#, texts(&["a", "b"])),
    ] {
        assert_eq!(read(claim), expected, "{claim}");
    }
    let claims: FirstClaims = serde_json::from_str("{}").expect("no claims");
    assert_eq!(claims.exp, FirstClaim::Absent);
    // Parsers differ in which of two values they use.
    assert!(serde_json::from_str::<FirstClaims>(r#"{"sub":"a","sub":"b"}"#).is_err());
}

#[test]
fn a_long_list_is_malformed() {
    let list = |length: usize| format!("[{}]", vec![r#""a""#; length].join(","));
    assert_eq!(read(&list(AUDIENCES_MAX)), texts(&["a"; AUDIENCES_MAX]));
    assert_eq!(read(&list(AUDIENCES_MAX + 1)), FirstClaim::Other);
    assert_eq!(read(&list(5_000)), FirstClaim::Other);
    let nested = format!("[{},\"b\"]", list(5_000));
    assert_eq!(read(&nested), texts(&["b"]), "a list within a list is not kept");
}
