//! The program as a user runs it: a process with its own folder, port and environment.

mod access;
mod bootstrap;
mod modes;
mod places;
mod promtool;
mod running;
mod starts;
mod stopping;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use record::VolumeRecord;
use running::{Folder, Gateway, program};
use store::MetaStore;
use store_sqlite::{SqliteOptions, SqliteStore};

#[test]
fn the_first_start_creates_secrets_and_logs_their_file() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--log-format", "text"], &[]);
    let printed = gateway.stop();
    let kept = folder.read("data/root-credentials");
    let user = kept.lines().next().and_then(|line| line.strip_prefix("ASHLAR_ROOT_USER="));
    let user = user.expect("a user");
    let password = kept.lines().nth(1).and_then(|line| line.strip_prefix("ASHLAR_ROOT_PASSWORD="));
    let password = password.expect("a password");
    assert!(user.len() == 20 && password.len() == 40, "{kept}");
    // Neither output is a terminal, so both can end in a log collector.
    assert_eq!(printed.out, "");
    assert!(!printed.log.contains(password), "a secret in the log");
    let named = printed.log.lines().any(|line| line.contains("data/root-credentials"));
    assert!(named, "{}", printed.log);
    for name in ["data/root-credentials", "data/master.key"] {
        let mode = std::fs::metadata(folder.path(name)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let again = Gateway::start(&folder, &["--log-format", "text"], &[]).stop();
    assert_eq!(folder.read("data/root-credentials"), kept);
    assert_eq!(again.out, "", "not on a terminal, and nothing was made");
    let other = Folder::new();
    Gateway::start(&other, &[], &[]).stop();
    assert_ne!(other.read("data/root-credentials"), kept);
    assert_ne!(other.read("data/master.key"), folder.read("data/master.key"));
}

#[test]
fn json_logs_never_hold_a_secret_and_each_line_is_json() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--log", "debug"], &[]);
    gateway.ask("GET /bucket/key HTTP/1.1\r\nHost: x\r\n\r\n");
    let printed = gateway.stop();
    let kept = folder.read("data/root-credentials");
    let password = kept.lines().nth(1).and_then(|line| line.split_once('=')).expect("a password").1;
    assert!(!printed.out.contains(password) && !printed.log.contains(password));
    let mut requests = 0;
    for line in printed.log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if line["target"] == "access" {
            requests += 1;
            assert_eq!(line["status"], 404, "{line}");
            assert_eq!(line["code"], "NoSuchBucket");
            assert_eq!(line["span"]["id"].as_str().map(str::len), Some(16));
        }
    }
    assert_eq!(requests, 1);
}

#[test]
fn sigterm_finishes_requests_in_flight_and_exits_with_zero() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let body = vec![b'x'; 3 << 20];
    let mut upload = gateway.sign("PUT", "/bucket/key", &body).send_head();
    upload.send(&body[..2 << 20]);
    std::thread::sleep(Duration::from_millis(300));
    gateway.terminate();
    std::thread::sleep(Duration::from_millis(300));
    assert!(TcpStream::connect(gateway.address()).is_err(), "no new connection is accepted");
    upload.send(&body[2 << 20..]);
    upload.read().expect_status(200);
    let printed = gateway.wait();
    assert!(printed.log.contains("\"stopped\""), "{}", printed.log);
    assert_eq!(printed.code, Some(0));

    let gateway = Gateway::start(&folder, &["--log", "info,access=debug"], &[]);
    let answer = gateway.sign("GET", "/bucket/key", &[]).send_all();
    assert!(answer.text.ends_with(&"x".repeat(3 << 20)), "the upload was kept whole");
    let printed = gateway.stop();
    let line = printed.log.lines().find(|line| line.contains("\"GetObject\""));
    let line = line.expect("an access line");
    for field in ["\"bytes_out\":3145728", "\"whole\":true", "\"reads\":", "\"bucket\":\"bucket\""]
    {
        assert!(line.contains(field), "{field} is not in {line}");
    }
}

