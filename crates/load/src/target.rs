//! The target of a load: an S3 endpoint, a bucket in it, and credentials. For example,
//! `http://127.0.0.1:9000`.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use url::Url;

use crate::{KeyPair, Trouble};

/// An S3 bucket under load.
#[derive(Clone, Debug)]
pub struct TargetBucket {
    /// The endpoint: `http://HOST:PORT` or `https://HOST`.
    pub endpoint: String,
    /// The bucket. Requests name it in the path.
    pub bucket: String,
    /// The region of signatures.
    pub region: String,
    /// The credentials of all clients.
    pub credentials: KeyPair,
    /// A PEM file of certificates to trust, in addition to those of this machine.
    pub authority: Option<PathBuf>,
    /// True if bodies are not signed: `UNSIGNED-PAYLOAD`.
    pub unsigned: bool,
}

/// The parameters of connections, which all clients share.
#[derive(Clone)]
pub(crate) struct Address {
    /// The host and port to connect to.
    pub(crate) socket: String,
    /// The value of the `Host` header.
    pub(crate) host: String,
    pub(crate) tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl TargetBucket {
    pub(crate) fn address(&self) -> Result<Address, Trouble> {
        let bad = || Trouble::Endpoint(self.endpoint.clone());
        let url = Url::parse(&self.endpoint).map_err(|_| bad())?;
        let bare = url.path() == "/" && url.query().is_none() && url.username().is_empty();
        let name = url.host_str().filter(|_| bare).ok_or_else(bad)?;
        let port = url.port_or_known_default().ok_or_else(bad)?;
        let host = url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                // A URL has an IPv6 address in brackets, and the name of a certificate has it
                // without.
                let bare = name.trim_start_matches('[').trim_end_matches(']').to_owned();
                let server = ServerName::try_from(bare).map_err(|_| bad())?;
                Some((TlsConnector::from(Arc::new(self.trusting()?)), server))
            }
            _ => return Err(bad()),
        };
        Ok(Address { socket: format!("{name}:{port}"), host, tls })
    }

    fn trusting(&self) -> Result<ClientConfig, Trouble> {
        let bad = |wrong: String| Trouble::Certificates(wrong);
        let mut roots = RootCertStore::empty();
        // A machine without trusted certificates is no error: the given file may have the right
        // one.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = &self.authority {
            let chain = CertificateDer::pem_file_iter(file)
                .map_err(|error| bad(format!("{}: {error}", file.display())))?;
            for certificate in chain {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
