//! The programs that tests need from outside, found or installed.
//!
//! What a user would install system-wide comes from the machine's package manager. What must have
//! one exact version lies in the build folder, where a second run finds it again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::engines::{Engine, missing_packages};
use crate::workspace::{Workspace, is_executable, stdout, which};

const MINIO: GoTool = GoTool {
    program: "minio",
    package: "github.com/minio/minio",
    version: "v0.0.0-20260212201848-7aac2a2c5b7c",
};
const MC: GoTool = GoTool {
    program: "mc",
    package: "github.com/minio/mc",
    version: "v0.0.0-20250313080218-cf909e1063a9",
};

/// Debian's packages, and a command that proves that each one is there.
const PACKAGES: [(&str, &[&str]); 5] = [
    ("python3-venv", &["python3", "-c", "import venv, ensurepip"]),
    ("rclone", &["rclone", "version"]),
    ("restic", &["restic", "version"]),
    ("curl", &["curl", "--version"]),
    FAKETIME,
];

/// A gateway whose clock is behind runs with it.
const FAKETIME: (&str, &[&str]) = ("faketime", &["faketime", "--version"]);

/// What tests of file systems are, in programs of Rust: each with its version.
const FILE_TESTERS: [(&str, &str); 2] = [("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// Debian's packages for suites on a mount, each with its proof.
const FILE_PACKAGES: [(&str, &[&str]); 5] = [
    ("git", &["git", "--version"]),
    ("rsync", &["rsync", "--version"]),
    ("procps", &["pgrep", "--version"]),
    // The server's own programs are not in the search path.
    ("postgresql", &["test", "-d", "/usr/lib/postgresql"]),
    ("libacl1-dev", &["test", "-e", "/usr/include/sys/acl.h"]),
];

/// How long one installation may take: building MinIO takes minutes on two cores.
const INSTALL_LIMIT: Duration = Duration::from_mins(15);

/// A program installed by `go install`.
struct GoTool {
    program: &'static str,
    package: &'static str,
    version: &'static str,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// The server that blocks are kept in, and that the suites are proved against.
    pub(crate) minio: PathBuf,
    /// MinIO's client.
    pub(crate) mc: PathBuf,
    /// The interpreter with boto3 and the aws cli.
    pub(crate) python_aws: PathBuf,
    /// The interpreter with s3fs, pandas and pyarrow.
    pub(crate) python_frames: PathBuf,
}

impl Tools {
    /// Finds everything, and installs what is missing unless told not to; of the databases only
    /// what `engines` need.
    pub(crate) fn prepare(
        workspace: &Workspace,
        install: bool,
        engines: &[Engine],
        stop: &Stop,
    ) -> Result<Self> {
        let installer = Installer::new(workspace, install, stop)?;
        let clients = PACKAGES.iter().filter(|(_, proof)| !succeeds(proof));
        let mut missing: Vec<&str> = clients.map(|(package, _)| *package).collect();
        missing.extend(missing_packages(engines));
        installer.packages(&missing)?;
        Ok(Self {
            minio: installer.go(&MINIO)?,
            mc: installer.go(&MC)?,
            python_aws: installer.python("aws")?,
            python_frames: installer.python("frames")?,
        })
    }

    /// What suites on a mount need besides; returns the folder that has them in its `bin`.
    pub(crate) fn prepare_files(
        workspace: &Workspace,
        install: bool,
        stop: &Stop,
    ) -> Result<PathBuf> {
        let installer = Installer::new(workspace, install, stop)?;
        let missing = FILE_PACKAGES.iter().filter(|(_, proof)| !succeeds(proof));
        installer.packages(&missing.map(|(package, _)| *package).collect::<Vec<_>>())?;
        for (program, version) in FILE_TESTERS {
            installer.cargo(program, version)?;
        }
        Ok(installer.folder)
    }

    /// What the tests in Rust need: databases, and clocks that differ.
    pub(crate) fn prepare_databases(
        workspace: &Workspace,
        engines: &[Engine],
        stop: &Stop,
    ) -> Result<()> {
        let (faketime, proof) = FAKETIME;
        let mut missing = missing_packages(engines);
        missing.extend((!succeeds(proof)).then_some(faketime));
        Installer::new(workspace, true, stop)?.packages(&missing)
    }

    /// Databases, MinIO and its client only: what no S3 client but `mc` is measured with.
    pub(crate) fn prepare_servers(
        workspace: &Workspace,
        engines: &[Engine],
        stop: &Stop,
    ) -> Result<(PathBuf, PathBuf)> {
        let installer = Installer::new(workspace, true, stop)?;
        installer.packages(&missing_packages(engines))?;
        Ok((installer.go(&MINIO)?, installer.go(&MC)?))
    }

    /// The interpreter with s3fs, pandas and pyarrow.
    pub(crate) fn prepare_frames(workspace: &Workspace, stop: &Stop) -> Result<PathBuf> {
        let installer = Installer::new(workspace, true, stop)?;
        let (package, proof) = PACKAGES[0];
        let missing = if succeeds(proof) { None } else { Some(package) };
        installer.packages(missing.as_slice())?;
        installer.python("frames")
    }
}

struct Installer<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    install: bool,
    stop: &'a Stop,
}

impl<'a> Installer<'a> {
    fn new(workspace: &'a Workspace, install: bool, stop: &'a Stop) -> Result<Self> {
        let folder = workspace.tools();
        std::fs::create_dir_all(&folder)?;
        Ok(Self { workspace, folder, install, stop })
    }

    /// Debian packages, in one go.
    fn packages(&self, missing: &[&str]) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let wanted = missing.join(" ");
        if !self.install || which("apt-get").is_none() {
            bail!("install these packages, by their Debian names: {wanted}");
        }
        let prefix: &[&str] = match user_id()?.as_str() {
            "0" => &[],
            _ if succeeds(&["sudo", "-n", "true"]) => &["sudo", "-n"],
            _ => bail!("these packages are missing and only root may install them: {wanted}"),
        };
        for words in [&["update"][..], &[&["install", "--yes"][..], missing].concat()] {
            let words = [prefix, &["apt-get"], words].concat();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
            self.run(command, "apt-get")?;
        }
        Ok(())
    }

    /// A Go program at its version, from the search path, the tools folder or its sources.
    fn go(&self, tool: &GoTool) -> Result<PathBuf> {
        let folder = self.folder.join("bin");
        let ours = folder.join(tool.program);
        let found = which(tool.program).into_iter().chain([ours.clone()]);
        if let Some(path) = found.into_iter().find(|path| has_version(path, tool)) {
            return Ok(path);
        }
        let source = format!("{}@{}", tool.package, tool.version);
        if !self.install {
            bail!("{} is missing: GOBIN={} go install {source}", tool.program, folder.display());
        }
        if which("go").is_none() {
            bail!("{} is built from source: install Go (go.dev/dl) first", tool.program);
        }
        let mut command = Command::new("go");
        command.args(["install", &source]).env("GOBIN", &folder).env_remove("GOFLAGS");
        self.run(command, tool.program)?;
        Ok(ours)
    }

    /// A program of crates.io at its version, in the tools folder.
    fn cargo(&self, program: &str, version: &str) -> Result<()> {
        let ours = self.folder.join("bin").join(program);
        let mut command = Command::new(&ours);
        command.arg("--version");
        if stdout(command).is_ok_and(|said| said.trim().ends_with(version)) {
            return Ok(());
        }
        let source = format!("{program}@{version}");
        if !self.install {
            let folder = self.folder.display();
            bail!("{program} is missing: cargo install --locked --root {folder} {source}");
        }
        let mut command = self.workspace.cargo();
        // They wait for a file system most of the time: built fast is better than fast.
        command.args(["install", "--locked", "--debug", "--force", &source, "--root"]);
        command.arg(&self.folder).env_remove("CARGO_TARGET_DIR");
        self.run(command, program)
    }

    /// A virtual environment that holds exactly what a requirements file names.
    fn python(&self, name: &str) -> Result<PathBuf> {
        let requirements = self.workspace.clients().join(format!("requirements-{name}.txt"));
        let wanted = std::fs::read_to_string(&requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        let folder = self.folder.join(format!("venv-{name}"));
        let python = folder.join("bin/python");
        // Written last, so a half-made environment is made again.
        let stamp = folder.join("requirements.txt");
        if is_executable(&python) && std::fs::read_to_string(&stamp).is_ok_and(|it| it == wanted) {
            return Ok(python);
        }
        if !self.install {
            bail!("no Python environment at {}: run without --skip-install", folder.display());
        }
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(&folder);
        self.run(command, "venv")?;
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements);
        self.run(command, "pip")?;
        std::fs::write(&stamp, wanted)?;
        Ok(python)
    }

    fn run(&self, command: Command, name: &str) -> Result<()> {
        let log = self.folder.join(format!("install-{name}.log"));
        let status = Child::spawn(command, name, &log)?.wait(self.stop, INSTALL_LIMIT)?;
        if !status.success() {
            bail!("{name} failed, {status}:\n{}", tail(&log, 20));
        }
        Ok(())
    }
}

/// Whether a short command runs and exits with zero.
fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.output().is_ok_and(|output| output.status.success())
}

fn user_id() -> Result<String> {
    let mut command = Command::new("id");
    command.arg("-u");
    Ok(stdout(command)?.trim().to_owned())
}

/// Whether the binary was built from the wanted version of its module, as Go records it.
fn has_version(path: &Path, tool: &GoTool) -> bool {
    if !is_executable(path) {
        return false;
    }
    let mut command = Command::new("go");
    command.args(["version", "-m"]).arg(path);
    stdout(command).is_ok_and(|text| text.contains(tool.version))
}
