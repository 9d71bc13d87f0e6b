//! The suites of the file view: file system testers of other projects and real programs, on a mount
//! of a gateway that also serves S3.
//!
//! Each engine has one cell. SQLite's cell has its blocks in a folder, the others in MinIO. A suite
//! has a short and a whole form. For example, a plain run takes the short form of `fsx`, and
//! `--files` takes the whole one.
//!
//! A mount ends with its program. If a program is killed and leaves its mount, dropping the
//! [`MountPoint`] unmounts it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::clients::{self, Services};
use super::draw;
use super::steps::{Run, StepOutcome, Steps, TAIL_LINES};
use crate::child::{Child, tail};
use crate::engines::Engine;
use crate::mount_point::MountPoint;
use crate::servers::{ACCESS_KEY, Blocks, SECRET_KEY, Server};

/// The time limit of the short form of a suite, with a debug build on two busy cores.
const SHORT_LIMIT: Duration = Duration::from_mins(8);
/// The time limit of the whole form of a suite.
const WHOLE_LIMIT: Duration = Duration::from_mins(90);

/// The time limit of `ashlar fsck` after the suites.
const CHECK_LIMIT: Duration = Duration::from_mins(10);

/// All suites, each a file `test_NAME.py`.
const SUITES: [&str; 10] =
    ["pjdfstest", "model", "views", "fsx", "mmap", "git", "sqlite", "trees", "postgres", "many"];

/// The suites that a plain run leaves out. They take minutes, and their main result is speed.
const SUITES_OF_MINUTES: [&str; 2] = ["postgres", "many"];

/// The suites of a plain run on SQLite, on the drawn engine and on the one that follows it. They
/// compare the file view with S3, so engines can give different results.
const SUITES_ON_TWO_ENGINES: [&str; 2] = ["model", "views"];

/// The suites of a plain run on the drawn engine alone, the one that the date selects for more
/// tests. They use the cache and the locks of the mount, and each engine only as any other suite
/// does.
const SUITES_ON_THE_DRAWN_ENGINE: [&str; 3] = ["fsx", "mmap", "sqlite"];

/// A cell of the file view: a volume over one engine, mounted by a gateway, and the suites to run
/// on it.
#[derive(Debug)]
pub(super) struct Cell {
    engine: Engine,
    suites: Vec<&'static str>,
    /// True for the whole form of the suites, false for the short form.
    whole: bool,
}

impl Cell {
    /// The name: `mount-folder` for SQLite, `mount-NAME` for another engine.
    fn name(&self) -> String {
        match self.engine {
            Engine::Sqlite => "mount-folder".to_owned(),
            engine => format!("mount-{}", engine.name()),
        }
    }

    /// Returns true if the blocks are in MinIO.
    pub(super) fn needs_bucket(&self) -> bool {
        self.engine != Engine::Sqlite
    }
}

/// Returns the cells that the user wants, each with its wanted suites. A cell is one mounted
/// volume.
pub(super) fn wanted(run: &Run<'_>) -> Vec<Cell> {
    if run.options.reference {
        return Vec::new();
    }
    let plain = run.options.only.is_empty() && !run.options.files && !run.options.full;
    // A user who names steps gets all suites of the engines.
    let drawn = plain.then_some(run.drawn);
    cells(&run.engines(), drawn, run.options.files, |step| run.wants(step))
}

/// Returns the engines of the cells.
pub(super) fn engines(cells: &[Cell]) -> Vec<Engine> {
    cells.iter().map(|cell| cell.engine).collect()
}

/// Returns one cell for each engine, with the suites whose steps are wanted. `drawn` is the drawn
/// engine of a plain run, which takes fewer suites on the other engines; `None` takes all suites.
fn cells(
    engines: &[Engine],
    drawn: Option<Engine>,
    whole: bool,
    wants: impl Fn(&str) -> bool,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &engine in engines {
        // MariaDB is the slowest engine for single changes, and PostgreSQL covers the same
        // decisions.
        let whole = whole && engine != Engine::Mysql;
        let mut cell = Cell { engine, suites: Vec::new(), whole };
        let name = cell.name();
        let is_wanted = |suite: &&str| wants(&format!("files {suite} {name}"));
        let is_taken = |suite: &&str| match drawn {
            None => true,
            Some(drawn) if SUITES_ON_TWO_ENGINES.contains(suite) => {
                [Engine::Sqlite, drawn, draw::next(drawn, engines)].contains(&engine)
            }
            Some(drawn) if SUITES_ON_THE_DRAWN_ENGINE.contains(suite) => engine == drawn,
            Some(_) => engine == Engine::Sqlite && !SUITES_OF_MINUTES.contains(suite),
        };
        cell.suites = SUITES.into_iter().filter(is_wanted).filter(is_taken).collect();
        if !cell.suites.is_empty() {
            cells.push(cell);
        }
    }
    cells
}

