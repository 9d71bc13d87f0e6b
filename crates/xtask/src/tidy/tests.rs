use std::collections::BTreeSet;

use super::*;

/// Returns the findings in a file of `package`, without their lines.
#[track_caller]
fn found(package: &str, text: &str) -> Vec<String> {
    source::violations(text, package, false).into_iter().map(|(_, error)| error).collect()
}

#[track_caller]
fn reaches(package: &str, others: &[&str]) -> Vec<String> {
    let reached: BTreeSet<String> = others.iter().map(|&name| name.to_owned()).collect();
    let members = [
        "record",
        "store",
        "namespace",
        "volume",
        "gateway",
        "fuse",
        "store-sqlite",
        "store-redis",
        "databases",
        "faulty",
        "load",
        "ports",
        "proxy",
        "sigv4",
    ];
    dependencies::violations(package, &reached, &members)
}

#[test]
fn a_pure_crate_does_not_touch_the_outside_world() {
    assert_eq!(found("s3", "use std::fs::File;"), ["a pure crate does not use std::fs"]);
    assert_eq!(
        found("s3", "use std::{fmt, net::{IpAddr, TcpStream}, time::Duration};").len(),
        2,
        "each name in braces is checked"
    );
    assert_eq!(found("s3", "fn f() { let _ = ::std::time::Instant::now(); }").len(), 1);
    assert_eq!(found("s3", "// std::fs\nconst A: &str = \"std::net\";\nuse std::fmt;").len(), 0);
    assert_eq!(found("volume", "use std::time::Duration;").len(), 0);
    assert_eq!(source::violations("use std::time::Instant;", "s3", true).len(), 0, "tests may");
}

#[test]
fn a_pure_crate_does_not_start_threads_or_read_the_clock() {
    assert_eq!(found("s3", "use std::thread;"), ["a pure crate does not use std::thread"]);
    assert_eq!(found("s3", "use hashing::{Crc, CrcCombiner, Md5};").len(), 0);
    assert_eq!(found("s3", "use hashing::*;"), ["a pure crate does not use hashing::*"]);
    assert_eq!(
        found("s3", "use hashing::{HashingPool, Md5}; fn f() { hashing::Patience::default(); }"),
        [
            "a pure crate does not use hashing::HashingPool",
            "a pure crate does not use hashing::Patience"
        ]
    );
    assert_eq!(
        found("s3", "fn f() { time::OffsetDateTime::now_utc(); }"),
        ["a pure crate does not use now_utc"]
    );
    assert_eq!(found("gateway", "use hashing::HashingPool; use std::time::Instant;").len(), 0);
}

#[test]
fn only_listed_task_locals_are_allowed() {
    let local = "tokio::task_local! { static COST: u8; }";
    assert!(found("session", local).is_empty());
    assert_eq!(found("volume", local), ["COST is a task-local; pass the value instead"]);
    let two = "use tokio::task_local; task_local! { static COST: u8; pub static OTHER: u8; }";
    assert_eq!(found("session", two), ["OTHER is a task-local; pass the value instead"]);
    assert!(source::violations(local, "volume", true).is_empty(), "tests may");
}

#[test]
fn comments_fit_into_the_columns_of_code() {
    let (fits, wide) = ("a".repeat(96), "a".repeat(97));
    assert!(found("volume", &format!("/// {fits}\nfn f() {{}}")).is_empty());
    for mark in ["///", "// ", "//!"] {
        let text = format!("{mark} {wide}");
        let error = ["a comment has at most 100 columns"];
        assert_eq!(found("volume", &format!("{text}\n")), error, "{text}");
    }
    assert!(found("volume", &format!("//! | {wide} |\n")).is_empty(), "a table");
    let fence = format!("//! ```text\n//! {wide}\n//! ```\n");
    assert!(found("volume", &fence).is_empty(), "a diagram");
    assert_eq!(found("volume", &format!("{fence}//! {wide}\n")).len(), 1, "after the fence");
}

#[test]
fn a_pure_crate_does_not_reach_a_runtime() {
    assert_eq!(reaches("namespace", &["bytes", "tokio"]), ["namespace is pure but reaches tokio"]);
    assert_eq!(reaches("keyring", &["record", "hyper"]), ["keyring is pure but reaches hyper"]);
    assert!(reaches("volume", &["bytes", "tokio"]).is_empty());
}

#[test]
fn signatures_and_policies_reach_no_other_crate_of_the_workspace() {
    assert_eq!(reaches("sigv4", &["record"]), ["sigv4 is arithmetic only, but reaches record"]);
    assert_eq!(reaches("policy", &["record"]), ["policy is arithmetic only, but reaches record"]);
    assert_eq!(reaches("sigv4", &["hmac", "tokio"]), ["sigv4 is pure but reaches tokio"]);
    assert!(reaches("load", &["sigv4", "tokio"]).is_empty());
}

