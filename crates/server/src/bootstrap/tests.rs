use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use adminapi::resources::buckets::VersioningState;
use adminapi::resources::public::AnonymousAccess;
use serde_json::json;

use super::buckets::agrees;
use super::document::Document;
use super::shorthand;
use super::source::{self, parse};

fn parsed(text: &str) -> Document {
    parse(text, "boot.toml").expect("a valid file")
}

#[track_caller]
fn refused(text: &str, line: &str, reason: &str) {
    let wrong = parse(text, "boot.toml").expect_err("a mistake");
    assert!(wrong.starts_with(line), "{wrong}");
    assert!(wrong.contains(reason), "{wrong}");
    assert!(!wrong.contains('\n'), "{wrong}");
}

#[test]
fn a_bucket_has_its_fields_and_the_lines_of_its_documents() {
    let document = parsed(
        r#"
[[bucket]]
name = "photos"
versioning = "enabled"
quota_bytes = "10GiB"
quota_objects = 1000
public = "download"
lifecycle = '{"Rules": []}'
tags = { team = "lab", cost = "7" }

[[bucket.cors.CORSRules]]
AllowedMethods = ["GET"]
"#,
    );
    let [bucket] = &document.buckets[..] else { panic!("one bucket") };
    assert_eq!(bucket.name.place, "line 3 of boot.toml");
    assert_eq!(bucket.versioning, Some(VersioningState::Enabled));
    assert_eq!(bucket.quota_bytes.map(|size| size.0), Some(10 << 30));
    assert_eq!((bucket.quota_objects, bucket.trash_days), (Some(1000), None));
    assert_eq!(bucket.public, Some(AnonymousAccess::Download));
    let lifecycle = bucket.lifecycle.as_ref().expect("a lifecycle");
    assert_eq!(
        (&*lifecycle.place, &lifecycle.value),
        ("line 8 of boot.toml", &json!({"Rules": []}))
    );
    let cors = &bucket.cors.as_ref().expect("CORS").value;
    assert_eq!(*cors, json!({"CORSRules": [{"AllowedMethods": ["GET"]}]}));
    let tags = json!([{"Key": "cost", "Value": "7"}, {"Key": "team", "Value": "lab"}]);
    assert_eq!(bucket.tags.as_ref().expect("tags").value, json!({ "TagSet": tags }));
}

#[test]
fn a_mistake_names_its_line_and_field() {
    refused("\n[[bucket]]\nname = \"a\"\n", "line 3", "bucket \"a\"");
    refused("[[bucket]]\nname = \"abc\"\nversions = true\n", "line 3", "versions");
    refused("[[bucket]]\nname = \"abc\"\nversioning = \"off\"\n", "line 3", "versioning is");
    refused("[[bucket]]\nname = \"abc\"\npublic = \"custom\"\n", "line 3", "public is");
    refused("[[bucket]]\nname = \"abc\"\npolicy = '{'\n", "line 3", "no JSON");
    refused("[[bucket]]\nname = \"abc\"\ncors = 7\n", "line 3", "a document is a table");
    refused("[[bucket]]\nname = \"abc\"\nretention = { Days = 1 }\n", "line 2", "object_lock");
    let both = "[[bucket]]\nname = \"abc\"\npublic = \"upload\"\npolicy = '{}'\n";
    refused(both, "line 3", "both public and policy");
    let twice = "[[group]]\nname = \"abc\"\n[[group]]\nname = \"abc\"\n";
    refused(twice, "line 4", "a second group \"abc\"");
    refused("[[user]]\nname = \"anna\"\n", "line 2", "one of secret_env, secret_file and secret");
    let two = "[[user]]\nname = \"anna\"\nsecret = \"12345678\"\nsecret_env = \"X\"\n";
    refused(two, "line 2", "one of secret_env, secret_file and secret");
    let unset = "[[user]]\nname = \"anna\"\nsecret_env = \"ASHLAR_NO_SUCH_VARIABLE\"\n";
    refused(unset, "line 2", "the variable ASHLAR_NO_SUCH_VARIABLE is not set");
    refused("[[user]]\nname = \"anna\"\nsecret = \"short\"\n", "line 2", "8 to 128 characters");
    for unquoted in ["1234567890", "12345.67890", "true", "[\"1234567890\"]", "2027-01-02"] {
        let text = format!("[[user]]\nname = \"anna\"\nsecret = {unquoted}\n");
        refused(&text, "line 2", "the secret is no text in quotes");
        assert!(!parse(&text, "boot.toml").expect_err("a mistake").contains(unquoted));
    }
}

#[test]
fn a_secret_comes_from_a_file_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("anna");
    std::fs::write(&file, "correct-horse\n").expect("written");
    let text = format!("[[user]]\nname = \"anna\"\nsecret_file = {file:?}\n");
    assert_eq!(parsed(&text).users[0].secret.expose(), "correct-horse");
    let shown = format!("{:?}", parsed(&text));
    assert!(!shown.contains("correct-horse"), "{shown}");
}

#[test]
fn a_file_with_a_secret_is_closed_to_other_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode_after = |secret: &str| {
        let file = folder.path().join("boot.toml");
        std::fs::write(folder.path().join("anna"), "correct-horse").expect("written");
        std::fs::write(&file, format!("[[user]]\nname = \"anna\"\n{secret}\n")).expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("changed");
        source::read(&file).expect("a valid file");
        std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode_after("secret = \"correct-horse\""), 0o640);
    let elsewhere = folder.path().join("anna");
    assert_eq!(mode_after(&format!("secret_file = {elsewhere:?}")), 0o644, "it has no secret");
}

#[test]
fn a_word_names_a_bucket_and_its_access() {
    let words = ["abc", "site:download", "drop: upload", "open:public", "shut:none"];
    let buckets = shorthand::buckets(&words.map(str::to_owned)).expect("valid");
    let found: Vec<_> = buckets.iter().map(|it| (it.name.value.as_str(), it.public)).collect();
    assert_eq!(
        found,
        [
            ("abc", None),
            ("site", Some(AnonymousAccess::Download)),
            ("drop", Some(AnonymousAccess::Upload)),
            ("open", Some(AnonymousAccess::Public)),
            ("shut", Some(AnonymousAccess::Private)),
        ]
    );
    for wrong in ["abc:custom", "abc:", "A:public", ""] {
        let problem = shorthand::buckets(&[wrong.to_owned()]).expect_err("a mistake").to_string();
        assert!(problem.contains("ASHLAR_BUCKETS") && problem.contains("a,b:public"), "{problem}");
    }
}

#[test]
fn a_stored_document_agrees_if_only_its_form_differs() {
    let declared = json!({"Rules": [{"Status": "Enabled", "Expiration": {"Days": 7}}]});
    let stored = json!({"Rules": [{"ID": "x", "Status": "Enabled", "Expiration": {"Days": "7"}}]});
    assert!(agrees(&declared, &stored));
    let longer = json!({"Rules": [{"Status": "Enabled", "Expiration": {"Days": 8}}]});
    assert!(!agrees(&longer, &stored));
    let fewer = json!({"Rules": []});
    assert!(!agrees(&fewer, &stored) && !agrees(&stored, &fewer));
    assert!(!agrees(&json!({"a": 1}), &json!({"a": 1, "b": 2})), "a field was removed");
    assert!(!agrees(&json!({"a": 1, "b": 2}), &json!({"a": 1})), "a field was added");
    assert!(!agrees(&json!({"ID": "y"}), &json!({"ID": "x"})));
    assert!(!agrees(&json!([1, 2]), &json!([2, 1])), "the order of rules can decide");
}
