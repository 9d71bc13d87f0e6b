//! `cargo xtask bench`: the gateway beside direct MinIO, interleaved, on this machine; and the file
//! view beside what does the same, which is in [`files`].
//!
//! Both sides use the same MinIO and the same load. Rounds alternate between them, so that what
//! else the machine does falls on both; a figure is the median of its rounds. Each engine has
//! tables of its own, beside a MinIO that is measured again: engines are compared by their ratios.

mod cells;
mod copies;
mod counters;
mod figure;
mod files;
mod frames;
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
use load::{Gauge, Runner};
use serde_json::Value;

use crate::child::{Stop, tail};
use crate::dist;
use crate::engines::{Databases, Engine};
use crate::progress::Progress;
use crate::servers::{BLOCK_BUCKET, Blocks, Server};
use crate::tools::Tools;
use crate::workspace::{Workspace, is_executable};

pub(crate) use counters::admin;
use figure::Figure;
use measurement::{BUCKET, Bench, Programs};
use metadata::Metadata;
pub(crate) use meter::peak_memory;
pub(crate) use options::Options;

/// The folder of keys that everything lies in.
const PREFIX: &str = "bench/";

/// What contents and order follow from: every run does the same.
const SEED: u64 = 0x00A5_41A2;

/// How often the wish to end is looked for.
const STOP_POLL: Duration = Duration::from_millis(100);

/// How long a gateway that has just started is left alone before its memory is looked at.
const SETTLE: Duration = Duration::from_secs(1);

/// Measures, prints tables for each engine, and returns true: a figure is not a verdict.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if cfg!(debug_assertions) {
        return dist::run_release(workspace);
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
    let python = Some(python).filter(|python| is_executable(python));
    let programs = Programs { gateway, minio, mc, python };
    let mut all = Vec::new();
    for (number, &engine) in engines.iter().enumerate() {
        // Nothing of an engine is left when the next one is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        let copy = if number == 0 { options.copy } else { 0 };
        let figures = one_engine(engine, copy, options, &programs, &folder, stop)
            .with_context(|| format!("the measurement over {} failed", engine.name()))?;
        all.push(figures);
        std::fs::remove_dir_all(&folder)?;
    }
    options.keep(all)?;
    Ok(true)
}

/// Measures the gateway over one engine, and returns all figures.
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
    metadata.sync_redis(options.redis_fsync.name())?;
    let minio = Server::minio(&programs.minio, folder, None, stop)?;
    minio.make_bucket(&programs.mc, folder, BLOCK_BUCKET)?;
    let blocks = Blocks::Bucket(&minio.endpoint, BUCKET);
    let (program, place) = (&programs.gateway, &metadata.place);
    let settings = options.settings(engine);
    let gateway = Server::gateway(program, folder, place, blocks, None, settings, stop)?;
    stop.sleep(SETTLE)?;
    let idle_mib = meter::memory(gateway.child.pid())?;
    let runners = [runner(&minio)?, runner(&gateway)?];
    let gauge = Arc::new(Gauge::default());
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
        format!("the gateway's log ends in:\n{}", tail(bench.gateway.child.log(), 20))
    })?;
    bench.report(&figures)
}

/// The load on one side.
fn runner(server: &Server) -> Result<Runner> {
    let runner = Runner::new(&server.target(BUCKET), PREFIX, SEED, 1)?;
    runner.make_bucket().with_context(|| format!("cannot use {}", server.endpoint))?;
    Ok(runner)
}

/// Passes the wish to end on to the load, for as long as there is one.
fn stop_with(stop: &Stop, gauge: &Arc<Gauge>) -> Result<()> {
    let (stop, gauge) = (stop.clone(), Arc::downgrade(gauge));
    std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
        while let Some(gauge) = gauge.upgrade() {
            if stop.is_set() {
                gauge.stop();
            }
            drop(gauge);
            std::thread::sleep(STOP_POLL);
        }
    })?;
    Ok(())
}

impl Bench<'_> {
    /// All rows and copies that the user wants.
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
