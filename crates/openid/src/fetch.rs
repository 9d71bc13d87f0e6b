//! HTTP requests for documents, with limits on size and time.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use crate::error::IssuerError;

/// The maximum time to fetch an issuer's keys, which takes two requests: one for its configuration
/// and one for the keys.
pub const FETCH_DEADLINE: Duration = Duration::from_secs(10);

/// The maximum size in bytes of a document that is fetched from an issuer. The fetch of a larger
/// document fails.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// The maximum size in bytes of the status line and headers of a response from an issuer.
const HEAD_BYTES_MAX: usize = 64 << 10;

const HAS_EXTRAS: &str = "it has a user, a query or a fragment";

/// Fetches documents of one issuer. It follows no redirects and uses no proxy.
#[derive(Clone)]
pub(crate) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    plain: bool,
}

impl Fetcher {
    /// Returns a fetcher of documents that trusts the certificate authorities in `authorities`, in
    /// PEM, or those of the system if it is `None`. `plain` allows HTTP without TLS to other
    /// machines.
    pub(crate) fn new(authorities: Option<&[u8]>, plain: bool) -> Result<Fetcher, IssuerError> {
        let invalid = |error: &dyn fmt::Display| IssuerError::Certificates(error.to_string());
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|error| invalid(&error))?;
                    roots.add(certificate).map_err(|error| invalid(&error))?;
                }
                if roots.is_empty() {
                    return Err(invalid(&"there is no PEM certificate in it"));
                }
            }
            // A system without certificates is not an error, because the issuer may be on this
            // machine.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        // The provider is explicit, so that it does not depend on a process-wide default.
        let tls = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new())
            // Keys are fetched rarely, so no connection is kept open.
            .pool_max_idle_per_host(0)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        Ok(Fetcher { client, plain })
    }

    /// Parses a URL and checks that it may be requested: HTTPS, or plain HTTP within this machine
    /// or if the operator allows it. Fails with the reason.
    pub(crate) fn check(&self, text: &str) -> Result<Url, &'static str> {
        let url = self.check_endpoint(text)?;
        // A query has no meaning in the URL of an issuer.
        if url.query().is_some() { Err(HAS_EXTRAS) } else { Ok(url) }
    }

    /// As [`Fetcher::check`], for an endpoint, which may have a query.
    pub(crate) fn check_endpoint(&self, text: &str) -> Result<Url, &'static str> {
        let url = Url::parse(text).map_err(|_| "it is not a URL")?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || url.fragment().is_some() {
            return Err(HAS_EXTRAS);
        }
        // Plain HTTP is safe only within this machine.
        let is_local = match url.host() {
            None => return Err("it names no host"),
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
        };
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_local || self.plain => Ok(url),
            "http" => {
                Err("it uses plain http to another machine, so an attacker on the network could \
                           forge tokens")
            }
            _ => Err("it is neither https nor http"),
        }
    }

    /// Fetches the document at a URL. Any status but 200 is an error. The error is a text for the
    /// operator.
    pub(crate) async fn get(&self, url: &Url) -> Result<Bytes, String> {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        let request = request.body(Full::default()).map_err(|error| error.to_string())?;
        match self.send(request).await? {
            (StatusCode::OK, document) => Ok(document),
            (status, _) => Err(format!("it answers {status}")),
        }
    }

    /// Sends a form to a URL, with the value of the header `Authorization` if there is one. Returns
    /// the status and the document of the response. The error is a text for the operator.
    pub(crate) async fn post(
        &self,
        url: &Url,
        form: String,
        authorization: Option<&str>,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut request = Request::post(url.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(form)).map_err(|error| error.to_string())?;
        self.send(request).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let response = self.client.request(request).await.map_err(|error| error_chain(&error))?;
        let status = response.status();
        // The limit applies while the body arrives, because its length may not be announced.
        let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX);
        let body = body.collect().await.map_err(|error| error_chain(&*error))?;
        Ok((status, body.to_bytes()))
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("plain", &self.plain).finish_non_exhaustive()
    }
}

/// Returns the texts of an error and of its causes: the outermost error has no details.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
