use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::harness::{Harness, Options};
use crate::{Tls, TlsFiles};

/// Writes a fresh certificate for `localhost` and its key; answers the certificate.
pub(super) fn issue(folder: &Path) -> CertificateDer<'static> {
    let names = vec!["localhost".to_owned()];
    let issued = rcgen::generate_simple_self_signed(names).expect("a certificate");
    std::fs::write(folder.join("cert.pem"), issued.cert.pem()).expect("written");
    std::fs::write(folder.join("key.pem"), issued.signing_key.serialize_pem()).expect("written");
    issued.cert.der().clone()
}

pub(super) fn load(folder: &Path) -> Result<Tls, problem::Problem> {
    Tls::load(TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") })
}

pub(super) async fn connect(
    harness: &Harness,
    trusted: &CertificateDer<'static>,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(harness.address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn tls_offers_both_versions_of_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = issue(folder.path());
    let tls = Some(load(folder.path()).expect("it loads"));
    let harness = Harness::start(Options { tls, ..Options::default() }).await;

    let stream = connect(&harness, &certificate, b"http/1.1").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("http/1.1");
    let tracker = tokio_util::task::TaskTracker::new();
    tracker.spawn(connection);
    let request = Request::get("/one").header("host", "localhost").body(Empty::<Bytes>::new());
    let response = sender.send_request(request.expect("a request")).await.expect("an answer");
    assert_eq!(response.version(), Version::HTTP_11);
    assert!(response.headers().contains_key("x-amz-request-id"));

    let stream = connect(&harness, &certificate, b"h2").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.expect("h2");
    tracker.spawn(connection);
    for (method, path) in [("GET", "/two"), ("HEAD", "/length"), ("GET", "/not-modified")] {
        let uri = format!("https://localhost{path}");
        let request = Request::builder().method(method).uri(uri).body(Empty::<Bytes>::new());
        let request = request.expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        assert_eq!(response.version(), Version::HTTP_2);
        assert!(response.headers().contains_key("x-amz-request-id"));
        assert!(!response.headers().contains_key("connection"));
        let body = response.into_body().collect().await.expect("a whole body").to_bytes();
        assert_eq!(&body[..], if path == "/two" { &b"/two"[..] } else { b"" });
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = issue(folder.path());
    let tls = load(folder.path()).expect("it loads");
    let options = Options { tls: Some(tls.clone()), ..Options::default() };
    let harness = Harness::start(options).await;
    assert!(connect(&harness, &old, b"http/1.1").await.is_ok());
    assert_eq!(tls.reload(false), Ok(false), "nothing changed");

    let new = issue(folder.path());
    assert_eq!(tls.reload(true), Ok(true));
    assert!(connect(&harness, &new, b"http/1.1").await.is_ok());
    assert!(connect(&harness, &old, b"http/1.1").await.is_err(), "the old one is not in use");

    std::fs::write(folder.path().join("cert.pem"), "nonsense").expect("written");
    assert!(tls.reload(true).is_err());
    assert!(connect(&harness, &new, b"http/1.1").await.is_ok(), "what worked goes on");
}

#[test]
fn invalid_tls_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let sentence = || load(folder.path()).expect_err("refused").to_string();
    assert!(sentence().starts_with("cannot read the TLS certificate in "), "{}", sentence());
    issue(folder.path());
    let key = std::fs::read(folder.path().join("key.pem")).expect("a key");
    issue(folder.path());
    std::fs::write(folder.path().join("key.pem"), key).expect("written");
    assert!(sentence().ends_with("--tls-key must be the key of this certificate"));
    std::fs::write(folder.path().join("key.pem"), "nonsense").expect("written");
    assert!(sentence().starts_with("cannot read the TLS key in "), "{}", sentence());
}
