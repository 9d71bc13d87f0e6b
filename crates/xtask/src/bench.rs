//! `cargo xtask bench`: the gateway beside direct MinIO, interleaved, on this machine.
//!
//! Both sides use the same MinIO and the same load. Rounds alternate between them, so that what
//! else the machine does falls on both; a figure is the median of its rounds. Each engine has a
//! table of its own, beside a MinIO that is measured again: engines are compared by their ratios.

mod copies;
mod figure;
mod load;
mod metadata;
mod meter;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::engines::{Databases, Engine};
use crate::progress::{Mark, Progress};
use crate::servers::{BLOCK_BUCKET, Blocks, Server};
use crate::tools::Tools;
use crate::workspace::Workspace;

use figure::{Cost, Figure, median};
use load::{Load, PAGE_KEYS, Round, Target, Verb};
use metadata::Metadata;
pub(crate) use meter::peak_memory;

/// The bucket that each side is asked to write to, and the database that a server keeps it in.
const BUCKET: &str = "bench";

/// The workloads: a size, its name, and what is done with objects of that size, in this order.
const WORKLOADS: [(&str, usize, &[Verb]); 3] = [
    ("1 KiB", 1 << 10, &[Verb::Put]),
    ("4 KiB", 4 << 10, &[Verb::Put, Verb::Get, Verb::Head, Verb::List, Verb::Delete]),
    ("1 MiB", 1 << 20, &[Verb::Put, Verb::Get]),
];

/// Objects from which on the growth of a store tells the bytes of one: files grow by some MiB.
const COUNTABLE_OBJECTS: usize = 10_000;

/// How long a release build or one large copy may take.
const STEP_LIMIT: Duration = Duration::from_mins(20);

/// How to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The metadata engine below the gateway; may be given several times.
    #[arg(long, value_enum, value_name = "NAME", default_value = "sqlite")]
    engine: Vec<Engine>,
    /// Short rounds and a copy of 512 MiB: shows that it runs, not how fast. Bytes per object are
    /// told of any number of objects.
    #[arg(long)]
    quick: bool,
    /// Rounds for each figure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Clients at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    clients: u16,
    /// MiB of the file that mc copies, with the first engine only: its bytes pass by all engines
    /// alike. 0 leaves the copies out.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    copy: u64,
    /// Measure this program instead of a release build of this checkout.
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// Where to keep data meanwhile, instead of the folder for temporary files.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// One engine's measurement: the two sides and what is around them.
struct Bench<'a> {
    options: &'a Options,
    stop: &'a Stop,
    progress: Progress,
    folder: PathBuf,
    mc: PathBuf,
    minio: Server,
    gateway: Server,
    metadata: Metadata<'a>,
    /// MiB of the file that is copied.
    copy: u64,
}

/// Measures, prints a table for each engine, and returns true: a figure is not a verdict.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if cfg!(debug_assertions) {
        return optimised(workspace);
    }
    let mut maker = tempfile::Builder::new();
    maker.prefix("ashlar-bench-");
    let folder = match &options.folder {
        Some(folder) => maker.tempdir_in(folder)?,
        None => maker.tempdir()?,
    };
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(workspace, folder.path(), stop)?,
    };
    let tools = Tools::prepare_servers(workspace, &options.engine, stop)?;
    for (number, &engine) in options.engine.iter().enumerate() {
        // Nothing of an engine is left when the next one is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        let copy = if number == 0 { options.copy } else { 0 };
        one_engine(engine, copy, options, &binary, &tools, &folder, stop)
            .with_context(|| format!("the measurement over {} failed", engine.name()))?;
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(true)
}

/// Measures the gateway over one engine.
fn one_engine(
    engine: Engine,
    copy: u64,
    options: &Options,
    binary: &Path,
    (minio, mc): &(PathBuf, PathBuf),
    folder: &Path,
    stop: &Stop,
) -> Result<()> {
    let mut databases = Databases::default();
    databases.start(engine)?;
    let metadata = Metadata::fresh(&databases, engine, folder)?;
    let minio = Server::minio(minio, folder, None, stop)?;
    minio.make_bucket(mc, folder, BLOCK_BUCKET)?;
    minio.make_bucket(mc, folder, BUCKET)?;
    let blocks = Blocks::Bucket(&minio.endpoint, BUCKET);
    let gateway = Server::gateway(binary, folder, &metadata.place, blocks, None, stop)?;
    gateway.make_bucket(mc, folder, BUCKET)?;
    let (progress, folder, mc) = (Progress::new(), folder.to_owned(), mc.clone());
    let mut bench = Bench { options, stop, progress, folder, mc, minio, gateway, metadata, copy };
    let figures = bench.measure().with_context(|| {
        format!("the gateway's log ends in:\n{}", tail(bench.gateway.child.log(), 20))
    })?;
    bench.report(engine, &figures)
}

