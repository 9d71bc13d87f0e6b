//! The administration API of a gateway, as commands use it instead of the metadata store.
//!
//! `--endpoint` or `ASHLAR_ENDPOINT` names the console's listener of a gateway. For example,
//! `ashlar user list --endpoint https://files.example:9702` lists the users of a volume whose
//! SQLite store only the gateway can open. The sender is an access key, `ASHLAR_ACCESS_KEY` and
//! `ASHLAR_SECRET_KEY`, or a token, `ASHLAR_TOKEN`.
//!
//! Limits: [`CONNECT_WAIT`] for a connection, [`RESPONSE_WAIT`] for each request,
//! [`RESPONSE_BYTES_MAX`] for each response, and [`PAGES_MAX`] pages of a list. Secrets come from
//! variables and files alone, and no error text contains one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use identity::Secret;
use problem::{Cause, Problem};
use runtime::Clock as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sigv4::uri::{canonical_query, escape_path, escape_query};
use sigv4::{CanonicalRequest, CredentialScope, SigningKey, authorization, string_to_sign};
use time::OffsetDateTime;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;
use volume::SystemClock;

use crate::environment::{secret, variable};

/// The limit of time of a connection with its TLS handshake.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// The limit of time of a request, from the connection to the end of the response. A change of a
/// large trash takes the longest.
const RESPONSE_WAIT: Duration = Duration::from_mins(5);

/// The limit of bytes of a response. A page has at most 1,000 items.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// The limit of pages of a list.
const PAGES_MAX: usize = 1_000;

/// The service in the credential scope.
const SERVICE: &str = "ashlar";

/// The path below which all endpoints are.
const PREFIX: &str = "/api/v1";

/// The options of commands that administer a volume.
#[derive(Clone, Debug, Args)]
pub(crate) struct EndpointOptions {
    /// The URL of a gateway's console. Commands that administer users, policies and buckets use its
    /// API instead of the metadata store, with `ASHLAR_ACCESS_KEY` and
    /// `ASHLAR_SECRET_KEY`, or `ASHLAR_TOKEN`
    #[arg(
        id = "api_endpoint",
        long = "endpoint",
        value_name = "URL",
        env = "ASHLAR_ENDPOINT",
        global = true
    )]
    endpoint: Option<String>,
    /// The certificate authority of --endpoint, in PEM [default: those of the system]
    #[arg(id = "api_ca", long = "ca", value_name = "FILE", env = "ASHLAR_CA", global = true)]
    ca: Option<PathBuf>,
}

/// The proof of the sender.
#[derive(Clone)]
enum Proof {
    Key { access_key: String, secret: Secret },
    Token(Secret),
}

/// The API of a gateway.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: Url,
    /// Host and port to connect to.
    address: String,
    /// The value of the header `Host`.
    host: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    proof: Proof,
    region: String,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) enum EndpointError {
    /// The API refused the request.
    Refused(Refusal),
    /// No response arrived, or it is not one of the API.
    Broken(Problem),
}

/// The error document of the API.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Refusal {
    /// The status of the response, which the document does not contain.
    #[serde(skip)]
    status: u16,
    code: String,
    message: String,
    detail: Option<String>,
    request_id: String,
}

impl EndpointError {
    /// Returns true if the API refused the request with this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        matches!(self, EndpointError::Refused(refusal) if refusal.code == code)
    }

    /// Returns the problem of the action `doing`.
    pub(crate) fn problem(self, doing: impl Into<String>) -> Problem {
        match self {
            EndpointError::Broken(problem) => problem,
            EndpointError::Refused(Refusal { status, message, detail, request_id, .. }) => {
                let detail = detail.map(|detail| format!(" {detail}")).unwrap_or_default();
                let problem = Problem::new(doing, format!("{message}{detail}"))
                    .remedy(format!("the gateway's log has the request {request_id}"));
                // The gateway's own metadata store is away.
                let is_away = status == StatusCode::SERVICE_UNAVAILABLE.as_u16();
                if is_away { problem.because(Cause::Unavailable) } else { problem }
            }
        }
    }
}

impl EndpointOptions {
    /// Returns the API that the options name; `None` if they name none.
    pub(crate) fn settle(&self) -> Result<Option<Endpoint>, Problem> {
        let Some(text) = self.endpoint.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let region = variable("ASHLAR_REGION")?.unwrap_or_else(|| "us-east-1".to_owned());
        Endpoint::new(text, self.ca.as_deref(), proof()?, region).map(Some)
    }

    /// Returns true if the options name an API.
    pub(crate) fn is_set(&self) -> bool {
        self.endpoint.as_deref().is_some_and(|text| !text.is_empty())
    }
}

