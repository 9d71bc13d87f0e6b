//! Finds or installs the external programs that tests need.
//!
//! Programs of any version come from the machine's package manager. Programs of one exact version
//! are installed in the build folder, and later runs find them there. For example, `rclone` is a
//! Debian package, and MinIO is built from its sources at a fixed version.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};
use crate::engines::{Engine, missing_cluster_packages, missing_packages};
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

/// The program that checks and renders the chart.
const HELM: GoTool =
    GoTool { program: "helm", package: "helm.sh/helm/v3/cmd/helm", version: "v3.18.6" };

/// The suite of versitygw, as Go module and version. A test builds its program.
const VERSITYGW: (&str, &str) = ("github.com/versity/versitygw", "v1.8.0");

/// MinIO's client for Go, as Go module and version. Its tests are in its sources.
const MINIO_GO: (&str, &str) = ("github.com/minio/minio-go/v7", "v7.4.1");

/// MinIO's client for Python, and its version. `tests/external/requirements-minio.txt` must install
/// the same version.
const MINIO_PY: (&str, &str) = ("minio", "7.2.20");

/// The suite of table formats that commit by conditional writes, and of engines that read them. It
/// has its own Python environment.
pub(crate) const TABLES: &str = "tables";

/// Debian packages of the client suites, each with a command that succeeds if it is installed.
const PACKAGES: [(&str, &[&str]); 7] = [
    ("python3-venv", &["python3", "-c", "import venv, ensurepip"]),
    ("rclone", &["rclone", "version"]),
    ("restic", &["restic", "version"]),
    ("s3cmd", &["s3cmd", "--version"]),
    ("curl", &["curl", "--version"]),
    FAKETIME,
    PROMTOOL,
];

/// The Debian package of the program `faketime`, with which tests run a gateway whose clock is
/// behind, and the command that succeeds if it is installed.
const FAKETIME: (&str, &[&str]) = ("faketime", &["faketime", "--version"]);

/// The Debian package of `promtool`, which checks metrics and alert rules, and the command that
/// succeeds if it is installed.
const PROMTOOL: (&str, &[&str]) = ("prometheus", &["promtool", "--version"]);

/// Debian packages of the browser suite.
const BROWSER_PACKAGES: [(&str, &[&str]); 2] =
    [("chromium", &["chromium", "--version"]), ("chromium-driver", &["chromedriver", "--version"])];

/// File system testers from crates.io, each with its version.
const FILE_TESTERS: [(&str, &str); 2] = [("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// The program that runs libFuzzer on targets in Rust, and its version.
const FUZZER: (&str, &str) = ("cargo-fuzz", "0.13.2");

/// Debian packages of the suites on a mount, each with a command that succeeds if it is installed.
const FILE_PACKAGES: [(&str, &[&str]); 5] = [
    ("git", &["git", "--version"]),
    ("rsync", &["rsync", "--version"]),
    ("procps", &["pgrep", "--version"]),
    // Debian does not put the programs of the PostgreSQL server into the search path.
    ("postgresql", &["test", "-d", "/usr/lib/postgresql"]),
    ("libacl1-dev", &["test", "-e", "/usr/include/sys/acl.h"]),
];

/// Debian packages of the suites of the image and of packages, each with a command that succeeds if
/// it is installed.
const DELIVERY_PACKAGES: [(&str, &[&str]); 14] = [
    ("podman", &["podman", "--version"]),
    ("buildah", &["buildah", "--version"]),
    ("crun", &["crun", "--version"]),
    ("conmon", &["conmon", "--version"]),
    // The two that connect containers are in no search path.
    ("netavark", &["test", "-e", "/usr/lib/podman/netavark"]),
    ("aardvark-dns", &["test", "-e", "/usr/lib/podman/aardvark-dns"]),
    ("iptables", &["iptables", "--version"]),
    ("iproute2", &["ip", "-Version"]),
    ("mmdebstrap", &["mmdebstrap", "--version"]),
    ("gpgv", &["gpgv", "--version"]),
    ("binutils", &["strip", "--version"]),
    ("systemd", &["systemd-analyze", "--version"]),
    ("strace", &["strace", "--version"]),
    ("procps", &["pgrep", "--version"]),
];

/// Debian packages of the suites of other projects, each with a command that succeeds if it is
/// installed.
const EXTERNAL_PACKAGES: [(&str, &[&str]); 1] = [("jq", &["jq", "--version"])];

/// The time limit of one installation. Building MinIO takes minutes on two cores.
const INSTALL_LIMIT: Duration = Duration::from_mins(15);

/// A program that `go install` builds.
struct GoTool {
    program: &'static str,
    package: &'static str,
    version: &'static str,
}

/// The paths of the tools of client suites.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// MinIO, which keeps blocks and which `--reference` tests.
    pub(crate) minio: PathBuf,
    /// MinIO's client.
    pub(crate) mc: PathBuf,
    /// The Python interpreter with boto3 and the aws cli.
    pub(crate) python_aws: PathBuf,
    /// The Python interpreter with s3fs, pandas and pyarrow.
    pub(crate) python_frames: PathBuf,
}

/// The interpreters and sources of the suites of other projects.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalSuites {
    /// The Python interpreter with MinIO's client.
    pub(crate) python_minio: PathBuf,
    /// The Python interpreter with table formats and their readers; empty if the suite [`TABLES`]
    /// is not wanted.
    pub(crate) python_tables: PathBuf,
    /// The folder of versitygw's sources. The other `_source` fields are like it.
    pub(crate) versitygw_source: PathBuf,
    pub(crate) minio_go_source: PathBuf,
    pub(crate) minio_py_source: PathBuf,
    pub(crate) mc_source: PathBuf,
}

