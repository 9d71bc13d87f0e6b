//! Access keys, their policies and the key that their secrets are sealed with.

use std::time::Duration;

use crate::running::{Folder, Gateway};

#[test]
fn access_keys_added_while_a_gateway_runs_work_within_their_policies() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/bucket/key", b"hello").send_all().expect_status(200);
    let made = folder.run(&["user", "add", "anna", "--policy", "readonly"], &[]);
    assert_eq!(made.code, Some(0), "{}", made.log);
    let secret = made.out.lines().find_map(|line| line.strip_prefix("secret key  "));
    let anna = ("anna".to_owned(), secret.expect("a secret").to_owned());
    std::thread::sleep(Duration::from_millis(1500));
    gateway.sign_as(&anna, "GET", "/bucket/key", &[]).send_all().expect_status(200);
    gateway.sign_as(&anna, "PUT", "/bucket/key", b"x").send_all().expect_status(403);
    assert_eq!(folder.run(&["user", "policy", "anna", "readwrite"], &[]).code, Some(0));
    std::thread::sleep(Duration::from_millis(1500));
    gateway.sign_as(&anna, "PUT", "/bucket/key", b"x").send_all().expect_status(200);
    let list = folder.run(&["user", "list"], &[]).out;
    let line = |gid: &str, umask: &str| {
        format!("anna\t000000000001\t1000\t{gid}\t{umask}\tyes\treadwrite\t\t0\t\n")
    };
    assert_eq!(list, line("1000", "022"));
    let set = folder.run(&["user", "set", "anna", "--gid", "7", "--umask", "27"], &[]);
    assert_eq!(set.code, Some(0), "{}", set.log);
    let list = folder.run(&["user", "list"], &[]).out;
    assert_eq!(list, line("7", "027"));
    assert_eq!(folder.run(&["user", "remove", "anna"], &[]).code, Some(0));
    std::thread::sleep(Duration::from_millis(1500));
    gateway.sign_as(&anna, "GET", "/bucket/key", &[]).send_all().expect_status(403);
    gateway.stop();
}

#[test]
fn a_volume_with_users_is_not_served_with_a_fresh_master_key() {
    let folder = Folder::new();
    Gateway::start(&folder, &[], &[]).stop();
    assert_eq!(folder.run(&["user", "add", "anna"], &[]).code, Some(0));
    let elsewhere = &*folder.path("elsewhere.key");
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["user", "add", "berta"]] {
        let done = folder.run(&[&["--master-key-file", elsewhere], arguments].concat(), &[]);
        assert_eq!(done.code, Some(1), "{}", done.log);
        assert!(done.log.contains("master key"), "{}", done.log);
    }
    assert!(!std::path::Path::new(elsewhere).exists(), "no key was made");
    Gateway::start(&folder, &[], &[]).stop();
}

#[test]
fn a_file_without_a_master_key_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    Gateway::start(&folder, &[], &[]).stop();
    folder.write("hosts", "127.0.0.1 localhost\n");
    let hosts = folder.path("hosts");
    std::fs::set_permissions(&hosts, PermissionsExt::from_mode(0o644)).expect("changed");
    for option in ["--master-key-file", "--old-master-key-file"] {
        let done = folder.run(&["user", "add", "anna", option, &hosts], &[]);
        assert_eq!(done.code, Some(1), "{}", done.log);
        let mode = std::fs::metadata(&hosts).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{option} closed the file");
    }
}

#[test]
fn policies_are_validated_and_assigned_ones_cannot_be_removed() {
    let folder = Folder::new();
    Gateway::start(&folder, &[], &[]).stop();
    folder.write(
        "policy.json",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject",
            "Resource":"arn:aws:s3:::photos/*"}]}"#,
    );
    folder.write("broken.json", "{");
    let fails = |arguments: &[&str], part: &str| {
        let done = folder.run(arguments, &[]);
        assert_eq!(done.code, Some(1), "{arguments:?}");
        assert!(done.log.contains(part) && done.log.lines().count() == 1, "{}", done.log);
    };
    let works = |arguments: &[&str]| {
        let done = folder.run(arguments, &[]);
        assert_eq!(done.code, Some(0), "{}", done.log);
        done.out
    };
    fails(&["policy", "add", "photos", &folder.path("broken.json")], "add the policy \"photos\":");
    fails(
        &["policy", "add", "readonly", &folder.path("policy.json")],
        "a built-in policy has this name",
    );
    works(&["policy", "add", "photos", &folder.path("policy.json")]);
    assert!(works(&["policy", "list"]).ends_with("photos\tno\n"));
    assert!(works(&["policy", "show", "photos"]).contains("s3:GetObject"));
    assert!(works(&["policy", "show", "readonly"]).contains("s3:ListBucket"));
    fails(&["user", "add", "x"], "an access key has 3 to 128 characters");
    fails(&["user", "add", "anna", "--policy", "phtos"], "cannot use the policy \"phtos\"");
    folder.write("secret", "a secret of my own\n");
    fails(&["user", "add", "anna", "--secret-file", &folder.path("secret")], "without spaces");
    folder.write("secret", "secret-of-my-own\n");
    let secret = folder.path("secret");
    let made = works(&["user", "add", "anna", "--policy", "photos", "--secret-file", &secret]);
    assert!(!made.contains("secret-of-my-own"), "{made}");
    fails(&["user", "add", "anna"], "it exists");
    fails(&["policy", "remove", "photos"], "these access keys have it: anna");
    works(&["user", "policy", "anna", "readonly"]);
    works(&["policy", "remove", "photos"]);
    fails(&["user", "remove", "bert"], "there is none of this name");
}