#[test]
fn a_second_signal_ends_the_gateway_at_once() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let mut upload = gateway.sign("PUT", "/bucket/key", &vec![b'x'; 3 << 20]).send_head();
    upload.send(&[b'x'; 1024]);
    std::thread::sleep(Duration::from_millis(300));
    gateway.terminate();
    std::thread::sleep(Duration::from_millis(300));
    gateway.terminate();
    assert_eq!(gateway.wait().code, Some(130));
}

#[test]
fn an_empty_variable_leaves_an_option_unset() {
    let folder = Folder::new();
    folder.write("ashlar.toml", "region = \"file\"\n");
    let config = folder.path("ashlar.toml");
    let help = folder.run(&["check-config", "--help"], &[]).out;
    let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next());
    let names: Vec<&str> = names.filter(|name| *name != "ASHLAR_CONFIG").collect();
    assert!(names.len() > 40, "{names:?}");
    let command = ["check-config", "--config", &config];
    let unset = folder.run(&command, &[("ASHLAR_DATA_DIR", "ashlar-data")]);
    assert!(unset.out.contains("region = \"file\""), "{}", unset.out);
    // One after the other, so that a failure names its variable.
    for name in &names {
        let variables = [("ASHLAR_DATA_DIR", "ashlar-data"), (*name, "")];
        let done = folder.run(&command, &variables);
        assert_eq!((done.code, &done.out), (Some(0), &unset.out), "{name}: {}", done.log);
    }
    let empty: Vec<(&str, &str)> = names.iter().map(|name| (*name, "")).collect();
    assert_eq!(folder.run(&command, &empty).out, unset.out);
}

#[test]
fn flags_override_variables_and_variables_override_the_file() {
    let folder = Folder::new();
    folder.write("ashlar.toml", "region = \"file\"\nlisten = \"file:1\"\nrequests_max = 7\n");
    let config = folder.path("ashlar.toml");
    let done = folder.run(
        &["check-config", "--config", &config, "--region", "flag"],
        &[("ASHLAR_REGION", "variable"), ("ASHLAR_LISTEN", "variable:2"), ("ASHLAR_LOG", "")],
    );
    assert_eq!(done.code, Some(0), "{}", done.log);
    for line in
        ["region = \"flag\"", "listen = \"variable:2\"", "requests_max = 7", "log = \"info\""]
    {
        assert!(done.out.lines().any(|printed| printed == line), "{line}:\n{}", done.out);
    }
}

