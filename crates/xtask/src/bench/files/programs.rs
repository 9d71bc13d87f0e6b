//! The programs that take part, built or found.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::super::options::Options;
use crate::child::{Child, Stop, tail};
use crate::engines::Engine;
use crate::progress::{Mark, Progress};
use crate::tools::Tools;
use crate::workspace::{Workspace, which};

/// How long one build may take.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// Where everything is.
#[derive(Debug)]
pub(super) struct FilePrograms {
    pub(super) ashlar: PathBuf,
    /// The file system in memory, built as Ashlar is.
    pub(super) null: PathBuf,
    pub(super) minio: PathBuf,
    pub(super) mc: PathBuf,
    /// An interpreter with pandas and s3fs.
    pub(super) python: PathBuf,
    /// s3fs-fuse, if it is installed.
    pub(super) s3fs: Option<PathBuf>,
}

impl FilePrograms {
    /// Builds ours for release, in minutes: both sides of FUSE alike, and not as `dist` would.
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
        build(workspace, &["--package", "fuse", "--example", "null"], progress, stop)?;
        let null = workspace.target.join("release/examples/null");
        let (minio, mc) = Tools::prepare_servers(workspace, engines, stop)?;
        let python = Tools::prepare_frames(workspace, stop)?;
        Ok(Self { ashlar, null, minio, mc, python, s3fs: which("s3fs") })
    }
}

fn build(workspace: &Workspace, what: &[&str], progress: &Progress, stop: &Stop) -> Result<()> {
    let name = what.last().copied().unwrap_or_default();
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--locked"]).args(what);
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
