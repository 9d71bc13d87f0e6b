//! Buckets, users, groups and policies that a start puts in force.

use std::path::Path;
use std::time::{Duration, Instant};

use databases::{Database, Engine};

use crate::running::{Done, Folder, Gateway, program};

/// The time limit until a gateway has followed the records that another one has committed.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

/// A file with each kind of declaration. The secret of `anna` is in the environment, that of `bert`
/// in a file.
const FILE: &str = r#"
[[policy]]
name = "lab"
document = '''{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::photos/*"}
]}'''

[[user]]
name = "anna"
secret_env = "ANNA_SECRET"
policies = ["readonly"]
uid = 1000
umask = "027"

[[user]]
name = "bert"
secret_file = "bert.secret"
enabled = false

[[group]]
name = "team"
policies = ["lab"]
members = ["anna", "bert"]

[[bucket]]
name = "photos"
versioning = "enabled"
quota_bytes = "1GiB"
tags = { team = "lab", cost = "7" }

[[bucket.lifecycle.Rules]]
Status = "Enabled"
Filter = { Prefix = "tmp/" }
Expiration = { Days = 7 }

[[bucket.cors.CORSRules]]
AllowedMethods = ["GET", "PUT"]
AllowedOrigins = ["https://example.com"]
MaxAgeSeconds = 600

[[bucket]]
name = "vault"
object_lock = true
retention = { Mode = "GOVERNANCE", Days = 3 }

[[bucket]]
name = "bin"
trash_days = 30

[bucket.policy]
Version = "2012-10-17"

[[bucket.policy.Statement]]
Effect = "Allow"
Principal = "*"
Action = "s3:GetObject"
Resource = "arn:aws:s3:::bin/open/*"
"#;

const ANNA: (&str, &str) = ("ANNA_SECRET", "correct-horse");

fn declared() -> Folder {
    let folder = Folder::new();
    folder.write("boot.toml", FILE);
    folder.write("bert.secret", "battery-staple\n");
    folder
}

/// Returns the number of writes of a start.
fn changes(done: &Done) -> u64 {
    let line = done.log.lines().find(|line| line.contains("are in force")).expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    line["changes"].as_u64().expect("a number")
}

/// Returns the kind, name and part of each setting that a start has overwritten.
fn overwritten(done: &Done) -> Vec<String> {
    let lines = done.log.lines().filter(|line| line.contains("differed from its declaration"));
    let named = lines.map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["level"], "WARN", "{line}");
        let [kind, name, part] =
            ["kind", "name", "part"].map(|it| line[it].as_str().expect("text"));
        format!("{kind} {name}: {part}")
    });
    named.collect()
}

fn user(name: &str, secret: &str) -> (String, String) {
    (name.to_owned(), secret.to_owned())
}

