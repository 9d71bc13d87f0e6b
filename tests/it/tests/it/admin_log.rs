//! The access log of the administration API and the console.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use md5::Digest as _;

use adminapi::{Endpoint, EndpointPermission, PREFIX, SERVICE};
use serde_json::{Value, json};

use crate::client::{Answer, Client, Request, escape};
use crate::servers::{Blocks, Gateway, Setup, USER, wait_for};

/// The time in which a line appears after its response.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of clients that disconnect.
const DISCONNECTS: usize = 20;

/// A gateway with an access log and a console.
struct Logged {
    gateway: Gateway,
    /// A client of the console's listener.
    console: Client,
    path: PathBuf,
}

impl Logged {
    fn start(folder: &Path) -> Logged {
        let path = folder.join("access.log");
        let log = path.display().to_string();
        let options = ["--access-log", &log, "--console-listen", "127.0.0.1:0"];
        let gateway = Setup::new(folder, Blocks::Folder).more_options(&options).start();
        let console = gateway.console();
        Logged { gateway, console, path }
    }

    /// Returns the lines for which `wanted` is true, as soon as there are `count` of them. Fails if
    /// there are more.
    #[track_caller]
    fn lines(&self, count: usize, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut lines = Vec::new();
        wait_for(PATIENCE, || {
            let text = std::fs::read_to_string(&self.path).unwrap_or_default();
            let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines = whole.filter(|line| wanted(line)).collect();
            lines.len() >= count
        });
        assert_eq!(lines.len(), count, "{lines:#?}");
        lines
    }

    /// Returns the line of the request itself that got this response, without those of requests of
    /// S3 that it led to.
    #[track_caller]
    fn line(&self, answer: &Answer) -> Value {
        let id = answer.header("x-request-id");
        assert_ne!(id, "", "{}", answer.text());
        let target = |line: &Value| {
            let target = line["target"].as_str().unwrap_or_default();
            !target.starts_with("/box") && !target.starts_with("/resource")
        };
        let mut lines = self.lines(1, |line| line["request_id"] == id && target(line));
        lines.pop().expect("one line")
    }

    /// Sends a request to the API in the name of the root user.
    fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let request = Request::new(method, &format!("{PREFIX}{path}")).service(SERVICE);
        self.console.send(&request.body(body))
    }

    fn anonymous(&self, request: &Request) -> Answer {
        let wire = request.anonymous(&self.console.address);
        self.console.exchange(&request.method, &wire).expect("an answer")
    }

    /// Sends a form of the console.
    fn post(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Answer {
        let pair =
            |(name, value): &(&str, &str)| format!("{name}={}", escape(value.as_bytes(), false));
        let form: Vec<String> = fields.iter().map(pair).collect();
        let origin = format!("http://{}", self.console.address);
        let request = Request::new("POST", path).body(form.join("&"));
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        self.anonymous(&request.header("Origin", &origin).header("Cookie", cookie))
    }

    /// Logs in to the console. Returns the response and the cookie.
    fn log_in(&self, secret: &str) -> (Answer, String) {
        let answer = self.post("/login", "", &[("access_key", USER), ("secret", secret)]);
        let cookie = answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        (answer, cookie)
    }
}

fn logged() -> (tempfile::TempDir, Logged) {
    let folder = tempfile::tempdir().expect("a folder");
    let logged = Logged::start(folder.path());
    (folder, logged)
}

/// Fails unless a line has these fields. An expected `null` means that the field is absent.
#[track_caller]
fn check(line: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("fields") {
        assert_eq!(&line[name], value, "{name} of {line:#}");
    }
}

