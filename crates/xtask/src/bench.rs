//! `cargo xtask bench`: the gateway beside direct MinIO, interleaved, on this machine.
//!
//! Both sides use the same MinIO and the same load. Rounds alternate between them, so that what
//! else the machine does falls on both; a figure is the median of its rounds.

mod load;
mod meter;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::progress::{Mark, Progress};
use crate::servers::{ACCESS_KEY, BLOCK_BUCKET, Blocks, SECRET_KEY, Server};
use crate::tools::Tools;
use crate::workspace::{Workspace, stdout};

use load::{Round, Target, Verb};
pub(crate) use meter::peak_memory;

/// The bucket that each side is asked to write to.
const BUCKET: &str = "bench";

/// Objects read by GET rounds; at 1 MiB they fit in any cache, as the targets' "warm" means.
const READ_OBJECTS: usize = 128;

/// How long a release build or one large copy may take.
const STEP_LIMIT: Duration = Duration::from_mins(20);

/// How to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Short rounds and a copy of 512 MiB: shows that it runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Rounds for each figure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Clients at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    clients: u16,
    /// MiB of the file that mc copies; 0 leaves the copies out.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    copy: u64,
    /// Measure this program instead of a release build of this checkout.
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// Where to keep data meanwhile, instead of the folder for temporary files.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// The two sides and what is around them.
struct Bench<'a> {
    options: &'a Options,
    stop: &'a Stop,
    progress: Progress,
    folder: PathBuf,
    mc: PathBuf,
    minio: Server,
    gateway: Server,
}

/// One line of the result.
struct Figure {
    name: String,
    /// In `unit`, direct and ours.
    sides: [f64; 2],
    unit: &'static str,
    /// More is better, as for rates; less is, as for times.
    more_is_better: bool,
    remark: String,
}

