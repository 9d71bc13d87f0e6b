use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;

const WAIT: Duration = Duration::from_secs(10);

/// A TLS server with a self-signed certificate for 127.0.0.1.
struct Secure {
    place: Uri,
    client: ClientConfig,
    running: JoinSet<()>,
}

/// Starts a server that echoes each body, and counts connections in a header.
async fn secure() -> Secure {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("usual versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
        )
        .expect("key and certificate belong together");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("usual versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let place = format!("https://127.0.0.1:{port}/").parse().expect("an address");
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let mut running = JoinSet::new();
    running.spawn(async move {
        for number in 0.. {
            let (tcp, _) = listener.accept().await.expect("a connection");
            // A client that does not trust the certificate ends here.
            let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
            let mut received = Vec::new();
            while tls.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&received);
                let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                if body.len() < 5 {
                    continue;
                }
                let head = format!("HTTP/1.1 200 OK\r\nConnection-Number: {number}\r\n");
                let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
                tls.write_all(answer.as_bytes()).await.expect("writable");
                received.clear();
            }
        }
    });
    Secure { place, client, running }
}

fn request() -> Request<Pieces> {
    let body = Pieces::from_iter(["he", "llo"].map(Bytes::from));
    let request = Request::put("/stones/a").header("host", "stones");
    request.body(body).expect("good parts")
}

#[tokio::test]
async fn requests_go_over_tls_on_one_connection() {
    let mut service = secure().await;
    let tls = HttpsConnectorBuilder::new().with_tls_config(service.client.clone());
    let connector = tls.https_only().enable_http1().wrap_connector(tcp());
    let pool = ConnectionPool {
        place: service.place.clone(),
        connector: Connector::Secure(connector),
        connect_timeout: WAIT,
        idle: Mutex::default(),
    };
    for _ in 0..3 {
        let (mut wire, answer) = pool.send(request()).await.expect("answered");
        assert_eq!(answer.headers()["connection-number"], "0");
        let body = wire.body(answer.into_body(), 5).await.expect("a body");
        assert_eq!(body, "hello");
        assert_eq!(pool.put_back(wire).await, WireState::Ready);
    }
    service.running.shutdown().await;
}

#[tokio::test]
async fn unknown_certificate_is_refused() {
    let mut service = secure().await;
    let pool =
        ConnectionPool::new(service.place.clone(), WAIT).expect("the system has certificates");
    let Err(error) = pool.send(request()).await else { panic!("no other owner exists") };
    assert!(format!("{error:?}").contains("UnknownIssuer"), "{error:?}");
    service.running.shutdown().await;
}
