//! The measurement of one engine: its servers and mounts, and the ways to run work on them.
//!
//! Only separate threads and programs access the mounts, through [`hanging`].

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use load::{Gauge, Trouble};

use super::super::counters::Counters;
use super::super::hanging;
use super::super::metadata::Metadata;
use super::super::meter;
use super::super::options::Options;
use super::amounts::Amounts;
use super::figure::FileCost;
use super::programs::FilePrograms;
use super::requests::{Requests, Tracer};
use super::sides::{Ashlar, Other, Starting, forget};
use crate::child::Stop;
use crate::engines::Engine;
use crate::progress::Progress;
use crate::servers::{Blocks, Server};

/// The state of one engine's measurement. The order of the fields is the order in which they end:
/// mounts end before the servers that they need.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    pub(super) amounts: Amounts,
    pub(super) engine: Engine,
    pub(super) stop: &'a Stop,
    pub(super) programs: &'a FilePrograms,
    pub(super) progress: Rc<Progress>,
    pub(super) folder: PathBuf,
    /// Counts FUSE requests; `None` if the kernel cannot count them.
    pub(super) tracer: Option<Tracer>,
    pub(super) null: Other,
    pub(super) ashlar: Option<Ashlar>,
    /// MinIO, which keeps the blocks and is compared with Ashlar; `None` if blocks are in a folder.
    pub(super) minio: Option<Server>,
    pub(super) metadata: Metadata<'a>,
    /// The number of restarts of Ashlar.
    pub(super) restarts: u32,
    /// The parts that were left out, each with the reason.
    pub(super) remarks: Vec<String>,
}

/// The costs of Ashlar and its database from their starts up to a moment: CPU times, and counts of
/// requests to the stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    ashlar: Duration,
    database: Duration,
    counters: Counters,
}

/// The result of one round on Ashlar. All fields except `rate` are costs of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Operations in a second.
    pub(super) rate: f64,
    /// CPU time of Ashlar in microseconds; the next field is the CPU time of the database server.
    pub(super) ashlar: f64,
    pub(super) database: f64,
    pub(super) trips: f64,
    pub(super) block_requests: f64,
}

