//! `cargo xtask bench`: compares the gateway with direct requests to MinIO on this machine.
//! [`files`] compares the file view with other file systems. [`company`] compares a process that
//! has its volume alone with one that has peers.
//!
//! Both sides use the same MinIO and the same load. Rounds alternate between the sides, so that
//! other work of the machine slows down both; a figure is the median of its rounds. Each engine has
//! its own tables, and MinIO is measured again for each of them. Compare engines by their ratios:
//! for example, two engines with the ratio 2.5 are equally fast, also if their rates differ.

mod cells;
mod company;
mod copies;
mod counters;
mod figure;
mod files;
mod frames;
mod hanging;
mod loads;
mod measurement;
mod metadata;
mod meter;
mod options;
mod report;
mod rows;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use load::Gauge;
use serde_json::Value;

use crate::child::{Stop, tail};
use crate::dist;
use crate::engines::{Databases, Engine};
use crate::progress::Progress;
use crate::servers::{BLOCK_BUCKET, Blocks, Server};
use crate::tools::Tools;
use crate::workspace::{Workspace, is_executable};

pub(crate) use counters::{admin, announced};
use figure::Figure;
use loads::{runner, stop_with};
use measurement::{BUCKET, Bench, Programs};
use metadata::Metadata;
pub(crate) use meter::peak_memory;
pub(crate) use options::Options;

/// The pause between the start of a gateway and the measurement of its idle memory.
const SETTLE: Duration = Duration::from_secs(1);

/// Measures and prints the tables of each engine. Returns true also if a figure is below its
/// target, because the results depend on the machine.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if cfg!(debug_assertions) {
        return dist::run_release(workspace);
    }
    if options.company {
        return company::run(workspace, options, stop);
    }
    if options.files {
        return files::run(workspace, options, stop);
    }
    let folder = options.make_folder()?;
    let engines = options.engines();
    let gateway = match &options.binary {
        Some(binary) => binary.clone(),
        None => dist::best(workspace, options.build, stop)?,
    };
    let (minio, mc) = Tools::prepare_servers(workspace, &engines, stop)?;
    let python = workspace.tools().join("venv-frames/bin/python");
    // The row of pandas is left out unless an earlier run has installed pandas.
    let python = Some(python).filter(|python| is_executable(python));
    let programs = Programs { gateway, minio, mc, python };
    let mut all = Vec::new();
    for (number, &engine) in engines.iter().enumerate() {
        // Each engine gets a new folder, which is removed before the next engine is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        // The copied bytes do not pass through the engine, so one engine is enough.
        let copy = if number == 0 { options.copy } else { 0 };
        let figures = one_engine(engine, copy, options, &programs, &folder, stop)
            .with_context(|| format!("cannot measure the engine {}", engine.name()))?;
        all.push(figures);
        std::fs::remove_dir_all(&folder)?;
    }
    options.keep(all)?;
    Ok(true)
}

/// Measures the gateway over one metadata engine next to direct MinIO, and returns all figures as
/// JSON. `copy` is the size in MiB of the copied file, 0 for no copies.
fn one_engine(
    engine: Engine,
    copy: u64,
    options: &Options,
    programs: &Programs,
    folder: &Path,
    stop: &Stop,
) -> Result<Value> {
    let mut databases = Databases::default();
    databases.start(engine)?;
    databases.prepare_log(engine)?;
    let metadata = Metadata::fresh(&databases, engine, folder, BUCKET)?;
    // The policy is set before the gateway starts, because the gateway reads it and reports it.
    metadata.sync_redis(options.redis_fsync.name())?;
    let minio = Server::minio(&programs.minio, folder, None, stop)?;
    minio.make_bucket(&programs.mc, folder, BLOCK_BUCKET)?;
    let blocks = Blocks::Bucket(&minio.endpoint, BUCKET);
    let (program, place) = (&programs.gateway, &metadata.place);
    let settings = options.settings(engine);
    let gateway = Server::gateway(program, folder, place, blocks, None, settings, stop)?;
    stop.sleep(SETTLE)?;
    // Memory is read before any request, because caches never give all of it back.
    let idle_mib = meter::memory(gateway.child.pid())?;
    let runners = [runner(&minio)?, runner(&gateway)?];
    let gauge = Arc::new(Gauge::default());
    // The load does not know the stop signal, so a thread passes it on.
    stop_with(stop, &gauge)?;
    let mut bench = Bench {
        options,
        engine,
        stop,
        programs,
        progress: Rc::new(Progress::new()),
        folder: folder.to_owned(),
        admin: counters::admin(gateway.child.log())?,
        minio,
        gateway,
        metadata,
        runners,
        gauge,
        copy,
        idle_mib,
        peak_mib: 0.0,
        starts: 1,
    };
    let figures = bench.measure().with_context(|| {
        format!("the end of the gateway's log:\n{}", tail(bench.gateway.child.log(), 20))
    })?;
    bench.report(&figures)
}

impl Bench<'_> {
    /// Measures all rows of the table, and all copies of a file with `mc`, that the user wants.
    fn measure(&mut self) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for row in rows::ROWS {
            if self.options.wants(row.name) {
                figures.push(self.row(&row)?);
            }
        }
        if self.copy > 0 && self.options.wants("mc cp up down") {
            figures.extend(self.copies()?);
        }
        if self.options.wants(frames::NAME) {
            figures.extend(self.frames()?);
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests;
