use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;

fn endpoint(url: &str, ca: Option<&Path>) -> Result<Endpoint, Problem> {
    let proof = Proof::Token(Secret::new("ashlar-secret-of-a-token"));
    Endpoint::new(url, ca, proof, "us-east-1".to_owned())
}

/// A server that gives each connection the same response, and then keeps the connection open.
struct Fixed {
    port: u16,
    _running: JoinSet<()>,
}

async fn reply<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, response: &str) {
    let mut request = Vec::new();
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
            continue;
        }
        return;
    }
    // A client that has read enough closes the connection before the end.
    let _closed = stream.write_all(response.as_bytes()).await;
    let _closed = stream.read_to_end(&mut request).await;
}

/// Starts a server, over TLS with a self-signed certificate if a folder for the certificate is
/// given.
async fn fixed(response: String, folder: Option<&Path>) -> Fixed {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let acceptor = folder.map(|folder| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        std::fs::write(folder.join("ca.pem"), made.cert.pem()).expect("written");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("usual versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
            .expect("key and certificate belong together");
        TlsAcceptor::from(Arc::new(server))
    });
    let mut running = JoinSet::new();
    running.spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.expect("a connection");
            match &acceptor {
                None => reply(tcp, &response).await,
                Some(acceptor) => {
                    // A client that does not trust the certificate ends here.
                    let Ok(stream) = acceptor.accept(tcp).await else { continue };
                    reply(stream, &response).await;
                }
            }
        }
    });
    Fixed { port, _running: running }
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns the problem of a request to a server with this response.
async fn refused(response: String) -> Problem {
    let server = fixed(response, None).await;
    let api = endpoint(&format!("http://127.0.0.1:{}", server.port), None).expect("a URL");
    let done: Result<Value, _> = api.call(Method::GET, &["users"], &[], None).await;
    done.expect_err("no success").problem("list users")
}

#[test]
fn a_password_in_a_url_is_not_shown() {
    for url in ["http://anna:pass-word@host:1", "http://anna:pass-word@", "ftp://anna:pass-word@h"]
    {
        let problem = endpoint(url, None).expect_err("not a console");
        assert!(!problem.to_string().contains("pass-word"), "{problem}");
        assert_eq!(problem.cause(), Cause::Settings);
    }
}

#[tokio::test]
async fn a_response_over_the_limit_is_not_kept() {
    let endless = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX / 2);
    let body = " ".repeat(RESPONSE_BYTES_MAX + 1);
    let problem = refused(endless + &body).await.to_string();
    assert!(problem.contains("limit"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_response_meets_the_deadline() {
    let problem = refused(String::new()).await;
    assert!(problem.to_string().contains("in time"), "{problem}");
    assert_eq!(problem.cause(), Cause::Unavailable);
}

#[tokio::test]
async fn a_list_that_repeats_its_token_fails() {
    let body = r#"{"items": [1], "next": "a"}"#;
    let server = fixed(response(200, body), None).await;
    let api = endpoint(&format!("http://127.0.0.1:{}", server.port), None).expect("a URL");
    let listed = tokio::time::timeout(Duration::from_secs(30), api.list::<u32>(&["users"], ""));
    let refused = listed.await.expect("it ends").expect_err("it has no end");
    assert!(refused.problem("list users").to_string().contains("does not end"));
}

#[tokio::test]
async fn the_status_of_a_refusal_decides_the_cause() {
    let body = r#"{"code": "X", "message": "Why.", "detail": null, "request_id": "7"}"#;
    let away = refused(response(503, body)).await;
    assert_eq!(away.cause(), Cause::Unavailable);
    let denied = refused(response(403, body)).await;
    assert_eq!(denied.cause(), Cause::Other);
    let text = "cannot list users: Why; the gateway's log has the request 7";
    assert_eq!(denied.to_string(), text);
    let other = refused(response(404, "<html>")).await;
    assert!(other.to_string().contains("404, and is no console"), "{other}");
}

#[tokio::test]
async fn a_certificate_needs_its_authority_and_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = fixed(response(200, "7"), Some(folder.path())).await;
    let ca = folder.path().join("ca.pem");
    let call = async |host: &str, ca: Option<&Path>| -> Result<u32, Problem> {
        let api = endpoint(&format!("https://{host}:{}", server.port), ca)?;
        let done = api.call(Method::GET, &["users"], &[], None).await;
        done.map_err(|error| error.problem("list users"))
    };
    assert_eq!(call("localhost", Some(&ca)).await.expect("it is trusted"), 7);
    for (host, ca) in [("localhost", None), ("127.0.0.1", Some(&*ca))] {
        let problem = call(host, ca).await.expect_err("it is not trusted");
        let shown = problem.to_string();
        assert!(shown.contains("--ca"), "{shown}");
        assert!(!shown.contains("ashlar-secret-of-a-token"), "{shown}");
        assert_eq!(problem.cause(), Cause::Settings);
    }
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    let problem = call("localhost", Some(&empty)).await.expect_err("no authority");
    assert!(problem.to_string().contains("no certificate"), "{problem}");
}