#[test]
fn declarations_are_in_force_when_the_gateway_is_ready() {
    let folder = declared();
    let gateway = Gateway::start(
        &folder,
        &["--bootstrap", "boot.toml", "--buckets", "a-b,site:download"],
        &[ANNA],
    );
    let anna = user("anna", "correct-horse");
    gateway.sign_as(&anna, "PUT", "/photos/key", b"x").send_all().expect_status(200);
    gateway.sign_as(&anna, "DELETE", "/photos/key", &[]).send_all().expect_status(403);
    let bert = user("bert", "battery-staple");
    gateway.sign_as(&bert, "GET", "/photos/key", &[]).send_all().expect_status(403);
    let has = |path: &str, parts: &[&str]| {
        let answer = gateway.sign("GET", path, &[]).send_all();
        for part in parts {
            assert!(answer.text.contains(part), "{part} is not in {}", answer.text);
        }
    };
    has("/photos?versioning", &["<Status>Enabled</Status>"]);
    has("/photos?lifecycle", &["<Prefix>tmp/</Prefix>", "<Days>7</Days>"]);
    has("/photos?cors", &["https://example.com", "<MaxAgeSeconds>600</MaxAgeSeconds>"]);
    has("/photos?tagging", &["<Key>team</Key>", "<Value>lab</Value>", "<Key>cost</Key>"]);
    has("/vault?object-lock", &["<Mode>GOVERNANCE</Mode>", "<Days>3</Days>"]);
    has("/bin?policy", &["arn:aws:s3:::bin/open/*"]);
    gateway.sign("HEAD", "/a-b", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/site/key", b"x").send_all().expect_status(200);
    let anonymous = "GET /site/key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(gateway.ask(anonymous).starts_with("HTTP/1.1 200"));
    let done = gateway.stop();
    assert!(changes(&done) > 10, "{}", done.log);
    assert!(!done.log.contains("correct-horse"), "a secret in the log");
    let list = folder.run(&["user", "list"], &[]).out;
    assert!(list.contains("anna\t000000000001\t1000\t0\t027\tyes\treadonly"), "{list}");
    let quota = folder.run(&["bucket", "show", "photos"], &[]).out;
    assert!(quota.contains("1073741824") || quota.contains("1.0 GiB"), "{quota}");
}

#[test]
fn a_second_start_writes_only_what_differs() {
    let folder = declared();
    let flags = &["--bootstrap", "boot.toml", "--buckets", "site:download"];
    let start = |anna: &str| {
        let gateway = Gateway::start(&folder, flags, &[("ANNA_SECRET", anna)]);
        let known = gateway.sign_as(&user("anna", anna), "PUT", "/photos/key", b"x").send_all();
        known.expect_status(200);
        let old = gateway.sign_as(&user("anna", "correct-horse"), "PUT", "/photos/key", b"x");
        let old = old.send_all();
        (gateway.stop(), old)
    };
    let first = start("correct-horse").0;
    assert!(changes(&first) > 0);
    assert_eq!(overwritten(&first), [] as [String; 0], "each object is new");
    assert_eq!(changes(&start("correct-horse").0), 0, "nothing differs");
    let (done, old) = start("another-horse");
    assert_eq!(
        (changes(&done), &overwritten(&done)[..]),
        (1, &["user anna: secret".to_owned()][..])
    );
    old.expect_status(403);
    // A change by hand of a declared setting does not survive a start; one of another setting does.
    let set = |arguments: &[&str]| {
        let done = folder.run(arguments, &[]);
        assert_eq!(done.code, Some(0), "{}", done.log);
    };
    set(&["user", "policy", "anna", "readwrite"]);
    set(&["user", "set", "anna", "--gid", "7"]);
    let done = start("another-horse").0;
    assert_eq!(
        (changes(&done), &overwritten(&done)[..]),
        (1, &["user anna: policies".to_owned()][..])
    );
    let list = folder.run(&["user", "list"], &[]).out;
    assert!(list.contains("anna\t000000000001\t1000\t7\t027\tyes\treadonly"), "{list}");
}

#[test]
fn a_bucket_of_another_account_is_left_as_it_is() {
    let folder = Folder::new();
    Gateway::start(&folder, &[], &[]).stop();
    let done = folder.run(&["account", "add", "lab"], &[]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    folder.write(
        "boot.toml",
        "[[user]]\nname = \"tina\"\nsecret = \"correct-horse\"\naccount = \"lab\"\n\
         policies = [\"readwrite\"]\n",
    );
    let gateway = Gateway::start(&folder, &["--bootstrap", "boot.toml"], &[]);
    let tina = user("tina", "correct-horse");
    for path in ["/site", "/site/key", "/hidden"] {
        gateway.sign_as(&tina, "PUT", path, &[]).send_all().expect_status(200);
    }
    let hide = br#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*",
        "Principal": {"AWS": "arn:aws:iam::000000000001:root"},
        "Resource": ["arn:aws:s3:::hidden", "arn:aws:s3:::hidden/*"]}]}"#;
    gateway.sign_as(&tina, "PUT", "/hidden?policy", hide).send_all().expect_status(204);
    gateway.stop();
    // The name is no reason to refuse the start, which tina could otherwise prevent.
    let gateway = Gateway::start(&folder, &["--buckets", "site:download,hidden,own"], &[]);
    gateway.sign("HEAD", "/own", &[]).send_all().expect_status(200);
    let anonymous = "GET /site/key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(gateway.ask(anonymous).starts_with("HTTP/1.1 403"));
    let done = gateway.stop();
    let left_out = done.log.lines().filter(|line| line.contains("belongs to another account"));
    let left_out: Vec<&str> = left_out.filter(|line| line.contains("ERROR")).collect();
    assert_eq!(left_out.len(), 2, "{}", done.log);
    assert!(left_out[0].contains("site") && left_out[1].contains("hidden"), "{left_out:?}");
    assert!(
        done.log
            .lines()
            .any(|line| line.contains("are in force") && line.contains("\"buckets\":1"))
    );
}

