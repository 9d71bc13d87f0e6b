//! `ashlar bench` against a running gateway, and in a directory.

#[expect(dead_code, reason = "other tests of the program need the rest")]
mod running;

use running::{Folder, Gateway};
use serde_json::Value;

const VERBS: &str = "put,get,head,list,delete,delete-batch,mixed,range";

/// Runs a short measurement with the root credentials of the gateway.
fn measure(folder: &Folder, more: &[&str]) -> running::Done {
    let words = ["bench", "s3", "--seconds", "1", "--rounds", "1", "--clients", "2"];
    let kept = folder.read("data/root-credentials");
    let values: Vec<&str> = kept.lines().filter_map(|line| Some(line.split_once('=')?.1)).collect();
    let names = ["ASHLAR_BENCH_ACCESS_KEY", "ASHLAR_BENCH_SECRET_KEY"];
    let variables: Vec<_> = names.into_iter().zip(values).collect();
    folder.run(&[&words, more].concat(), &variables)
}

#[test]
fn bench_s3_measures_every_workload_and_deletes_its_objects() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    let endpoint = format!("http://{}", gateway.address());
    let words = ["--endpoint", &endpoint, "--objects", "20", "--workload", VERBS];
    let json = folder.path("figures.json");
    let done = measure(&folder, &[&words[..], &["--json", &json]].concat());
    assert_eq!(done.code, Some(0), "{}", done.log);
    assert!(done.out.contains("made the bucket ashlar-bench"), "{}", done.out);
    let figures: Value = serde_json::from_str(&folder.read("figures.json")).expect("JSON");
    let rows = figures["workloads"].as_array().expect("a list");
    assert_eq!(rows.len(), VERBS.split(',').count());
    for row in rows {
        let round = &row["sides"][0]["rounds"][0];
        assert!(round["requests"].as_u64().expect("a number") > 0, "{row}");
        assert_eq!(round["errors"], 0, "{row}");
        assert!(row["ratio"].is_null(), "{row}");
    }
    // Only an empty bucket can be deleted, so the bench has deleted its objects.
    let deleted = gateway.sign("DELETE", "/ashlar-bench", b"").send_all();
    deleted.expect_status(204);
}

#[test]
fn two_endpoints_are_compared() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    let endpoint = format!("http://{}", gateway.address());
    let words = ["--endpoint", &endpoint, "--compare", &endpoint, "--workload", "put"];
    let json = folder.path("figures.json");
    let done = measure(&folder, &[&words[..], &["--json", &json]].concat());
    assert_eq!(done.code, Some(0), "{}", done.log);
    let figures: Value = serde_json::from_str(&folder.read("figures.json")).expect("JSON");
    let ratio = figures["workloads"][0]["ratio"].as_f64().expect("a ratio");
    assert!(ratio > 0.0 && done.out.contains("A ÷ B"), "{}", done.out);
}

#[test]
fn a_refused_request_fails_with_a_remedy() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    let endpoint = format!("http://{}", gateway.address());
    // An access key on the command line overrides the one in the environment.
    let done = measure(&folder, &["--endpoint", &endpoint, "--access-key", "nobody"]);
    assert_eq!(done.code, Some(1), "{}", done.out);
    assert!(done.log.contains("403 Forbidden"), "{}", done.log);
    assert!(done.log.contains("credentials belong together"), "{}", done.log);
}

#[test]
fn bench_fs_measures_a_directory_and_deletes_its_files() {
    let folder = Folder::new();
    let place = folder.path("");
    let words = ["bench", "fs", &place, "--size", "2MiB", "--seconds", "1", "--rounds", "1"];
    let done = folder.run(&words, &[]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    for verb in ["write", "read", "random-read", "create", "stat", "unlink", "list"] {
        assert!(done.out.lines().any(|line| line.starts_with(verb)), "{}", done.out);
    }
    assert!(std::fs::read_dir(&place).expect("a folder").next().is_none());
}
