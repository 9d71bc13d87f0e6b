//! The paths of the checkout, of its build folder and of its members, and commands that run there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// A member of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The package's name.
    pub(crate) name: String,
    /// The folder of its `Cargo.toml`.
    pub(crate) folder: PathBuf,
}

/// The checkout in whose folder this program was started.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's build folder.
    pub(crate) target: PathBuf,
    /// All members, by name.
    pub(crate) members: Vec<Member>,
}

impl Workspace {
    /// Reads the paths from `cargo metadata`. Fails if the current folder is in no workspace.
    pub(crate) fn find() -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&stdout(command)?)?;
        let path = |value: &Value| value.as_str().map(PathBuf::from).context("cargo names a path");
        let mut members = Vec::new();
        for package in metadata["packages"].as_array().context("cargo lists packages")? {
            let manifest = path(&package["manifest_path"])?;
            members.push(Member {
                name: package["name"].as_str().context("a package has a name")?.to_owned(),
                folder: manifest.parent().context("a manifest has a parent folder")?.to_owned(),
            });
        }
        // The order of findings and of steps must not depend on cargo.
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            root: path(&metadata["workspace_root"])?,
            target: path(&metadata["target_directory"])?,
            members,
        })
    }

    /// The folder of installed tools. It is kept between runs, and `cargo clean` removes it.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The folder of the client suites.
    pub(crate) fn clients(&self) -> PathBuf {
        self.root.join("tests/clients")
    }

    /// The folder that runs the suites of other projects.
    pub(crate) fn external(&self) -> PathBuf {
        self.root.join("tests/external")
    }

    /// The folder of the suites that run on a mount.
    pub(crate) fn mounted(&self) -> PathBuf {
        self.root.join("tests/files")
    }

    /// The folder of the suites of the image, of packages and of the chart.
    pub(crate) fn delivery(&self) -> PathBuf {
        self.root.join("tests/delivery")
    }

    /// The path of the gateway's binary. `profile` is a subfolder of the build folder, such as
    /// `debug`.
    pub(crate) fn gateway(&self, profile: &str) -> PathBuf {
        self.target.join(profile).join("ashlar")
    }

    /// A `cargo` command that runs at the root of the checkout.
    pub(crate) fn cargo(&self) -> Command {
        self.cargo_program(Path::new("cargo"))
    }

    /// A `cargo` command that runs at `root`, the root of another checkout.
    pub(crate) fn cargo_at(root: &Path) -> Command {
        let mut command = cargo();
        command.current_dir(root);
        command
    }

    /// A command of a program that calls cargo itself, such as `cargo-fuzz`. It runs at the root.
    pub(crate) fn cargo_program(&self, program: &Path) -> Command {
        let mut command = clean_command(program);
        command.current_dir(&self.root);
        command
    }
}

/// A `cargo` command in the current folder.
fn cargo() -> Command {
    clean_command(Path::new("cargo"))
}

/// A command without the variables that `cargo run` sets for this package. Build scripts of other
/// packages would read them.
fn clean_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs a short command and returns its standard output. Fails with its standard error if it does
/// not exit with 0.
pub(crate) fn stdout(mut command: Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the path of a program in the search path, or `None` if it is not installed.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

/// Returns true if `path` is a file with an execute permission.
pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
