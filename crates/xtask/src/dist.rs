//! `cargo xtask dist`: builds the program for users, with profile-guided optimization (PGO).
//!
//! The program is built twice. The first build counts how often each branch and function runs,
//! under the load of [`training`] over every engine. The second build uses these counts: the
//! compiler inlines and places frequent code together, and moves rare code away. For example, the
//! code of a GET stays together, and the code of its errors does not interrupt it.
//!
//! The tool [`MERGER`] merges the counts. It must have the compiler's version of LLVM. Rust's
//! component `llvm-tools` and Debian's packages `llvm-NN` contain it.

mod deb;
mod sbom;
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

/// The cargo profile of the program for users.
const PROFILE: &str = "dist";

/// The time limit of one build.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// Options of `cargo xtask dist`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    build: Build,
    /// Also make a Debian package, and the list of its parts (SBOM) beside it.
    #[arg(long)]
    deb: bool,
    /// Pack this program instead of building one.
    #[arg(long, value_name = "PROGRAM", requires = "deb")]
    program: Option<PathBuf>,
    /// The folder for the package [default: the folder of the program].
    #[arg(long, value_name = "DIR", requires = "deb")]
    output: Option<PathBuf>,
}

/// Options of a build of the program.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Build {
    /// Build once, without PGO: less than half of the build time, and a program that is slower by
    /// some percent.
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Builds the program and prints its path, `target/shipped/ashlar`, and the path of the package if
/// one is wanted.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    let shipped = workspace.target.join("shipped");
    let folder = options.output.clone().unwrap_or_else(|| shipped.clone());
    if let Some(program) = &options.program {
        println!("{}", deb::pack(workspace, program, &folder)?.display());
        return Ok(true);
    }
    // The load of the training runs in this process.
    if cfg!(debug_assertions) {
        return run_release(workspace);
    }
    let program = if options.build.plain {
        plain(workspace, stop)?
    } else {
        let toolchain = Toolchain::find()?;
        let Some(merger) = toolchain.merger() else { bail!("{}", toolchain.lacks_merger()) };
        profiled(workspace, &toolchain, &merger, stop)?
    };
    let shipped = shipped.join("ashlar");
    std::fs::create_dir_all(shipped.parent().context("the program has a parent folder")?)?;
    // Renaming replaces the name only, so processes that run the old program keep running it.
    // Writing to the file of a running program fails.
    let fresh = shipped.with_extension("new");
    std::fs::copy(&program, &fresh)?;
    std::fs::rename(&fresh, &shipped)?;
    println!("{}", shipped.display());
    if options.deb {
        println!("{}", deb::pack(workspace, &shipped, &folder)?.display());
    }
    Ok(true)
}

/// Replaces this process by the release build of xtask with the same arguments. A debug build of
/// the load is so slow that it would measure itself. Returns only errors.
pub(crate) fn run_release(workspace: &Workspace) -> Result<bool> {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--quiet", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1));
    eprintln!("building the load generator in release mode");
    Err(command.exec()).context("cannot run cargo")
}

/// Builds the program with PGO if this machine has the tools for it. Otherwise prints the reason
/// and builds without PGO. Returns the path of the program.
pub(crate) fn best(workspace: &Workspace, options: Build, stop: &Stop) -> Result<PathBuf> {
    if options.plain {
        return plain(workspace, stop);
    }
    let toolchain = Toolchain::find()?;
    match toolchain.merger() {
        Some(merger) => profiled(workspace, &toolchain, &merger, stop),
        None => {
            eprintln!(
                "building without PGO, so the program is slower by some percent: {}",
                toolchain.lacks_merger()
            );
            plain(workspace, stop)
        }
    }
}

/// Builds once, without PGO.
fn plain(workspace: &Workspace, stop: &Stop) -> Result<PathBuf> {
    build(workspace, workspace.cargo(), "build", stop)?;
    Ok(workspace.gateway(PROFILE))
}

