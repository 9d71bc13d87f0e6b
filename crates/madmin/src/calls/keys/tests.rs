use super::*;

#[test]
fn name_and_description_share_a_text() {
    for (name, description) in
        [("", ""), ("ci", ""), ("", "nightly"), ("ci", "nightly build"), ("ci", "a ] b")]
    {
        let text = described(name, description);
        assert_eq!(named(&text), (name.to_owned(), description.to_owned()), "{text}");
    }
    assert_eq!(named("[open"), (String::new(), "[open".to_owned()));
}

#[test]
fn key_with_a_policy_of_its_own_is_refused() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    for none in ["null", "{}", r#"{"Version":"","Statement":null}"#] {
        check_policy(Some(&raw(none))).unwrap();
    }
    check_policy(None).unwrap();
    for some in [
        r#"{"Statement":[]}"#,
        r#"{"Statement":[{"Effect":"Deny"}]}"#,
        r#"{"version":"2012-10-17","statement":[{"Effect":"Deny"}]}"#,
        r#"{"STATEMENT":null}"#,
        r#""readonly""#,
        "[1]",
        "7",
    ] {
        assert_eq!(check_policy(Some(&raw(some))).unwrap_err().code, "NotImplemented", "{some}");
    }
}