/// Returns the proof of the sender, from variables.
fn proof() -> Result<Proof, Problem> {
    let (key, token) = (variable("ASHLAR_ACCESS_KEY")?, secret("ASHLAR_TOKEN")?);
    match (key, secret("ASHLAR_SECRET_KEY")?, token) {
        (None, None, Some(token)) => Ok(Proof::Token(token)),
        (Some(access_key), Some(secret), None) => Ok(Proof::Key { access_key, secret }),
        (_, _, None) => Err(Problem::new("use the endpoint", "the credentials are missing")
            .remedy("set ASHLAR_ACCESS_KEY and ASHLAR_SECRET_KEY, or ASHLAR_TOKEN")
            .because(Cause::Settings)),
        (_, _, Some(_)) => {
            let wrong = "both an access key and a token are set";
            let problem = Problem::new("use the endpoint", wrong).remedy("set one of them");
            Err(problem.because(Cause::Settings))
        }
    }
}

/// Returns the TLS of connections, which trusts the authority in a file, or those of the system.
fn connector(ca: Option<&Path>) -> Result<TlsConnector, Problem> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let doing = || format!("read the certificate authority in {}", path.display());
            let wrong = |error: &dyn std::fmt::Display| {
                Problem::new(doing(), error).because(Cause::Settings)
            };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it has no certificate"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::new("use TLS", error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A page of a list.
#[derive(Debug, serde::Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

