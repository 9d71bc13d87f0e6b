//! HTTP/2 clients without a key whose flow-control windows are closed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Request, Response};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::servers::{Blocks, Gateway, Setup};

/// Limit of the concurrent streams of one connection.
const STREAMS: usize = 128;

/// Number of connections whose streams together equal all request permits.
const CONNECTIONS: usize = 4;

/// Starts a gateway with TLS and returns its certificate.
fn start(folder: &Path) -> (Gateway, CertificateDer<'static>) {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let issued = issued.expect("a certificate");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, issued.cert.pem()).expect("written");
    std::fs::write(&key, issued.signing_key.serialize_pem()).expect("written");
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let options = ["--tls-cert", &cert, "--tls-key", &key, "--body-timeout-seconds", "3"];
    let gateway = Setup::new(folder, Blocks::Folder).options(&options).start();
    (gateway, issued.cert.der().clone())
}

/// Opens a connection with this flow-control window for each response, in bytes.
async fn connect(
    gateway: &Gateway,
    trusted: &CertificateDer<'static>,
    window: u32,
) -> SendRequest<Bytes> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(&gateway.client.address).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let handshake =
        Builder::new().initial_window_size(window).handshake(stream.expect("TLS")).await;
    let (sender, connection) = handshake.expect("HTTP/2");
    #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(connection);
    sender
}

/// Requests an object without a key.
async fn ask(sender: &mut SendRequest<Bytes>, path: &str) -> Response<h2::RecvStream> {
    let request = Request::get(format!("https://localhost/box/{path}")).body(());
    let request = request.expect("a request");
    let mut ready = sender.clone().ready().await.expect("a stream is free");
    let answer = ready.send_request(request, true).expect("it is sent").0;
    answer.await.expect("an answer")
}

#[test]
fn four_anonymous_connections_hold_no_permits() {
    leave_all_permits("object", 404);
}

/// An error that repeated the whole request would be much longer than the request.
#[test]
fn long_anonymous_paths_hold_no_permits() {
    leave_all_permits(&"&".repeat(15_000), 400);
}

fn leave_all_permits(path: &str, status: u16) {
    let folder = tempfile::tempdir().expect("a folder");
    let (gateway, trusted) = start(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut sender = connect(&gateway, &trusted, 0).await;
            for _ in 0..STREAMS {
                let answer = ask(&mut sender, path).await;
                assert_eq!(answer.status(), status, "{} answers are not taken", held.len());
                held.push(answer.into_body());
            }
        }
        let mut other = connect(&gateway, &trusted, 65_535).await;
        assert_eq!(ask(&mut other, "o").await.status(), 404, "all permits are held");
        assert_eq!(held.len(), CONNECTIONS * STREAMS);
        // Each of the responses is given up in the end.
        let given_up = async {
            for mut body in held {
                let end = body.data().await.expect("its window is shut");
                assert!(end.is_err_and(|error| error.is_reset()), "it was given up");
            }
        };
        tokio::time::timeout(Duration::from_secs(20), given_up).await.expect("all within a time");
        assert_eq!(ask(&mut other, "o").await.status(), 404);
    });
    gateway.check_log();
    gateway.stop();
}