#[test]
fn an_engine_reaches_the_store_only() {
    assert!(reaches("store-sqlite", &["store", "sqlx", "tokio"]).is_empty());
    assert_eq!(reaches("store-sqlite", &["store", "record"]).len(), 1);
}

#[test]
fn the_gateway_and_fuse_do_not_reach_each_other() {
    assert_eq!(reaches("gateway", &["volume", "fuse"]).len(), 1);
    assert_eq!(reaches("fuse", &["volume", "gateway"]).len(), 1);
    assert!(reaches("server", &["gateway", "fuse", "store-sqlite"]).is_empty());
}

#[test]
fn the_rules_of_buckets_and_lifecycle_passes_know_no_view_and_no_http() {
    for package in ["rules", "lifecycle"] {
        for view in ["gateway", "files", "fuse", "server"] {
            let error = format!("{package} is below all views, but reaches {view}");
            assert_eq!(reaches(package, &["volume", view]), [error]);
        }
        assert!(reaches(package, &["volume", "s3", "http", "hyper"]).is_empty());
        for text in ["use http::HeaderMap;", "fn f(a: hyper::Uri) {}"] {
            assert_eq!(found(package, text).len(), 1, "{text}");
        }
        assert!(source::violations("use http::Method;", package, true).is_empty(), "tests may");
    }
    assert!(found("gateway", "use http::HeaderMap;").is_empty());
    assert!(reaches("gateway", &["rules", "lifecycle", "volume"]).is_empty());
}

#[test]
fn a_session_and_content_do_not_reach_each_other() {
    for (one, other) in [("session", "content"), ("content", "session")] {
        let error = format!("{one} and {other} are peers, but {one} reaches {other}");
        assert_eq!(reaches(one, &["publication", "record", other]), [error]);
        assert!(reaches(one, &["publication", "record", "block"]).is_empty());
    }
    assert!(reaches("upkeep", &["session", "content"]).is_empty());
}

#[test]
fn identity_knows_no_view_and_no_connection() {
    for view in ["gateway", "files", "fuse", "admin", "server"] {
        let error = format!("identity is below all views, but reaches {view}");
        assert_eq!(reaches("identity", &["rules", view]), [error]);
    }
    assert!(reaches("identity", &["rules", "volume", "openid", "s3", "sigv4", "hyper"]).is_empty());
    assert!(reaches("gateway", &["identity", "rules", "volume"]).is_empty());
    for text in ["use hyper::body::Incoming;", "fn f(a: hyper_util::rt::TokioTimer) {}"] {
        assert_eq!(found("identity", text).len(), 1, "{text}");
    }
    assert!(found("identity", "use http::HeaderMap;").is_empty());
}

#[test]
fn the_edge_knows_no_service() {
    assert_eq!(
        reaches("edge", &["http", "gateway", "volume", "s3"]),
        [
            "edge must work without gateway",
            "edge must work without s3",
            "edge must work without volume"
        ]
    );
    assert!(reaches("edge", &["http", "hyper", "problem", "runtime"]).is_empty());
    assert_eq!(found("edge", "fn f() { std::env::var_os(\"A\"); }").len(), 1);
}

#[test]
fn a_mount_works_without_http_and_configuration() {
    assert_eq!(
        reaches("mountd", &["files", "fuse", "edge", "gateway", "server"]),
        [
            "mountd must work without edge",
            "mountd must work without gateway",
            "mountd must work without server"
        ]
    );
    assert!(reaches("mountd", &["files", "fuse", "ledger", "problem", "volume"]).is_empty());
    assert_eq!(found("mountd", "fn f() { std::env::args_os(); }").len(), 1);
}

#[test]
fn a_volume_and_its_upkeep_do_not_reach_each_other() {
    assert_eq!(
        reaches("volume", &["session", "upkeep"]),
        ["volume and upkeep are peers, but volume reaches upkeep"]
    );
    assert_eq!(reaches("upkeep", &["session", "volume"]).len(), 1);
    assert!(reaches("maintained", &["upkeep", "volume"]).is_empty());
    assert!(reaches("server", &["maintained", "upkeep", "volume"]).is_empty());
}

#[test]
fn a_serving_process_does_not_open_a_volume_without_its_upkeep() {
    let text = "async fn f() { Volume::open(options, store, blocks).await; }";
    let error = "a process opens a volume with its upkeep: MaintainedVolume";
    assert_eq!(found("server", text), [error]);
    assert_eq!(found("server", &text.replace("Volume", "volume::Volume")), [error]);
    assert!(found("server", &text.replace("Volume", "MaintainedVolume")).is_empty());
    assert!(found("server", "use volume::{Volume, open}; fn f(a: &Volume) {}").is_empty());
    assert!(found("maintained", text).is_empty());
    assert!(source::violations(text, "gateway", true).is_empty(), "tests may");
}

