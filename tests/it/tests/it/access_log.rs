//! The access log: the fields of each kind of request, and rotation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::Value;
use time::OffsetDateTime;

use crate::client::{Answer, Client, Request, Signer, part_list};
use crate::servers::{Blocks, Gateway, Setup, USER, wait_for};

/// The time in which a line appears after its response.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with an access log.
struct Logged {
    gateway: Gateway,
    client: Client,
    path: PathBuf,
}

impl Logged {
    fn start(folder: &Path, options: &[&str]) -> Logged {
        let path = folder.join("access.log");
        let log = path.display().to_string();
        let setup = Setup::new(folder, Blocks::Folder).more_options(&["--access-log", &log]);
        let gateway = setup.more_options(options).start();
        let client = gateway.client.clone();
        Logged { gateway, client, path }
    }

    /// Returns the line of the request that got this response. The line has the id of the response.
    #[track_caller]
    fn line(&self, answer: &Answer) -> Value {
        let id = answer.header("x-amz-request-id");
        let mut found = None;
        let arrives = wait_for(PATIENCE, || {
            let text = std::fs::read_to_string(&self.path).unwrap_or_default();
            let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut lines: Vec<Value> = whole.filter(|line| line["request_id"] == id).collect();
            found = lines.pop();
            assert!(lines.is_empty(), "a request has two lines");
            found.is_some()
        });
        assert!(arrives, "no line for the request {id}");
        found.expect("it was found")
    }

    fn send(&self, request: &Request) -> Answer {
        self.client.send(request)
    }

    fn anonymous(&self, request: &Request) -> Answer {
        let wire = request.anonymous(&self.client.address);
        self.client.exchange(&request.method, &wire).expect("an answer")
    }
}

/// Fails unless a line has these fields. An expected `null` means that the field is absent.
#[track_caller]
fn check(line: &Value, expected: Value) {
    let Value::Object(fields) = expected else { panic!("the fields are an object") };
    for (name, value) in fields {
        assert_eq!(line[&name], value, "{name} of {line:#}");
    }
}

fn logged(options: &[&str]) -> (tempfile::TempDir, Logged) {
    let folder = tempfile::tempdir().expect("a folder");
    let logged = Logged::start(folder.path(), options);
    (folder, logged)
}

#[test]
fn a_put_and_a_get_of_a_version_have_all_fields() {
    let (_folder, logged) = logged(&[]);
    let client = &logged.client;
    let made = client.put("/box", b"").expect(200);
    check(&logged.line(&made), serde_json::json!({ "operation": "CreateBucket", "key": null }));
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    client.put("/box?versioning", on.as_bytes()).expect(200);
    let request = Request::new("PUT", "/box/a%20key").body(&b"content"[..]);
    let put = logged.send(&request.header("User-Agent", "tester/1").header("Referer", "from"));
    let version = put.header("x-amz-version-id").to_owned();
    let line = logged.line(&put);
    check(
        &line,
        serde_json::json!({
            "kind": "s3", "remote": "127.0.0.1", "operation": "PutObject", "bucket": "box",
            "key": "a key", "version_id": version, "method": "PUT", "target": "/box/a%20key",
            "protocol": "HTTP/1.1", "status": 200, "code": null, "bytes_in": 7, "bytes_out": 0,
            "object_size": 7, "whole": true, "referer": "from", "user_agent": "tester/1",
            "host": client.address, "signature": "SigV4", "authentication": "AuthHeader",
            "tls": null, "cipher": null,
        }),
    );
    assert_eq!(line["requester"]["access_key"], USER);
    assert_eq!(line["requester"]["user"], USER);
    assert_eq!(line["requester"]["account"].as_str().map(str::len), Some(12), "{line}");
    assert_eq!(line["bucket_owner"].as_str().map(str::len), Some(64), "{line}");
    assert!(line["time"].as_str().is_some_and(|time| time.starts_with("20")), "{line}");
    let time = |name: &str| line[name].as_u64().expect("microseconds");
    assert!(time("total_us") >= time("turn_around_us") && time("turn_around_us") > 0, "{line}");

    client.put("/box/a%20key", b"newer content").expect(200);
    let get = client.get(&format!("/box/a%20key?versionId={version}")).expect(200);
    check(
        &logged.line(&get),
        serde_json::json!({
            "operation": "GetObject", "version_id": version, "bytes_in": 0, "bytes_out": 7,
            "object_size": 7, "target": format!("/box/a%20key?versionId={version}"),
        }),
    );
    // A DELETE of the key names the marker that it made.
    let delete = client.delete("/box/a%20key").expect(204);
    let marker = delete.header("x-amz-version-id");
    assert_ne!(marker, "");
    let expected = serde_json::json!({ "operation": "DeleteObject", "version_id": marker });
    check(&logged.line(&delete), expected);
    logged.gateway.stop();
}

