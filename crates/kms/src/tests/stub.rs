//! A server on the loopback interface with scripted answers, over TLS or not.

use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::KmsEndpoint;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The headers, with names in lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The behaviour for one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Json(u16, Value),
    /// A body that is not JSON.
    Text(u16, &'static str),
    /// No answer; the connection stays open.
    Hang,
    /// The connection ends in the middle of the body.
    Cut,
    /// More bytes than a client may read. The length is announced or not.
    Oversized {
        announced: bool,
    },
    /// A redirect to another server.
    Redirect(String),
}

type Script = Arc<Mutex<Box<dyn FnMut(&Asked) -> Reply + Send>>>;

/// A running server. It ends when it is dropped.
pub(crate) struct Stub {
    pub(crate) url: String,
    script: Script,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Stub {
    pub(crate) async fn start(
        tls: Option<TlsAcceptor>,
        script: impl FnMut(&Asked) -> Reply + Send + 'static,
    ) -> Stub {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", socket.local_addr().unwrap());
        let script: Script = Arc::new(Mutex::new(Box::new(script)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (of, seen) = (Arc::clone(&script), Arc::clone(&asked));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = socket.accept().await {
                let (of, seen, tls) = (Arc::clone(&of), Arc::clone(&seen), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => answer(stream, &of, &seen).await,
                        Some(tls) => {
                            // A client without a certificate ends the handshake.
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, &of, &seen).await;
                            }
                        }
                    }
                });
            }
        });
        Stub { url, script, asked, _tasks: tasks }
    }

    /// Changes the behaviour for later requests.
    pub(crate) fn set(&self, script: impl FnMut(&Asked) -> Reply + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    /// Returns the requests so far, and forgets them.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    seen: &Mutex<Vec<Asked>>,
) {
    let Some(asked) = request(&mut stream).await else { return };
    seen.lock().unwrap().push(asked.clone());
    let reply = (script.lock().unwrap())(&asked);
    let head = |status: u16, more: &str| {
        format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n{more}\r\n")
    };
    let bytes = match reply {
        Reply::Json(status, json) => {
            let body = json.to_string();
            head(status, &format!("content-length: {}\r\n", body.len())) + &body
        }
        Reply::Text(status, body) => {
            head(status, &format!("content-length: {}\r\n", body.len())) + body
        }
        Reply::Hang => std::future::pending().await,
        Reply::Cut => head(200, "content-length: 100\r\n") + "{\"plaintext\": \"AAAA",
        Reply::Oversized { announced } => {
            let body = " ".repeat(crate::ANSWER_BYTES_MAX + 1);
            let length = format!("content-length: {}\r\n", body.len());
            head(200, if announced { &length } else { "" }) + &body
        }
        Reply::Redirect(to) => head(307, &format!("location: {to}\r\ncontent-length: 0\r\n")),
    };
    // A client may close the connection before it has read the whole answer.
    let _ended = async {
        stream.write_all(bytes.as_bytes()).await?;
        stream.shutdown().await
    }
    .await;
}

async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut line = head.split(' ');
    let (method, path) = (line.next().unwrap().to_owned(), line.next().unwrap().to_owned());
    let mut asked = Asked { method, path, head: head.replace('\r', ""), body: Value::Null };
    let length = asked.header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    asked.body = serde_json::from_slice(&body).unwrap_or_default();
    Some(asked)
}

/// A certificate authority of a test, with certificates of one server and one client.
pub(crate) struct Authority {
    pub(crate) pem: Vec<u8>,
    server: (Vec<u8>, Vec<u8>),
    client: (Vec<u8>, Vec<u8>),
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        let issuer = Issuer::new(params, key);
        let signed = |host: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
        };
        Authority { pem, server: signed("127.0.0.1"), client: signed("ashlar") }
    }

    /// Returns an acceptor that demands a certificate of this authority.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.pem).unwrap()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(&self.server.0).unwrap()],
                PrivateKeyDer::from_pem_slice(&self.server.1).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Returns an endpoint with the certificate of the client.
    pub(crate) fn endpoint(&self, url: &str) -> KmsEndpoint {
        KmsEndpoint {
            url: url.to_owned(),
            authorities: Some(self.pem.clone()),
            identity: Some(self.client.clone()),
        }
    }

    /// Returns the certificate and the key of the server, in PEM.
    pub(crate) fn server_files(&self) -> (&[u8], &[u8]) {
        (&self.server.0, &self.server.1)
    }
}