#[test]
fn a_sqlite_store_is_served_by_one_gateway() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    let done = folder.run(&["serve", "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(done.code, Some(75));
    assert!(done.log.contains("another process serves it already"), "{}", done.log);
    gateway.stop();
}

#[test]
fn health_and_status_work_with_and_without_tls() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    let (listen, admin) = (gateway.address().to_string(), gateway.admin());
    assert_eq!(folder.run(&["health", "--listen", &listen], &[]).code, Some(0));
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let status = folder.run(&["status", "--admin-listen", &admin], &[]);
    let status: serde_json::Value = serde_json::from_str(&status.out).expect("JSON");
    assert_eq!(status["meta"]["state"], "ok");
    let sessions = status["sessions"].as_array().expect("sessions");
    assert!(sessions.len() == 1 && sessions[0]["began"].is_string(), "{sessions:?}");
    let empty = serde_json::json!({ "bucket": { "objects": 0, "bytes": 0 } });
    assert_eq!(status["buckets"], empty);
    gateway.stop();
    let gone = folder.run(&["health", "--listen", &listen], &[]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.log.starts_with("ashlar: cannot check the gateway at "), "{}", gone.log);

    let issued = rcgen::generate_simple_self_signed(vec!["s3.example.com".to_owned()]);
    let issued = issued.expect("a certificate");
    folder.write("cert.pem", &issued.cert.pem());
    folder.write("key.pem", &issued.signing_key.serialize_pem());
    let (cert, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let gateway = Gateway::start(&folder, &tls, &[]);
    let listen = gateway.address().to_string();
    let arguments = [&["health", "--listen", &listen], &tls[..]].concat();
    let done = folder.run(&arguments, &[]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    let other = rcgen::generate_simple_self_signed(vec!["s3.example.com".to_owned()]);
    folder.write("other.pem", &other.expect("a certificate").cert.pem());
    let other = folder.path("other.pem");
    let arguments = ["health", "--listen", &listen, "--tls-cert", &other, "--tls-key", &key];
    assert_eq!(folder.run(&arguments, &[]).code, Some(1), "another server answers");
    gateway.stop();
}

/// Returns the value of a metric of a gateway.
fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = running::get(&gateway.admin(), "/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("{name} is not in\n{metrics}"));
    value.trim().parse().expect("a number")
}

#[test]
fn cached_content_is_read_from_memory_and_after_a_restart_from_disk() {
    let folder = Folder::new();
    let flags = ["--cache-memory", "16MiB", "--cache-disk", "64MiB"];
    let gateway = Gateway::start(&folder, &flags, &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let body = "abcdefgh".repeat(3 << 17);
    gateway.sign("PUT", "/bucket/key", body.as_bytes()).send_all().expect_status(200);
    let read = |gateway: &Gateway| {
        let answer = gateway.sign("GET", "/bucket/key", &[]).send_all();
        answer.expect_status(200);
        assert!(answer.text.ends_with(&body), "the whole body");
    };
    let pages = |result: &str| format!("ashlar_cache_page_lookups_total{{result=\"{result}\"}} ");
    let requests = "ashlar_blocks_requests_total{operation=\"get\"} ";
    read(&gateway);
    let (misses, asked) = (metric(&gateway, &pages("miss")), metric(&gateway, requests));
    assert_eq!(misses, 48, "3 MiB in pages of 64 KiB");
    assert_eq!(metric(&gateway, "ashlar_cache_memory_bytes "), 48 * (65_536 + 256));
    read(&gateway);
    assert_eq!(metric(&gateway, requests), asked, "the second time nothing is fetched");
    assert_eq!(metric(&gateway, &pages("memory_hit")), 48);
    gateway.stop();

    let gateway = Gateway::start(&folder, &flags, &[]);
    assert_eq!(metric(&gateway, "ashlar_cache_disk_enabled "), 1);
    read(&gateway);
    let late = metric(&gateway, "ashlar_cache_disk_timeouts_total ");
    let found = metric(&gateway, &pages("disk_hit")) + late;
    assert!(found > 0, "the disk was asked");
    read(&gateway);
    gateway.stop();

    let gateway = Gateway::start(&folder, &["--cache-memory", "0"], &[]);
    read(&gateway);
    assert!(!running::get(&gateway.admin(), "/metrics").contains("ashlar_cache"));
    gateway.stop();
}

/// The labels that metrics may have. `le` is the upper bound of a histogram's bucket.
const LABELS: [&str; 14] = [
    "bucket",
    "code",
    "commit",
    "direction",
    "from",
    "kind",
    "le",
    "limit",
    "operation",
    "policy",
    "result",
    "source",
    "status",
    "version",
];

/// Checks every metric of a gateway with a cache, in the exposition that Prometheus reads: it has a
/// HELP and a TYPE, the prefix of the program, a base unit, labels from [`LABELS`], and `_total` at
/// the end of counters alone.
#[test]
fn metrics_follow_the_conventions_of_prometheus() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--cache-memory", "16MiB"], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/bucket/key", b"body").send_all().expect_status(200);
    let text = running::get(&gateway.admin(), "/metrics");
    assert!(text.contains("ashlar_bucket_bytes{bucket=\"bucket\"} 4\n"), "{text}");
    assert!(text.contains("ashlar_bucket_objects{bucket=\"bucket\"} 1\n"), "{text}");
    assert!(!text.contains("ashlar_bucket_quota"), "the bucket has no quota: {text}");
    let text = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body);
    let (mut helps, mut types, mut samples) = (HashMap::new(), HashMap::new(), 0);
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')) {
            assert!(helps.insert(name, help).is_none(), "two metrics are {name}");
            assert!(help.ends_with('.') && help.len() > 10, "{name} needs a help text: {help:?}");
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect("a type");
            types.insert(name, kind);
        } else {
            check_sample(line, &helps, &types);
            samples += 1;
        }
    }
    assert!(samples > 60, "only {samples} samples in\n{text}");
    gateway.stop();
}