impl Endpoint {
    /// Returns the API at a URL. `ca` is a file with the authority of its certificate. Fails if the
    /// URL has more than a scheme, a host and a port.
    fn new(
        text: &str,
        ca: Option<&Path>,
        proof: Proof,
        region: String,
    ) -> Result<Endpoint, Problem> {
        let wrong = |why: &dyn std::fmt::Display| {
            // A URL can contain a password, which must not reach a log.
            let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
            Problem::new(format!("use the endpoint {shown:?}"), why)
                .remedy("give the URL of a gateway's console, such as http://127.0.0.1:9702")
                .because(Cause::Settings)
        };
        let url = Url::parse(text).map_err(|error| wrong(&error))?;
        let has_path = !matches!(url.path(), "" | "/") || url.query().is_some();
        if has_path || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(&"it has more than a scheme, a host and a port"));
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(wrong(&"it has no host"));
        };
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let name = host.trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(name).map_err(|error| wrong(&error))?;
                Some((connector(ca)?, name))
            }
            _ => return Err(wrong(&"its scheme is neither http nor https")),
        };
        let address = format!("{host}:{port}");
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Endpoint { url, address, host, tls, proof, region })
    }

    /// Sends a request to an endpoint. `parts` are the parts of the path below `/api/v1`, not
    /// escaped. Returns the JSON of the response, `null` if it is empty.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        parts: &[&str],
        query: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<T, EndpointError> {
        let sent = tokio::time::timeout(RESPONSE_WAIT, self.send(method, parts, query, body));
        let late = || self.broken("it did not answer in time");
        let (status, bytes) = sent.await.map_err(|_| late())??;
        if (200..300).contains(&status) {
            let bytes = if bytes.is_empty() { Bytes::from_static(b"null") } else { bytes };
            return serde_json::from_slice(&bytes)
                .map_err(|error| self.broken(&format!("its answer is wrong: {error}")));
        }
        match serde_json::from_slice::<Refusal>(&bytes) {
            Ok(refusal) => Err(EndpointError::Refused(Refusal { status, ..refusal })),
            Err(_) => Err(self.broken(&format!("it answers {status}, and is no console"))),
        }
    }

    /// Returns all items of a list.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        prefix: &str,
    ) -> Result<Vec<T>, EndpointError> {
        let (mut items, mut page) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let (found, next) = self.page(parts, prefix, page.as_deref()).await?;
            items.extend(found);
            page = next;
            if page.is_none() {
                return Ok(items);
            }
        }
        Err(self.broken("its list does not end"))
    }

    /// Returns a page of a list, and the token of the next one.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        prefix: &str,
        page: Option<&str>,
    ) -> Result<(Vec<T>, Option<String>), EndpointError> {
        let mut query = vec![("limit", "1000")];
        query.extend(page.map(|page| ("page", page)));
        query.extend(Some(("prefix", prefix)).filter(|(_, prefix)| !prefix.is_empty()));
        let Page { items, next } = self.call(Method::GET, parts, &query, None).await?;
        // Without this check, a server could keep a command busy without an end.
        if next.is_some() && next.as_deref() == page {
            return Err(self.broken("its list does not end"));
        }
        Ok((items, next))
    }

    fn broken(&self, why: &str) -> EndpointError {
        let problem = Problem::new(format!("use the endpoint {}", self.url), why)
            .remedy("check that a gateway has its console at this address")
            .because(Cause::Unavailable);
        EndpointError::Broken(problem)
    }

    async fn send(
        &self,
        method: Method,
        parts: &[&str],
        query: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<(u16, Bytes), EndpointError> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = self.request(&method, parts, query, body).map_err(|error| {
            let problem = Problem::new("make a request to the endpoint", error)
                .remedy("check ASHLAR_ACCESS_KEY and ASHLAR_TOKEN, which a header must take")
                .because(Cause::Settings);
            EndpointError::Broken(problem)
        })?;
        let late = |_| self.broken("it accepts no connection in time");
        match &self.tls {
            None => {
                let stream = tokio::time::timeout(CONNECT_WAIT, self.connect()).await;
                self.exchange(stream.map_err(late)??, request).await
            }
            Some((connector, name)) => {
                let connected = async {
                    let stream = self.connect().await?;
                    let shaken = connector.connect(name.clone(), stream).await;
                    shaken.map_err(|error| self.untrusted(&error))
                };
                let stream = tokio::time::timeout(CONNECT_WAIT, connected).await;
                self.exchange(stream.map_err(late)??, request).await
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, EndpointError> {
        let connected = TcpStream::connect(&self.address).await;
        connected.map_err(|error| self.broken(&error.to_string()))
    }

    /// Returns the error of a TLS handshake.
    fn untrusted(&self, error: &std::io::Error) -> EndpointError {
        // rustls passes its own errors in this form. Another attempt has the same result.
        if error.kind() != std::io::ErrorKind::InvalidData {
            return self.broken(&error.to_string());
        }
        let problem = Problem::new(format!("use the endpoint {}", self.url), error)
            .remedy(
                "check that it serves https, and give the authority of its certificate with --ca \
                 (ASHLAR_CA)",
            )
            .because(Cause::Settings);
        EndpointError::Broken(problem)
    }

    /// Sends a request on a connection of its own.
    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<(u16, Bytes), EndpointError> {
        let failed = |error: &dyn std::fmt::Display| self.broken(&error.to_string());
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut requests, connection) = shaken.map_err(|error| failed(&error))?;
        let exchange = async {
            let response = requests.send_request(request).await.map_err(|error| failed(&error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| failed(&error))?;
            Ok((status, body.to_bytes()))
        };
        // The connection has no task of its own: it is polled with its only request.
        tokio::pin!(exchange, connection);
        tokio::select! {
            done = &mut exchange => done,
            ended = &mut connection => {
                ended.map_err(|error| failed(&error))?;
                exchange.await
            }
        }
    }

    fn request(
        &self,
        method: &Method,
        parts: &[&str],
        query: &[(&str, &str)],
        body: String,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let path: Vec<String> = parts.iter().map(|part| escape_query(part)).collect();
        let path = format!("{PREFIX}/{}", path.join("/"));
        let escaped: Vec<(String, String)> =
            query.iter().map(|(name, value)| (escape_query(name), escape_query(value))).collect();
        let pairs = escaped.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let query = canonical_query(pairs);
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let mut request = Request::builder().method(method.clone()).uri(target);
        request = request.header(HOST, &self.host);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        match &self.proof {
            Proof::Token(token) => {
                let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose()))?;
                bearer.set_sensitive(true);
                request = request.header(AUTHORIZATION, bearer);
            }
            Proof::Key { access_key, secret } => {
                let now = sigv4::format_timestamp(now());
                let hash = sigv4::sha256_hex(body.as_bytes());
                // Signers escape the path a second time for all services except S3.
                let mut canonical =
                    CanonicalRequest::builder(method.as_str(), &escape_path(&path), &query);
                canonical.header("host", self.host.as_bytes());
                canonical.header("x-amz-content-sha256", hash.as_bytes());
                canonical.header("x-amz-date", now.as_bytes());
                let canonical = canonical.finish(&hash);
                let date = now.get(..8).unwrap_or_default();
                let scope = CredentialScope::new(date, &self.region, SERVICE);
                let key = SigningKey::derive(secret.expose(), &scope);
                let signature = key.sign(&string_to_sign(&now, &scope, &canonical)).to_hex();
                let signed = canonical.signed_headers();
                let value = authorization(access_key, &scope, signed, &signature);
                request = request.header(AUTHORIZATION, value);
                request = request.header("x-amz-date", now.as_str());
                request = request.header("x-amz-content-sha256", hash);
            }
        }
        request.body(Full::new(body.into()))
    }
}

/// Returns the current time.
fn now() -> OffsetDateTime {
    rules::time(SystemClock::new().now())
}

#[cfg(test)]
mod tests;