impl Stage<'_> {
    /// Returns the parameters for starting Ashlar.
    fn starting<'b>(
        &'b self,
        settings: &'b [(&'b str, &'b str)],
        blocks: Blocks<'b>,
    ) -> Starting<'b> {
        let (programs, stop) = (self.programs, self.stop);
        let (folder, place) = (self.folder.as_path(), self.metadata.place.as_str());
        Starting { programs, folder, place, blocks, settings, stop }
    }

    /// Returns the place of the blocks.
    fn blocks(&self) -> Blocks<'_> {
        match &self.minio {
            Some(minio) => Blocks::Bucket(&minio.endpoint, super::super::measurement::BUCKET),
            None => Blocks::Folder,
        }
    }

    /// Starts or restarts Ashlar. The new one has the same stores and empty caches.
    pub(super) fn start_ashlar(&mut self) -> Result<()> {
        if let Some(old) = self.ashlar.take() {
            old.end()?;
            self.restarts += 1;
            forget(&self.folder, self.restarts)?;
        }
        let settings = self.options.settings(self.engine);
        let started = Ashlar::start(self.starting(settings, self.blocks()))?;
        let root = started.root();
        self.ashlar = Some(started);
        self.work(move |_| make_folder(&root))
    }

    /// Returns the running Ashlar.
    pub(super) fn ashlar(&self) -> Result<&Ashlar> {
        self.ashlar.as_ref().context("Ashlar does not run")
    }

    /// Runs load on a mount in a new thread, and returns its result. After the time limit, aborts
    /// the mounts, abandons the thread and fails.
    pub(super) fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Gauge) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        hanging::work(self.stop, &|| self.abort(), work)
    }

    /// Runs a program that works on a mount, and returns the time that it took.
    pub(super) fn program(&self, command: Command) -> Result<Duration> {
        Ok(self.run(command)?.0)
    }

    /// Runs a program that works on a mount, and returns the time that it took and its output.
    pub(super) fn run(&self, command: Command) -> Result<(Duration, String)> {
        hanging::run(self.stop, &self.folder, &|| self.abort(), command)
    }

    /// Aborts the FUSE connections of all mounts, so that all calls of programs that wait there
    /// fail.
    fn abort(&self) {
        self.null.mount.abort();
        if let Some(ashlar) = &self.ashlar {
            ashlar.mount.abort();
        }
    }

    /// Returns the costs of Ashlar and its database up to now.
    pub(super) fn spent(&self) -> Result<Spent> {
        let ashlar = self.ashlar()?;
        Ok(Spent {
            ashlar: meter::cpu_time_of_tree(&[ashlar.server.child.pid()]),
            database: self.metadata.cpu(),
            counters: Counters::read(&ashlar.admin)?,
        })
    }

    /// Runs `work`, a round of `operations` operations on Ashlar's mount, and returns its rate and
    /// its costs for each operation. `work` returns the time that it took.
    pub(super) fn sample(
        &self,
        operations: u64,
        work: impl FnOnce(&Self) -> Result<Duration>,
    ) -> Result<Sample> {
        let before = self.spent()?;
        let took = work(self)?;
        self.since(before, operations, took)
    }

    /// Returns the rate and costs of `operations` that took `took`, with the costs since `before`.
    pub(super) fn since(&self, before: Spent, operations: u64, took: Duration) -> Result<Sample> {
        let after = self.spent()?;
        let micros = |one: Duration, other: Duration| {
            one.saturating_sub(other).as_secs_f64() * 1e6 / number(operations)
        };
        let counters = after.counters.since(before.counters);
        Ok(Sample {
            rate: number(operations) / took.as_secs_f64().max(f64::MIN_POSITIVE),
            ashlar: micros(after.ashlar, before.ashlar),
            database: micros(after.database, before.database),
            trips: number(counters.trips()) / number(operations),
            block_requests: number(counters.block_requests) / number(operations),
        })
    }

    /// Runs `work` and counts the kernel's requests to a mount during it. The count is `None` if
    /// the kernel cannot count them.
    pub(super) fn counted<T>(
        &self,
        device: Option<u32>,
        work: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<(T, Option<Requests>)> {
        let (Some(tracer), Some(device)) = (&self.tracer, device) else {
            return Ok((work(self)?, None));
        };
        tracer.begin(device)?;
        let done = work(self)?;
        Ok((done, Some(tracer.end()?)))
    }

    /// Writes all dirty pages of the file system of `folder` to disk, so that the next round does
    /// not wait for them.
    pub(super) fn settle(&self) -> Result<()> {
        let folder = std::fs::File::open(&self.folder)?;
        rustix::fs::syncfs(&folder)?;
        self.stop.check()
    }
}

/// Returns the median costs of the samples.
pub(super) fn cost(samples: &[Sample]) -> FileCost {
    let middle = |of: fn(&Sample) -> f64| load::median(samples.iter().map(of).collect());
    FileCost {
        requests: None,
        requests_beside: None,
        trips: middle(|it| it.trips),
        block_requests: middle(|it| it.block_requests),
        ashlar: middle(|it| it.ashlar),
        database: middle(|it| it.database),
    }
}

/// Returns the median rate of the samples.
pub(super) fn rate(samples: &[Sample]) -> f64 {
    load::median(samples.iter().map(|it| it.rate).collect())
}

/// Creates a folder and its parents if they do not exist.
pub(in crate::bench) fn make_folder(folder: &Path) -> Result<(), Trouble> {
    std::fs::create_dir_all(folder).map_err(|source| Trouble::System {
        doing: format!("make the folder {}", folder.display()),
        source,
    })
}

#[expect(clippy::cast_precision_loss, reason = "52 bits are enough for a rate")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}