/// The needs of the suites of the image, of packages and of the chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// The Python interpreter with podman-compose and hadolint.
    pub(crate) python: PathBuf,
    /// The folder in which base images and layers are kept.
    pub(crate) images: PathBuf,
    /// The program `helm`; empty if no suite needs it.
    pub(crate) helm: PathBuf,
}

impl Tools {
    /// Finds the tools of client suites, the databases of `engines`, and the programs that manage
    /// clusters of them. Installs missing ones if `install` is true; otherwise fails.
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
        missing.extend(missing_cluster_packages(engines));
        installer.packages(&missing)?;
        Ok(Self {
            minio: installer.go(&MINIO)?,
            mc: installer.go(&MC)?,
            python_aws: installer.python("aws")?,
            python_frames: installer.python("frames")?,
        })
    }

    /// Finds or installs the browser and its driver.
    pub(crate) fn prepare_browser(workspace: &Workspace, install: bool, stop: &Stop) -> Result<()> {
        let missing = BROWSER_PACKAGES.iter().filter(|(_, proof)| !succeeds(proof));
        let missing: Vec<&str> = missing.map(|(package, _)| *package).collect();
        Installer::new(workspace, install, stop)?.packages(&missing)
    }

    /// Finds or installs the additional tools of suites on a mount. Returns the folder whose
    /// subfolder `bin` contains the file system testers.
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

    /// Finds or installs the needs of the suites of the image and of packages, and `helm` for the
    /// suite of the chart.
    pub(crate) fn prepare_delivery(
        workspace: &Workspace,
        helm: bool,
        install: bool,
        stop: &Stop,
    ) -> Result<Delivery> {
        let installer = Installer::new(workspace, install, stop)?;
        let missing = DELIVERY_PACKAGES.iter().filter(|(_, proof)| !succeeds(proof));
        installer.packages(&missing.map(|(package, _)| *package).collect::<Vec<_>>())?;
        let python = installer.python_in(&workspace.delivery(), "delivery")?;
        let helm = if helm { installer.go(&HELM)? } else { PathBuf::new() };
        Ok(Delivery { python, images: installer.folder.join("images"), helm })
    }

    /// Finds or installs [`FUZZER`], and returns its path.
    pub(crate) fn prepare_fuzzer(workspace: &Workspace, stop: &Stop) -> Result<PathBuf> {
        let installer = Installer::new(workspace, true, stop)?;
        let (program, version) = FUZZER;
        installer.cargo(program, version)?;
        Ok(installer.folder.join("bin").join(program))
    }

    /// Finds or installs the needs of the suites of other projects. The environment of [`TABLES`]
    /// is large, so it is prepared only if `suites` contains that suite.
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

    /// Finds or installs the needs of the tests in Rust: databases, [`FAKETIME`] for gateways with
    /// wrong clocks, and [`PROMTOOL`].
    pub(crate) fn prepare_databases(
        workspace: &Workspace,
        engines: &[Engine],
        stop: &Stop,
    ) -> Result<()> {
        let mut missing = missing_packages(engines);
        let programs = [FAKETIME, PROMTOOL].into_iter().filter(|(_, proof)| !succeeds(proof));
        missing.extend(programs.map(|(package, _)| package));
        Installer::new(workspace, true, stop)?.packages(&missing)
    }

    /// Finds or installs the databases, MinIO and its client, for measurements without other
    /// clients. Returns the paths of MinIO and of its client.
    pub(crate) fn prepare_servers(
        workspace: &Workspace,
        engines: &[Engine],
        stop: &Stop,
    ) -> Result<(PathBuf, PathBuf)> {
        let installer = Installer::new(workspace, true, stop)?;
        installer.packages(&missing_packages(engines))?;
        Ok((installer.go(&MINIO)?, installer.go(&MC)?))
    }

    /// Finds or installs the Python interpreter with s3fs, pandas and pyarrow.
    pub(crate) fn prepare_frames(workspace: &Workspace, stop: &Stop) -> Result<PathBuf> {
        let installer = Installer::new(workspace, true, stop)?;
        let (package, proof) = PACKAGES[0];
        let missing = if succeeds(proof) { None } else { Some(package) };
        installer.packages(missing.as_slice())?;
        installer.python("frames")
    }
}

