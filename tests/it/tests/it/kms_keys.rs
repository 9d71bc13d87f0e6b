//! Objects with keys of a key management service that refuses, or that is away: each read gets its
//! documented error, never other bytes, and succeeds again afterwards.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use record::key;
use rustix::io::Errno;
use store::{MetaStore as _, Plan, Write};
use store_sqlite::{SqliteOptions, SqliteStore};

use crate::client::{Request, read_request};
use crate::content::bytes;
use crate::mounted::{Mount, can_mount};
use crate::servers::{Blocks, Setup, wait_for};

/// The time limit until a gateway asks the service again after a failure.
const AGAIN_WITHIN: Duration = Duration::from_secs(20);

/// The state of the service.
const SERVES: u8 = 0;
const REFUSES: u8 = 1;
const IS_AWAY: u8 = 2;

/// The Transit engine of Vault, as far as this program uses it. Its wrapped keys are not encrypted.
struct Vault {
    address: String,
    state: Arc<AtomicU8>,
}

impl Vault {
    fn start() -> Vault {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(AtomicU8::new(SERVES));
        let known = Arc::clone(&state);
        #[expect(clippy::disallowed_methods, reason = "it ends with the process of the tests")]
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let known = Arc::clone(&known);
                std::thread::spawn(move || serve(stream, &known));
            }
        });
        Vault { address, state }
    }

    fn switch_to(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
    }
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, state: &AtomicU8) {
    let mut read = Vec::new();
    while let Ok((_, target, _, body)) = read_request(&mut stream, &mut read) {
        let (status, answer) = match state.load(Ordering::SeqCst) {
            SERVES => ("200 OK", answer(&target, &body)),
            REFUSES => ("403 Forbidden", r#"{"errors":["permission denied"]}"#.to_owned()),
            _away => return,
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
        if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(target: &str, body: &[u8]) -> String {
    static KEY: OnceLock<String> = OnceLock::new();
    let key = KEY.get_or_init(|| BASE64_STANDARD.encode(bytes(7, 32)));
    if target.contains("/datakey/") {
        let data = format!(r#""plaintext":"{key}","ciphertext":"vault:v1:{key}""#);
        return format!(r#"{{"data":{{{data}}}}}"#);
    }
    if target.contains("/decrypt/") {
        assert!(String::from_utf8_lossy(body).contains("vault:v1:"), "it decrypts wrapped keys");
        return format!(r#"{{"data":{{"plaintext":"{key}"}}}}"#);
    }
    // A token that does not expire.
    r#"{"data":{"renewable":false,"ttl":0}}"#.to_owned()
}

/// Objects in a record, in a block, and in several blocks.
const OBJECTS: [(&str, usize); 3] = [("inline", 1_000), ("block", 60_000), ("blocks", 300_000)];

/// Returns the setup of gateways with this service. `kms_default` names the key `photos`.
fn with_kms(folder: &Path, vault: &Vault) -> Setup {
    let token = folder.join("token");
    std::fs::write(&token, "a token").expect("a token's file");
    let mut setup = Setup::new(folder, Blocks::Folder);
    let kms = format!("vault:http://{}", vault.address);
    let token = token.to_str().expect("a path of letters").to_owned();
    for (option, value) in [("--kms", &*kms), ("--kms-token-file", &token)] {
        setup = setup.more_options(&[option, value]);
    }
    setup.more_options(&["--kms-default", "photos", "--staged-inline-bytes", "0"])
}

fn content(index: u64) -> Vec<u8> {
    let (_, length) = OBJECTS[usize::try_from(index).expect("a small index")];
    bytes(index + 1, length)
}

/// Puts the objects with SSE-KMS and without the name of a key.
fn put_objects(setup: &Setup) {
    let gateway = setup.start();
    gateway.client.put("/box", b"").expect(200);
    for (index, (name, _)) in (0..).zip(OBJECTS) {
        let put = Request::new("PUT", &format!("/box/{name}")).body(content(index));
        let put = put.header("x-amz-server-side-encryption", "aws:kms");
        let answer = gateway.client.send(&put).expect(200);
        let key = answer.header("x-amz-server-side-encryption-aws-kms-key-id").to_owned();
        assert!(key.ends_with("photos"), "the default key counts: {key:?}");
    }
    gateway.stop();
}

#[test]
fn reads_under_a_refused_or_absent_key_have_their_errors_and_succeed_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let vault = Vault::start();
    let setup = with_kms(folder.path(), &vault);
    put_objects(&setup);
    // A process keeps a key for minutes, so each state is seen by a new one.
    for (state, status, code) in
        [(REFUSES, 400, "KMS.DisabledException"), (IS_AWAY, 503, "ServiceUnavailable")]
    {
        vault.switch_to(state);
        let gateway = setup.start();
        let client = gateway.client.clone();
        for (name, _) in OBJECTS {
            let answer = client.get(&format!("/box/{name}"));
            assert_eq!((answer.status, &*answer.code()), (status, code), "{name}");
        }
        let put = Request::new("PUT", "/box/new").body("x");
        let put = put.header("x-amz-server-side-encryption", "aws:kms");
        assert_eq!(client.send(&put).code(), code);
        // Listings and plain objects need no key.
        assert_eq!(client.keys("box", "", 1000).len(), OBJECTS.len());
        client.put("/box/plain", b"plain").expect(200);
        client.delete("/box/plain").expect(204);
        vault.switch_to(SERVES);
        for (index, (name, _)) in (0..).zip(OBJECTS) {
            let path = format!("/box/{name}");
            let readable = || {
                let answer = client.get(&path);
                assert!(answer.status != 200 || answer.body == content(index), "{name}");
                answer.status == 200
            };
            assert!(wait_for(AGAIN_WITHIN, readable), "{name} stays unreadable");
        }
        gateway.stop();
    }
}

#[test]
fn a_read_without_the_record_of_its_ring_key_names_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let vault = Vault::start();
    let setup = with_kms(folder.path(), &vault);
    put_objects(&setup);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let options = SqliteOptions { exclusive: true, spared: &[] };
        let store = SqliteStore::open(&setup.meta_file(), options).await.expect("the store opens");
        let writes = vec![Write::Delete(key::ring_key(record::RingNumber(1)))];
        store.commit(&[Plan { guards: Vec::new(), writes }]).await.expect("a commit");
        store.close().await;
    });
    let gateway = setup.start();
    for (name, _) in OBJECTS {
        let answer = gateway.client.get(&format!("/box/{name}"));
        assert_eq!((answer.status, &*answer.code()), (500, "InternalError"), "{name}");
    }
    let log = gateway.log_of_this_run();
    let named = log.lines().filter(|line| line.contains("ring key 1 does not exist")).count();
    assert!(named >= OBJECTS.len(), "{log}");
    gateway.stop();
}

#[test]
fn programs_on_a_mount_get_the_errors_of_a_key() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let vault = Vault::start();
    let setup = with_kms(folder.path(), &vault);
    put_objects(&setup);
    let kms = format!("vault:http://{}", vault.address);
    let token = folder.path().join("token");
    let token = token.to_str().expect("a path of letters");
    for (state, expected) in [(REFUSES, Errno::ACCESS), (IS_AWAY, Errno::IO)] {
        vault.switch_to(state);
        let options = ["--kms", &kms, "--kms-token-file", token, "--io-timeout-seconds", "1"];
        let mount = Mount::start_with(&setup, &folder.path().join("mount"), &options);
        let path = |name: &str| mount.folder.join("box").join(name);
        for (name, _) in OBJECTS {
            let error = std::fs::read(path(name)).expect_err("no key, no bytes");
            assert_eq!(error.raw_os_error(), Some(expected.raw_os_error()), "{name}: {error}");
        }
        vault.switch_to(SERVES);
        for (index, (name, _)) in (0..).zip(OBJECTS) {
            let readable = || std::fs::read(path(name)).is_ok_and(|found| found == content(index));
            assert!(wait_for(AGAIN_WITHIN, readable), "{name} stays unreadable");
        }
        mount.stop();
    }
}
