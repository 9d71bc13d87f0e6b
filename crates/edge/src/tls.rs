//! TLS for an endpoint, with a certificate that can be renewed while connections are served.
//!
//! For example, after certbot has written new files, the next check loads them, and later
//! handshakes use the new certificate. Open connections continue.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use problem::Problem;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The interval at which the files are checked for changes.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// The files of a certificate chain and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The key of the chain's first certificate.
    pub key: PathBuf,
}

/// The server's side of TLS.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.certificate.files).finish_non_exhaustive()
    }
}

/// The certificate that new connections get, and the modification times of the files from which it
/// was loaded.
#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    current: RwLock<(Arc<CertifiedKey>, Changed)>,
}

/// The modification times of the certificate and of the key, if the file system reports them.
type Changed = (Option<SystemTime>, Option<SystemTime>);

impl Tls {
    /// Loads the files. The endpoint offers TLS 1.2 and 1.3, and prefers HTTP/2 to HTTP/1.1.
    /// Fails if a file cannot be read, or if they do not belong together.
    pub fn load(files: TlsFiles) -> Result<Tls, Problem> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = load(&files, &provider)?;
        let changed = changed(&files);
        let certificate = Arc::new(Certificate {
            files,
            provider: Arc::clone(&provider),
            current: RwLock::new((Arc::new(key), changed)),
        });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Problem::new("serve TLS", error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>);
        // In the order of preference.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Returns the files from which the certificate is loaded.
    pub fn files(&self) -> &TlsFiles {
        &self.certificate.files
    }

    /// Carries out the handshake of a connection.
    pub(crate) async fn accept<T>(&self, stream: T) -> std::io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream).await
    }

    /// Loads the files again if they have changed, or in any case if `always` is true. Returns true
    /// if the certificate was replaced. If the files cannot be loaded, the certificate in use
    /// stays.
    pub fn reload(&self, always: bool) -> Result<bool, Problem> {
        let certificate = &*self.certificate;
        let changed = changed(&certificate.files);
        // The lock is not held while the files are loaded, so handshakes do not wait for the disk.
        let known = certificate.current.read().unwrap_or_else(PoisonError::into_inner).1;
        if changed == known && !always {
            return Ok(false);
        }
        let fresh = load(&certificate.files, &certificate.provider)?;
        let mut current = certificate.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = (Arc::new(fresh), changed);
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current.0))
    }
}

/// Returns the modification times of the files.
fn changed(files: &TlsFiles) -> Changed {
    let of = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    (of(&files.cert), of(&files.key))
}

/// Loads the certificate chain and its key. Fails if they do not belong together.
fn load(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, Problem> {
    let cert_doing = || format!("read the TLS certificate in {}", files.cert.display());
    let key_doing = || format!("read the TLS key in {}", files.key.display());
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| {
            Problem::new(cert_doing(), error)
                .remedy("--tls-cert must be a PEM file that this user can read")
        })?;
    if chain.is_empty() {
        return Err(Problem::new(cert_doing(), "it contains no PEM certificate")
            .remedy("--tls-cert is the certificate chain, and --tls-key its key"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| {
        Problem::new(key_doing(), error)
            .remedy("--tls-key must be the certificate's key in PEM, which this user can read")
    })?;
    // The library checks that it can sign with this kind of key.
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| Problem::new(key_doing(), error))?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|error| {
        Problem::new(cert_doing(), error).remedy("--tls-key must be the key of this certificate")
    })?;
    Ok(certified)
}
