//! One engine's measurement: what is mounted and served while it lasts, and how work is done there.
//!
//! A mount whose server is stuck keeps whoever calls it, and cannot be asked to end. So nothing
//! here touches a mount but threads and programs that are given up after a while; then the mount is
//! taken from them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use load::{Gauge, Trouble};

use super::super::counters::Counters;
use super::super::metadata::Metadata;
use super::super::meter;
use super::super::options::Options;
use super::amounts::Amounts;
use super::figure::FileCost;
use super::programs::FilePrograms;
use super::requests::{Requests, Tracer};
use super::sides::{Ashlar, Other, Starting, forget};
use crate::child::{Child, Stop, tail};
use crate::engines::Engine;
use crate::progress::Progress;
use crate::servers::{Blocks, Server};

/// How long one piece of work on a mount may take.
const WORK_LIMIT: Duration = Duration::from_mins(20);

/// How long one that was asked to stop may take until its next look.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How often a piece of work that goes on is looked after.
const WORK_POLL: Duration = Duration::from_millis(100);

/// How often it is looked whether a program has ended: often, since some take a tenth of a second.
const PROGRAM_POLL: Duration = Duration::from_millis(1);

/// One engine's measurement. What is dropped first ends first.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    pub(super) amounts: Amounts,
    pub(super) engine: Engine,
    pub(super) stop: &'a Stop,
    pub(super) programs: &'a FilePrograms,
    pub(super) progress: Rc<Progress>,
    pub(super) folder: PathBuf,
    /// Counts requests, where the kernel does.
    pub(super) tracer: Option<Tracer>,
    pub(super) null: Other,
    pub(super) ashlar: Option<Ashlar>,
    /// What blocks are in, and what is measured beside ours; none where blocks lie in a folder.
    pub(super) minio: Option<Server>,
    pub(super) metadata: Metadata<'a>,
    /// Times that Ashlar was started anew.
    pub(super) restarts: u32,
    /// What was left out, and why.
    pub(super) remarks: Vec<String>,
}

/// What was spent on our side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    ashlar: Duration,
    database: Duration,
    counters: Counters,
}

/// A round of ours: how fast it was, and what each of its operations cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) rate: f64,
    pub(super) ashlar: f64,
    pub(super) database: f64,
    pub(super) trips: f64,
    pub(super) block_requests: f64,
}

impl Stage<'_> {
    /// How its Ashlar is started.
    fn starting<'b>(
        &'b self,
        settings: &'b [(&'b str, &'b str)],
        blocks: Blocks<'b>,
    ) -> Starting<'b> {
        let (programs, stop) = (self.programs, self.stop);
        let (folder, place) = (self.folder.as_path(), self.metadata.place.as_str());
        Starting { programs, folder, place, blocks, settings, stop }
    }

    /// Where blocks are.
    fn blocks(&self) -> Blocks<'_> {
        match &self.minio {
            Some(minio) => Blocks::Bucket(&minio.endpoint, super::super::measurement::BUCKET),
            None => Blocks::Folder,
        }
    }

    /// Starts Ashlar; one that ran before ends first, and leaves the next one nothing but the
    /// stores.
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

    pub(super) fn ashlar(&self) -> Result<&Ashlar> {
        self.ashlar.as_ref().context("Ashlar runs while it is measured")
    }

    /// Runs load on a mount: in a thread that is left behind if it does not come back.
    pub(super) fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Gauge) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        let gauge = Arc::new(Gauge::default());
        let (done, all) = sync_channel(1);
        let theirs = Arc::clone(&gauge);
        std::thread::Builder::new().name("load".to_owned()).spawn(move || {
            let _given_up = done.send(work(&theirs));
        })?;
        let mut end = Instant::now() + WORK_LIMIT;
        loop {
            match all.recv_timeout(WORK_POLL) {
                Ok(result) => return Ok(result?),
                Err(RecvTimeoutError::Disconnected) => bail!("the load has failed by itself"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.is_set() && !gauge.is_stopped() {
                gauge.stop();
                end = end.min(Instant::now() + STOP_GRACE);
            }
            if Instant::now() > end {
                self.abort();
                self.stop.check()?;
                bail!("a piece of work took longer than {} s", WORK_LIMIT.as_secs());
            }
        }
    }

    /// Runs a program that works on a mount, and returns how long it took.
    pub(super) fn program(&self, command: Command) -> Result<Duration> {
        Ok(self.run(command)?.0)
    }

    /// The same, and what it has printed.
    pub(super) fn run(&self, command: Command) -> Result<(Duration, String)> {
        let path = Path::new(command.get_program());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = self.folder.join(format!("{name}.log"));
        let begin = Instant::now();
        let mut child = Child::spawn(command, &name, &log)?;
        let status = loop {
            if let Some(status) = child.ended()? {
                break status;
            }
            if self.stop.is_set() || begin.elapsed() > WORK_LIMIT {
                // A program that waits for a mount hears no signal.
                self.abort();
                child.end()?;
                self.stop.check()?;
                bail!("{name} took longer than {} s", WORK_LIMIT.as_secs());
            }
            std::thread::sleep(PROGRAM_POLL);
        };
        let took = begin.elapsed();
        if !status.success() {
            bail!("{name} failed, {status}:\n{}", tail(&log, 20));
        }
        let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        std::fs::remove_file(&log)?;
        Ok((took, text))
    }

    /// Takes the mounts from whoever waits for them.
    fn abort(&self) {
        self.null.mount.abort();
        if let Some(ashlar) = &self.ashlar {
            ashlar.mount.abort();
        }
    }

    /// What was spent on our side so far.
    pub(super) fn spent(&self) -> Result<Spent> {
        let ashlar = self.ashlar()?;
        Ok(Spent {
            ashlar: meter::cpu_time_of_tree(&[ashlar.server.child.pid()]),
            database: self.metadata.cpu(),
            counters: Counters::read(&ashlar.admin)?,
        })
    }

    /// A round of so many operations of ours, with what they cost.
    pub(super) fn sample(
        &self,
        operations: u64,
        work: impl FnOnce(&Self) -> Result<Duration>,
    ) -> Result<Sample> {
        let before = self.spent()?;
        let took = work(self)?;
        self.since(before, operations, took)
    }

    /// What each of so many operations cost since.
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
            trips: number(counters.trips) / number(operations),
            block_requests: number(counters.block_requests) / number(operations),
        })
    }

    /// Counts the kernel's requests to a mount meanwhile, if it can.
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

    /// Has everything written out that programs have left to the kernel, so that the next round
    /// does not wait for it.
    pub(super) fn settle(&self) -> Result<()> {
        let folder = std::fs::File::open(&self.folder)?;
        rustix::fs::syncfs(&folder)?;
        self.stop.check()
    }
}

/// The medians of what operations cost.
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

/// The median of rates.
pub(super) fn rate(samples: &[Sample]) -> f64 {
    load::median(samples.iter().map(|it| it.rate).collect())
}

/// Makes a folder, unless it is there.
pub(super) fn make_folder(folder: &Path) -> Result<(), Trouble> {
    std::fs::create_dir_all(folder).map_err(|source| Trouble::System {
        doing: format!("make the folder {}", folder.display()),
        source,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a rate has no use for more than 52 bits")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}
