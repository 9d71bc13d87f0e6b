//! MinIO and the gateway, each on a free port with a folder of its own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use load::{KeyPair, TargetBucket};

use crate::certificate::Certificate;
use crate::child::{Child, Stop, tail};
use crate::workspace::stdout;

/// The credentials of every server in a run. Long enough for MinIO, and nobody's default.
pub(crate) const ACCESS_KEY: &str = "ashlar-test-user";
/// See [`ACCESS_KEY`].
pub(crate) const SECRET_KEY: &str = "ashlar-test-secret/with+signs=";

/// The bucket in MinIO that holds the gateway's blocks.
pub(crate) const BLOCK_BUCKET: &str = "blocks";

/// How long a server may take to answer after its start, in a debug build on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// A running S3 server.
#[derive(Debug)]
pub(crate) struct Server {
    /// The program, ended with this value.
    pub(crate) child: Child,
    /// `http://127.0.0.1:PORT`, or https.
    pub(crate) endpoint: String,
    /// What a client must trust, over https.
    pub(crate) authority: Option<PathBuf>,
    /// The gateway's metadata store; nothing for MinIO.
    pub(crate) meta: String,
    /// The gateway's blocks, as `--blocks` takes them; nothing for MinIO.
    pub(crate) blocks: String,
}

/// Where the gateway keeps its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocks<'a> {
    /// A folder beside its metadata.
    Folder,
    /// [`BLOCK_BUCKET`] of a MinIO at this endpoint, below this prefix.
    Bucket(&'a str, &'a str),
}

impl Blocks<'_> {
    /// As `--blocks` takes it; a folder lies in `folder`.
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
        let address = free_address()?;
        let data = folder.join("minio");
        std::fs::create_dir_all(&data)?;
        let mut command = Command::new(program);
        command
            .args(["server", "--quiet", "--address", &address])
            .args(["--console-address", &free_address()?])
            .env("MINIO_ROOT_USER", ACCESS_KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
            .env("MINIO_BROWSER", "off")
            // Otherwise it refuses a folder on the root disk.
            .env("MINIO_CI_CD", "1");
        match certificate.and_then(|made| made.chain.parent()) {
            Some(folder) => command.arg("--certs-dir").arg(folder),
            None => command.arg("--certs-dir").arg(folder.join("no-certificates")),
        };
        command.arg(&data);
        let child = Child::spawn(command, "minio", &folder.join("minio.log"))?;
        Self::ready(child, &address, certificate, "/minio/health/ready", stop)
    }

    /// Starts the gateway over the metadata store at `meta`, with its data in `folder`, which must
    /// exist. `settings` are variables that it is told besides.
    pub(crate) fn gateway(
        program: &Path,
        folder: &Path,
        meta: &str,
        blocks: Blocks<'_>,
        certificate: Option<&Certificate>,
        settings: &[(&str, &str)],
        stop: &Stop,
    ) -> Result<Self> {
        if !program.is_file() {
            bail!("the gateway's binary is not there: {}", program.display());
        }
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", &address, "--meta", meta, "--blocks"])
            .arg(blocks.url(folder))
            .arg("--data-dir")
            .arg(folder.join("data"))
            // A variable, because programs of earlier releases do not know the flag.
            .env("ASHLAR_CREATE", "true")
            .env("ASHLAR_ROOT_USER", ACCESS_KEY)
            .env("ASHLAR_ROOT_PASSWORD", SECRET_KEY)
            .env("ASHLAR_BLOCKS_ACCESS_KEY", ACCESS_KEY)
            .env("ASHLAR_BLOCKS_SECRET_KEY", SECRET_KEY)
            .envs(settings.iter().copied());
        if let Some(made) = certificate {
            command.arg("--tls-cert").arg(&made.chain).arg("--tls-key").arg(&made.key);
        }
        let child = Child::spawn(command, "ashlar", &folder.join("ashlar.log"))?;
        let ready = Self::ready(child, &address, certificate, "/-/ready", stop)?;
        Ok(Self { meta: meta.to_owned(), blocks: blocks.url(folder), ..ready })
    }

    fn ready(
        mut child: Child,
        address: &str,
        certificate: Option<&Certificate>,
        path: &str,
        stop: &Stop,
    ) -> Result<Self> {
        let end = Instant::now() + START_LIMIT;
        loop {
            // Over TLS an open port has to do; every suite's first request shows the rest.
            let answers = match certificate {
                Some(_) => TcpStream::connect(address).is_ok(),
                None => status_of(address, path).is_ok_and(|status| status == "200"),
            };
            if answers {
                break;
            }
            let state = child.check_alive();
            if state.is_err() || Instant::now() > end {
                let log = tail(child.log(), 40);
                state.with_context(|| log.clone())?;
                bail!("{address}{path} did not answer 200 in time:\n{log}");
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

    /// What a load on one of its buckets is told.
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

    /// Makes a bucket through MinIO's client, whose settings go to `folder`.
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

/// An address that nobody listens on; another program could take it before we do, which the
/// start of the server would then report.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// The status code that a plain GET is answered with.
fn status_of(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(1024).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    Ok(text.split_whitespace().nth(1).context("no status line")?.to_owned())
}
