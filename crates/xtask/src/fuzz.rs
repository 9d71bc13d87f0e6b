//! `cargo xtask fuzz`: gives each fuzz target inputs that reach more and more of it, for a while.
//!
//! What a target asserts is in `tests/fuzz`. Here libFuzzer runs it, with a limit to what one input
//! may take of time and memory. What was found to be worth another look is kept in the build folder,
//! so that the next run begins where this one ended; what breaks a target lies there, too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::progress::{Mark, Progress};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// No input may take longer.
const INPUT_SECONDS_MAX: u32 = 1;
/// No input may be longer. Limits of documents are longer, and tested elsewhere.
const INPUT_BYTES_MAX: u32 = 16 << 10;
/// The most memory that a target may have in one piece: many times what an input of that length
/// can need, and far less than a number in it can ask for.
const PIECE_MEBIBYTES_MAX: u32 = 16;
/// The most memory that a target may have in all. The sanitizer's own is most of it.
const MEBIBYTES_MAX: u32 = 1024;
/// How long the programs may take to be built.
const BUILD_LIMIT: Duration = Duration::from_hours(1);
/// How much longer than it was told to a target may take, to begin and to end.
const GRACE: Duration = Duration::from_mins(5);
/// How often the line of a target shows how far it is.
const GLANCE: Duration = Duration::from_secs(1);
/// Lines of a log shown when a target fails.
const TAIL_LINES: usize = 40;

/// What to fuzz, and for how long.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Seconds for each target.
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// The targets, by the names of `tests/fuzz/libfuzzer/fuzz_targets`; without any, all of them,
    /// one after the other.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// How far a target is, as libFuzzer says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    inputs: u64,
    /// Edges of the program that some input passes.
    edges: u64,
}

/// Fuzzes one target after the other; false if one of them failed.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    let place = Place::new(workspace);
    let targets = chosen(&place.targets()?, &options.targets)?;
    let progress = Progress::new();
    let running = progress.begin("build");
    let program = Tools::prepare_fuzzer(workspace, stop)?;
    std::fs::create_dir_all(&place.build)?;
    let log = place.build.join("build.log");
    let mut command = place.command(workspace, &program, "build");
    // A first run of one target does not wait for all of them.
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
        passed &= place.fuzz(workspace, &program, target, options.seconds, &progress, stop)?;
    }
    Ok(passed)
}

/// Those that were named, or all.
fn chosen(all: &[String], named: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("there is no target {unknown}: {}", all.join(", "));
    }
    Ok(if named.is_empty() { all } else { named }.to_vec())
}

/// Where the sources are, and what comes of them.
struct Place {
    sources: PathBuf,
    build: PathBuf,
}

impl Place {
    fn new(workspace: &Workspace) -> Place {
        Place { sources: workspace.root.join("tests/fuzz"), build: workspace.target.join("fuzz") }
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
        // Sanitizers are options that stable compilers have, and do not promise to keep.
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_INCREMENTAL", "0");
        command
    }

    /// A folder of a target, made if it is not there.
    fn folder(&self, kind: &str, target: &str) -> Result<PathBuf> {
        let folder = self.build.join(kind).join(target);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Fuzzes one target; false if an input broke it.
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
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        let mut command = self.command(workspace, program, "run");
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
        let limit = Duration::from_secs(seconds.into()) + GRACE;
        let status = loop {
            if let Some(status) = child.ended()? {
                break status;
            }
            if running.since() > limit {
                bail!("{target} does not end: see {}", log.display());
            }
            running.show(&format!("{target}: {}", Status::read(&log)));
            stop.sleep(GLANCE)?;
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
    /// What a log says last.
    fn read(log: &Path) -> Status {
        Status::of(&tail(log, TAIL_LINES))
    }

    /// From lines such as `#1024 NEW    cov: 512 ft: 900 corp: 31/1024b …`.
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
