//! `cargo xtask fuzz`: runs each fuzz target for a limited time.
//!
//! The assertions of a target are in `tests/fuzz`. libFuzzer calls the target with inputs that
//! reach more and more of its code, and limits the time and the memory of one input. The build
//! folder keeps the corpus, so the next run continues with the inputs that this run found. It also
//! keeps the inputs that break a target.
//!
//! For example, `cargo xtask fuzz --seconds 60 xml` runs the target `xml` for a minute.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::progress::{Mark, Progress};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// The time limit of one input, in seconds.
const INPUT_SECONDS_MAX: u32 = 1;
/// The size limit of one input. Documents may be larger; other tests cover their limits.
const INPUT_BYTES_MAX: u32 = 16 << 10;
/// The size limit of one allocation. It is many times the need of an input of the maximum size, and
/// far less than a length field inside of an input can demand.
const PIECE_MEBIBYTES_MAX: u32 = 16;
/// The memory limit of a target. The sanitizer itself uses most of it.
const MEBIBYTES_MAX: u32 = 1024;
/// The time limit of the build.
const BUILD_LIMIT: Duration = Duration::from_hours(1);
/// The time that a target may take in addition to `--seconds`, to start and to end.
const GRACE: Duration = Duration::from_mins(5);
/// The time between two updates of a target's progress line.
const STATUS_POLL: Duration = Duration::from_secs(1);
/// The number of log lines that the report of a failed target shows.
const TAIL_LINES: usize = 40;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The time for each target, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// The targets, as named in `tests/fuzz/libfuzzer/fuzz_targets`. Without names, all targets run
    /// one after the other.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// The progress of a target, as libFuzzer reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    /// The number of inputs that have run.
    inputs: u64,
    /// The number of edges of the program's control flow that inputs have reached.
    edges: u64,
}

/// Fuzzes one target after the other. Returns false if the build or a target failed.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    let folders = Folders::new(workspace);
    let targets = chosen(&folders.targets()?, &options.targets)?;
    let progress = Progress::new();
    let running = progress.begin("build");
    let program = Tools::prepare_fuzzer(workspace, stop)?;
    std::fs::create_dir_all(&folders.build)?;
    let log = folders.build.join("build.log");
    let mut command = folders.command(workspace, &program, "build");
    // If one target is named, the other targets need not be built.
    if let [one] = &targets[..] {
        command.arg(one);
    }
    let built = Child::spawn(command, "cargo-fuzz", &log)?.wait(stop, BUILD_LIMIT)?;
    if !built.success() {
        running.end(Mark::Failed, &tail(&log, TAIL_LINES));
        return Ok(false);
    }
    running.end(Mark::Passed, "");
    let mut passed = true;
    for target in &targets {
        passed &= folders.fuzz(workspace, &program, target, options.seconds, &progress, stop)?;
    }
    Ok(passed)
}

/// Returns the named targets, or all targets if none are named. Fails if a name is unknown.
fn chosen(all: &[String], named: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("there is no target {unknown}; the targets are {}", all.join(", "));
    }
    Ok(if named.is_empty() { all } else { named }.to_vec())
}

/// The folders in which fuzz targets are built, run and recorded.
struct Folders {
    /// The folder of the targets' sources, first inputs and dictionaries.
    sources: PathBuf,
    /// The folder of programs, logs and inputs that were found.
    build: PathBuf,
}

impl Folders {
    fn new(workspace: &Workspace) -> Folders {
        Folders { sources: workspace.root.join("tests/fuzz"), build: workspace.target.join("fuzz") }
    }

    /// The names of all targets, sorted.
    fn targets(&self) -> Result<Vec<String>> {
        let folder = self.sources.join("libfuzzer/fuzz_targets");
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let path = entry?.path();
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
        names.sort();
        Ok(names)
    }

    fn command(&self, workspace: &Workspace, program: &Path, verb: &str) -> std::process::Command {
        let mut command = workspace.cargo_program(program);
        command.args([verb, "--fuzz-dir"]).arg(self.sources.join("libfuzzer"));
        command.arg("--target-dir").arg(&self.build);
        // Sanitizers are unstable options. This variable makes a stable compiler accept them.
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_INCREMENTAL", "0");
        command
    }

    /// Returns the folder of a kind for a target, and creates it if it does not exist.
    fn folder(&self, kind: &str, target: &str) -> Result<PathBuf> {
        let folder = self.build.join(kind).join(target);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Fuzzes one target. Returns false if an input broke it.
    fn fuzz(
        &self,
        workspace: &Workspace,
        program: &Path,
        target: &str,
        seconds: u32,
        progress: &Progress,
        stop: &Stop,
    ) -> Result<bool> {
        let found = self.folder("corpus", target)?;
        let broken = self.folder("artifacts", target)?;
        let log = self.build.join(format!("{target}.log"));
        // Output is appended to logs, and the status is read from the end of this one.
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        let mut command = self.command(workspace, program, "run");
        // libFuzzer reads inputs from both folders and writes new ones to the first. The second one
        // is in the repository and must not change.
        command.arg(target).arg(&found).arg(self.sources.join("corpus").join(target)).arg("--");
        command.args([
            format!("-max_total_time={seconds}"),
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-malloc_limit_mb={PIECE_MEBIBYTES_MAX}"),
            format!("-rss_limit_mb={MEBIBYTES_MAX}"),
            format!("-artifact_prefix={}/", broken.display()),
            "-print_final_stats=1".to_owned(),
        ]);
        let dictionary = self.sources.join("dictionaries").join(format!("{target}.dict"));
        if dictionary.is_file() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        let running = progress.begin(target);
        let mut child = Child::spawn(command, target, &log)?;
        // `-max_total_time` does not include the start, in which libFuzzer reads the whole corpus.
        let limit = Duration::from_secs(seconds.into()) + GRACE;
        let status = loop {
            if let Some(status) = child.ended()? {
                break status;
            }
            if running.elapsed() > limit {
                bail!("{target} did not end in time; see {}", log.display());
            }
            running.show(&format!("{target}: {}", Status::read(&log)));
            stop.sleep(STATUS_POLL)?;
        };
        let reached = Status::read(&log);
        if status.success() {
            running.end(Mark::Passed, &reached.to_string());
        } else {
            let shown = tail(&log, TAIL_LINES);
            running.end(Mark::Failed, &format!("{reached}; see {}\n{shown}", log.display()));
        }
        Ok(status.success())
    }
}

impl Status {
    /// Reads the last progress that libFuzzer wrote to the log of a target.
    fn read(log: &Path) -> Status {
        Status::of(&tail(log, TAIL_LINES))
    }

    /// Parses lines such as `#1024 NEW    cov: 512 ft: 900 corp: 31/1024b …`. The last one counts.
    fn of(log: &str) -> Status {
        let mut status = Status::default();
        for line in log.lines() {
            let Some(rest) = line.strip_prefix('#') else { continue };
            let mut words = rest.split_whitespace();
            let Some(inputs) = words.next().and_then(|number| number.parse().ok()) else {
                continue;
            };
            let edges = words.skip_while(|word| *word != "cov:").nth(1);
            if let Some(edges) = edges.and_then(|number| number.parse().ok()) {
                status = Status { inputs, edges };
            }
        }
        status
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} inputs, {} edges", self.inputs, self.edges)
    }
}

#[cfg(test)]
mod tests;
