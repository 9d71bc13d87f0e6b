//! `ashlar health`, `ashlar status` and `ashlar check-config`.
//!
//! The first two send one HTTP request to the gateway of this machine, at the address of its
//! configuration. For example, if the gateway listens on `0.0.0.0:9700`, the request goes to
//! `127.0.0.1:9700`. `check-config` opens nothing.

use std::sync::Arc;
use std::time::Duration;

use edge::TlsFiles;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::bootstrap::Declared;
use crate::config::{ADMIN_LISTEN_DEFAULT, ListenAt, ServeSettings, in_force};
use crate::output::say;
use crate::serve::GatewaySettings;
use problem::Problem;

/// The limit of time to connect to the gateway and to receive its response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The limit of bytes of a response.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

/// Runs `ashlar health`: returns without an error if the readiness check answers 200.
pub(crate) async fn health(settings: ServeSettings) -> Result<(), Problem> {
    let address = reachable(&settings.listen);
    let doing = || format!("check the gateway at {address}");
    let remedy =
        "check that it runs at this address, or give its address as --listen or ASHLAR_LISTEN";
    let answer = tokio::time::timeout(RESPONSE_TIMEOUT, async {
        let stream = TcpStream::connect(&address).await?;
        match &settings.tls {
            None => get(stream, "/-/ready").await,
            // The certificate is for the public name of the gateway, maybe of a private authority.
            // So the request pins the certificate's file instead of checking the name.
            Some(files) => get(connect_pinned(files, stream).await?, "/-/ready").await,
        }
    });
    let answer = answer
        .await
        .map_err(|_| Problem::new(doing(), "no response in time").remedy(remedy))?
        .map_err(|error| Problem::new(doing(), error).remedy(remedy))?;
    match answer.status {
        200 => Ok(()),
        503 => Err(Problem::new(
            doing(),
            "it answers 503: it is starting or stopping, or a store is unreachable",
        )
        .remedy("its log has the reason")),
        status => Err(Problem::new(doing(), format!("it answers {status}"))
            .remedy("another program listens there: give the gateway's address as --listen or ASHLAR_LISTEN")),
    }
}

/// Runs `ashlar status`: prints the JSON of `/status`.
pub(crate) async fn status(settings: ServeSettings) -> Result<(), Problem> {
    let address = match settings.admin_listen {
        ListenAt::Default => ADMIN_LISTEN_DEFAULT.to_owned(),
        ListenAt::At(address) => reachable(&address),
        ListenAt::Off => {
            return Err(Problem::new("get the status", "--admin-listen is off"));
        }
    };
    let doing = || format!("get the status at {address}");
    let remedy = "check that the gateway runs with this --admin-listen; the log of its start has the address";
    let answer = tokio::time::timeout(RESPONSE_TIMEOUT, async {
        get(TcpStream::connect(&address).await?, "/status").await
    });
    let answer = answer
        .await
        .map_err(|_| Problem::new(doing(), "no response in time").remedy(remedy))?
        .map_err(|error| Problem::new(doing(), error).remedy(remedy))?;
    if answer.status != 200 {
        return Err(Problem::new(doing(), format!("it answers {}", answer.status))
            .remedy("another program listens there: give the gateway's --admin-listen"));
    }
    say(format_args!("{}", answer.body.trim_end()));
    Ok(())
}

/// Runs `ashlar check-config`: prints the settings in force as a configuration file. Also checks
/// the form of the bootstrap file.
pub(crate) fn config(settings: &GatewaySettings) -> Result<(), Problem> {
    let GatewaySettings { volume, open, mount, serve } = settings;
    Declared::read(serve)?;
    let text = toml::to_string(&in_force(volume, open, mount, serve))
        .map_err(|error| Problem::new("print the configuration", error))?;
    say(format_args!("{}", text.trim_end()));
    Ok(())
}

/// Returns the address under which this machine reaches a listener: the loopback, if the listener
/// has all addresses of the machine.
fn reachable(listen: &str) -> String {
    match listen.rsplit_once(':') {
        Some(("0.0.0.0" | "[::]" | "", port)) => format!("127.0.0.1:{port}"),
        _ => listen.to_owned(),
    }
}

#[derive(Debug)]
struct HttpResponse {
    status: u16,
    body: String,
}

/// Sends a GET request on a new connection, and reads the response.
async fn get<T>(mut stream: T, path: &str) -> std::io::Result<HttpResponse>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    // With `Connection: close` the end of the stream is the end of the response, so no framing is
    // parsed.
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    // The response is complete even if the peer closes the connection without a TLS close_notify.
    match stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes).await {
        Err(error) if bytes.is_empty() => return Err(error),
        _ => {}
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let not_http = || std::io::Error::other("the program at this address does not speak HTTP");
    Ok(HttpResponse { status: status.ok_or_else(not_http)?, body: body.to_owned() })
}

/// Returns a TLS connection to a server with the certificate in `files`, for any host name.
async fn connect_pinned(
    files: &TlsFiles,
    stream: TcpStream,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let certificate = CertificateDer::pem_file_iter(&files.cert)
        .ok()
        .and_then(|mut chain| chain.next()?.ok())
        .ok_or_else(|| std::io::Error::other("the TLS certificate cannot be read"))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(Pinned { certificate, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Accepts a single certificate: the gateway's own, read from this machine's disk. The name in it
/// is not checked, because the request goes to an address.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(
            "the gateway has another certificate than --tls-cert".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
