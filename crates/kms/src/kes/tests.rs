use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

use super::*;
use crate::tests::name;
use crate::tests::stub::{Asked, Authority, Reply, Stub};

/// A KES server with one key, `photos`, whose wrapped keys are the keys.
fn kes(asked: &Asked) -> Reply {
    let refuse = |status, text: &str| Reply::Json(status, json!({ "message": text }));
    let plain = STANDARD.encode([6; 32]);
    match asked.path.as_str() {
        "/v1/key/generate/photos" => {
            Reply::Json(200, json!({"plaintext": plain, "ciphertext": plain}))
        }
        "/v1/key/decrypt/photos" if asked.body["ciphertext"] == plain => {
            Reply::Json(200, json!({ "plaintext": plain }))
        }
        "/v1/key/decrypt/photos" => refuse(400, "decryption failed: ciphertext is not authentic"),
        path if path.ends_with("/denied") => {
            refuse(403, "not authorized: insufficient permissions")
        }
        _ => refuse(404, "key does not exist"),
    }
}

#[tokio::test]
async fn a_data_key_opens_again_and_errors_have_their_kinds() {
    let authority = Authority::new();
    let stub = Stub::start(Some(authority.acceptor()), kes).await;
    let kms = KesKms::new(&authority.endpoint(&stub.url)).unwrap();
    let made = kms.generate(&name("photos")).await.unwrap();
    let again = kms.decrypt(&name("photos"), &made.wrapped).await.unwrap();
    assert_eq!((made.plain.expose(), again.expose()), (&[6; 32], &[6; 32]));
    kms.describe(&name("photos")).await.unwrap();
    assert!(stub.asked().iter().all(|asked| asked.method == "POST"));
    for (error, kind, text) in [
        (
            kms.decrypt(&name("photos"), b"else").await.map(|_| ()),
            KmsErrorKind::Invalid,
            "not authentic",
        ),
        (kms.describe(&name("other")).await, KmsErrorKind::NotFound, "KES has no such key"),
        (kms.describe(&name("denied")).await, KmsErrorKind::Refused, "its policy must allow"),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.cause.contains(text), "{error}");
    }
}

#[tokio::test]
async fn certificates_of_other_authorities_are_not_accepted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let stub = Stub::start(Some(ours.acceptor()), kes).await;
    // A server of another authority, and a client of another authority.
    let mut endpoint = ours.endpoint(&stub.url);
    endpoint.authorities = Some(theirs.pem.clone());
    let error = KesKms::new(&endpoint).unwrap().describe(&name("photos")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Unavailable);
    assert!(error.cause.contains("certificate"), "{error}");
    let mut endpoint = theirs.endpoint(&stub.url);
    endpoint.authorities = Some(ours.pem.clone());
    let error = KesKms::new(&endpoint).unwrap().describe(&name("photos")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Unavailable);
    assert!(stub.asked().is_empty(), "no request was read");
}

/// A KES server as a process, in a folder of its own.
struct Program {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Starts the program `kes`. The client may create keys and use `photos` and `absent`; `None`
    /// if it is not installed.
    async fn start(authority: &Authority) -> Option<Program> {
        if Command::new("kes").arg("--version").output().is_err() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = authority.server_files();
        std::fs::write(path("server.crt"), certificate).unwrap();
        std::fs::write(path("server.key"), key).unwrap();
        let client = authority.endpoint("").identity.unwrap();
        std::fs::write(path("client.crt"), client.0).unwrap();
        let mut identity = Command::new("kes");
        identity.args(["identity", "of", &path("client.crt")]);
        let identity = identity.output().unwrap();
        let identity = String::from_utf8(identity.stdout).unwrap().trim().to_owned();
        let address = ports::reserve();
        let config = json!({
            "version": "v1",
            "address": address.to_string(),
            "admin": {"identity": "disabled"},
            "tls": {"key": path("server.key"), "cert": path("server.crt")},
            "policy": {"ashlar": {
                "allow": ["/v1/key/generate/photos", "/v1/key/decrypt/photos",
                          "/v1/key/generate/absent", "/v1/key/create/*"],
                "identities": [identity],
            }},
            "keystore": {"fs": {"path": path("keys")}},
        });
        // JSON is YAML.
        std::fs::write(path("config.yml"), config.to_string()).unwrap();
        let mut command = Command::new("kes");
        command.args(["server", "--config", &path("config.yml"), "--auth", "off"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let url = format!("https://{address}");
        let program = Program { child, url, _folder: folder };
        let mut left = 100;
        while TcpStream::connect(address).await.is_err() {
            assert!(left > 0, "kes listens within 10 seconds");
            left -= 1;
            sleep(Duration::from_millis(100)).await;
        }
        Some(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn a_real_server_wraps_and_opens_data_keys() {
    let authority = Authority::new();
    let Some(program) = Program::start(&authority).await else {
        eprintln!("not tested with a real server: the program kes is not installed");
        return;
    };
    let kms = KesKms::new(&authority.endpoint(&program.url)).unwrap();
    for key in ["photos", "hidden"] {
        // The answer has no body, which is an error for the other calls.
        assert!(kms.post("create", &name(key), &json!({})).await.is_err());
    }
    let made = kms.generate(&name("photos")).await.unwrap();
    let again = kms.decrypt(&name("photos"), &made.wrapped).await.unwrap();
    assert_eq!(made.plain.expose(), again.expose());
    assert_ne!(kms.generate(&name("photos")).await.unwrap().plain.expose(), again.expose());
    let mut changed = made.wrapped.clone();
    *changed.last_mut().unwrap() ^= 1;
    let error = kms.decrypt(&name("photos"), &changed).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Invalid, "{error}");
    let error = kms.describe(&name("absent")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::NotFound, "{error}");
    let error = kms.describe(&name("hidden")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Refused, "{error}");
}
