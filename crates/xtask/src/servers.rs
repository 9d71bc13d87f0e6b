//! Starts MinIO and the gateway, each on a reserved port with its own folder.
//!
//! A server counts as started when its readiness check answers. For example, a gateway is ready
//! when `/-/ready` answers 200.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use load::{KeyPair, TargetBucket};

use crate::certificate::Certificate;
use crate::child::{Child, Stop, tail};
use crate::workspace::stdout;

/// The access key of every server in a run. It is long enough for MinIO, and no program has it as
/// its default.
pub(crate) const ACCESS_KEY: &str = "ashlar-test-user";
/// The secret that belongs to [`ACCESS_KEY`].
pub(crate) const SECRET_KEY: &str = "ashlar-test-secret/with+signs=";

/// The bucket in MinIO that holds the gateway's blocks.
pub(crate) const BLOCK_BUCKET: &str = "blocks";

/// The time that a server has until it answers, in a debug build on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// A running S3 server.
#[derive(Debug)]
pub(crate) struct Server {
    /// The process, which ends when this value is dropped.
    pub(crate) child: Child,
    /// The URL of the endpoint: `http://127.0.0.1:PORT`, or the same with `https`.
    pub(crate) endpoint: String,
    /// The certificate that a client must trust, if the endpoint has TLS.
    pub(crate) authority: Option<PathBuf>,
    /// The value of the gateway's `--meta`; empty for MinIO.
    pub(crate) meta: String,
    /// The value of the gateway's `--blocks`; empty for MinIO.
    pub(crate) blocks: String,
}

/// The place of the gateway's blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocks<'a> {
    /// A folder next to its metadata.
    Folder,
    /// [`BLOCK_BUCKET`] of a MinIO. The fields are its endpoint and the prefix of the block keys.
    Bucket(&'a str, &'a str),
}

impl Blocks<'_> {
    /// Returns the value of `--blocks`. The folder of [`Blocks::Folder`] is below `folder`.
    pub(crate) fn url(self, folder: &Path) -> String {
        match self {
            Self::Folder => format!("file:{}", folder.join("blocks").display()),
            Self::Bucket(endpoint, prefix) => {
                format!("s3://{BLOCK_BUCKET}/{prefix}?endpoint={endpoint}&region=us-east-1")
            }
        }
    }
}