/// Runs the suites of a cell on a new volume, and checks the volume with `ashlar fsck`. `testers`
/// is the folder of the file system testers.
pub(super) fn one_cell(
    steps: &mut Steps<'_>,
    cell: &Cell,
    services: &Services<'_>,
    testers: &Path,
) -> Result<()> {
    let name = cell.name();
    let folder = steps.run.folder.join(&name);
    std::fs::create_dir_all(&folder)?;
    // Declared before the server, so it is dropped after the server, also after an error.
    let mount = MountPoint::make()?;
    let mut server = None;
    steps.step(&format!("start {name}"), |run| {
        server = Some(start(run, cell, &folder, &mount, services)?);
        Ok(StepOutcome::default())
    })?;
    let Some(mut server) = server else {
        for suite in &cell.suites {
            let unfinished = |_: &Run<'_>| Ok(clients::unfinished("the server did not start"));
            steps.step(&format!("{suite} {name}"), unfinished)?;
        }
        return Ok(());
    };
    for suite in &cell.suites {
        steps.step(&format!("{suite} {name}"), |run| {
            server.child.check_alive()?;
            let command = command(run, cell, suite, &server, &mount, services, testers)?;
            let limit = if cell.whole { WHOLE_LIMIT } else { SHORT_LIMIT };
            let log = folder.join(format!("{suite}.log"));
            clients::pytest(run, command, suite, &log, limit, server.child.log())
        })?;
    }
    steps.step(&format!("stop {name}"), |_| {
        // A clean end also removes the mount. Otherwise the gateway has a defect.
        let ended = clients::end(&mut server)?;
        anyhow::ensure!(!mount.is_mounted()?, "the program ended, but its mount is still there");
        Ok(ended)
    })?;
    steps.step(&format!("fsck {name}"), |run| check(run, cell, &server, &folder, services))?;
    // Later cells need the disk space.
    if !steps.run.options.keep {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn start(
    run: &Run<'_>,
    cell: &Cell,
    folder: &Path,
    mount: &MountPoint,
    services: &Services<'_>,
) -> Result<Server> {
    let (name, at) = (cell.name(), mount.folder().display().to_string());
    let meta = services.databases.fresh(cell.engine, folder, &name)?;
    // Suites such as pjdfstest change to other users, who must be able to use the mount.
    let settings = [("ASHLAR_MOUNT", at.as_str()), ("ASHLAR_MOUNT_ALLOW_OTHER", "true")];
    let blocks = blocks(cell, &name, services);
    let server = Server::gateway(&run.gateway(), folder, &meta, blocks, None, &settings, run.stop)?;
    anyhow::ensure!(mount.is_mounted()?, "the program serves S3, but has not mounted");
    Ok(server)
}

fn blocks<'a>(cell: &Cell, name: &'a str, services: &'a Services<'_>) -> Blocks<'a> {
    if cell.needs_bucket() {
        Blocks::Bucket(&services.minio.endpoint, name)
    } else {
        Blocks::Folder
    }
}

fn command(
    run: &Run<'_>,
    cell: &Cell,
    suite: &str,
    server: &Server,
    mount: &MountPoint,
    services: &Services<'_>,
    testers: &Path,
) -> Result<Command> {
    let suites = run.workspace.mounted();
    let mut command = Command::new(&services.tools.python_frames);
    command
        .args(["-m", "pytest"])
        .args(clients::files(&suites, suite)?)
        .current_dir(suites)
        .env("ASHLAR_TEST_ENDPOINT", &server.endpoint)
        .env("ASHLAR_TEST_ACCESS_KEY", ACCESS_KEY)
        .env("ASHLAR_TEST_SECRET_KEY", SECRET_KEY)
        .env("ASHLAR_TEST_MOUNT", mount.folder())
        .env("ASHLAR_TEST_TOOLS", testers)
        .env("ASHLAR_TEST_FILES", if cell.whole { "whole" } else { "short" })
        // Runs must not write into the checkout.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("ASHLAR_TEST_CA");
    Ok(command)
}

/// Runs `ashlar fsck` after the gateway has ended. The records and blocks that the suites left must
/// agree.
fn check(
    run: &Run<'_>,
    cell: &Cell,
    server: &Server,
    folder: &Path,
    services: &Services<'_>,
) -> Result<StepOutcome> {
    let name = cell.name();
    let mut command = Command::new(run.gateway());
    command
        .args(["fsck", "--meta", &server.meta, "--blocks"])
        .arg(blocks(cell, &name, services).url(folder))
        .arg("--data-dir")
        .arg(folder.join("data"))
        .env("ASHLAR_BLOCKS_ACCESS_KEY", ACCESS_KEY)
        .env("ASHLAR_BLOCKS_SECRET_KEY", SECRET_KEY);
    let log = folder.join("fsck.log");
    let status = Child::spawn(command, "fsck", &log)?.wait(run.stop, CHECK_LIMIT)?;
    let mut outcome = StepOutcome { failed: !status.success(), ..StepOutcome::default() };
    if outcome.failed {
        outcome.remark = format!("{status}\n{}", tail(&log, TAIL_LINES));
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests;
