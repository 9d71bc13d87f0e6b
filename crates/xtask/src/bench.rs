//! `cargo xtask bench`: the gateway beside direct MinIO, interleaved, on this machine.
//!
//! Both sides use the same MinIO and the same load. Rounds alternate between them, so that what
//! else the machine does falls on both; a figure is the median of its rounds. Each engine has
//! tables of its own, beside a MinIO that is measured again: engines are compared by their ratios.

mod cells;
mod copies;
mod counters;
mod figure;
mod frames;
mod metadata;
mod meter;
mod report;
mod rows;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use load::{Gauge, Runner};
use serde_json::Value;

use crate::child::{Stop, tail};
use crate::dist;
use crate::engines::{Databases, Engine};
use crate::progress::Progress;
use crate::servers::{BLOCK_BUCKET, Blocks, Server};
use crate::tools::Tools;
use crate::workspace::{Workspace, is_executable};

pub(crate) use counters::admin;
use figure::Figure;
use metadata::Metadata;
pub(crate) use meter::peak_memory;

/// The bucket that each side is asked to write to, and the database that a server keeps it in.
const BUCKET: &str = "bench";

/// The folder of keys that everything lies in.
const PREFIX: &str = "bench/";

/// What contents and order follow from: every run does the same.
const SEED: u64 = 0x00A5_41A2;

/// How long one large copy may take.
const STEP_LIMIT: Duration = Duration::from_mins(30);

/// How often the wish to end is looked for.
const STOP_POLL: Duration = Duration::from_millis(100);

/// How long a gateway that has just started is left alone before its memory is looked at.
const SETTLE: Duration = Duration::from_secs(1);

/// How large the gateway's cache in memory may be, which is what it takes by itself on a machine of
/// 16 GiB and more.
const CACHE_MIB: f64 = 1024.0;
const CACHE_SETTING: (&str, &str) = ("ASHLAR_CACHE_MEMORY", "1GiB");

/// How to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The metadata engine below the gateway; may be given several times.
    #[arg(long, value_enum, value_name = "NAME", default_value = "sqlite")]
    engine: Vec<Engine>,
    /// When Redis syncs its append-only file: at each write, or once a second, as the targets were
    /// measured. Then the gateway is told that it may rely on no more (`relaxed`).
    #[arg(long, value_enum, value_name = "WHEN", default_value = "everysec")]
    redis_fsync: RedisFsync,
    /// Rounds of a second and a copy of 256 MiB: shows that it runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Rounds for each figure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds that a round lasts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Only rows whose names contain one of these words, such as "PUT 4" or "cold".
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    only: Vec<String>,
    /// MiB of the file that mc copies, with the first engine only: its bytes pass by all engines
    /// alike. 0 leaves the copies out.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    copy: u64,
    /// Measure this program instead of what `cargo xtask dist` makes of this checkout.
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: dist::Build,
    /// Where to keep data meanwhile, instead of the folder for temporary files; a full run takes up
    /// to 50 GB.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Write all figures to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// When Redis syncs its append-only file.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum RedisFsync {
    /// Before it answers a write: nothing acknowledged is lost.
    Always,
    /// Once a second: a crash of the machine takes back what was acknowledged in the last one.
    Everysec,
}

impl RedisFsync {
    /// As Redis names it.
    fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
        }
    }
}

impl Options {
    /// What the gateway is told: how large its cache may be, and what the metadata store below it
    /// may lose.
    fn settings(&self, engine: Engine) -> &'static [(&'static str, &'static str)] {
        match (engine, self.redis_fsync) {
            (Engine::Redis, RedisFsync::Everysec) => {
                &[CACHE_SETTING, ("ASHLAR_METADATA_DURABILITY", "relaxed")]
            }
            _ => &[CACHE_SETTING],
        }
    }

    /// How long a round lasts.
    fn time(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { self.seconds })
    }

    fn wants(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.only.is_empty() || self.only.iter().any(|words| name.contains(&words.to_lowercase()))
    }
}

/// The programs that take part.
struct Programs {
    gateway: PathBuf,
    minio: PathBuf,
    mc: PathBuf,
    /// An interpreter with pandas and s3fs, if this machine has one already.
    python: Option<PathBuf>,
}

/// One engine's measurement: the two sides and what is around them.
struct Bench<'a> {
    options: &'a Options,
    engine: Engine,
    stop: &'a Stop,
    programs: &'a Programs,
    progress: Rc<Progress>,
    folder: PathBuf,
    minio: Server,
    gateway: Server,
    /// The gateway's counters.
    admin: String,
    metadata: Metadata<'a>,
    /// Direct and ours.
    runners: [Runner; 2],
    gauge: Arc<Gauge>,
    /// MiB of the file that is copied.
    copy: u64,
    /// MiB of the gateway: just started, and the most so far.
    idle_mib: f64,
    peak_mib: f64,
    /// Gateways that were started.
    starts: u32,
}

