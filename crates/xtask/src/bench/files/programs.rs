//! The programs of the measurement, built or found.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::super::options::Options;
use crate::child::{Child, Stop, tail};
use crate::engines::Engine;
use crate::progress::{Mark, Progress};
use crate::tools::Tools;
use crate::workspace::{Workspace, which};

/// The time limit of one build.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// The paths of the programs.
#[derive(Debug)]
pub(super) struct FilePrograms {
    pub(super) ashlar: PathBuf,
    /// The null file system, which keeps files in memory and uses Ashlar's FUSE crate.
    pub(super) null: PathBuf,
    pub(super) minio: PathBuf,
    pub(super) mc: PathBuf,
    /// A Python interpreter with pandas and s3fs.
    pub(super) python: PathBuf,
    /// s3fs-fuse; `None` if it is not installed.
    pub(super) s3fs: Option<PathBuf>,
}

impl FilePrograms {
    /// Builds Ashlar and the null file system with the release profile, and finds or installs the
    /// rest. Both have the same profile, so that their ratio is fair; the profile of `dist` would
    /// build longer.
    pub(super) fn prepare(
        workspace: &Workspace,
        options: &Options,
        engines: &[Engine],
        progress: &Progress,
        stop: &Stop,
    ) -> Result<Self> {
        let ashlar = match &options.binary {
            Some(binary) => binary.clone(),
            None => {
                build(workspace, &["--package", "server", "--bin", "ashlar"], progress, stop)?;
                workspace.gateway("release")
            }
        };
        // The null file system is always built from this checkout, also with `--binary`.
        build(workspace, &["--package", "fuse", "--example", "null"], progress, stop)?;
        let null = workspace.target.join("release/examples/null");
        let (minio, mc) = Tools::prepare_servers(workspace, engines, stop)?;
        let python = Tools::prepare_frames(workspace, stop)?;
        Ok(Self { ashlar, null, minio, mc, python, s3fs: which("s3fs") })
    }
}

/// Builds one program; `selection` are the arguments that select it.
pub(in crate::bench) fn build(
    workspace: &Workspace,
    selection: &[&str],
    progress: &Progress,
    stop: &Stop,
) -> Result<()> {
    let name = selection.last().copied().unwrap_or_default();
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--locked"]).args(selection);
    let folder = workspace.tools();
    std::fs::create_dir_all(&folder)?;
    let log = folder.join(format!("release-{name}.log"));
    let running = progress.begin(&format!("build {name} for release"));
    let status = Child::spawn(cargo, "build", &log)?.wait(stop, BUILD_LIMIT)?;
    if !status.success() {
        running.end(Mark::Failed, "");
        bail!("the build failed, {status}:\n{}", tail(&log, 40));
    }
    running.end(Mark::Passed, "");
    Ok(())
}
