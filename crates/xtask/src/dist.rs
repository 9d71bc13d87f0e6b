//! `cargo xtask dist`: the program as it is shipped.
//!
//! It is built twice. The first build counts what it does; it is put under the load of
//! [`training`], over every engine. The second one is told the counts (profile-guided
//! optimisation): the compiler lays out and inlines what runs most, and keeps what hardly ever runs
//! out of the way. That takes a tool of LLVM besides, of the compiler's version, which Rust's
//! component `llvm-tools` has and Debian's packages `llvm-NN` have.

mod training;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::engines::Engine;
use crate::progress::{Mark, Progress};
use crate::tools::Tools;
use crate::workspace::{Workspace, is_executable, stdout, which};

/// Cargo's profile of what is shipped.
const PROFILE: &str = "dist";

/// How long one build may take.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// How to build.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Build {
    /// Build it once, without counts: takes less than half the time, and is some percent slower.
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Builds it, and prints where it is.
pub(crate) fn run(workspace: &Workspace, options: Build, stop: &Stop) -> Result<bool> {
    if cfg!(debug_assertions) {
        return optimised(workspace);
    }
    let program = if options.plain {
        plain(workspace, stop)?
    } else {
        let toolchain = Toolchain::find()?;
        let Some(merger) = toolchain.merger() else { bail!("{}", toolchain.lacks_merger()) };
        profiled(workspace, &toolchain, &merger, stop)?
    };
    let shipped = workspace.target.join("shipped/ashlar");
    std::fs::create_dir_all(shipped.parent().context("it lies in a folder")?)?;
    // Whoever runs the old one goes on running it.
    let fresh = shipped.with_extension("new");
    std::fs::copy(&program, &fresh)?;
    std::fs::rename(&fresh, &shipped)?;
    println!("{}", shipped.display());
    Ok(true)
}

/// Becomes the release build of this program: a slow load would measure itself.
pub(crate) fn optimised(workspace: &Workspace) -> Result<bool> {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--quiet", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1));
    eprintln!("building the load for release");
    Err(command.exec()).context("cannot run cargo")
}

/// The program as this machine can build it: without counts if a tool is missing, which is said.
pub(crate) fn best(workspace: &Workspace, options: Build, stop: &Stop) -> Result<PathBuf> {
    if options.plain {
        return plain(workspace, stop);
    }
    let toolchain = Toolchain::find()?;
    match toolchain.merger() {
        Some(merger) => profiled(workspace, &toolchain, &merger, stop),
        None => {
            eprintln!("built without counts, so some percent slower: {}", toolchain.lacks_merger());
            plain(workspace, stop)
        }
    }
}

fn plain(workspace: &Workspace, stop: &Stop) -> Result<PathBuf> {
    build(workspace, workspace.cargo(), "build", stop)?;
    Ok(workspace.gateway(PROFILE))
}

/// Builds it twice. What was built and counted before is kept, as long as it is of these sources.
fn profiled(
    workspace: &Workspace,
    toolchain: &Toolchain,
    merger: &Path,
    stop: &Stop,
) -> Result<PathBuf> {
    let counting = workspace.target.join("dist-counting");
    let counts = counting.join("counts");
    let generate = format!("-Cprofile-generate={}", counts.display());
    let program = build_with(workspace, toolchain, &counting, &generate, stop)?;
    let profile = counting.join("ashlar.profdata");
    if written(&profile) <= written(&program) {
        if counts.exists() {
            std::fs::remove_dir_all(&counts)?;
        }
        Tools::prepare_databases(workspace, &Engine::ALL, stop)?;
        training::run(&program, stop).context("the program that counts could not be loaded")?;
        merge(merger, &counts, &profile)?;
        std::fs::remove_dir_all(&counts)?;
    }
    let profiled = workspace.target.join("dist-profiled");
    // Cargo does not look into the profile, and would keep what was built with another one.
    let (mark, hash) = (profiled.join("profile"), hash(&profile)?);
    if profiled.exists() && std::fs::read_to_string(&mark).ok().as_ref() != Some(&hash) {
        std::fs::remove_dir_all(&profiled)?;
    }
    std::fs::create_dir_all(&profiled)?;
    std::fs::write(&mark, hash)?;
    let uses = format!("-Cprofile-use={}", profile.display());
    build_with(workspace, toolchain, &profiled, &uses, stop)
}

