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

/// The suite of versitygw, of which a test makes the program: module and version.
const VERSITYGW: (&str, &str) = ("github.com/versity/versitygw", "v1.8.0");

/// MinIO's client for Go, whose sources hold its tests, with its version.
const MINIO_GO: (&str, &str) = ("github.com/minio/minio-go/v7", "v7.4.1");

/// MinIO's client for Python, with the version that `tests/external/requirements-minio.txt` installs.
const MINIO_PY: (&str, &str) = ("minio", "7.2.20");

/// The suite of table formats whose commits are conditional writes, and of engines that read them. Its
/// interpreter is its own.
pub(crate) const TABLES: &str = "tables";

/// Debian's packages, and a command that proves that each one is there.
const PACKAGES: [(&str, &[&str]); 6] = [
    ("python3-venv", &["python3", "-c", "import venv, ensurepip"]),
    ("rclone", &["rclone", "version"]),
    ("restic", &["restic", "version"]),
    ("s3cmd", &["s3cmd", "--version"]),
    ("curl", &["curl", "--version"]),
    FAKETIME,
];

/// A gateway whose clock is behind runs with it.
const FAKETIME: (&str, &[&str]) = ("faketime", &["faketime", "--version"]);

/// The suite in a browser runs with it, by its driver.
const BROWSER_PACKAGES: [(&str, &[&str]); 2] =
    [("chromium", &["chromium", "--version"]), ("chromium-driver", &["chromedriver", "--version"])];

/// What tests of file systems are, in programs of Rust: each with its version.
const FILE_TESTERS: [(&str, &str); 2] = [("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// What runs libFuzzer on targets in Rust, and its version.
const FUZZER: (&str, &str) = ("cargo-fuzz", "0.13.2");

/// Debian's packages for suites on a mount, each with its proof.
const FILE_PACKAGES: [(&str, &[&str]); 5] = [
    ("git", &["git", "--version"]),
    ("rsync", &["rsync", "--version"]),
    ("procps", &["pgrep", "--version"]),
    // The server's own programs are not in the search path.
    ("postgresql", &["test", "-d", "/usr/lib/postgresql"]),
    ("libacl1-dev", &["test", "-e", "/usr/include/sys/acl.h"]),
];

/// Debian's packages for suites that others wrote, each with its proof.
const EXTERNAL_PACKAGES: [(&str, &[&str]); 1] = [("jq", &["jq", "--version"])];

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

/// Suites that others wrote: a program, and folders of sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalSuites {
    /// The interpreter with MinIO's client for Python.
    pub(crate) python_minio: PathBuf,
    /// The interpreter with table formats and what reads them; empty where they are not wanted.
    pub(crate) python_tables: PathBuf,
    pub(crate) versitygw_source: PathBuf,
    pub(crate) minio_go_source: PathBuf,
    pub(crate) minio_py_source: PathBuf,
    pub(crate) mc_source: PathBuf,
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

    /// The browser that a suite runs in.
    pub(crate) fn prepare_browser(workspace: &Workspace, install: bool, stop: &Stop) -> Result<()> {
        let missing = BROWSER_PACKAGES.iter().filter(|(_, proof)| !succeeds(proof));
        let missing: Vec<&str> = missing.map(|(package, _)| *package).collect();
        Installer::new(workspace, install, stop)?.packages(&missing)
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

    /// What runs fuzz targets.
    pub(crate) fn prepare_fuzzer(workspace: &Workspace, stop: &Stop) -> Result<PathBuf> {
        let installer = Installer::new(workspace, true, stop)?;
        let (program, version) = FUZZER;
        installer.cargo(program, version)?;
        Ok(installer.folder.join("bin").join(program))
    }

    /// What suites that others wrote need; an interpreter of their own only for those in `suites`.
    pub(crate) fn prepare_external(
        workspace: &Workspace,
        install: bool,
        suites: &[&str],
        stop: &Stop,
    ) -> Result<ExternalSuites> {
        let installer = Installer::new(workspace, install, stop)?;
        let missing = EXTERNAL_PACKAGES.iter().filter(|(_, proof)| !succeeds(proof));
        installer.packages(&missing.map(|(package, _)| *package).collect::<Vec<_>>())?;
        let python_minio = installer.python_in(&workspace.external(), "minio")?;
        let minio_py_source = installer.python_sources(&python_minio, MINIO_PY)?;
        let mut python_tables = PathBuf::new();
        if suites.contains(&TABLES) {
            python_tables = installer.python_in(&workspace.external(), TABLES)?;
        }
        Ok(ExternalSuites {
            python_minio,
            python_tables,
            versitygw_source: go_sources(VERSITYGW.0, VERSITYGW.1)?,
            minio_go_source: go_sources(MINIO_GO.0, MINIO_GO.1)?,
            minio_py_source,
            mc_source: go_sources(MC.package, MC.version)?,
        })
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

    /// A published program at its version, in the tools folder.
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

    /// A virtual environment that holds what a requirements file of the client suites names.
    fn python(&self, name: &str) -> Result<PathBuf> {
        self.python_in(&self.workspace.clients(), name)
    }

    /// A virtual environment that holds exactly what a requirements file names.
    fn python_in(&self, suites: &Path, name: &str) -> Result<PathBuf> {
        let requirements = suites.join(format!("requirements-{name}.txt"));
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

    /// The folder of a Python package's sources at a version, tests included.
    fn python_sources(&self, python: &Path, (name, version): (&str, &str)) -> Result<PathBuf> {
        let stem = format!("{name}-{version}");
        let (folder, archive) = (self.folder.join(&stem), format!("{stem}.tar.gz"));
        if folder.is_dir() {
            return Ok(folder);
        }
        if !self.install {
            bail!("no sources at {}: run without --skip-install", folder.display());
        }
        let scratch = tempfile::tempdir_in(&self.folder)?;
        let mut command = Command::new(python);
        command.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]);
        command.arg("--dest").arg(scratch.path()).arg(format!("{name}=={version}"));
        self.run(command, "pip")?;
        let mut command = Command::new("tar");
        command.arg("-xzf").arg(&archive).current_dir(scratch.path());
        self.run(command, "tar")?;
        // Moved when it is whole, so that half of it is never taken for all.
        std::fs::rename(scratch.path().join(&stem), &folder)?;
        Ok(folder)
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

/// The folder of a Go module's sources, which Go fetches if they are not there.
fn go_sources(module: &str, version: &str) -> Result<PathBuf> {
    let mut command = Command::new("go");
    // Outside of any module, so that none of its own is asked for.
    command.args(["mod", "download", "-json", &format!("{module}@{version}")]);
    command.current_dir("/").env_remove("GOFLAGS");
    let said = stdout(command).context("cannot fetch the sources of a suite")?;
    let told: serde_json::Value = serde_json::from_str(&said)?;
    let folder = told["Dir"].as_str().context("go does not say where the sources are")?;
    Ok(folder.into())
}
