//! `cargo xtask bench --files`: compares a mount with other file systems on this machine. Rounds
//! alternate between the sides.
//!
//! Each engine has its own tables. With SQLite, blocks are in a folder, and the mount is compared
//! with a local folder and with a file system in memory (the null file system). With other engines,
//! blocks are in MinIO, and the mount is also compared with direct requests to MinIO and with
//! s3fs-fuse.
//!
//! If a row's work takes long, programs of users do it: tar, git, cp, rm, ls, pandas. If starting a
//! program would take longer than the work, the crate `load` does it. For example, tar unpacks an
//! archive, and `load` removes single files.

mod amounts;
mod figure;
mod large;
mod listing;
mod overwrites;
pub(super) mod programs;
mod report;
mod requests;
pub(super) mod sides;
mod small;
pub(super) mod stage;
pub(super) mod trees;

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

/// A group of rows that are measured together. `--only` selects it by the names of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Large,
    Cached,
    Unpack,
    Trees,
    /// Operations on small files, with this number of threads.
    Entries(usize),
    Overwrites,
    Listing,
}

impl Group {
    /// All groups. The listing comes last, because it restarts Ashlar several times.
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

    /// The names of the rows.
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

    /// Returns true if the group compares with MinIO only, so it cannot run without MinIO.
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

/// Returns the groups with at least one row that the user wants.
fn wanted(options: &Options) -> Vec<Group> {
    let wants = |group: &Group| group.names().iter().any(|name| options.wants(name));
    Group::ALL.into_iter().filter(wants).collect()
}

/// Measures and prints the tables of each engine. Returns true also if a figure is below its
/// target, because the results depend on the machine.
pub(super) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    if let Some(obstacle) = obstacle() {
        bail!("cannot measure a mount here: {obstacle}");
    }
    let groups = wanted(options);
    if groups.is_empty() {
        bail!("no row has a name that contains {}", options.only.join(" or "));
    }
    let (progress, engines) = (Rc::new(Progress::terminal_only()), options.engines());
    let folder = options.make_folder()?;
    let programs = FilePrograms::prepare(workspace, options, &engines, &progress, stop)?;
    let mut all = Vec::new();
    for (number, &engine) in engines.iter().enumerate() {
        // Each engine gets a new folder, which is removed before the next engine is measured.
        let folder = folder.path().join(format!("{number}-{}", engine.name()));
        std::fs::create_dir(&folder)?;
        let figures = one_engine(engine, options, &groups, &programs, &progress, &folder, stop)
            .with_context(|| format!("cannot measure the engine {}", engine.name()))?;
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
    // SQLite is measured with blocks in a folder, so it needs no MinIO.
    let minio = engine.has_server().then(|| Server::minio(&programs.minio, folder, None, stop));
    let minio = minio.transpose()?;
    if let Some(minio) = &minio {
        minio.make_bucket(&programs.mc, folder, BLOCK_BUCKET)?;
        minio.make_bucket(&programs.mc, folder, large::DIRECT_BUCKET)?;
    }
    // Without tracing, the tables lack the numbers of FUSE requests, and the rest is complete.
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
        null: Other::null(&programs.null, folder, stop)?,
        ashlar: None,
        minio,
        metadata,
        restarts: 0,
        remarks,
    };
    let figures = stage.measure(groups).with_context(|| {
        format!("the end of Ashlar's log:\n{}", tail(&folder.join("ashlar.log"), 20))
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
                let remark = format!("{name}: with {} blocks are in a folder", self.engine.name());
                self.progress.begin(&name).end(Mark::Skipped, "blocks are in a folder");
                self.remarks.push(remark);
                continue;
            }
            figures.extend(group.measure(self).with_context(|| name.clone())?);
        }
        // A group measures all its rows, also if the user wants one of them.
        figures.retain(|figure| self.options.wants(&figure.name));
        if let Some(ashlar) = self.ashlar.take() {
            ashlar.end()?;
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests;