/// Checks one sample, `name{label="value",…} value`.
fn check_sample(line: &str, helps: &HashMap<&str, &str>, types: &HashMap<&str, &str>) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    value.parse::<f64>().unwrap_or_else(|_| panic!("no value: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let suffixes = ["_total", "_bucket", "_count", "_sum"];
    let base = suffixes
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix).filter(|base| types.contains_key(base)));
    let base = base.unwrap_or(name);
    let kind = types.get(base).unwrap_or_else(|| panic!("{name} has no type"));
    assert!(helps.contains_key(base), "{name} has no help text");
    assert!(base.starts_with("ashlar_") || base.starts_with("process_"), "{name}");
    assert_eq!(name.ends_with("_total"), *kind == "counter", "{name} is a {kind}");
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    assert!(name.bytes().all(legal), "{name}");
    let units = ["_millis", "_ms", "_us", "_micros", "_kb", "_kib", "_mib", "_minutes"];
    assert!(!units.iter().any(|unit| base.ends_with(unit)), "{name} has no base unit");
    for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
        let (label, _) = label.split_once("=\"").expect("a label has a value");
        assert!(LABELS.contains(&label), "{name} has the label {label}");
    }
}

#[test]
fn metrics_are_served_by_the_administrative_listener_only() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let admin = gateway.admin();
    let metrics = running::get(&admin, "/metrics");
    for name in [
        "ashlar_s3_requests_total{operation=\"CreateBucket\",bucket=\"bucket\",status=\"200\",code=\"\"} 1",
        "ashlar_metadata_round_trips_total{operation=\"commit\"} ",
        "ashlar_blocks_requests_total{operation=\"put\"} 0",
        "# EOF",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    assert!(
        !metrics.contains("trips_total{operation=\"commit\"} 0"),
        "making a bucket is a commit: {metrics}"
    );
    for path in ["/metrics", "/status", "/-/metrics", "/minio/v2/metrics/cluster", "/debug"] {
        let answer = gateway.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(!answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let off = Folder::new();
    let gateway = Gateway::start(&off, &["--admin-listen", "off"], &[]);
    assert_eq!(gateway.admin(), "off");
    gateway.stop();
}

/// A page in a browser on this machine reaches the loopback under a name of its own ("DNS
/// rebinding"); it then sends that name.
#[test]
fn the_administrative_listener_accepts_only_its_own_host_names() {
    let folder = Folder::new();
    let flags = ["--admin-host", "metrics.example"];
    let gateway = Gateway::start(&folder, &flags, &[("ASHLAR_META", "memory:")]);
    let admin = gateway.admin();
    let port = admin.rsplit_once(':').expect("a port").1;
    for path in ["/status", "/metrics", "/-/healthy"] {
        for host in ["localhost", "[::1]", "127.0.0.1", "metrics.example"] {
            let answer = running::get_as(&format!("{host}:{port}"), &admin, path);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{host} {path}: {answer}");
        }
        for host in
            ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io"]
        {
            let answer = running::get_as(host, &admin, path);
            assert!(answer.starts_with("HTTP/1.1 421 "), "{host} {path}: {answer}");
            assert!(!answer.contains("ashlar_") && !answer.contains("memory:"), "{answer}");
        }
    }
    gateway.stop();
}

/// An invalid URL of the block store can contain a secret anywhere.
#[test]
fn a_secret_in_the_url_of_the_blocks_is_never_shown() {
    let folder = Folder::new();
    for url in [
        "s3://AKIA:hush-hush@b/p",
        "s3://AKIA:hush/hush-hush@b/p",
        "s3://b/p?endpoint=http://AKIA:hush-hush@127.0.0.1:9&region=eu",
        "s3://b/p?endpoint=AKIA:hush-hush@127.0.0.1",
        "s3://b/p?secret_key=hush-hush",
        "https://AKIA:hush-hush@127.0.0.1/b",
        "AKIA:hush-hush",
    ] {
        for command in ["check-config", "serve", "fsck", "status"] {
            let done = folder.run(&[command, "--blocks", url], &[("ASHLAR_LOG", "trace")]);
            assert_eq!(done.code, Some(78), "{command} {url}: {}", done.log);
            let said = format!("{}{}", done.out, done.log);
            assert!(said.contains("cannot use the block store"), "{command} {url}: {said}");
            assert!(!said.contains("hush") && !said.contains("AKIA:"), "{command} {url}: {said}");
        }
        let done = folder.run(&["check-config"], &[("ASHLAR_BLOCKS", url)]);
        assert!(!format!("{}{}", done.out, done.log).contains("hush"), "{}{}", done.out, done.log);
        folder.write("ashlar.toml", &format!("blocks = {url:?}\n"));
        let done = folder.run(&["check-config", "--config", &folder.path("ashlar.toml")], &[]);
        assert!(!format!("{}{}", done.out, done.log).contains("hush"), "{}{}", done.out, done.log);
    }
}

#[test]
fn a_gateway_in_memory_needs_no_database_and_no_folder_of_blocks() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--meta", "memory:", "--blocks", "memory:"], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let body = vec![b'y'; 300_000];
    gateway.sign("PUT", "/bucket/key", &body).send_all().expect_status(200);
    let answer = gateway.sign("GET", "/bucket/key", &[]).send_all();
    assert!(answer.text.ends_with(&"y".repeat(body.len())));
    gateway.stop();
    assert!(!std::path::Path::new(&folder.path("data/meta.db")).exists());
}

#[test]
fn fsck_finds_planted_damage_and_nothing_else() {
    let folder = Folder::new();
    let absent = folder.run(&["fsck"], &[]);
    assert_eq!(absent.code, Some(1));
    assert!(absent.log.contains("there is no volume in the data directory "), "{}", absent.log);
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/bucket/key", &vec![b'x'; 300_000]).send_all().expect_status(200);
    let beside = folder.run(&["fsck"], &[]);
    assert_eq!(beside.code, Some(0), "beside a gateway: {}{}", beside.out, beside.log);
    gateway.stop();
    let well = folder.run(&["fsck"], &[]);
    assert!(well.code == Some(0) && well.out.ends_with("no findings\n"), "{}", well.out);
    let gc = folder.run(&["gc", "--delete"], &[]);
    assert_eq!(gc.code, Some(0), "{}", gc.log);
    assert!(gc.out.contains("without a reference: 0"), "{}", gc.out);
    assert_eq!(folder.run(&["gc"], &[]).code, Some(2), "one of --dry-run and --delete");
    let block = folder.find("data/blocks", |name| name.len() >= 32);
    std::fs::remove_file(block).expect("removed");
    let broken = folder.run(&["fsck"], &[]);
    assert_eq!(broken.code, Some(3), "{}", broken.out);
    assert!(broken.out.ends_with("1 findings\n"), "{}", broken.out);
}

#[test]
fn malformed_requests_never_stop_the_gateway() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    let lines = [
        "GET / HTTP/1.1\r\n\r\n",
        "GET /%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT /bucket/k HTTP/1.1\r\nHost: x\r\nAuthorization: AWS4-HMAC-SHA256 nonsense\r\n\r\n",
        "GET /?X-Amz-Signature=1&X-Amz-Credential=// HTTP/1.1\r\nHost: x\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "\u{0}\u{1}\u{2}\r\n\r\n",
    ];
    for line in lines {
        let mut stream = TcpStream::connect(gateway.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream.write_all(line.as_bytes()).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("shut");
        let mut answer = Vec::new();
        // A reset after the answer is fine.
        let _reset = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 4") || answer.is_empty(), "{line:?}: {answer}");
        if answer.contains("<Error>") {
            assert!(answer.contains("x-amz-request-id: "), "{line:?}: {answer}");
        }
    }
    assert!(gateway.ask("GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200"));
    gateway.stop();
}

#[test]
fn version_prints_the_version() {
    let done = program().arg("version").output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        concat!("ashlar ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn a_volume_of_a_newer_release_is_refused_with_the_reason() {
    let folder = Folder::new();
    Gateway::start(&folder, &[], &[]).stop();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let path = folder.path("data/meta.db");
        let store = SqliteStore::open(path.as_ref(), SqliteOptions::default()).await;
        let store = store.expect("it opens");
        let key = record::key::volume();
        let reads = [store::Read::Record { key: key.clone(), follow: None }];
        let found = store.read(&reads).await.expect("read");
        let store::ReadResult::Record(Some(entry)) = &found[0] else { panic!("a volume") };
        let mut volume = VolumeRecord::decode(&key, &entry.value).expect("a record");
        volume.format += 1;
        let writes = vec![store::Write::Put(key.clone(), volume.encode(&key))];
        store.commit(&[store::Plan { guards: Vec::new(), writes }]).await.expect("written");
        store.close().await;
    });
    let done = folder.run(&["serve"], &[]);
    let line = done.log.lines().last().unwrap_or_default();
    assert_eq!(done.code, Some(1));
    assert!(line.starts_with("ashlar: cannot open the volume in sqlite:"), "{line}");
    assert!(line.contains("format 2"), "{line}");
    assert!(!done.out.contains("Ashlar serves"));
}

