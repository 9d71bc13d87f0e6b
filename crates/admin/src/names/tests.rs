use super::{check_access_key, check_policy_name, check_secret};

#[test]
fn names_and_secrets_are_checked() {
    for good in ["abc", "anna.b@example+1=x", &"k".repeat(128)] {
        assert_eq!(check_access_key(good), Ok(()));
    }
    for bad in ["ab", "a/b", "a b c", "ännä", &"k".repeat(129), "000000000001", "Anonymous"] {
        assert!(check_access_key(bad).is_err(), "{bad:?}");
    }
    assert_eq!(check_policy_name("team-a.read_only"), Ok(()));
    assert!(check_policy_name("").is_err());
    assert_eq!(check_secret("12345678"), Ok(()));
    for bad in ["1234567", "with space", "tab\tinside", &"x".repeat(129)] {
        let sentence = check_secret(bad).expect_err(bad).to_string();
        assert!(!sentence.contains(bad), "a secret's error must not repeat it");
    }
}