/// Measures, prints a table, and returns true: a figure is not a verdict.
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
    let (minio_program, mc) = Tools::prepare_minio(workspace, stop)?;
    let minio = Server::minio(&minio_program, folder.path(), None, stop)?;
    minio.make_bucket(&mc, folder.path(), BLOCK_BUCKET)?;
    minio.make_bucket(&mc, folder.path(), BUCKET)?;
    let blocks = Blocks::Bucket(&minio.endpoint, "bench");
    let gateway = Server::gateway(&binary, folder.path(), blocks, None, stop)?;
    gateway.make_bucket(&mc, folder.path(), BUCKET)?;
    let progress = Progress::new();
    let folder = folder.path().to_owned();
    let mut bench = Bench { options, stop, progress, folder, mc, minio, gateway };
    let figures = bench.measure().with_context(|| {
        format!("the gateway's log ends in:\n{}", tail(bench.gateway.child.log(), 20))
    })?;
    bench.report(&figures)?;
    Ok(true)
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
        for (name, size) in [("4 KiB", 4 << 10), ("1 MiB", 1 << 20)] {
            let body = random_bytes(size)?;
            let targets =
                [&self.minio, &self.gateway].map(|server| Target::new(&server.endpoint, BUCKET));
            let [direct, ours] = targets;
            let targets = [direct?, ours?];
            for target in &targets {
                target.fill(&body, READ_OBJECTS)?;
            }
            for verb in [Verb::Put, Verb::Get] {
                figures.push(self.rate(verb, name, &body, &targets)?);
            }
        }
        if self.options.copy > 0 {
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
        let word = if verb == Verb::Put { "PUT" } else { "GET" };
        let name = format!("{word} {size} x{clients}");
        let time = Duration::from_secs(if self.options.quick { 2 } else { 8 });
        let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
        let mut costs: Vec<f64> = Vec::new();
        let running = self.progress.begin(&name);
        for number in 0..self.options.rounds {
            // Each round begins with the other side, so that neither always runs on a warm machine.
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                let before = meter::cpu_time(self.gateway.child.pid())?;
                let round =
                    targets[side].round(verb, body, clients, READ_OBJECTS, time, self.stop)?;
                if side == 1 {
                    let used = meter::cpu_time(self.gateway.child.pid())?.saturating_sub(before);
                    costs
                        .push(used.as_secs_f64() * 1e6 / (round.rate() * round.took.as_secs_f64()));
                }
                rounds[side].push(round);
            }
        }
        let rates = rounds.each_ref().map(|all| median(all.iter().map(Round::rate).collect()));
        let late = |side: usize, percent| {
            let all = rounds[side].iter().map(|it| it.percentile(percent).as_secs_f64() * 1e3);
            median(all.collect())
        };
        let remark = format!(
            "p50 {:.2} / {:.2} ms, p99 {:.1} / {:.1} ms, gateway {:.0} µs CPU a request",
            late(0, 50),
            late(1, 50),
            late(0, 99),
            late(1, 99),
            median(costs)
        );
        let figure = Figure { name, sides: rates, unit: "/s", more_is_better: true, remark };
        running.end(Mark::Passed, &figure.sides());
        Ok(figure)
    }

    /// One large file up and down with mc, and its checksum.
    fn copies(&mut self) -> Result<Vec<Figure>> {
        let mib = if self.options.quick { self.options.copy.min(512) } else { self.options.copy };
        let source = self.folder.join("source");
        write_random(&source, mib)?;
        let sum = sha256(&source)?;
        let mut times: [[Vec<f64>; 2]; 2] = Default::default();
        let mut cpu: [Vec<f64>; 2] = Default::default();
        let running = self.progress.begin(&format!("mc cp {mib} MiB"));
        for number in 0..self.options.rounds {
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                let server = if side == 0 { &self.minio } else { &self.gateway };
                let pid = self.gateway.child.pid();
                let object = format!("s/{BUCKET}/copy");
                self.mc(server, &["alias", "set", "s", &server.endpoint, ACCESS_KEY, SECRET_KEY])?;
                let start = meter::cpu_time(pid)?;
                let up = self.mc(server, &["cp", "--quiet", path(&source)?, &object])?;
                let middle = meter::cpu_time(pid)?;
                let back = self.folder.join("back");
                let down = self.mc(server, &["cp", "--quiet", &object, path(&back)?])?;
                if sha256(&back)? != sum {
                    bail!("{} gave back another file than it was given", server.endpoint);
                }
                if side == 1 {
                    cpu[0].push(middle.saturating_sub(start).as_secs_f64());
                    cpu[1].push(meter::cpu_time(pid)?.saturating_sub(middle).as_secs_f64());
                }
                std::fs::remove_file(&back)?;
                self.mc(server, &["rm", "--quiet", &object])?;
                times[0][side].push(up.as_secs_f64());
                times[1][side].push(down.as_secs_f64());
            }
        }
        running.end(Mark::Passed, "");
        let figures = times.into_iter().zip(cpu).zip(["up", "down"]);
        let figures = figures.map(|(([direct, ours], cpu), way)| Figure {
            name: format!("mc cp {mib} MiB {way}"),
            sides: [median(direct), median(ours)],
            unit: "s",
            more_is_better: false,
            remark: format!("gateway {:.1} s CPU, checksums agree", median(cpu)),
        });
        Ok(figures.collect())
    }

    /// Runs MinIO's client and returns how long it took.
    fn mc(&self, server: &Server, arguments: &[&str]) -> Result<Duration> {
        self.stop.check()?;
        let mut command = Command::new(&self.mc);
        command.arg("--config-dir").arg(self.folder.join("mc")).args(arguments);
        let log = self.folder.join("mc.log");
        let since = Instant::now();
        let status = Child::spawn(command, "mc", &log)?.wait(self.stop, STEP_LIMIT)?;
        let took = since.elapsed();
        if !status.success() {
            bail!("mc against {}, {status}:\n{}", server.endpoint, tail(&log, 20));
        }
        Ok(took)
    }

    fn report(&mut self, figures: &[Figure]) -> Result<()> {
        let rounds = self.options.rounds;
        println!(
            "\nmedians of {rounds} interleaved rounds; a ratio above 1 means ours is better\n"
        );
        println!("{:<22} {:>12} {:>12} {:>7}", "workload", "direct", "ours", "ratio");
        for figure in figures {
            println!("{:<22} {}  {}", figure.name, figure.sides(), figure.remark);
        }
        let peak = peak_memory(self.gateway.child.pid())?;
        println!("\ngateway: peak resident memory {peak:.0} MiB");
        let status = self.gateway.child.end()?;
        if !status.success() {
            bail!("the gateway ended with {status}");
        }
        Ok(())
    }
}

impl Figure {
    /// Direct, ours, and how much better ours is.
    fn sides(&self) -> String {
        let ([direct, ours], unit) = (self.sides, self.unit);
        let ratio = if self.more_is_better { ours / direct } else { direct / ours };
        format!("{direct:>9.1} {unit:<2} {ours:>9.1} {unit:<2} {ratio:>7.2}")
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => f64::NAN,
        all if all.len() % 2 == 1 => all[all.len() / 2],
        all => f64::midpoint(all[all.len() / 2 - 1], all[all.len() / 2]),
    }
}

fn random_bytes(size: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open("/dev/urandom")?.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file without equal parts, so that nothing can be saved by finding them.
fn write_random(path: &Path, mib: u64) -> Result<()> {
    let mut file = File::create(path)?;
    std::io::copy(&mut File::open("/dev/urandom")?.take(mib << 20), &mut file)?;
    Ok(file.sync_all()?)
}

fn sha256(path: &Path) -> Result<String> {
    let mut command = Command::new("sha256sum");
    command.arg("--").arg(path);
    let line = stdout(command)?;
    Ok(line.split_whitespace().next().context("sha256sum prints a sum")?.to_owned())
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path for mc is UTF-8")
}