#[test]
fn blocks_of_another_volume_are_refused_and_not_changed() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let body = vec![b'x'; 300_000];
    gateway.sign("PUT", "/bucket/key", &body).send_all().expect_status(200);
    gateway.stop();
    let mark = folder.read("data/blocks/volume");
    let ids = mark.strip_prefix("ashlar volume ").and_then(|mark| mark.strip_suffix(" format 1\n"));
    let id = ids.and_then(|ids| ids.split_once(" place ")).map(|(id, _)| id);
    let id = id.expect("a mark");
    let block = folder.find("data/blocks", |name| name.len() >= 32);
    let before = std::fs::read(&block).expect("a block");

    let new = format!("sqlite:{}", folder.path("new.db"));
    let done = folder.run(&["serve", "--meta", &new, "--create"], &[]);
    let line = done.log.lines().last().unwrap_or_default();
    assert_eq!(done.code, Some(1), "{}", done.log);
    let expected = format!(
        "ashlar: cannot open the volume in {new}: the blocks belong to volume {id}, but the \
         metadata store is new: give the --meta that belongs to them, or another --blocks"
    );
    assert_eq!(line, expected);
    assert!(!done.out.contains("Ashlar serves"));

    let (own, theirs) = (folder.path("own-blocks"), folder.path("data/blocks"));
    let (own, theirs) = (format!("file:{own}"), format!("file:{theirs}"));
    let other = folder.path("other");
    let variables = [("ASHLAR_DATA_DIR", &*other)];
    Gateway::start(&folder, &["--meta", &new, "--blocks", &own, "--create"], &variables).stop();
    let foreign = ["--meta", &new, "--blocks", &theirs];
    for command in [&["serve"][..], &["gc", "--delete", "--delete-percent-max", "100"]] {
        let done = folder.run(&[command, &foreign].concat(), &variables);
        let line = done.log.lines().last().unwrap_or_default();
        assert_eq!(done.code, Some(1), "{}", done.log);
        let told = format!("volume {id}, but the metadata store belongs to volume ");
        assert!(line.starts_with("ashlar: cannot ") && line.contains(&told), "{line}");
    }

    assert_eq!(std::fs::read(&block).expect("it is still there"), before);
    assert_eq!(folder.read("data/blocks/volume"), mark);
    let gateway = Gateway::start(&folder, &[], &[]);
    let answer = gateway.sign("GET", "/bucket/key", &[]).send_all();
    assert!(answer.text.ends_with(&"x".repeat(body.len())), "its own store serves it");
    gateway.stop();
}
