//! Starts that fail, their exit statuses, secrets from the service manager, and texts about the
//! program itself.

use std::net::TcpListener;

use crate::running::Folder;

/// Flags, variables, and parts of the expected error.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);

/// Exit statuses: a failure, a store that is away, and wrong settings.
const FAILED: i32 = 1;
const AWAY: i32 = 75;
const WRONG: i32 = 78;

/// Each failed start prints one line with the action and the cause, no backtrace, and exits with
/// this status.
fn expect_failures(folder: &Folder, status: i32, cases: &[Case<'_>]) {
    for (arguments, variables, parts) in cases {
        let arguments = [&["serve"], *arguments].concat();
        let done = folder.run(&arguments, variables);
        assert_eq!(done.code, Some(status), "{arguments:?}: {}", done.log);
        // A start in a folder without a volume warns first, as a line of JSON.
        let line = done.log.trim_end().lines().filter(|line| !line.starts_with('{'));
        let line = &*line.collect::<Vec<_>>().join("\n");
        assert!(line.starts_with("ashlar: cannot "), "{arguments:?}: {line}");
        assert!(!line.contains('\n') && !line.contains("backtrace"), "{arguments:?}: {line}");
        for part in *parts {
            assert!(line.contains(part), "{arguments:?}: {part:?} is not in {line:?}");
        }
    }
}

const UNREACHABLE: &str = "s3://blocks/p?endpoint=http://127.0.0.1:1";

#[test]
fn a_failed_start_prints_one_line_with_the_cause() {
    let folder = Folder::new();
    folder.write("file", "not a folder");
    folder.write("foreign.db", &"this is not a database ".repeat(100));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let file = folder.path("file");
    let (foreign, inside) = (format!("sqlite:{}", folder.path("foreign.db")), format!("{file}/x"));
    let meta_inside = format!("sqlite:{inside}");
    let cases: &[Case<'_>] = &[
        (&["--listen", &taken], &[], &["listen on 127.0.0.1:", "in use", "choose another port"]),
        (&["--listen", "nonsense"], &[], &["listen on nonsense", "HOST:PORT"]),
        (&["--admin-listen", &taken], &[], &["listen on 127.0.0.1:", "choose another port"]),
        (&["--data-dir", &inside], &[], &["create the data directory", "--data-dir"]),
        (&["--meta", &meta_inside], &[], &["open the metadata store sqlite:"]),
        (&["--meta", &foreign], &[], &["open the metadata store sqlite:", "foreign.db"]),
        (&["--listen", "192.0.2.1:9700"], &[], &["no such address"]),
    ];
    expect_failures(&folder, FAILED, cases);
}

#[test]
fn a_start_without_its_stores_exits_with_75() {
    let folder = Folder::new();
    let pg = "postgres://me:hush@127.0.0.1:1/db";
    let my = "mysql://me:hush@127.0.0.1:1/db";
    let redis = "redis://me:hush@127.0.0.1:1/0?prefix=p";
    let keys = [("ASHLAR_BLOCKS_ACCESS_KEY", "someone"), ("ASHLAR_BLOCKS_SECRET_KEY", "something")];
    let cases: &[Case<'_>] = &[
        (
            &["--meta", pg],
            &[],
            &["metadata store postgres://me@127.0.0.1:1/db", "answers at this address"],
        ),
        (&["--meta", my], &[], &["metadata store mysql://me@127.0.0.1:1/db"]),
        (&["--meta", redis], &[], &["metadata store redis://me@127.0.0.1:1/0?prefix=p"]),
        (&["--blocks", UNREACHABLE], &keys, &["use the block store s3://blocks/p", "endpoint"]),
    ];
    expect_failures(&folder, AWAY, cases);
}

#[test]
fn a_start_with_wrong_settings_exits_with_78() {
    let folder = Folder::new();
    folder.write("file", "not a folder");
    folder.write("unknown.toml", "regoin = \"x\"\n");
    let (file, unknown) = (folder.path("file"), folder.path("unknown.toml"));
    let blocks_inside = format!("file:{file}/x");
    let cases: &[Case<'_>] = &[
        (&["--config", &unknown], &[], &["read the configuration", "line 1", "`regoin`"]),
        (&["--config", "/nowhere.toml"], &[], &["read the configuration in /nowhere.toml"]),
        (&["--blocks", &blocks_inside], &[], &["use the block store file:"]),
        (&["--blocks", UNREACHABLE], &[], &["ASHLAR_BLOCKS_ACCESS_KEY is not set"]),
        (
            &["--meta", "postgres://127.0.0.1:1/db?sslmod=require"],
            &[],
            &["there is no parameter \"sslmod\""],
        ),
        (&["--tls-cert", &file], &[], &["serve TLS", "both --tls-cert and --tls-key"]),
        (&["--tls-cert", &file, "--tls-key", &file], &[], &["read the TLS certificate in"]),
        (&["--log", "info,x=loud"], &[], &["log at the level"]),
        (&["--log", "loud"], &[], &["log at the level", "\"loud\" is not a level"]),
        (&["--block-bytes", "64MiB"], &[], &["block_bytes", "more than 16 MiB"]),
        (&["--master-key-file", "/none/key"], &[], &["there is no directory /none"]),
        (&[], &[("ASHLAR_ROOT_USER_FILE", "/none")], &["ASHLAR_ROOT_USER_FILE must name a file"]),
        (&[], &[("ASHLAR_ROOT_USER", "me")], &["ASHLAR_ROOT_PASSWORD is not"]),
        (&[], &[("ASHLAR_ROOT_USER", "me"), ("ASHLAR_ROOT_PASSWORD", "x")], &["access key has"]),
        (&[], &[("ASHLAR_MASTER_KEY", "short")], &["use the master key in ASHLAR_MASTER_KEY"]),
        (&[], &[("ASHLAR_ROOT_USER", "a"), ("ASHLAR_ROOT_USER_FILE", "b")], &["both ASHLAR_ROOT"]),
    ];
    expect_failures(&folder, WRONG, cases);
}

#[test]
fn check_config_fails_on_a_misspelt_variable() {
    let folder = Folder::new();
    let done = folder.run(&["check-config"], &[("ASHLAR_DATADIR", "/srv/ashlar")]);
    assert_eq!(done.code, Some(WRONG), "{}", done.log);
    assert!(done.log.contains("ASHLAR_DATADIR") && done.log.contains("ASHLAR_DATA_DIR"));
    let done = folder.run(&["check-config"], &[("ASHLAR_REGION", "eu-west-1")]);
    assert_eq!(done.code, Some(0), "{}", done.log);
}

#[test]
fn wrong_arguments_exit_with_2() {
    let folder = Folder::new();
    for arguments in [&["serve", "--no-such-flag"][..], &["no-such-command"], &[]] {
        assert_eq!(folder.run(arguments, &[]).code, Some(2), "{arguments:?}");
    }
}

/// Credentials of the service manager are files with the names of variables in lower case.
#[test]
fn credentials_of_the_service_manager_are_secrets() {
    let folder = Folder::new();
    let credentials = folder.path("credentials");
    std::fs::create_dir(&credentials).expect("a folder");
    folder.write("credentials/ashlar_root_user", "from-a-file\n");
    let directory = ("CREDENTIALS_DIRECTORY", &*credentials);
    let done = folder.run(&["serve"], &[directory]);
    assert!(done.log.contains("ASHLAR_ROOT_PASSWORD is not"), "{}", done.log);
    folder.write("credentials/ashlar_root_password", "a-secret-of-20-chars\n");
    folder.write("credentials/ashlar_master_key", "short");
    let done = folder.run(&["serve"], &[directory]);
    assert!(done.log.contains("use the master key in ASHLAR_MASTER_KEY"), "{}", done.log);
    folder.write("credentials/ashlar_master_key", &"5a".repeat(32));
    // The start fails after it has read the secrets, and has generated none.
    folder.write("file", "not a folder");
    let blocks = format!("file:{}", folder.path("file/blocks"));
    let done = folder.run(&["serve", "--blocks", &blocks], &[directory]);
    assert!(done.log.contains("use the block store"), "{}", done.log);
    assert!(!std::path::Path::new(&folder.path("data/root-credentials")).exists());
    // A variable is stronger than a credential.
    let done = folder.run(&["serve"], &[directory, ("ASHLAR_ROOT_PASSWORD", "x")]);
    assert!(done.log.contains("use the root credentials"), "{}", done.log);
}

#[test]
fn version_completion_and_manual_describe_the_program() {
    let folder = Folder::new();
    let about = folder.run(&["version", "--json"], &[]);
    let about: serde_json::Value = serde_json::from_str(&about.out).expect("JSON");
    assert_eq!(
        folder.run(&["version"], &[]).out,
        format!("ashlar {}\n", about["version"].as_str().expect("text"))
    );
    assert!(about["engines"].as_array().expect("engines").contains(&"sqlite".into()));
    assert!(about.as_object().expect("an object").contains_key("commit"));
    let script = folder.run(&["completion", "bash"], &[]).out;
    assert!(script.contains("--authoritative-reads") && script.contains("complete -F"), "{script}");
    std::fs::create_dir(folder.path("man")).expect("a folder");
    assert_eq!(folder.run(&["manual", &folder.path("man")], &[]).code, Some(0));
    assert!(folder.read("man/ashlar.1").contains("ashlar\\-serve(1)"));
    assert!(
        folder.read("man/ashlar-bucket-quota.1").contains("the limit of bytes")
            || folder.read("man/ashlar-bucket-quota.1").contains("The limit of bytes")
    );
    assert_eq!(folder.run(&["manual", "/no/such/folder"], &[]).code, Some(1));
}