/// Returns the path of an endpoint with a name for each parameter, and the kinds of the parameters.
fn path_of(endpoint: Endpoint) -> (String, Vec<&'static str>) {
    let parts = endpoint.path().split('/');
    let kinds: Vec<&str> = parts
        .filter_map(|part| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')))
        .collect();
    let mut path = endpoint.path().to_owned();
    for kind in &kinds {
        path = path.replace(&format!("{{{kind}}}"), "resource-1");
    }
    (path, kinds)
}

#[test]
fn each_endpoint_has_a_line_with_its_sender_and_its_resource() {
    let (_folder, logged) = logged();
    // A stream of events has its line when it ends, after minutes.
    let ending = Endpoint::ALL.iter().filter(|endpoint| **endpoint != Endpoint::GetStream);
    for &endpoint in ending {
        let (path, kinds) = path_of(endpoint);
        let method = endpoint.method().to_string();
        let body = if method == "GET" || method == "DELETE" { "" } else { "{}" };
        let answer = logged.call(&method, &path, body);
        let line = logged.line(&answer);
        let code = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let code = if answer.status >= 400 { code["code"].clone() } else { Value::Null };
        check(
            &line,
            &json!({
                "operation": endpoint.name(), "status": answer.status, "code": code,
                "method": method, "target": format!("{PREFIX}{path}"), "remote": "127.0.0.1",
                "whole": true,
            }),
        );
        for kind in kinds {
            let named = if kind == "bucket" { &line["bucket"] } else { &line["resources"][kind] };
            assert_eq!(named, "resource-1", "{kind} of {line}");
        }
        if endpoint.permission() != EndpointPermission::Open {
            let expected = json!({ "authentication": "AuthHeader", "signature": "SigV4" });
            check(&line, &expected);
            assert_eq!(line["requester"]["access_key"], USER, "{line}");
        }
        if !matches!(answer.status, 401 | 403) {
            assert_eq!(line["kind"], "admin", "{line}");
        }
    }
    logged.gateway.stop();
}

#[test]
fn a_refused_request_to_each_endpoint_has_a_line() {
    let (_folder, logged) = logged();
    let closed = |endpoint: &&Endpoint| endpoint.permission() != EndpointPermission::Open;
    for &endpoint in Endpoint::ALL.iter().filter(closed) {
        let (path, _) = path_of(endpoint);
        let request = Request::new(endpoint.method().as_str(), &format!("{PREFIX}{path}"));
        let expected = json!({
            "kind": "denied", "operation": endpoint.name(), "status": 401, "requester": null,
            "code": "Unauthenticated",
        });
        check(&logged.line(&logged.anonymous(&request).expect(401)), &expected);
    }
    let stranger = Client { secret: "wrong".to_owned(), ..logged.console.clone() };
    let request = Request::new("DELETE", "/api/v1/users/anna").service(SERVICE);
    let line = logged.line(&stranger.send(&request).expect(403));
    let expected = json!({
        "kind": "denied", "operation": "DeleteUser", "code": "SignatureDoesNotMatch",
        "requester": null, "resources": { "user": "anna" },
    });
    check(&line, &expected);
    let unknown = logged.line(&logged.call("GET", "/nothing", "").expect(404));
    check(&unknown, &json!({ "operation": "Unserved", "code": "NoSuchEndpoint" }));
    // The edge refuses this request before the API sees it.
    let mut long = Request::new("DELETE", "/api/v1/users/anna");
    for number in 0..101 {
        long = long.unsigned(&format!("x-filler-{number}"), "1");
    }
    let expected = json!({
        "operation": "DeleteUser", "status": 431, "code": "RequestHeaderSectionTooLarge",
    });
    check(&logged.line(&logged.anonymous(&long).expect(431)), &expected);
    logged.gateway.stop();
}

#[test]
fn a_new_key_and_a_token_have_their_names_and_no_secret() {
    let (_folder, logged) = logged();
    logged.call("PUT", "/users/anna", "{}").expect(200);
    let issued = logged.call("POST", "/users/anna/keys", "{}").expect(200);
    let key: Value = serde_json::from_slice(&issued.body).expect("JSON");
    let resources = json!({ "user": "anna", "issued_key": key["access_key"] });
    check(&logged.line(&issued), &json!({ "operation": "PostKey", "resources": resources }));
    let issued = logged.call("POST", "/tokens", r#"{"actions": ["admin:*"]}"#).expect(200);
    let token: Value = serde_json::from_slice(&issued.body).expect("JSON");
    check(&logged.line(&issued), &json!({ "resources": { "issued_token": token["name"] } }));

    let text = token["token"].as_str().expect("a token");
    let request = Request::new("DELETE", "/api/v1/users/anna");
    let bearer = format!("Bearer {text}");
    let answer = logged.anonymous(&request.header("Authorization", &bearer)).expect(204);
    let line = logged.line(&answer);
    check(&line, &json!({ "operation": "DeleteUser", "authentication": "Token", "code": null }));
    assert_eq!(line["requester"]["access_key"], token["name"], "{line}");
    logged.gateway.stop();
    let log = std::fs::read_to_string(&logged.path).expect("a log");
    for secret in [text, key["secret"].as_str().expect("a secret")] {
        assert!(!log.contains(secret), "the log has a secret");
    }
}

#[test]
fn a_login_and_a_change_in_the_console_have_their_person() {
    let (_folder, logged) = logged();
    let (refused, _) = logged.log_in("wrong");
    let expected = json!({
        "kind": "denied", "operation": "ConsoleLogin", "claimed_key": USER, "requester": null,
        "code": "WrongLogin", "status": 403,
    });
    check(&logged.line(&refused), &expected);
    let (entered, cookie) = logged.log_in(&logged.console.secret);
    let line = logged.line(&entered.expect(303));
    check(&line, &json!({ "kind": "console", "operation": "ConsoleLogin", "code": null }));
    assert_eq!(line["requester"]["access_key"], USER, "{line}");

    logged.gateway.client.put("/box", b"").expect(200);
    logged.gateway.client.put("/box/2026/a.jpg", b"content").expect(200);
    let wrong = [("form_token", "wrong"), ("action", "disable")];
    let line = logged.line(&logged.post("/users/anna", &cookie, &wrong).expect(403));
    let expected = json!({
        "kind": "denied", "operation": "ConsoleUser", "action": "disable", "code": "WrongForm",
        "resources": { "user": "anna" },
    });
    check(&line, &expected);
    assert_eq!(line["requester"]["access_key"], USER, "{line}");

    let page =
        Request::new("GET", "/buckets/box/object?key=2026%2Fa.jpg").header("Cookie", &cookie);
    let page = logged.anonymous(&page).expect(200);
    let text = page.text();
    let (_, rest) = text.split_once("name=\"form_token\" value=\"").expect("a form");
    let token = rest.split_once('"').expect("a token").0;
    let fields = [("form_token", token), ("action", "delete"), ("key", "2026/a.jpg")];
    let deleted = logged.post("/buckets/box/objects", &cookie, &fields).expect(303);
    let expected = json!({
        "kind": "console", "operation": "ConsoleBucketObjects", "action": "delete",
        "bucket": "box", "key": "2026/a.jpg", "status": 303, "authentication": "Login",
    });
    check(&logged.line(&deleted), &expected);
    // The request of S3 that the form led to has a line, too.
    let id = deleted.header("x-request-id");
    let of_s3 = logged.lines(1, |line| line["request_id"] == id && line["kind"] == "s3");
    let expected = json!({
        "operation": "DeleteObject", "bucket": "box", "key": "2026/a.jpg", "status": 204,
        "remote": "127.0.0.1",
    });
    check(&of_s3[0], &expected);
    assert_eq!(of_s3[0]["requester"]["access_key"], USER, "{}", of_s3[0]);
    logged.gateway.stop();
}

/// A client cannot avoid its line by a disconnect: neither for a change by the API nor for a
/// request of S3. Each change that was made has one.
#[test]
fn twenty_clients_that_disconnect_leave_twenty_lines() {
    let (_folder, logged) = logged();
    let s3 = logged.gateway.client.clone();
    s3.put("/box", b"").expect(200);
    let user = |number: usize| format!("/api/v1/users/gone-{number:04}");
    let key = |number: usize| format!("/box/gone-{number:04}");
    let users = leave_until_logged(&logged, &logged.console, "PutUser", &|number| {
        Request::new("PUT", &user(number)).service(SERVICE).body("{}")
    });
    let listed = logged.call("GET", "/users?limit=1000", "").expect(200);
    let listed: Value = serde_json::from_slice(&listed.body).expect("JSON");
    let made: Vec<String> = listed["items"]
        .as_array()
        .expect("users")
        .iter()
        .filter_map(|user| {
            let name = user["name"].as_str()?;
            name.starts_with("gone-").then(|| format!("/api/v1/users/{name}"))
        })
        .collect();
    check_lines(&users, &made);
    let keys = leave_until_logged(&logged, &s3, "PutObject", &|number| {
        Request::new("PUT", &key(number)).body("content")
    });
    let made: Vec<String> =
        s3.keys("box", "gone-", 1000).iter().map(|key| format!("/box/{key}")).collect();
    check_lines(&keys, &made);
    logged.gateway.stop();
}

/// Fails unless each change that was made has one line with its sender.
#[track_caller]
fn check_lines(lines: &[Value], made: &[String]) {
    assert!(!made.is_empty(), "no change was made");
    for target in made {
        let of_target: Vec<&Value> =
            lines.iter().filter(|line| line["target"] == **target).collect();
        let [line] = of_target[..] else { panic!("{target} has the lines {of_target:#?}") };
        assert_eq!(line["requester"]["access_key"], USER, "{line}");
    }
}

/// Sends requests and closes their connections without reading the responses, until [`DISCONNECTS`]
/// of them have a line without a whole response. Returns all lines of the operation.
#[track_caller]
fn leave_until_logged(
    logged: &Logged,
    client: &Client,
    operation: &str,
    request: &dyn Fn(usize) -> Request,
) -> Vec<Value> {
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&logged.path).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.filter(|line| line["operation"] == operation).collect()
    };
    let mut number = 0;
    let left = wait_for(PATIENCE, || {
        let mut stream = client.connect().expect("a connection");
        let wire = request(number).sealed(client.signature()).wire();
        stream.write_all(&wire).expect("the request is taken");
        // A request that has not begun at the disconnect is not handled, and has no line.
        std::thread::sleep(Duration::from_millis(2));
        number += 1;
        drop(stream);
        lines().iter().filter(|line| line["whole"] == false).count() >= DISCONNECTS
    });
    assert!(left, "{number} clients left {:#?}", lines());
    // The last requests are still running.
    let mut last = 0;
    wait_for(PATIENCE, || {
        let count = lines().len();
        std::thread::sleep(Duration::from_millis(500));
        let is_done = count == last;
        last = count;
        is_done
    });
    lines()
}