#[track_caller]
fn refused(folder: &Folder, flags: &[&str], parts: &[&str]) {
    let done = folder.run(&[&["serve"], flags].concat(), &[ANNA]);
    assert_eq!(done.code, Some(78), "{}", done.log);
    let said = done.log.lines().last().expect("a line");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_wrong_declaration_refuses_the_start_with_its_line() {
    let folder = Folder::new();
    let file = ["--bootstrap", "boot.toml"];
    refused(&folder, &file, &["boot.toml", "--bootstrap (ASHLAR_BOOTSTRAP) must be"]);
    refused(&folder, &["--buckets", "abc:all"], &["\"abc:all\"", "a,b:public"]);
    folder.write("boot.toml", "[[bucket]]\nname = \"abc\"\nquota = 7\n");
    refused(&folder, &file, &["line 3", "quota", "docs/OPERATING.md"]);
    assert!(!Path::new(&folder.path("data")).exists(), "no volume was created");
    // The rules of S3 need the volume.
    folder.write(
        "boot.toml",
        "[[bucket]]\nname = \"abc\"\n\n[bucket.lifecycle]\nRules = [{ Status = \"On\" }]\n",
    );
    refused(&folder, &file, &["the lifecycle of the bucket \"abc\"", "of boot.toml", "correct"]);
    folder.write("boot.toml", "\n[[group]]\nname = \"team\"\nmembers = [\"anna\"]\n");
    refused(&folder, &file, &["the members of the group \"team\"", "line 3 of boot.toml"]);
    folder.write("boot.toml", "[[bucket]]\nname = \"abc\"\nobject_lock = true\n");
    refused(&folder, &file, &["the field object_lock", "line 2 of boot.toml"]);
}

#[test]
fn two_gateways_that_start_at_once_put_the_same_file_in_force() {
    if !Database::installed(Engine::Redis) {
        return;
    }
    let redis = Database::start(Engine::Redis);
    let folders = [declared(), declared()];
    let key = "ab".repeat(32);
    let meta = redis.url();
    let blocks = format!("file:{}", folders[0].path("blocks"));
    let gateways = std::thread::scope(|scope| {
        let starts = folders.each_ref().map(|folder| {
            let variables = [
                ANNA,
                ("ASHLAR_META", meta.as_str()),
                ("ASHLAR_BLOCKS", blocks.as_str()),
                ("ASHLAR_MASTER_KEY", key.as_str()),
                ("ASHLAR_METADATA_DURABILITY", "relaxed"),
                ("ASHLAR_CREATE", "true"),
            ];
            scope.spawn(move || Gateway::start(folder, &["--bootstrap", "boot.toml"], &variables))
        });
        starts.map(|start| start.join().expect("it starts"))
    });
    for gateway in gateways {
        let anna = user("anna", "correct-horse");
        let put = || gateway.sign_as(&anna, "PUT", "/photos/key", b"x").send_all();
        // A gateway learns within a second what the other one has committed.
        let deadline = Instant::now() + FOLLOWED_WITHIN;
        while !put().text.starts_with("HTTP/1.1 200 ") && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        put().expect_status(200);
        gateway.stop();
    }
}

#[test]
fn variables_of_minio_stand_for_options_and_are_logged() {
    let folder = Folder::new();
    let minio = [
        ("MINIO_DEFAULT_BUCKETS", "one;two:download"),
        ("MINIO_SITE_REGION", "us-east-1"),
        ("MINIO_ADDRESS", ":1"),
        ("MINIO_BROWSER", "off"),
        ("MINIO_VOLUMES", "/data{1...4}"),
    ];
    let gateway = Gateway::start(&folder, &[], &minio);
    gateway.sign("HEAD", "/one", &[]).send_all().expect_status(200);
    gateway.sign("HEAD", "/two", &[]).send_all().expect_status(200);
    let done = gateway.stop();
    let says = |variable: &str, effect: &str| {
        let line = done.log.lines().find(|line| line.contains(&format!("\"{variable}\"")));
        assert!(line.is_some_and(|line| line.contains(effect)), "{variable}: {}", done.log);
    };
    says("MINIO_DEFAULT_BUCKETS", "stands for --buckets one,two:download");
    says("MINIO_SITE_REGION", "stands for --region us-east-1");
    says("MINIO_BROWSER", "stands for --console-listen off");
    says("MINIO_ADDRESS", "has no effect, because --listen is set");
    says("MINIO_VOLUMES", "has no effect, because --data-dir is set");
    let serving = done.log.lines().find(|line| line.contains("\"serving\"")).expect("a line");
    assert!(serving.contains("\"console\":\"off\""), "{serving}");
    let mut without_data_dir = program();
    without_data_dir.current_dir(folder.path("")).arg("serve");
    let done = without_data_dir.env("MINIO_VOLUMES", "http://host{1...4}/data").output();
    let done = done.expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(78), "{said}");
    assert!(said.contains("MINIO_VOLUMES") && said.contains("servers"), "{said}");
}