#[test]
fn refused_requests_have_their_operation_bucket_and_key() {
    let (_folder, logged) = logged(&[]);
    let client = &logged.client;
    client.put("/box", b"").expect(200);
    client.put("/box/secret", b"content").expect(200);
    let target = serde_json::json!({
        "kind": "denied", "operation": "GetObject", "bucket": "box", "key": "secret",
        "status": 403, "requester": null,
    });
    let anonymous = logged.anonymous(&Request::new("GET", "/box/secret")).expect(403);
    let line = logged.line(&anonymous);
    check(&line, target.clone());
    check(&line, serde_json::json!({ "code": "AccessDenied", "signature": null }));
    let stranger = Client { secret: "wrong".to_owned(), ..client.clone() };
    let line = logged.line(&stranger.get("/box/secret").expect(403));
    check(&line, target);
    check(&line, serde_json::json!({ "code": "SignatureDoesNotMatch" }));

    // The edge refuses these two before the gateway sees them.
    let mut long = Request::new("PUT", "/box/key").header("x-amz-copy-source", "/box/secret");
    for number in 0..101 {
        long = long.unsigned(&format!("x-filler-{number}"), "1");
    }
    let line = logged.line(&logged.send(&long).expect(400));
    check(
        &line,
        serde_json::json!({
            "operation": "CopyObject", "bucket": "box", "key": "key", "status": 400,
            "code": "RequestHeaderSectionTooLarge", "requester": null, "kind": "s3",
        }),
    );
    logged.gateway.stop();
}

#[test]
fn a_request_over_a_limit_of_connections_has_its_operation() {
    let (_folder, logged) = logged(&["--host-connections-max", "1"]);
    let held = logged.client.connect().expect("a connection");
    let mut answer = None;
    let is_refused = wait_for(PATIENCE, || {
        let got = logged.client.get("/box/some/key");
        let is_refused = got.status == 503;
        answer = Some(got);
        is_refused
    });
    assert!(is_refused, "a second connection is over the limit");
    check(
        &logged.line(&answer.expect("an answer")),
        serde_json::json!({
            "operation": "GetObject", "bucket": "box", "key": "some/key", "status": 503,
            "code": "SlowDown", "kind": "s3", "requester": null, "remote": "127.0.0.1",
        }),
    );
    drop(held);
    logged.gateway.stop();
}

#[test]
fn a_presigned_url_is_logged_without_its_signature() {
    let (_folder, logged) = logged(&[]);
    let client = &logged.client;
    client.put("/box", b"").expect(200);
    client.put("/box/key", b"content").expect(200);
    let wire = Request::new("GET", "/box/key").presigned(client.signature(), "300");
    let answer = client.exchange("GET", &wire).expect("an answer").expect(200);
    let line = logged.line(&answer);
    check(
        &line,
        serde_json::json!({
            "operation": "GetObject", "signature": "SigV4", "authentication": "QueryString",
        }),
    );
    assert_eq!(line["requester"]["access_key"], USER);
    let target = line["target"].as_str().expect("a target");
    assert!(target.ends_with("&X-Amz-Signature=-"), "{target}");
    assert!(target.contains("X-Amz-Expires=300"), "{target}");
    let signature = String::from_utf8_lossy(&wire)
        .split_once("X-Amz-Signature=")
        .map(|(_, rest)| rest[..64].to_owned());
    let text = std::fs::read_to_string(&logged.path).expect("a log");
    assert!(!text.contains(&signature.expect("a signature")), "the log has the signature");
    logged.gateway.stop();
}

#[test]
fn each_step_of_a_multipart_upload_has_its_operation() {
    let (_folder, logged) = logged(&[]);
    let client = &logged.client;
    client.put("/box", b"").expect(200);
    let begun = logged.send(&Request::new("POST", "/box/large?uploads")).expect(200);
    let id = begun.element("UploadId");
    let part = client.put(&format!("/box/large?partNumber=1&uploadId={id}"), b"content");
    let part = part.expect(200);
    let list = part_list(&[(1, part.header("etag"))]);
    let complete = Request::new("POST", &format!("/box/large?uploadId={id}")).body(list);
    let complete = logged.send(&complete).expect(200);
    for (answer, operation, bytes) in [
        (&begun, "CreateMultipartUpload", Some(0)),
        (&part, "UploadPart", Some(7)),
        (&complete, "CompleteMultipartUpload", None),
    ] {
        let line = logged.line(answer);
        let expected = serde_json::json!({
            "operation": operation, "bucket": "box", "key": "large", "status": 200,
        });
        check(&line, expected);
        assert!(bytes.is_none_or(|bytes: u64| line["bytes_in"] == bytes), "{line}");
    }
    logged.gateway.stop();
}

