//! `cargo xtask bench --company`: compares a process that has its volume alone with one on a volume
//! that peers have open as well.
//!
//! Both volumes have the same engine, the same MinIO and the same content. Rounds alternate between
//! them, so that other work of the machine slows down both. The result of a row is the *share*: the
//! speed in company divided by the speed alone, as the median of the shares of single rounds. For
//! example, a share of 0.62 means that a gateway with an idle peer serves 62 requests in the time
//! in which a gateway without peers serves 100.
//!
//! Rates of a busy machine vary, so each row also has the round trips to the database for one
//! operation, which do not.

mod both;
mod budget;
mod figure;
mod ground;
mod killed;
mod mounts;
mod report;
mod requests;
mod scene;
mod trees;
mod wheels;
mod writer;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::files::programs::build;
use super::options::Options;
use crate::child::{Stop, tail};
use crate::engines::{Databases, Engine};
use crate::mount_point::obstacle;
use crate::progress::Progress;
use crate::servers::{BLOCK_BUCKET, Server};
use crate::tools::Tools;
use crate::workspace::Workspace;
use ground::Ground;

/// The paths of the programs.
struct CompanyPrograms {
    ashlar: PathBuf,
    /// The null file system; `None` if requests are measured.
    null: Option<PathBuf>,
    minio: PathBuf,
    mc: PathBuf,
}

/// Measures and prints the tables of each engine. Returns true also if a figure is below its
/// target, because the results depend on the machine.
pub(super) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if let Some(obstacle) = obstacle() {
        bail!("cannot mount a peer here: {obstacle}");
    }
    let engines = options.engines();
    if engines.contains(&Engine::Sqlite) {
        bail!("a volume on SQLite has one process, so it has no company: name another --engine");
    }
    let progress = Rc::new(Progress::terminal_only());
    let programs = CompanyPrograms::prepare(workspace, options, &engines, &progress, stop)?;
    let folder = options.make_folder()?;
    let mut all = Vec::new();
    for (number, &engine) in engines.iter().enumerate() {
        // Each engine gets a new folder, which is removed before the next engine is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        let figures = one_engine(engine, options, &programs, &progress, &folder, stop)
            .with_context(|| format!("cannot measure the engine {}", engine.name()))?;
        all.push(figures);
        std::fs::remove_dir_all(&folder)?;
    }
    options.keep(all)?;
    Ok(true)
}

impl CompanyPrograms {
    /// Builds Ashlar, and for files the null file system, with the release profile. Finds or
    /// installs the rest.
    fn prepare(
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
        let null = if options.files {
            build(workspace, &["--package", "fuse", "--example", "null"], progress, stop)?;
            Some(workspace.target.join("release/examples/null"))
        } else {
            None
        };
        let (minio, mc) = Tools::prepare_servers(workspace, engines, stop)?;
        Ok(Self { ashlar, null, minio, mc })
    }
}

/// Measures all rows over one engine, prints the tables, and returns the figures as JSON.
fn one_engine(
    engine: Engine,
    options: &Options,
    programs: &CompanyPrograms,
    progress: &Rc<Progress>,
    folder: &Path,
    stop: &Stop,
) -> Result<Value> {
    let mut databases = Databases::default();
    databases.start(engine)?;
    databases.prepare_log(engine)?;
    let minio = Server::minio(&programs.minio, folder, None, stop)?;
    minio.make_bucket(&programs.mc, folder, BLOCK_BUCKET)?;
    let ground = Ground {
        program: &programs.ashlar,
        engine,
        options,
        databases: &databases,
        minio: &minio,
        progress,
        folder,
        stop,
    };
    let measured = match &programs.null {
        Some(null) => trees::measure(&ground, null),
        None => requests::measure(&ground),
    };
    measured.with_context(|| format!("the ends of the logs of Ashlar:\n{}", logs(folder)))
}

/// Returns the ends of the logs of all processes of Ashlar.
fn logs(folder: &Path) -> String {
    let volumes = ground::VOLUMES.iter().map(|name| folder.join(name));
    let folders = volumes.flat_map(|volume| {
        (1..=ground::PROCESSES_SHOWN).map(move |number| ground::process_folder(&volume, number))
    });
    let logs = folders.map(|folder| folder.join("ashlar.log")).filter(|log| log.exists());
    let texts = logs.map(|log| format!("{}:\n{}", log.display(), tail(&log, 8)));
    texts.collect::<Vec<_>>().join("\n")
}
