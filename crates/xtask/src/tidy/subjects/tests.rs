use super::*;

fn found(subject: &str) -> Option<String> {
    let names = ["volume", "docs", "README"].map(str::to_owned);
    violation(&format!("abc {subject}"), &BTreeSet::from(names))
}

#[test]
fn a_subject_names_its_components_and_is_short() {
    for subject in ["volume: a", "volume, docs: a: b", "README: a"] {
        assert_eq!(found(subject), None, "{subject}");
    }
    for (subject, error) in [
        ("late: a", "\"late\" is no crate, page or folder"),
        ("volume, late: a", "\"late\" is no crate, page or folder"),
        ("volume", "the subject names no component before a colon"),
        ("volume: ", "the subject names no change"),
    ] {
        assert_eq!(found(subject), Some(format!("commit abc {subject}: {error}")));
    }
    let long = format!("volume: {}", "a".repeat(65));
    assert!(found(&long).is_some_and(|it| it.ends_with("the subject has 73 characters, not 72")));
    assert_eq!(found(&long[..72]), None);
}

#[test]
fn a_folder_without_history_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    assert!(violations(folder.path(), &[]).is_err());
}
