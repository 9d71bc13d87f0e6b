//! Packages for pip, made on this machine from Python's own library.
//!
//! A measurement must not depend on a network, and real packages must compile as users' packages
//! do. So each wheel is a package of the standard library under another name: for example,
//! `bench_json-1.0-py3-none-any.whl` has the modules of `json`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::workspace::{stdout, which};

/// The packages of the standard library: about a hundred modules. The environment itself has a few
/// hundred more, those of pip.
const NAMES: [&str; 6] = ["asyncio", "email", "json", "logging", "urllib", "xml"];

/// A program in Python that writes a wheel for each named package into a folder. A wheel is a zip
/// archive with the list of its files, their hashes and their sizes.
const PROGRAM: &str = r#"
import base64, hashlib, os, sys, sysconfig, zipfile
folder, *names = sys.argv[1:]
library = sysconfig.get_path("stdlib")
for name in names:
    title, record = f"bench_{name}", []
    path = os.path.join(folder, f"{title}-1.0-py3-none-any.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(path, content):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record.append(f"{path},sha256={digest},{len(content)}\n")
            wheel.writestr(path, content)
        for at, _, files in os.walk(os.path.join(library, name)):
            inside = os.path.relpath(at, os.path.join(library, name))
            for file in files:
                if file.endswith(".py"):
                    with open(os.path.join(at, file), "rb") as source:
                        add(os.path.normpath(os.path.join(title, inside, file)), source.read())
        about = f"{title}-1.0.dist-info"
        add(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {title}\nVersion: 1.0\n".encode())
        add(f"{about}/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "".join(record) + f"{about}/RECORD,,\n")
"#;

/// A Python interpreter, and the packages that it installs.
#[derive(Debug)]
pub(super) struct Wheels {
    python: PathBuf,
    folder: PathBuf,
}

impl Wheels {
    /// Writes the wheels into a new folder. Fails if there is no Python with the module `venv`.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let python = which("python3").context("python3 is not installed")?;
        let mut ask = Command::new(python);
        // The program in the search path can be a script that searches for the interpreter.
        ask.args(["-c", "import ensurepip, sys, venv; print(sys.executable)"]);
        let python = PathBuf::from(stdout(ask).context("python3-venv is not installed")?.trim());
        std::fs::create_dir(folder)?;
        let mut write = Command::new(&python);
        write.args(["-c", PROGRAM]).arg(folder).args(NAMES);
        stdout(write).context("cannot write wheels")?;
        Ok(Self { python, folder: folder.to_owned() })
    }

    /// Returns the commands that create an environment and install all packages into it.
    pub(super) fn commands(&self, environment: &Path) -> [Command; 2] {
        let mut create = Command::new(&self.python);
        create.args(["-m", "venv"]).arg(environment);
        let mut install = Command::new(environment.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir"]);
        install.arg("--find-links").arg(&self.folder);
        install.args(NAMES.map(|name| format!("bench_{name}")));
        [create, install].map(|mut command| {
            for (name, _) in std::env::vars_os() {
                // The settings of this user, such as an index of packages, are not part of the
                // work.
                let text = name.to_string_lossy();
                if text.starts_with("PIP_") || text.starts_with("PYTHON") {
                    command.env_remove(name);
                }
            }
            command.env("PIP_CONFIG_FILE", "/dev/null");
            command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
            command
        })
    }
}
