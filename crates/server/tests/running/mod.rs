//! A gateway as a process, and a client that signs its requests.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, sign,
};
use aws_sigv4::sign::v4;

/// The limit of time of a start or a stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the program without the `ASHLAR_` variables of the tester's environment.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// The result of a finished process.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) log: String,
}

/// A folder that is deleted after its test, with the data directory `data`.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it is there")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// The first file below a folder whose name fits.
    pub(crate) fn find(&self, below: &str, fits: impl Fn(&str) -> bool) -> PathBuf {
        let mut folders = vec![PathBuf::from(self.path(below))];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let entry = entry.expect("an entry");
                if entry.file_type().expect("a type").is_dir() {
                    folders.push(entry.path());
                } else if fits(&entry.file_name().to_string_lossy()) {
                    return entry.path();
                }
            }
        }
        panic!("no such file");
    }

    fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = program();
        command.current_dir(self.0.path()).env("ASHLAR_DATA_DIR", "data").args(arguments);
        command.envs(variables.iter().copied());
        if arguments.first() == Some(&"serve") {
            // Flags of a test come later and would be given twice: these are variables.
            let given = |flag: &str| arguments.contains(&flag);
            if !given("--listen") {
                command.env("ASHLAR_LISTEN", "127.0.0.1:0");
            }
            if !given("--admin-listen") {
                command.env("ASHLAR_ADMIN_LISTEN", "127.0.0.1:0");
            }
            if !given("--log-format") {
                command.env("ASHLAR_LOG_FORMAT", "json");
            }
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Done {
        let done = self.command(arguments, variables).output().expect("it runs");
        Done {
            code: done.status.code(),
            out: String::from_utf8_lossy(&done.stdout).into_owned(),
            log: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }
}

/// A gateway that runs. Dropped, it is killed.
pub(crate) struct Gateway {
    child: Child,
    address: SocketAddr,
    admin: String,
    root: (String, String),
    tls: bool,
    out: Option<JoinHandle<String>>,
    log: Option<JoinHandle<String>>,
}

impl Gateway {
    /// Starts a gateway on free ports, and waits for its addresses in the log.
    pub(crate) fn start(folder: &Folder, flags: &[&str], variables: &[(&str, &str)]) -> Gateway {
        let arguments = [&["serve"], flags].concat();
        let mut child = folder
            .command(&arguments, variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = child.stdout.take().expect("a pipe");
        let out = std::thread::Builder::new().spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).expect("text");
            text
        });
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut log = String::new();
        let (endpoint, admin) = loop {
            let start = log.len();
            let read = lines.read_line(&mut log).expect("text");
            assert!(read > 0, "it ended instead of serving: {log}");
            if let Some(found) = serving(&log[start..]) {
                break found;
            }
        };
        let log = std::thread::Builder::new().spawn(move || {
            lines.read_to_string(&mut log).expect("text");
            log
        });
        let kept = folder.read("data/root-credentials");
        let value = |line: usize| {
            let line = kept.lines().nth(line).and_then(|line| line.split_once('='));
            line.expect("a value").1.to_owned()
        };
        let (scheme, address) = endpoint.split_once("://").expect("a URL");
        Gateway {
            child,
            address: address.parse().expect("an address"),
            admin: admin.trim_start_matches("http://").to_owned(),
            root: (value(0), value(1)),
            tls: scheme == "https",
            out: Some(out.expect("a thread")),
            log: Some(log.expect("a thread")),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn admin(&self) -> String {
        self.admin.clone()
    }

    /// Sends bytes on a new connection, and returns the first bytes of the response.
    pub(crate) fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut bytes = [0; 16384];
        let read = stream.read(&mut bytes).expect("an answer");
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    /// Returns a request that is signed with the root credentials.
    pub(crate) fn sign(&self, method: &str, path: &str, body: &[u8]) -> Signed {
        self.sign_as(&self.root.clone(), method, path, body)
    }

    /// Returns a request that is signed with these credentials.
    pub(crate) fn sign_as(
        &self,
        (user, secret): &(String, String),
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Signed {
        assert!(!self.tls, "this client speaks no TLS");
        let identity = Credentials::new(user, secret, None, None, "tests").into();
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(now())
            .settings(settings)
            .build()
            .expect("parameters");
        let (url, host) = (format!("http://{}{path}", self.address), self.address.to_string());
        let headers = [("host", host.as_str())].into_iter();
        let signable = SignableRequest::new(method, &url, headers, SignableBody::UnsignedPayload);
        let signed = sign(signable.expect("a request"), &parameters.into()).expect("a signature");
        let (instructions, _) = signed.into_parts();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in instructions.headers() {
            head.extend([name, ": ", value, "\r\n"]);
        }
        let length = body.len().to_string();
        head.extend(["Content-Length: ", &length, "\r\nConnection: close\r\n\r\n"]);
        Signed { address: self.address, head, body: body.to_vec() }
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Sends SIGTERM, and waits for the exit.
    pub(crate) fn stop(self) -> Done {
        self.terminate();
        let done = self.wait();
        assert_eq!(done.code, Some(0), "{}", done.log);
        done
    }

    /// Waits for the exit.
    pub(crate) fn wait(mut self) -> Done {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        };
        let text = |thread: Option<JoinHandle<String>>| {
            thread.expect("waited once").join().expect("no panic")
        };
        Done { code: status.code(), out: text(self.out.take()), log: text(self.log.take()) }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails for a process that has exited.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "signatures name the time")]
    SystemTime::now()
}

/// Returns the addresses in the log line of a started gateway, in either format.
fn serving(line: &str) -> Option<(String, String)> {
    if let Ok(line) = serde_json::from_str::<serde_json::Value>(line) {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        return (line["message"] == "serving").then(|| text("endpoint").zip(text("admin")))?;
    }
    let quoted = |name: &str| {
        let rest = line.split_once(&format!("{name}=\""))?.1;
        Some(rest.split_once('"')?.0.to_owned())
    };
    line.contains(" serving ").then(|| quoted("endpoint").zip(quoted("admin")))?
}

/// A GET without a signature.
pub(crate) fn get(address: &str, path: &str) -> String {
    get_as(address, address, path)
}

/// As [`get`], with another `Host`.
pub(crate) fn get_as(host: &str, address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// A signed request, not sent yet.
#[derive(Debug)]
pub(crate) struct Signed {
    address: SocketAddr,
    head: String,
    body: Vec<u8>,
}

impl Signed {
    /// Sends the head. The caller sends the body.
    pub(crate) fn send_head(self) -> Sending {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(self.head.as_bytes()).expect("sent");
        Sending(stream)
    }

    /// Sends the request, and reads the response.
    pub(crate) fn send_all(self) -> RawResponse {
        let body = self.body.clone();
        let mut sending = self.send_head();
        sending.send(&body);
        sending.read()
    }
}

/// A request whose body is being sent.
#[derive(Debug)]
pub(crate) struct Sending(TcpStream);

impl Sending {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("sent");
    }

    pub(crate) fn read(mut self) -> RawResponse {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).expect("an answer");
        RawResponse { text: String::from_utf8_lossy(&bytes).into_owned() }
    }
}

#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) text: String,
}

impl RawResponse {
    #[track_caller]
    pub(crate) fn expect_status(&self, status: u16) {
        let expected = format!("HTTP/1.1 {status} ");
        assert!(self.text.starts_with(&expected), "expected {status}: {}", self.text);
    }
}