#[test]
fn each_key_of_a_batch_has_a_line() {
    let (_folder, logged) = logged();
    let s3 = logged.gateway.client.clone();
    s3.put("/box", b"").expect(200);
    s3.put("/box/a", b"content").expect(200);
    let body = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key>\
                <VersionId>wrong</VersionId></Object></Delete>";
    let digest = base64::engine::general_purpose::STANDARD.encode(md5::Md5::digest(body));
    let request = Request::new("POST", "/box?delete").body(body).header("Content-MD5", &digest);
    let answer = s3.send(&request).expect(200);
    let id = answer.header("x-amz-request-id");
    let lines = logged.lines(3, |line| line["request_id"] == id);
    let of_key = |key: &str| {
        let found = lines.iter().find(|line| line["key"] == key);
        found.unwrap_or_else(|| panic!("no line of {key}: {lines:#?}"))
    };
    let expected = json!({
        "operation": "DeleteObject", "bucket": "box", "status": 204, "code": null,
        "remote": "127.0.0.1",
    });
    check(of_key("a"), &expected);
    assert_eq!(of_key("a")["requester"]["access_key"], USER);
    let expected = json!({ "operation": "DeleteObject", "code": "NoSuchVersion" });
    check(of_key("b"), &expected);
    logged.gateway.stop();
}