/// Builds twice, with the load between the builds. If the sources did not change since the last
/// time, keeps the programs and the counts.
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
    // A profile that is older than the program counts the branches of other sources.
    if modified(&profile) <= modified(&program) {
        if counts.exists() {
            // Counts of an older program do not fit to the new one.
            std::fs::remove_dir_all(&counts)?;
        }
        Tools::prepare_databases(workspace, &Engine::ALL, stop)?;
        training::run(&program, stop).context("cannot put load on the counting program")?;
        merge(merger, &counts, &profile)?;
        std::fs::remove_dir_all(&counts)?;
    }
    let profiled = workspace.target.join("dist-profiled");
    // Cargo compares flags but not the contents of the profile, and would keep crates that were
    // built with another profile. So remove them if the hash of the profile has changed.
    let (mark, hash) = (profiled.join("profile"), hash(&profile)?);
    if profiled.exists() && std::fs::read_to_string(&mark).ok().as_ref() != Some(&hash) {
        std::fs::remove_dir_all(&profiled)?;
    }
    std::fs::create_dir_all(&profiled)?;
    std::fs::write(&mark, hash)?;
    let uses = format!("-Cprofile-use={}", profile.display());
    build_with(workspace, toolchain, &profiled, &uses, stop)
}

/// Builds with an additional flag for the compiler, in its own build folder.
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
    // If a target is named, cargo does not apply the flags to build scripts and macros, which run
    // during the build and must not count.
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

/// Builds with this cargo command. `name` is the name of the log.
fn build(workspace: &Workspace, mut cargo: Command, name: &str, stop: &Stop) -> Result<()> {
    // The commit is in `ashlar version --json`. Sources that are no checkout have none.
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["rev-parse", "HEAD"]);
    if let Ok(commit) = stdout(git) {
        cargo.env("ASHLAR_BUILD_COMMIT", commit.trim());
    }
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

/// Merges the counts of all processes into one profile. Fails if there are no counts.
fn merge(merger: &Path, counts: &Path, profile: &Path) -> Result<()> {
    let mut command = Command::new(merger);
    command.args(["merge", "--sparse", "--output"]).arg(profile);
    let mut files = 0;
    for entry in std::fs::read_dir(counts).context("the program wrote no counts")? {
        command.arg(entry?.path());
        files += 1;
    }
    if files == 0 {
        bail!("the program wrote no counts");
    }
    stdout(command).map(|_| ())
}

/// Returns the time of the last change of a file, or 1970 if the file does not exist.
fn modified(file: &Path) -> SystemTime {
    file.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn hash(file: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    std::fs::read(file)?.hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}

/// The installed compiler.
#[derive(Debug)]
struct Toolchain {
    /// The target triple of this machine.
    host: String,
    /// The major version of the compiler's LLVM.
    llvm: u32,
    /// The folder of tools that are installed with the compiler.
    tools: PathBuf,
}

/// The tool that merges counts.
const MERGER: &str = "llvm-profdata";

impl Toolchain {
    /// Asks `rustc` for its version and its folders.
    fn find() -> Result<Toolchain> {
        let ask = |arguments: &[&str]| {
            let mut command = Command::new("rustc");
            command.args(arguments);
            stdout(command)
        };
        let about = ask(&["--version", "--verbose"])?;
        let root = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
        let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
        let host = field("host: ").context("rustc prints no host")?.to_owned();
        let llvm =
            field("LLVM version: ").and_then(major).context("rustc prints no LLVM version")?;
        let tools = root.join("lib/rustlib").join(&host).join("bin");
        Ok(Toolchain { host, llvm, tools })
    }

    /// Returns the path of [`MERGER`] in the compiler's LLVM version: the compiler's own tool, or
    /// one from the search path. The format of counts differs between versions.
    fn merger(&self) -> Option<PathBuf> {
        let own = Some(self.tools.join(MERGER)).filter(|path| is_executable(path));
        // Debian's packages of several LLVM versions have the version in the name of the program.
        let named = || which(&format!("{MERGER}-{}", self.llvm));
        let any = || which(MERGER).filter(|path| release_of(path) == Some(self.llvm));
        own.or_else(named).or_else(any)
    }

    /// Returns the error text for a machine without [`MERGER`].
    fn lacks_merger(&self) -> String {
        let llvm = self.llvm;
        format!(
            "{MERGER} of LLVM {llvm} is not installed; install it with `rustup component add \
             llvm-tools` or with the package llvm-{llvm}"
        )
    }
}

/// Returns the major LLVM version of a tool, or `None` if the tool does not print one.
fn release_of(tool: &Path) -> Option<u32> {
    let mut command = Command::new(tool);
    command.arg("--version");
    let about = stdout(command).ok()?;
    about.lines().find_map(|line| major(line.split_once("LLVM version ")?.1))
}

/// Returns the first number of a version.
fn major(version: &str) -> Option<u32> {
    version.trim().split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