impl Server {
    /// Starts MinIO with its data in `folder`, which must exist.
    pub(crate) fn minio(
        program: &Path,
        folder: &Path,
        certificate: Option<&Certificate>,
        stop: &Stop,
    ) -> Result<Self> {
        let address = ports::reserve().to_string();
        // The log and the data are separate, because MinIO treats each entry of its data folder as
        // a bucket.
        let data = folder.join("minio");
        std::fs::create_dir_all(&data)?;
        let mut command = Command::new(program);
        command
            .args(["server", "--quiet", "--address", &address])
            // Two instances must not use the default port of the console.
            .args(["--console-address", &ports::reserve().to_string()])
            .env("MINIO_ROOT_USER", ACCESS_KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
            .env("MINIO_BROWSER", "off")
            // Without this variable, MinIO refuses a folder on the root disk.
            .env("MINIO_CI_CD", "1");
        // Without this option, MinIO would use certificates in the home folder of the user.
        match certificate.and_then(|made| made.chain.parent()) {
            Some(folder) => command.arg("--certs-dir").arg(folder),
            None => command.arg("--certs-dir").arg(folder.join("no-certificates")),
        };
        command.arg(&data);
        let child = Child::spawn(command, "minio", &folder.join("minio.log"))?;
        Self::ready(child, &address, certificate, "/minio/health/ready", stop)
    }

    /// Starts the gateway over the metadata store at `meta`, with its data in `folder`, which must
    /// exist. `settings` are additional environment variables. Waits until the gateway is ready.
    pub(crate) fn gateway(
        program: &Path,
        folder: &Path,
        meta: &str,
        blocks: Blocks<'_>,
        certificate: Option<&Certificate>,
        settings: &[(&str, &str)],
        stop: &Stop,
    ) -> Result<Self> {
        let address = ports::reserve().to_string();
        let words = ["serve", "--listen", &address];
        let mut command = ashlar(program, &words, folder, meta, &blocks.url(folder), settings)?;
        if let Some(made) = certificate {
            command.arg("--tls-cert").arg(&made.chain).arg("--tls-key").arg(&made.key);
        }
        // The log is read again by the suites and by the benchmark, for the address of the metrics.
        let child = Child::spawn(command, "ashlar", &folder.join("ashlar.log"))?;
        let ready = Self::ready(child, &address, certificate, "/-/ready", stop)?;
        Ok(Self { meta: meta.to_owned(), blocks: blocks.url(folder), ..ready })
    }

    /// Waits until the server answers at `address`. Fails if it ends or takes longer than
    /// [`START_LIMIT`].
    fn ready(
        mut child: Child,
        address: &str,
        certificate: Option<&Certificate>,
        path: &str,
        stop: &Stop,
    ) -> Result<Self> {
        let end = Instant::now() + START_LIMIT;
        loop {
            // There is no TLS client here, so an open port counts as ready. If the server is not
            // ready, the first request of a suite fails.
            let answers = match certificate {
                Some(_) => TcpStream::connect(address).is_ok(),
                None => status_of(address, path).is_ok_and(|status| status == "200"),
            };
            if answers {
                break;
            }
            // A server that has ended never answers, so its log is reported at once.
            let state = child.check_alive();
            if state.is_err() || Instant::now() > end {
                let log = tail(child.log(), 40);
                state.with_context(|| log.clone())?;
                bail!(
                    "{address}{path} did not answer 200 within {} s:\n{log}",
                    START_LIMIT.as_secs()
                );
            }
            stop.sleep(Duration::from_millis(100))?;
        }
        let scheme = if certificate.is_some() { "https" } else { "http" };
        Ok(Self {
            child,
            endpoint: format!("{scheme}://{address}"),
            authority: certificate.map(|made| made.authority.clone()),
            meta: String::new(),
            blocks: String::new(),
        })
    }

    /// Returns the address and credentials with which a load uses one of the server's buckets.
    pub(crate) fn target(&self, bucket: &str) -> TargetBucket {
        TargetBucket {
            endpoint: self.endpoint.clone(),
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            credentials: KeyPair {
                access_key: ACCESS_KEY.to_owned(),
                secret_key: SECRET_KEY.to_owned(),
                session_token: None,
            },
            authority: self.authority.clone(),
            unsigned: false,
        }
    }

    /// Creates a bucket with MinIO's client, which keeps its settings below `folder`.
    pub(crate) fn make_bucket(&self, mc: &Path, folder: &Path, bucket: &str) -> Result<()> {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(mc);
            command.arg("--config-dir").arg(folder.join("mc")).args(arguments);
            stdout(command)
        };
        run(&["alias", "set", "s", &self.endpoint, ACCESS_KEY, SECRET_KEY])?;
        run(&["mb", &format!("s/{bucket}")])?;
        Ok(())
    }
}

/// Returns a command of Ashlar: `words` begin it, such as `serve`, and its data is in `folder`.
/// `meta` and `blocks` are the values of `--meta` and `--blocks`; `settings` are additional
/// environment variables. Fails if the program does not exist.
pub(crate) fn ashlar(
    program: &Path,
    words: &[&str],
    folder: &Path,
    meta: &str,
    blocks: &str,
    settings: &[(&str, &str)],
) -> Result<Command> {
    if !program.is_file() {
        bail!("Ashlar's binary {} does not exist", program.display());
    }
    let mut command = Command::new(program);
    command
        .args(words)
        .args(["--meta", meta, "--blocks", blocks, "--data-dir"])
        .arg(folder.join("data"))
        // Earlier releases do not know the flag and fail, but they ignore the variable.
        .env("ASHLAR_CREATE", "true")
        .env("ASHLAR_ROOT_USER", ACCESS_KEY)
        .env("ASHLAR_ROOT_PASSWORD", SECRET_KEY)
        .env("ASHLAR_BLOCKS_ACCESS_KEY", ACCESS_KEY)
        .env("ASHLAR_BLOCKS_SECRET_KEY", SECRET_KEY)
        .envs(settings.iter().copied());
    Ok(command)
}

/// Returns the status code of the answer to a GET without TLS.
fn status_of(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    // A server may accept the connection and answer only when it is ready.
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(1024).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    Ok(text.split_whitespace().nth(1).context("no status line")?.to_owned())
}