/// Becomes the release build of this program: a slow load would measure itself.
fn optimised(workspace: &Workspace) -> Result<bool> {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--quiet", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1));
    eprintln!("building the load for release");
    Err(command.exec()).context("cannot run cargo")
}

fn build(workspace: &Workspace, folder: &Path, stop: &Stop) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command.args(["build", "--release", "--bin", "ashlar"]);
    let log = folder.join("build.log");
    eprintln!("building the gateway for release");
    let status = Child::spawn(command, "build", &log)?.wait(stop, STEP_LIMIT)?;
    if !status.success() {
        bail!("the release build failed, {status}:\n{}", tail(&log, 40));
    }
    Ok(workspace.gateway("release"))
}

impl Bench<'_> {
    fn measure(&mut self) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (name, size, verbs) in WORKLOADS {
            let body = random_bytes(size)?;
            let targets =
                [&self.minio, &self.gateway].map(|server| Target::new(&server.endpoint, BUCKET));
            let [direct, ours] = targets;
            let targets = [direct?, ours?];
            for target in &targets {
                target.fill(&body)?;
            }
            for &verb in verbs {
                figures.push(self.rate(verb, name, &body, &targets)?);
            }
        }
        if self.copy > 0 {
            figures.extend(self.copies()?);
        }
        Ok(figures)
    }

    /// Rounds of requests, alternating.
    fn rate(
        &mut self,
        verb: Verb,
        size: &str,
        body: &[u8],
        targets: &[Target; 2],
    ) -> Result<Figure> {
        let clients = usize::from(self.options.clients);
        let time = Duration::from_secs(if self.options.quick { 2 } else { 8 });
        let load = Load { verb, body, clients, time };
        let name = match verb {
            Verb::List => format!("LIST {PAGE_KEYS} keys"),
            _ => format!("{} {size}", verb.word()),
        };
        let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
        let mut gateway: Vec<f64> = Vec::new();
        let running = self.progress.begin(&name);
        let before = (self.metadata.cpu(), self.metadata.bytes()?);
        for number in 0..self.options.rounds {
            // Each round begins with the other side, so that neither always runs on a warm machine.
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                let before = meter::cpu_time(self.gateway.child.pid())?;
                let round = targets[side].round(load, self.stop)?;
                if side == 1 {
                    let used = meter::cpu_time(self.gateway.child.pid())?.saturating_sub(before);
                    gateway.push(micros_each(used, round.requests));
                }
                rounds[side].push(round);
            }
        }
        // A database works on after it has answered, so what it does in all rounds is counted.
        let requests = rounds[1].iter().map(|round| round.requests).sum();
        let database = micros_each(self.metadata.cpu().saturating_sub(before.0), requests);
        let grown = self.metadata.bytes()?.saturating_sub(before.1);
        let enough = self.options.quick || requests >= COUNTABLE_OBJECTS;
        let stored = (verb == Verb::Put && enough).then(|| each(grown, requests));
        let late = |side: usize, percent| {
            let all = rounds[side].iter().map(|it| it.percentile(percent).as_secs_f64() * 1e3);
            median(all.collect())
        };
        let remark = format!(
            "p50 {:.2} / {:.2} ms, p99 {:.1} / {:.1} ms",
            late(0, 50),
            late(1, 50),
            late(0, 99),
            late(1, 99)
        );
        let sides = rounds.each_ref().map(|all| median(all.iter().map(Round::rate).collect()));
        let cost = Some(Cost { gateway: median(gateway), database, stored });
        let figure = Figure { name, sides, unit: "/s", more_is_better: true, cost, remark };
        running.end(Mark::Passed, &figure.sides());
        Ok(figure)
    }

    fn report(&mut self, engine: Engine, figures: &[Figure]) -> Result<()> {
        println!(
            "\n{}: medians of {} interleaved rounds, {} clients; a ratio above 1 means ours is \
             better;\nCPU time per request, growth of the metadata store per object, latencies \
             direct / ours\n",
            engine.name(),
            self.options.rounds,
            self.options.clients
        );
        println!("{}", Figure::titles());
        figures.iter().for_each(|figure| println!("{figure}"));
        let peak = peak_memory(self.gateway.child.pid())?;
        println!("\ngateway over {}: peak resident memory {peak:.0} MiB\n", engine.name());
        let status = self.gateway.child.end()?;
        if !status.success() {
            bail!("the gateway ended with {status}");
        }
        Ok(())
    }
}

/// A time in microseconds, shared by requests.
fn micros_each(time: Duration, requests: usize) -> f64 {
    each(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), requests)
}

#[expect(clippy::cast_precision_loss, reason = "a median has no use for more than 52 bits")]
fn each(sum: u64, requests: usize) -> f64 {
    sum as f64 / requests as f64
}

fn random_bytes(size: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
