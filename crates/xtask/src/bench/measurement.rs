//! One engine's measurement: both sides while they run, and a gateway that starts anew.

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

/// The bucket that each side is asked to write to, and the database that a server keeps it in.
pub(super) const BUCKET: &str = "bench";

/// The programs that take part.
pub(super) struct Programs {
    pub(super) gateway: PathBuf,
    pub(super) minio: PathBuf,
    pub(super) mc: PathBuf,
    /// An interpreter with pandas and s3fs, if this machine has one already.
    pub(super) python: Option<PathBuf>,
}

/// One engine's measurement: the two sides and what is around them.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) engine: Engine,
    pub(super) stop: &'a Stop,
    pub(super) programs: &'a Programs,
    pub(super) progress: Rc<Progress>,
    pub(super) folder: PathBuf,
    pub(super) minio: Server,
    pub(super) gateway: Server,
    /// The gateway's counters.
    pub(super) admin: String,
    pub(super) metadata: Metadata<'a>,
    /// Direct and ours.
    pub(super) runners: [Runner; 2],
    pub(super) gauge: Arc<Gauge>,
    /// MiB of the file that is copied.
    pub(super) copy: u64,
    /// MiB of the gateway: just started, and the most so far.
    pub(super) idle_mib: f64,
    pub(super) peak_mib: f64,
    /// Gateways that were started.
    pub(super) starts: u32,
}

impl Bench<'_> {
    /// Ends the gateway, and starts one that keeps nothing of what the last one knew but what
    /// lies in the database, the bucket and the file of its master key.
    pub(super) fn begin_cold(&mut self) -> Result<()> {
        let old = self.folder.join(self.data_folder());
        self.end_gateway()?;
        self.starts += 1;
        let folder = self.folder.join(self.data_folder());
        let data = folder.join("data");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&data)?;
        std::fs::copy(old.join("data/master.key"), data.join("master.key"))
            .context("the gateway left no master key")?;
        let blocks = Blocks::Bucket(&self.minio.endpoint, BUCKET);
        let (program, place) = (&self.programs.gateway, &self.metadata.place);
        let settings = self.options.settings(self.engine);
        self.gateway = Server::gateway(program, &folder, place, blocks, None, settings, self.stop)?;
        self.admin = counters::admin(self.gateway.child.log())?;
        self.runners[1].move_to(&self.gateway.endpoint)?;
        Ok(())
    }

    /// Where the current gateway keeps what is its own, below our folder.
    fn data_folder(&self) -> String {
        if self.starts == 1 { String::new() } else { format!("start-{}", self.starts) }
    }

    /// Remembers its peak, and asks it to end, which it must do in order.
    pub(super) fn end_gateway(&mut self) -> Result<()> {
        self.peak_mib = self.peak_mib.max(peak_memory(self.gateway.child.pid())?);
        let status = self.gateway.child.end()?;
        if !status.success() {
            bail!("the gateway ended with {status}");
        }
        Ok(())
    }
}