/// Builds with one more flag for the compiler, in a folder of its own.
fn build_with(
    workspace: &Workspace,
    toolchain: &Toolchain,
    folder: &Path,
    flag: &str,
    stop: &Stop,
) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    let flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    let flags = format!("{} {flag}", flags.to_string_lossy());
    // With a target named, what runs while it is built (build scripts, macros) is left as it is.
    cargo
        .env("RUSTFLAGS", flags.trim())
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_DIR", folder)
        .args(["--config", &format!("build.target = \"{}\"", toolchain.host)]);
    std::fs::create_dir_all(folder)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    build(workspace, cargo, &name, stop)?;
    Ok(folder.join(&toolchain.host).join(PROFILE).join("ashlar"))
}

fn build(workspace: &Workspace, mut cargo: Command, name: &str, stop: &Stop) -> Result<()> {
    cargo.args(["build", "--profile", PROFILE, "--locked", "--package", "server"]);
    cargo.args(["--bin", "ashlar"]);
    let folder = workspace.tools();
    std::fs::create_dir_all(&folder)?;
    let log = folder.join(format!("{name}.log"));
    let progress = Progress::new();
    let running = progress.begin(&format!("build ({name})"));
    let status = Child::spawn(cargo, "build", &log)?.wait(stop, BUILD_LIMIT)?;
    if !status.success() {
        running.end(Mark::Failed, "");
        bail!("the build failed, {status}:\n{}", tail(&log, 40));
    }
    running.end(Mark::Passed, "");
    Ok(())
}

/// Adds up what each process has counted.
fn merge(merger: &Path, counts: &Path, profile: &Path) -> Result<()> {
    let mut command = Command::new(merger);
    command.args(["merge", "--sparse", "--output"]).arg(profile);
    let mut files = 0;
    for entry in std::fs::read_dir(counts).context("the program has counted nothing")? {
        command.arg(entry?.path());
        files += 1;
    }
    if files == 0 {
        bail!("the program has counted nothing");
    }
    stdout(command).map(|_| ())
}

/// When a file was written; of one that is not there, long ago.
fn written(file: &Path) -> SystemTime {
    file.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn hash(file: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    std::fs::read(file)?.hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}

/// What this machine's compiler is.
#[derive(Debug)]
struct Toolchain {
    /// The machine that it runs on, as it names it.
    host: String,
    /// The release of LLVM in it.
    llvm: u32,
    /// The folder of the compiler's own tools.
    tools: PathBuf,
}

/// The tool that adds counts up.
const MERGER: &str = "llvm-profdata";

impl Toolchain {
    fn find() -> Result<Toolchain> {
        let ask = |arguments: &[&str]| {
            let mut command = Command::new("rustc");
            command.args(arguments);
            stdout(command)
        };
        let about = ask(&["--version", "--verbose"])?;
        let root = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
        let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
        let host = field("host: ").context("the compiler does not tell its host")?.to_owned();
        let llvm = field("LLVM version: ").and_then(major).context("it does not tell its LLVM")?;
        let tools = root.join("lib/rustlib").join(&host).join("bin");
        Ok(Toolchain { host, llvm, tools })
    }

    /// The tool that reads what this compiler's programs have counted: the compiler's own, or one
    /// of the same release.
    fn merger(&self) -> Option<PathBuf> {
        let own = Some(self.tools.join(MERGER)).filter(|path| is_executable(path));
        let named = || which(&format!("{MERGER}-{}", self.llvm));
        let any = || which(MERGER).filter(|path| release_of(path) == Some(self.llvm));
        own.or_else(named).or_else(any)
    }

    fn lacks_merger(&self) -> String {
        let llvm = self.llvm;
        format!(
            "{MERGER} of LLVM {llvm} is not installed; `rustup component add llvm-tools` brings \
             it, or a package llvm-{llvm}"
        )
    }
}

/// The release of LLVM that a tool is of.
fn release_of(tool: &Path) -> Option<u32> {
    let mut command = Command::new(tool);
    command.arg("--version");
    let about = stdout(command).ok()?;
    about.lines().find_map(|line| major(line.split_once("LLVM version ")?.1))
}

/// The first number of a version.
fn major(version: &str) -> Option<u32> {
    version.trim().split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