#[test]
fn the_administration_returns_values_and_prints_nothing() {
    assert_eq!(
        reaches("admin", &["volume", "gateway"]),
        ["admin returns values, but reaches gateway"]
    );
    assert_eq!(reaches("admin", &["server"]), ["admin returns values, but reaches server"]);
    assert!(reaches("server", &["admin", "gateway"]).is_empty());
    let text = "fn f() { println!(\"a\"); std::io::stdout().flush(); }";
    assert_eq!(found("admin", text), ["admin must not print"; 2]);
    assert!(found("server", text).is_empty());
    assert!(found("admin", "// println\nconst A: &str = \"stdout\";").is_empty());
    assert!(source::violations(text, "admin", true).is_empty(), "tests may");
}

#[test]
fn only_the_server_reaches_engines() {
    assert_eq!(reaches("gateway", &["volume", "store-sqlite"]).len(), 1);
    assert_eq!(reaches("gateway", &["volume", "store-redis"]).len(), 1);
    assert!(reaches("server", &["store-sqlite", "store-redis"]).is_empty());
}

#[test]
fn engines_do_not_reach_each_other() {
    assert_eq!(reaches("store-redis", &["store", "store-sqlite"]).len(), 2);
}

#[test]
fn xtask_reaches_only_the_load_and_the_databases_of_the_workspace() {
    assert_eq!(reaches("xtask", &["store"]), ["xtask may not reach store"]);
    assert!(reaches("xtask", &["databases", "load", "ports", "rustix", "sigv4"]).is_empty());
    assert_eq!(reaches("xtask", &["proxy"]), ["xtask may not reach proxy"]);
}

#[test]
fn shipped_crates_do_not_reach_crates_for_tests() {
    assert_eq!(reaches("server", &["proxy"]), ["proxy is for tests, but server reaches it"]);
    assert_eq!(reaches("store-redis", &["store", "databases"]).len(), 2);
    assert!(reaches("it", &["server", "proxy", "databases"]).is_empty());
    assert_eq!(reaches("volume", &["faulty"]), ["faulty is for tests, but volume reaches it"]);
    assert_eq!(reaches("databases", &["store"]).len(), 1);
    assert!(reaches("databases", &["ports", "rustix"]).is_empty());
    assert_eq!(reaches("ports", &["faulty"]).len(), 1);
    assert!(reaches("faulty", &["store"]).is_empty());
    assert!(reaches("proxy", &["rustix"]).is_empty());
}

#[test]
fn only_the_server_reads_the_environment() {
    let text = "fn f() { std::env::var_os(\"A\"); }";
    assert_eq!(found("volume", text), ["only server, xtask and tests read the environment"]);
    assert!(found("server", text).is_empty());
    assert!(found("volume", "const V: &str = env!(\"CARGO_PKG_VERSION\");").is_empty());
    assert!(source::violations(text, "block", true).is_empty(), "tests may");
}

#[test]
fn there_are_no_lazy_globals() {
    assert_eq!(found("volume", "static A: LazyLock<u8> = LazyLock::new(|| 1);").len(), 1);
    assert_eq!(found("volume", "thread_local! { static A: u8 = 1; }").len(), 1);
    assert!(found("volume", "struct A { cell: OnceLock<u8> } static B: u8 = 1;").is_empty());
    assert!(found("volume", "fn f(a: &'static str, b: OnceLock<u8>) {}").is_empty());
}

#[test]
fn unfinished_work_and_ignored_tests_are_refused() {
    let text =
        format!("// {}: later\n#[test]\n#[ignore = \"slow\"]\nfn f() {{}}", concat!("TO", "DO"));
    assert_eq!(
        source::violations(&text, "volume", true).iter().map(|(line, _)| *line).collect::<Vec<_>>(),
        [1, 3]
    );
}

#[test]
fn names_without_meaning_are_refused() {
    for name in ["util", "common", "request_helper", "core"] {
        assert!(is_empty_name(name), "{name}");
    }
    for name in ["utility_pole", "record", "database", "hardcore_mode"] {
        assert!(!is_empty_name(name), "{name}");
    }
    assert_eq!(found("volume", "mod misc;").len(), 1);
    assert_eq!(found("volume", "mod tests {}").len(), 0);
}

#[test]
fn tests_are_recognized_by_their_path() {
    for path in ["src/tests.rs", "tests/it.rs", "src/plan/tests.rs", "src/tests/more.rs"] {
        assert!(is_test(Path::new(path)), "{path}");
    }
    assert!(!is_test(Path::new("src/test.rs")) && !is_test(Path::new("src/lib.rs")));
}