#[test]
fn a_form_upload_has_the_key_and_the_sender_of_its_fields() {
    let (_folder, logged) = logged(&[]);
    let client = &logged.client;
    client.put("/box", b"").expect(200);
    let now = OffsetDateTime::now_utc();
    let signer = Signer::new(&client.secret, now);
    let credential = format!("{}/{}", client.key, signer.scope);
    let expires = (now + Duration::from_mins(5)).year() + 1;
    let policy = format!(
        r#"{{"expiration":"{expires}-01-01T00:00:00Z","conditions":[{{"bucket":"box"}},
            {{"key":"by-form"}},{{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},
            {{"x-amz-credential":"{credential}"}},{{"x-amz-date":"{}"}}]}}"#,
        signer.timestamp
    );
    let policy = STANDARD.encode(policy);
    let signature = signer.form(&policy);
    let mut body = String::new();
    for (name, value) in [
        ("key", "by-form"),
        ("policy", &policy),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", &credential),
        ("x-amz-date", &signer.timestamp),
        ("x-amz-signature", &signature),
    ] {
        let field = format!("--line\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.push_str(&field);
        body.push_str(value);
        body.push_str("\r\n");
    }
    body.push_str(
        "--line\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n",
    );
    body.push_str("content\r\n--line--\r\n");
    let post = Request::new("POST", "/box").body(body);
    let post = post.header("Content-Type", "multipart/form-data; boundary=line");
    let line = logged.line(&logged.anonymous(&post).expect(204));
    check(
        &line,
        serde_json::json!({
            "operation": "PostObject", "bucket": "box", "key": "by-form", "status": 204,
            "signature": "SigV4", "authentication": "Form", "method": "POST",
        }),
    );
    assert_eq!(line["requester"]["access_key"], USER);
    logged.gateway.stop();
}

#[test]
fn the_address_is_the_one_that_a_trusted_proxy_names() {
    let (_folder, logged) = logged(&["--trusted-proxy", "127.0.0.1"]);
    let request = Request::new("GET", "/").unsigned("X-Forwarded-For", "198.51.100.7");
    let line = logged.line(&logged.send(&request).expect(200));
    check(&line, serde_json::json!({ "operation": "ListBuckets", "remote": "198.51.100.7" }));
    logged.gateway.stop();
    let folder = tempfile::tempdir().expect("a folder");
    let logged = Logged::start(folder.path(), &[]);
    let line = logged.line(&logged.send(&request).expect(200));
    check(&line, serde_json::json!({ "remote": "127.0.0.1" }));
    logged.gateway.stop();
}

#[test]
fn the_s3_format_has_one_line_for_each_request() {
    let (_folder, logged) = logged(&["--access-log-format", "s3"]);
    logged.client.put("/box", b"").expect(200);
    let agent = "evil\" 200 - \"x";
    let request = Request::new("PUT", "/box/key").unsigned("User-Agent", agent);
    logged.send(&request.body(&b"content"[..])).expect(200);
    logged.gateway.stop();
    let text = std::fs::read_to_string(&logged.path).expect("a log");
    let lines: Vec<&str> = text.lines().collect();
    let [_, put] = lines[..] else { panic!("two requests have these lines: {text}") };
    assert!(put.contains(" REST.PUT.OBJECT key \"PUT /box/key HTTP/1.1\" 200 - - 7 "), "{put}");
    assert!(put.contains("\"evil%22 200 - %22x\""), "{put}");
    assert!(put.ends_with(" - - - us-east-1"), "{put}");
}

/// Clients send requests while an operator renames the log and sends SIGHUP, several times.
#[test]
fn rotation_by_rename_and_sighup_loses_no_line() {
    let (folder, logged) = logged(&[]);
    let client = logged.client.clone();
    client.put("/box", b"").expect(200);
    let mut sent = 1;
    let rotated = |turn: u32| folder.path().join(format!("access.log.{turn}"));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let client = &client;
                scope.spawn(move || {
                    for turn in 0..100 {
                        client.put(&format!("/box/{writer}-{turn}"), b"x").expect(200);
                    }
                })
            })
            .collect();
        for turn in 0..4 {
            std::fs::rename(&logged.path, rotated(turn)).expect("the log is there");
            logged.gateway.child.signal(Signal::HUP);
            let exists = wait_for(PATIENCE, || logged.path.exists());
            assert!(exists, "SIGHUP opens the file again\n{}", logged.gateway.log());
        }
        for writer in writers {
            writer.join().expect("all are stored");
            sent += 100;
        }
    });
    let said = logged.gateway.log();
    assert!(said.contains("opened the access log again"), "{said}");
    logged.gateway.stop();
    let files = (0..4).map(rotated).chain([logged.path.clone()]);
    let text: String = files.map(|file| std::fs::read_to_string(file).expect("a log")).collect();
    let mut ids: Vec<String> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("a whole line")["request_id"].to_string()
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), sent, "each request has one line in one of the files");
}
