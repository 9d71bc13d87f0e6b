//! Requests to a KMS over HTTPS, with limits of time and size.
//!
//! A connection is opened for each request, because the caller keeps data keys for minutes. The
//! client follows no redirect and uses no proxy: a token would leave the machine to another host.
//! For example, if the KMS answers with a redirect, the caller gets the status of the redirect, and
//! the other host gets no request.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::time::timeout;
use url::{Host, Url};

use crate::error::KmsSettingsError;

/// The limit of time of one request to a KMS, with its connection and its answer.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// The limit of the body of an answer, in bytes. A larger answer is an error.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The limit of the status line and headers of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The limit of a text of a KMS that becomes part of an error, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// The address of a KMS, and the certificates to connect to it.
#[derive(Clone)]
pub struct KmsEndpoint {
    /// The URL. It is HTTPS, or plain HTTP to this machine.
    pub url: String,
    /// The certificate authorities that may sign the certificate of the KMS, in PEM; `None` for
    /// those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The certificate of this process with its chain, and its private key, both in PEM; `None` for
    /// a KMS that asks for none.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Omits the private key.
impl fmt::Debug for KmsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KmsEndpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

/// An answer of a KMS.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    body: Bytes,
}

/// Sends requests to one KMS.
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The URL without a slash at its end.
    base: String,
}

impl HttpClient {
    /// Returns a client of an endpoint.
    ///
    /// # Errors
    /// Fails if the URL or a certificate cannot be used.
    pub(crate) fn new(endpoint: &KmsEndpoint) -> Result<HttpClient, KmsSettingsError> {
        let url = checked(&endpoint.url)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(endpoint)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        Ok(HttpClient { client, base: url.as_str().trim_end_matches('/').to_owned() })
    }

    /// Sends a request to a path below the endpoint. Without a body it is a GET, otherwise a POST
    /// of JSON. The error is a text for the operator.
    pub(crate) async fn send(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::from(body)).map_err(|error| error.to_string())?;
        let answered = timeout(REQUEST_DEADLINE, self.exchange(request)).await;
        let answered = answered.unwrap_or_else(|_| {
            Err(format!("there is no answer within {} seconds", REQUEST_DEADLINE.as_secs()))
        });
        answered.map_err(|cause| format!("{} does not answer: {cause}", self.base))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let response = self.client.request(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        // The limit applies while the body arrives, because its length may not be announced.
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await.map_err(|error| chain(&*error))?;
        Ok(Answer { status, body: body.to_bytes() })
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Answer {
    /// Returns the JSON of the answer; `None` if it is not JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Returns a text of a KMS in a form for logs: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(SHOWN_CHARS_MAX).collect()
}

/// Parses the URL of a KMS.
fn checked(text: &str) -> Result<Url, KmsSettingsError> {
    let wrong = |cause: &str| KmsSettingsError(format!("the URL of the KMS: {cause}"));
    let url = Url::parse(text).map_err(|_| wrong("it is not a URL"))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || url.query().is_some() || url.fragment().is_some() {
        // The text of the URL is not repeated, because it may contain a password.
        return Err(wrong("it has a user, a query or a fragment"));
    }
    let is_local = match url.host() {
        None => return Err(wrong("it names no host")),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        "http" => Err(wrong(
            "it uses plain http to another machine, so the network could read the keys; use https",
        )),
        _ => Err(wrong("it is neither https nor http")),
    }
}

fn tls(endpoint: &KmsEndpoint) -> Result<ClientConfig, KmsSettingsError> {
    let wrong = |subject: &str, error: &dyn fmt::Display| {
        KmsSettingsError(format!("the {subject} for the KMS: {error}"))
    };
    let mut roots = RootCertStore::empty();
    match &endpoint.authorities {
        Some(pem) => {
            for certificate in
                certificates(pem).map_err(|e| wrong("certificate authorities", &e))?
            {
                roots.add(certificate).map_err(|e| wrong("certificate authorities", &e))?;
            }
        }
        // A system without certificates is not an error, because the KMS may be on this machine.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    // The provider is explicit, so that it does not depend on a process-wide default.
    let tls = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("TLS", &error))?
        .with_root_certificates(roots);
    let Some((chain, key)) = &endpoint.identity else { return Ok(tls.with_no_client_auth()) };
    let chain = certificates(chain).map_err(|error| wrong("client certificate", &error))?;
    // The error of the parser is not shown: it must not quote a private key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| wrong("client key", &"there is no PEM private key in it"))?;
    tls.with_client_auth_cert(chain, key).map_err(|error| wrong("client certificate", &error))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() { Err("there is no PEM certificate in it".to_owned()) } else { Ok(all) }
}

/// Returns the texts of an error and of its causes: the outermost error has no details.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
