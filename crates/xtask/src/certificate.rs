//! A certificate authority for one run, and a server certificate for this machine.
//!
//! For example, clients of the cell `folder-https` trust [`Certificate::authority`], and the
//! gateway presents [`Certificate::chain`].

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The paths of three PEM files.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// The certificate of the authority, which clients must trust.
    pub(crate) authority: PathBuf,
    /// The certificate that the server presents, for 127.0.0.1 and localhost.
    pub(crate) chain: PathBuf,
    /// The server's private key.
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Writes the three files to `folder`, under the names that MinIO expects.
    ///
    /// The authority and the server have separate certificates, because rustls refuses a server
    /// certificate that is an authority.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Ashlar test authority");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);

        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "127.0.0.1");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;

        let made = Self {
            authority: folder.join("authority.pem"),
            chain: folder.join("public.crt"),
            key: folder.join("private.key"),
        };
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&made.authority, authority.pem()))
            .and_then(|()| std::fs::write(&made.chain, certificate.pem()))
            .and_then(|()| std::fs::write(&made.key, key.serialize_pem()))
            .with_context(|| format!("cannot write certificates to {}", folder.display()))?;
        Ok(made)
    }
}
