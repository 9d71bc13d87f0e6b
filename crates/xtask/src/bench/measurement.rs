//! The measurement of one engine: the running servers of both sides, and restarts of the gateway
//! for cold rows.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use load::{Gauge, Runner};

use super::counters;
use super::metadata::Metadata;
use super::meter::peak_memory;
use super::options::Options;
use crate::child::Stop;
use crate::engines::Engine;
use crate::progress::Progress;
use crate::servers::{Blocks, Server};

/// The name of the bucket on both sides, of the metadata database and of the prefix of blocks.
pub(super) const BUCKET: &str = "bench";

/// The paths of the programs.
pub(super) struct Programs {
    pub(super) gateway: PathBuf,
    pub(super) minio: PathBuf,
    pub(super) mc: PathBuf,
    /// A Python interpreter with pandas and s3fs; `None` if it is not installed.
    pub(super) python: Option<PathBuf>,
}

/// The state of the measurement over one metadata engine: the running servers, the load on both
/// sides, and the results so far.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) engine: Engine,
    pub(super) stop: &'a Stop,
    pub(super) programs: &'a Programs,
    pub(super) progress: Rc<Progress>,
    pub(super) folder: PathBuf,
    pub(super) minio: Server,
    pub(super) gateway: Server,
    /// The address of the gateway's metrics.
    pub(super) admin: String,
    pub(super) metadata: Metadata<'a>,
    /// The load on direct MinIO and on the gateway.
    pub(super) runners: [Runner; 2],
    pub(super) gauge: Arc<Gauge>,
    /// The size of the copied file in MiB; 0 for no copies.
    pub(super) copy: u64,
    /// The memory of the gateway in MiB shortly after its start.
    pub(super) idle_mib: f64,
    /// The peak memory of all gateways that have ended, in MiB.
    pub(super) peak_mib: f64,
    /// The number of gateways that were started.
    pub(super) starts: u32,
}

impl Bench<'_> {
    /// Replaces the gateway by a new one with empty caches. The new gateway has the same database,
    /// the same bucket and a copy of the master key, and a new data folder.
    pub(super) fn begin_cold(&mut self) -> Result<()> {
        let old = self.folder.join(self.data_folder());
        self.end_gateway()?;
        self.starts += 1;
        let folder = self.folder.join(self.data_folder());
        let data = folder.join("data");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&data)?;
        // Without the master key, the new gateway cannot open the secrets of the volume's users.
        std::fs::copy(old.join("data/master.key"), data.join("master.key"))
            .context("the gateway has no master key to copy")?;
        let blocks = Blocks::Bucket(&self.minio.endpoint, BUCKET);
        let (program, place) = (&self.programs.gateway, &self.metadata.place);
        let settings = self.options.settings(self.engine);
        self.gateway = Server::gateway(program, &folder, place, blocks, None, settings, self.stop)?;
        self.admin = counters::admin(self.gateway.child.log())?;
        // The new gateway listens on another port.
        self.runners[1].move_to(&self.gateway.endpoint)?;
        Ok(())
    }

    /// The folder of the present gateway, relative to the folder of the measurement.
    fn data_folder(&self) -> String {
        if self.starts == 1 { String::new() } else { format!("start-{}", self.starts) }
    }

    /// Records the gateway's peak memory and ends it. Fails if its exit status is not 0.
    pub(super) fn end_gateway(&mut self) -> Result<()> {
        self.peak_mib = self.peak_mib.max(peak_memory(self.gateway.child.pid())?);
        let status = self.gateway.child.end()?;
        if !status.success() {
            bail!("the gateway ended with {status}");
        }
        Ok(())
    }
}
