//! `cargo xtask bench --files`: a mount beside what does the same, interleaved, on this machine.
//!
//! Each engine has tables of its own. SQLite keeps blocks in a folder, so what is beside it is a
//! local folder and a file system in memory; other engines keep them in MinIO, which is measured
//! directly, too, and through s3fs-fuse. The programs that do the work are those of users where they
//! cost little beside it: tar, git, cp, rm, ls, pandas. What costs less than starting a program is
//! done by the crate `load`.

mod amounts;
mod figure;
mod large;
mod listing;
mod overwrites;
mod programs;
mod report;
mod requests;
mod sides;
mod small;
mod stage;
mod trees;

use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::measurement::BUCKET;
use super::metadata::Metadata;
use super::options::Options;
use crate::child::{Stop, tail};
use crate::engines::{Databases, Engine};
use crate::mount_point::obstacle;
use crate::progress::{Mark, Progress};
use crate::servers::{BLOCK_BUCKET, Server};
use crate::workspace::Workspace;
use amounts::Amounts;
use figure::FileFigure;
use load::EntryVerb;
use programs::FilePrograms;
use requests::Tracer;
use sides::Other;
use stage::Stage;

/// Rows that are measured together, by the names that `--only` picks them by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Large,
    Cached,
    Unpack,
    Trees,
    Entries(usize),
    Overwrites,
    Listing,
}

impl Group {
    /// All of them. The listing comes last: it starts Ashlar anew, several times.
    const ALL: [Self; 8] = [
        Self::Entries(small::THREADS[0]),
        Self::Entries(small::THREADS[1]),
        Self::Cached,
        Self::Unpack,
        Self::Trees,
        Self::Overwrites,
        Self::Large,
        Self::Listing,
    ];

    fn names(self) -> Vec<String> {
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match self {
            Self::Large => named(&[large::WRITE, large::READ]),
            Self::Cached => named(&[large::READ_CACHED, large::READ_RANDOM]),
            Self::Unpack => named(&[trees::UNPACK, trees::UNPACK_RATE]),
            Self::Trees => named(&[trees::CLONE, trees::COPY, trees::REMOVE]),
            Self::Entries(threads) => {
                EntryVerb::ALL.iter().map(|&verb| small::name(verb, threads)).collect()
            }
            Self::Overwrites => named(&[overwrites::OVERWRITE]),
            Self::Listing => named(&[listing::LIST, listing::TRIPS]),
        }
    }

    /// Whether it compares with something in MinIO and with nothing else.
    fn needs_minio(self) -> bool {
        matches!(self, Self::Large | Self::Overwrites)
    }

    fn measure(self, stage: &mut Stage<'_>) -> Result<Vec<FileFigure>> {
        match self {
            Self::Large => stage.large(),
            Self::Cached => stage.cached(),
            Self::Unpack => stage.unpack(),
            Self::Trees => stage.trees(),
            Self::Entries(threads) => stage.entries(threads),
            Self::Overwrites => Ok(vec![stage.overwrites()?]),
            Self::Listing => stage.listing(),
        }
    }
}

/// The groups that have a row which the user wants.
fn wanted(options: &Options) -> Vec<Group> {
    let wants = |group: &Group| group.names().iter().any(|name| options.wants(name));
    Group::ALL.into_iter().filter(wants).collect()
}

/// Measures, prints tables for each engine, and returns true: a figure is not a verdict.
pub(super) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if let Some(obstacle) = obstacle() {
        bail!("cannot measure a mount here: {obstacle}");
    }
    let groups = wanted(options);
    if groups.is_empty() {
        bail!("no row has a name with {}", options.only.join(" or "));
    }
    let (progress, engines) = (Rc::new(Progress::terminal_only()), options.engines());
    let folder = options.make_folder()?;
    let programs = FilePrograms::prepare(workspace, options, &engines, &progress, stop)?;
    let mut all = Vec::new();
    for (number, &engine) in engines.iter().enumerate() {
        // Nothing of an engine is left when the next one is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        let figures = one_engine(engine, options, &groups, &programs, &progress, &folder, stop)
            .with_context(|| format!("the measurement over {} failed", engine.name()))?;
        all.push(figures);
        std::fs::remove_dir_all(&folder)?;
    }
    options.keep(all)?;
    Ok(true)
}

/// Measures the groups over one engine, and returns all figures.
fn one_engine(
    engine: Engine,
    options: &Options,
    groups: &[Group],
    programs: &FilePrograms,
    progress: &Rc<Progress>,
    folder: &Path,
    stop: &Stop,
) -> Result<Value> {
    let mut databases = Databases::default();
    databases.start(engine)?;
    databases.prepare_log(engine)?;
    let metadata = Metadata::fresh(&databases, engine, folder, BUCKET)?;
    metadata.sync_redis(options.redis_fsync.name())?;
    let minio = engine.has_server().then(|| Server::minio(&programs.minio, folder, None, stop));
    let minio = minio.transpose()?;
    if let Some(minio) = &minio {
        minio.make_bucket(&programs.mc, folder, BLOCK_BUCKET)?;
        minio.make_bucket(&programs.mc, folder, large::DIRECT_BUCKET)?;
    }
    let mut remarks = Vec::new();
    let tracer = Tracer::start(folder);
    let tracer = tracer.map_err(|error| remarks.push(format!("FUSE requests: {error:#}"))).ok();
    let mut stage = Stage {
        options,
        amounts: Amounts::of(options.quick),
        engine,
        stop,
        programs,
        progress: Rc::clone(progress),
        folder: folder.to_owned(),
        tracer,
        null: Other::null(programs, folder, stop)?,
        ashlar: None,
        minio,
        metadata,
        restarts: 0,
        remarks,
    };
    let figures = stage.measure(groups).with_context(|| {
        format!("Ashlar's log ends in:\n{}", tail(&folder.join("ashlar.log"), 20))
    })?;
    stage.report(&figures)
}

impl Stage<'_> {
    fn measure(&mut self, groups: &[Group]) -> Result<Vec<FileFigure>> {
        self.start_ashlar()?;
        let mut figures = Vec::new();
        for group in groups {
            let name = group.names().join(", ");
            if group.needs_minio() && self.minio.is_none() {
                let remark = format!("{name}: over {} blocks lie in a folder", self.engine.name());
                self.progress.begin(&name).end(Mark::Skipped, "blocks lie in a folder");
                self.remarks.push(remark);
                continue;
            }
            figures.extend(group.measure(self).with_context(|| name.clone())?);
        }
        figures.retain(|figure| self.options.wants(&figure.name));
        if let Some(ashlar) = self.ashlar.take() {
            ashlar.end()?;
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests;