/// Measures, prints tables for each engine, and returns true: a figure is not a verdict.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if cfg!(debug_assertions) {
        return dist::optimised(workspace);
    }
    let mut maker = tempfile::Builder::new();
    maker.prefix("ashlar-bench-");
    let folder = match &options.folder {
        Some(folder) => maker.tempdir_in(folder)?,
        None => maker.tempdir()?,
    };
    let gateway = match &options.binary {
        Some(binary) => binary.clone(),
        None => dist::best(workspace, options.build, stop)?,
    };
    let (minio, mc) = Tools::prepare_servers(workspace, &options.engine, stop)?;
    let python = workspace.tools().join("venv-frames/bin/python");
    let python = Some(python).filter(|python| is_executable(python));
    let programs = Programs { gateway, minio, mc, python };
    let mut all = Vec::new();
    for (number, &engine) in options.engine.iter().enumerate() {
        // Nothing of an engine is left when the next one is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        let copy = if number == 0 { options.copy } else { 0 };
        let figures = one_engine(engine, copy, options, &programs, &folder, stop)
            .with_context(|| format!("the measurement over {} failed", engine.name()))?;
        all.push(figures);
        std::fs::remove_dir_all(&folder)?;
    }
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&Value::Array(all))?;
        std::fs::write(file, text + "\n").with_context(|| format!("{}", file.display()))?;
    }
    Ok(true)
}

/// Measures the gateway over one engine, and returns all figures.
fn one_engine(
    engine: Engine,
    copy: u64,
    options: &Options,
    programs: &Programs,
    folder: &Path,
    stop: &Stop,
) -> Result<Value> {
    let mut databases = Databases::default();
    databases.start(engine)?;
    databases.prepare_log(engine)?;
    let metadata = Metadata::fresh(&databases, engine, folder)?;
    metadata.sync_redis(options.redis_fsync.name())?;
    let minio = Server::minio(&programs.minio, folder, None, stop)?;
    minio.make_bucket(&programs.mc, folder, BLOCK_BUCKET)?;
    let blocks = Blocks::Bucket(&minio.endpoint, BUCKET);
    let (program, place) = (&programs.gateway, &metadata.place);
    let settings = options.settings(engine);
    let gateway = Server::gateway(program, folder, place, blocks, None, settings, stop)?;
    stop.sleep(SETTLE)?;
    let idle_mib = meter::memory(gateway.child.pid())?;
    let runners = [runner(&minio)?, runner(&gateway)?];
    let gauge = Arc::new(Gauge::default());
    stop_with(stop, &gauge)?;
    let mut bench = Bench {
        options,
        engine,
        stop,
        programs,
        progress: Rc::new(Progress::new()),
        folder: folder.to_owned(),
        admin: counters::admin(gateway.child.log())?,
        minio,
        gateway,
        metadata,
        runners,
        gauge,
        copy,
        idle_mib,
        peak_mib: 0.0,
        starts: 1,
    };
    let figures = bench.measure().with_context(|| {
        format!("the gateway's log ends in:\n{}", tail(bench.gateway.child.log(), 20))
    })?;
    bench.report(&figures)
}

/// The load on one side.
fn runner(server: &Server) -> Result<Runner> {
    let runner = Runner::new(&server.target(BUCKET), PREFIX, SEED, 1)?;
    runner.make_bucket().with_context(|| format!("cannot use {}", server.endpoint))?;
    Ok(runner)
}

/// Passes the wish to end on to the load, for as long as there is one.
fn stop_with(stop: &Stop, gauge: &Arc<Gauge>) -> Result<()> {
    let (stop, gauge) = (stop.clone(), Arc::downgrade(gauge));
    std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
        while let Some(gauge) = gauge.upgrade() {
            if stop.is_set() {
                gauge.stop();
            }
            drop(gauge);
            std::thread::sleep(STOP_POLL);
        }
    })?;
    Ok(())
}

impl Bench<'_> {
    fn measure(&mut self) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for row in rows::ROWS {
            if self.options.wants(row.name) {
                figures.push(self.row(&row)?);
            }
        }
        if self.copy > 0 && self.options.wants("mc cp up down") {
            figures.extend(self.copies()?);
        }
        if self.options.wants(frames::NAME) {
            figures.extend(self.frames()?);
        }
        Ok(figures)
    }

    /// Ends the gateway, and starts one that keeps nothing of what the last one knew but what
    /// lies in the database, the bucket and the file of its master key.
    fn begin_cold(&mut self) -> Result<()> {
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
    fn end_gateway(&mut self) -> Result<()> {
        self.peak_mib = self.peak_mib.max(peak_memory(self.gateway.child.pid())?);
        let status = self.gateway.child.end()?;
        if !status.success() {
            bail!("the gateway ended with {status}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