/// Installs programs into the build folder.
struct Installer<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    /// True if missing programs are installed; false if a missing program is an error.
    install: bool,
    stop: &'a Stop,
}

impl<'a> Installer<'a> {
    fn new(workspace: &'a Workspace, install: bool, stop: &'a Stop) -> Result<Self> {
        let folder = workspace.tools();
        std::fs::create_dir_all(&folder)?;
        Ok(Self { workspace, folder, install, stop })
    }

    /// Installs Debian packages with one call of `apt-get`. Fails with the list of packages if only
    /// the user can install them.
    fn packages(&self, missing: &[&str]) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let wanted = missing.join(" ");
        if !self.install || which("apt-get").is_none() {
            bail!("install these Debian packages first: {wanted}");
        }
        // `sudo -n` fails instead of asking for a password, which a run without a terminal cannot
        // give.
        let prefix: &[&str] = match user_id()?.as_str() {
            "0" => &[],
            _ if succeeds(&["sudo", "-n", "true"]) => &["sudo", "-n"],
            _ => bail!("these packages are missing, and only root can install them: {wanted}"),
        };
        // The package lists of a new machine or container are often empty.
        for words in [&["update"][..], &[&["install", "--yes"][..], missing].concat()] {
            let words = [prefix, &["apt-get"], words].concat();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
            self.run(command, "apt-get")?;
        }
        Ok(())
    }

    /// Returns the path of a Go program at its version, from the search path or the tools folder.
    /// Otherwise builds it from its sources.
    fn go(&self, tool: &GoTool) -> Result<PathBuf> {
        let folder = self.folder.join("bin");
        let ours = folder.join(tool.program);
        // A program of the user is fine if it has the exact version.
        let found = which(tool.program).into_iter().chain([ours.clone()]);
        if let Some(path) = found.into_iter().find(|path| has_version(path, tool)) {
            return Ok(path);
        }
        let source = format!("{}@{}", tool.package, tool.version);
        if !self.install {
            bail!(
                "{} is missing; install it with GOBIN={} go install {source}",
                tool.program,
                folder.display()
            );
        }
        if which("go").is_none() {
            bail!("{} is built from source; install Go (go.dev/dl) first", tool.program);
        }
        let mut command = Command::new("go");
        // The user's flags, such as `-mod=vendor`, are for other modules.
        command.args(["install", &source]).env("GOBIN", &folder).env_remove("GOFLAGS");
        self.run(command, tool.program)?;
        Ok(ours)
    }

    /// Installs a program from crates.io at its version into the tools folder.
    fn cargo(&self, program: &str, version: &str) -> Result<()> {
        let ours = self.folder.join("bin").join(program);
        let mut command = Command::new(&ours);
        command.arg("--version");
        if stdout(command).is_ok_and(|output| output.trim().ends_with(version)) {
            return Ok(());
        }
        let source = format!("{program}@{version}");
        if !self.install {
            let folder = self.folder.display();
            bail!(
                "{program} is missing; install it with cargo install --locked --root {folder} {source}"
            );
        }
        let mut command = self.workspace.cargo();
        // These programs mostly wait for a file system, so a debug build, which takes less time, is
        // fast enough.
        // `--force` replaces a program of another version.
        command.args(["install", "--locked", "--debug", "--force", &source, "--root"]);
        command.arg(&self.folder).env_remove("CARGO_TARGET_DIR");
        self.run(command, program)
    }

    /// Returns the interpreter of a virtual environment with the requirements file
    /// `requirements-NAME.txt` of the client suites.
    fn python(&self, name: &str) -> Result<PathBuf> {
        self.python_in(&self.workspace.clients(), name)
    }

    /// Returns the interpreter of a virtual environment with exactly the packages of
    /// `requirements-NAME.txt` in the folder `suites`.
    fn python_in(&self, suites: &Path, name: &str) -> Result<PathBuf> {
        let requirements = suites.join(format!("requirements-{name}.txt"));
        let wanted = std::fs::read_to_string(&requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        let folder = self.folder.join(format!("venv-{name}"));
        let python = folder.join("bin/python");
        // The copy of the requirements is written last, so an environment whose installation was
        // interrupted is installed again.
        let stamp = folder.join("requirements.txt");
        if is_executable(&python) && std::fs::read_to_string(&stamp).is_ok_and(|it| it == wanted) {
            return Ok(python);
        }
        if !self.install {
            bail!("no Python environment in {}; run without --skip-install", folder.display());
        }
        let mut command = Command::new("python3");
        // `--clear` removes the packages of an older requirements file.
        command.args(["-m", "venv", "--clear"]).arg(&folder);
        self.run(command, "venv")?;
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements);
        self.run(command, "pip")?;
        std::fs::write(&stamp, wanted)?;
        Ok(python)
    }

    /// Returns the folder of a Python package's sources at a version, which include its tests.
    fn python_sources(&self, python: &Path, (name, version): (&str, &str)) -> Result<PathBuf> {
        let stem = format!("{name}-{version}");
        let (folder, archive) = (self.folder.join(&stem), format!("{stem}.tar.gz"));
        if folder.is_dir() {
            return Ok(folder);
        }
        if !self.install {
            bail!("no sources in {}; run without --skip-install", folder.display());
        }
        // A rename works within one file system only, so the temporary folder is in the same one.
        let scratch = tempfile::tempdir_in(&self.folder)?;
        let mut command = Command::new(python);
        command.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]);
        command.arg("--dest").arg(scratch.path()).arg(format!("{name}=={version}"));
        self.run(command, "pip")?;
        let mut command = Command::new("tar");
        command.arg("-xzf").arg(&archive).current_dir(scratch.path());
        self.run(command, "tar")?;
        // The rename comes last, so a later run never uses sources that are incomplete.
        std::fs::rename(scratch.path().join(&stem), &folder)?;
        Ok(folder)
    }

    /// Runs an installation. Fails with the end of its log.
    fn run(&self, command: Command, name: &str) -> Result<()> {
        let log = self.folder.join(format!("install-{name}.log"));
        let status = Child::spawn(command, name, &log)?.wait(self.stop, INSTALL_LIMIT)?;
        if !status.success() {
            bail!("{name} failed, {status}:\n{}", tail(&log, 20));
        }
        Ok(())
    }
}

/// Returns true if a short command exits with 0.
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

/// Returns true if a program was built from the wanted version of its module. Go records the
/// version in each program.
fn has_version(path: &Path, tool: &GoTool) -> bool {
    if !is_executable(path) {
        return false;
    }
    let mut command = Command::new("go");
    command.args(["version", "-m"]).arg(path);
    stdout(command).is_ok_and(|text| text.contains(tool.version))
}

/// Returns the folder of a Go module's sources. Go downloads them if they are missing.
fn go_sources(module: &str, version: &str) -> Result<PathBuf> {
    let mut command = Command::new("go");
    // The root folder is in no module, so Go does not read the requirements of another module.
    command.args(["mod", "download", "-json", &format!("{module}@{version}")]);
    command.current_dir("/").env_remove("GOFLAGS");
    let output = stdout(command).context("cannot download the sources of a suite")?;
    let module: serde_json::Value = serde_json::from_str(&output)?;
    let folder = module["Dir"].as_str().context("go prints no folder of the sources")?;
    Ok(folder.into())
}
