//! The metrics in the text format of Prometheus, as its own tool checks them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::running::{Folder, Gateway};

/// `promtool check metrics` reads the format 0.0.4, and has no complaint.
#[test]
fn promtool_accepts_the_metrics() {
    if !has_promtool() {
        return;
    }
    let folder = Folder::new();
    let mount = tempfile::tempdir().expect("a folder");
    let at = mount.path().to_str().expect("a path of letters");
    let mut options = vec!["--cache-memory", "16MiB"];
    let mounts = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if mounts {
        options.extend(["--mount", at]);
    }
    let gateway = Gateway::start(&folder, &options, &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/bucket/key", b"body").send_all().expect_status(200);
    let admin = gateway.admin();
    let ask = |method: &str, accept: &str| {
        let head = format!("{method} /metrics HTTP/1.1\r\nHost: {admin}\r\nAccept: {accept}\r\n");
        let mut stream = TcpStream::connect(&admin).expect("a connection");
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        (head.to_ascii_lowercase(), body.to_owned())
    };
    if mounts {
        let content = std::fs::read(mount.path().join("bucket/key")).expect("the object is a file");
        assert_eq!(content, b"body");
        std::fs::read(mount.path().join("bucket/none")).expect_err("no such file");
    }
    let series = [
        "ashlar_fuse_operations_total{operation=\"LOOKUP\",errno=\"ENOENT\"} 1",
        "ashlar_fuse_operation_seconds_count{operation=\"OPEN\"} 1",
        "ashlar_fuse_read_bytes_total 4",
        "ashlar_files_dirty_limit_bytes 134217728",
        "ashlar_s3_requests_queued 0",
    ];
    // The mount counts an operation after it has answered the kernel.
    let limit = Instant::now() + Duration::from_secs(10);
    let (head, text) = loop {
        let (head, text) = ask("GET", "text/plain;version=0.0.4");
        match series.iter().find(|series| mounts && !text.contains(*series)) {
            None => break (head, text),
            Some(missing) => assert!(Instant::now() < limit, "{missing} is not in\n{text}"),
        }
    };
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let (head, body) = ask("HEAD", "text/plain");
    assert!(head.contains("content-length: ") && body.is_empty(), "{head}");
    let checked = check_metrics(&text);
    assert!(checked.0, "{}\n{text}", checked.1);
    assert_eq!(checked.1, "", "promtool complains");
    // The check finds a counter without its suffix.
    let wrong = "# HELP ashlar_wrong A counter.\n# TYPE ashlar_wrong counter\nashlar_wrong 1\n";
    assert!(!check_metrics(wrong).0, "promtool finds a wrong name");
    gateway.stop();
}

/// Runs `promtool check metrics` over a text. Returns true if it has no complaint, and its output.
fn check_metrics(text: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = command.stderr(Stdio::piped()).spawn().expect("promtool starts");
    let mut input = promtool.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("promtool reads");
    drop(input);
    let output = promtool.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Returns true if promtool is installed. Where services are required, its absence is a failure.
fn has_promtool() -> bool {
    if Command::new("promtool").arg("--version").output().is_ok() {
        return true;
    }
    let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
    assert!(!required, "there is no promtool: install the package prometheus");
    eprintln!("not run: there is no promtool, which the package prometheus brings");
    false
}

/// Returns the path of a file for operators.
fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

#[test]
fn each_alert_fires_for_its_cause_and_none_without_one() {
    if !has_promtool() {
        return;
    }
    let mut command = Command::new("promtool");
    command.args(["test", "rules", "alerts_test.yml"]).current_dir(contrib("prometheus"));
    let output = command.output().expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    // An alert without a case would pass.
    let rules = std::fs::read_to_string(contrib("prometheus/alerts.yml")).expect("rules");
    let cases = std::fs::read_to_string(contrib("prometheus/alerts_test.yml")).expect("cases");
    let operating = std::fs::read_to_string(contrib("../docs/OPERATING.md")).expect("a page");
    let mut alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let untested = alerts.clone().find(|alert| !cases.contains(&format!("\"{alert}\"")));
    assert_eq!(untested, None, "no case in alerts_test.yml");
    let unexplained = alerts.find(|alert| !operating.contains(&format!("`{alert}`")));
    assert_eq!(unexplained, None, "not in docs/OPERATING.md");
}

/// The alerts and the dashboard name no metric that does not exist: the page for operators has each
/// of them, or a gateway serves it.
#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--cache-memory", "16MiB"], &[]);
    let served = crate::running::get(&gateway.admin(), "/metrics");
    let operating = std::fs::read_to_string(contrib("../docs/OPERATING.md")).expect("a page");
    let mut names = 0;
    for file in ["prometheus/alerts.yml", "grafana/ashlar.json"] {
        let text = std::fs::read_to_string(contrib(file)).expect("a file");
        let words = text.split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_');
        for name in words.filter(|word| word.starts_with("ashlar_") || word.starts_with("process_"))
        {
            let base = ["_bucket", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let name = base.unwrap_or(name);
            let known = |text: &str| {
                let mut words =
                    text.split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_');
                words.any(|word| word == name)
            };
            assert!(known(&served) || known(&operating), "{file} names {name}");
            names += 1;
        }
    }
    assert!(names > 30, "only {names} names");
    let dashboard = std::fs::read_to_string(contrib("grafana/ashlar.json")).expect("a file");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
    gateway.stop();
}
