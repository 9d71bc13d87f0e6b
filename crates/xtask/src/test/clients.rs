//! The client suites: real clients with default settings, over the matrix of engines, block stores
//! and schemes.
//!
//! http and https are two protocols to an S3 client. Engines and block stores do not know each other:
//! every engine meets MinIO, one of them a folder as well. A plain run takes each suite where its
//! result can differ; `--full` takes every suite everywhere.
//!
//! Cells share nothing but servers, in which each has a place of its own, so several run at a time:
//! a client and its gateway mostly wait for each other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::steps::{Run, StepOutcome, Steps, TAIL_LINES};
use super::summary::{self, Counts};
use crate::certificate::Certificate;
use crate::child::{Child, tail};
use crate::engines::{Databases, Engine};
use crate::servers::{ACCESS_KEY, Blocks, SECRET_KEY, Server};
use crate::tools::Tools;

/// How long one suite may take against a debug build on two busy cores.
const SUITE_LIMIT: Duration = Duration::from_mins(12);

/// A suite is all files `test_NAME.py` and `test_NAME_*.py`, and an environment to run in.
const SUITES: [(&str, Python); 12] = [
    ("boto3", Python::Aws),
    ("awscli", Python::Aws),
    ("mc", Python::Aws),
    ("s3fs", Python::Frames),
    ("pyarrow", Python::Frames),
    ("rclone", Python::Aws),
    ("restic", Python::Aws),
    ("s3cmd", Python::Aws),
    (COLUMNAR, Python::Frames),
    (BROWSER, Python::Aws),
    (ERRORS, Python::Aws),
    (LIFECYCLE, Python::Aws),
];

/// The suite that looks at what the gateway asks its backend for. It moves much, and learns the
/// same from each engine.
const COLUMNAR: &str = "columnar";

/// The suite that a browser runs. Its requests depend on the scheme, and not on what is below the
/// gateway.
const BROWSER: &str = "browser";

/// The suite of all that is refused, in S3's words. MinIO has its own.
const ERRORS: &str = "errors";

/// The suite of lifecycle rules. It waits for days to pass.
const LIFECYCLE: &str = "lifecycle";

/// Suites that a plain run takes to `folder-http`: those that ask most of the gateway and little of
/// blocks.
const SUITES_ON_A_FOLDER: [&str; 7] =
    ["boto3", "awscli", "mc", "s3cmd", BROWSER, ERRORS, LIFECYCLE];

/// Suites that a plain run takes to `minio-http`: those that move content. `boto3` and `mc` meet MinIO
/// below the other engines.
const SUITES_ON_A_BUCKET: [&str; 5] = ["s3fs", "pyarrow", "rclone", "restic", COLUMNAR];

/// Suites that a plain run takes over https, in `folder-https` alone: the listener does not know what is
/// below it. Their clients differ in what they sign over https; the others use one of those clients.
const SUITES_OVER_HTTPS: [&str; 3] = ["boto3", "mc", BROWSER];

/// Suites that a plain run takes to every engine: they ask most of metadata.
const SUITES_ON_EACH_ENGINE: [&str; 1] = ["boto3"];

/// Files of these suites that a plain run leaves out on engines other than `SQLite`: who may do what, which
/// the gateway decides from what it has read.
const FILES_ON_ONE_ENGINE: [&str; 3] =
    ["test_boto3_access.py", "test_boto3_forms.py", "test_boto3_web_identity.py"];

/// Suites that a plain run takes to the drawn engine besides.
const SUITES_ON_THE_DRAWN_ENGINE: [&str; 6] =
    ["mc", "s3fs", "pyarrow", "rclone", "restic", "s3cmd"];

/// What gateways keep in memory: a tenth of the file that [`COLUMNAR`] is about.
const CACHE: (&str, &str) = ("ASHLAR_CACHE_MEMORY", "50MB");

/// Seconds that a day of lifecycle rules takes, for gateways and suites alike.
const LIFECYCLE_DAY: &str = "2";

#[derive(Clone, Copy, Debug)]
enum Python {
    Aws,
    Frames,
}

/// What the suites talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The gateway over SQLite, its blocks in a folder.
    Folder,
    /// The gateway over an engine, its blocks in MinIO.
    Bucket(Engine),
    /// MinIO itself.
    Reference,
}

impl Subject {
    /// The engine below, if it is the gateway.
    fn engine(self) -> Option<Engine> {
        match self {
            Self::Folder => Some(Engine::Sqlite),
            Self::Bucket(engine) => Some(engine),
            Self::Reference => None,
        }
    }
}

/// One server and the suites to run against it.
#[derive(Debug)]
pub(super) struct Cell {
    subject: Subject,
    tls: bool,
    suites: Vec<(&'static str, Python)>,
    /// Files of these suites that are not run here.
    left_out: &'static [&'static str],
}

impl Cell {
    /// `minio-https` for SQLite and blocks in MinIO, `postgres-https` for another engine.
    fn name(&self) -> String {
        let subject = match self.subject {
            Subject::Folder => "folder",
            Subject::Bucket(Engine::Sqlite) => "minio",
            Subject::Bucket(engine) => engine.name(),
            Subject::Reference => "reference",
        };
        format!("{subject}-{}", if self.tls { "https" } else { "http" })
    }

    /// Whether its blocks are in MinIO.
    pub(super) fn needs_bucket(&self) -> bool {
        matches!(self.subject, Subject::Bucket(_))
    }

    /// Whether a suite of its needs a browser.
    pub(super) fn needs_browser(&self) -> bool {
        self.suites.iter().any(|(suite, _)| *suite == BROWSER)
    }

    /// Whether a suite has its place here.
    fn is_for(&self, suite: &str) -> bool {
        match suite {
            COLUMNAR => self.subject == Subject::Bucket(Engine::Sqlite) && !self.tls,
            BROWSER => self.subject == Subject::Folder,
            ERRORS => self.subject != Subject::Reference,
            _ => true,
        }
    }

    /// Returns true if a run of this breadth takes a suite here.
    fn is_taken(&self, suite: &str, breadth: Breadth) -> bool {
        let Breadth::Plain(drawn) = breadth else { return true };
        match self.subject {
            Subject::Reference => true,
            Subject::Folder if self.tls => SUITES_OVER_HTTPS.contains(&suite),
            Subject::Folder => SUITES_ON_A_FOLDER.contains(&suite),
            Subject::Bucket(_) if self.tls => false,
            Subject::Bucket(Engine::Sqlite) => SUITES_ON_A_BUCKET.contains(&suite),
            Subject::Bucket(engine) => {
                SUITES_ON_EACH_ENGINE.contains(&suite)
                    || engine == drawn && SUITES_ON_THE_DRAWN_ENGINE.contains(&suite)
            }
        }
    }
}

/// Which cells and suites a run takes of those that the user has not excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breadth {
    /// Each suite where its result can differ, and more of them on the drawn engine.
    Plain(Engine),
    /// Every suite in every cell that it is for.
    Every,
}

/// The cells and suites that the user asked for.
pub(super) fn wanted(run: &Run<'_>) -> Vec<Cell> {
    let subjects = subjects(run.options.reference, &run.engines());
    let options = run.options;
    let plain = options.only.is_empty() && options.engine.is_empty() && !options.full;
    let breadth = if plain { Breadth::Plain(run.drawn) } else { Breadth::Every };
    cells(&subjects, breadth, |step| run.wants(step))
}

/// The engines below the cells, each once.
pub(super) fn engines(cells: &[Cell]) -> Vec<Engine> {
    let used = |engine: &Engine| cells.iter().any(|cell| cell.subject.engine() == Some(*engine));
    Engine::ALL.into_iter().filter(used).collect()
}

fn subjects(reference: bool, engines: &[Engine]) -> Vec<Subject> {
    if reference {
        return vec![Subject::Reference];
    }
    let folder = engines.contains(&Engine::Sqlite).then_some(Subject::Folder);
    folder.into_iter().chain(engines.iter().copied().map(Subject::Bucket)).collect()
}

/// Both schemes for each subject, with those suites whose step's name is wanted.
fn cells(subjects: &[Subject], breadth: Breadth, wants: impl Fn(&str) -> bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &subject in subjects {
        for tls in [false, true] {
            let mut cell = Cell { subject, tls, suites: Vec::new(), left_out: &[] };
            let name = cell.name();
            let other = matches!(subject, Subject::Bucket(engine) if engine != Engine::Sqlite);
            if other && breadth != Breadth::Every {
                cell.left_out = &FILES_ON_ONE_ENGINE;
            }
            cell.suites = SUITES
                .into_iter()
                .filter(|(suite, _)| cell.is_for(suite) && cell.is_taken(suite, breadth))
                .filter(|(suite, _)| wants(&format!("clients {suite} {name}")))
                .collect();
            if !cell.suites.is_empty() {
                cells.push(cell);
            }
        }
    }
    cells
}

/// What cells are started with.
pub(super) struct Services<'a> {
    pub(super) tools: &'a Tools,
    pub(super) certificate: &'a Certificate,
    pub(super) minio: &'a Server,
    pub(super) databases: &'a Databases,
}

/// Runs a cell on a fresh server.
pub(super) fn one_cell(steps: &mut Steps<'_>, cell: &Cell, services: &Services<'_>) -> Result<()> {
    let name = cell.name();
    let folder = steps.run.folder.join(&name);
    std::fs::create_dir_all(&folder)?;
    let mut server = None;
    steps.step(&format!("start {name}"), |run| {
        server = Some(start(run, cell, &folder, services)?);
        Ok(StepOutcome::default())
    })?;
    let Some(mut server) = server else {
        // Nothing of this cell can be said to pass.
        for (suite, _) in &cell.suites {
            steps.step(&format!("{suite} {name}"), |_| Ok(lost("the server did not start")))?;
        }
        return Ok(());
    };
    for &(suite, python) in &cell.suites {
        let tools = services.tools;
        let python = match python {
            Python::Aws => &tools.python_aws,
            Python::Frames => &tools.python_frames,
        };
        steps.step(&format!("{suite} {name}"), |run| {
            one_suite(run, suite, python, tools, &mut server, &folder, cell)
        })?;
    }
    steps.step(&format!("stop {name}"), |_| end(&mut server))?;
    if !steps.run.options.keep {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn start(run: &Run<'_>, cell: &Cell, folder: &Path, services: &Services<'_>) -> Result<Server> {
    let certificate = cell.tls.then_some(services.certificate);
    let name = cell.name();
    let (engine, blocks) = match cell.subject {
        Subject::Reference => {
            return Server::minio(&services.tools.minio, folder, certificate, run.stop);
        }
        Subject::Folder => (Engine::Sqlite, Blocks::Folder),
        Subject::Bucket(engine) => (engine, Blocks::Bucket(&services.minio.endpoint, &name)),
    };
    let meta = services.databases.fresh(engine, folder, &name)?;
    let environment = [CACHE, ("ASHLAR_LIFECYCLE_DAY_SECONDS", LIFECYCLE_DAY)];
    Server::gateway(&run.gateway(), folder, &meta, blocks, certificate, &environment, run.stop)
}

/// A server must end in good order when asked to.
pub(super) fn end(server: &mut Server) -> Result<StepOutcome> {
    let peak = crate::bench::peak_memory(server.child.pid());
    server.child.check_alive()?;
    let status = server.child.end()?;
    let memory = peak.map_or_else(|_| String::new(), |mib| format!("peak memory {mib:.0} MiB"));
    if status.success() {
        return Ok(StepOutcome { remark: memory, ..StepOutcome::default() });
    }
    let log = tail(server.child.log(), TAIL_LINES);
    Ok(StepOutcome {
        remark: format!("ended with {status}\n{log}"),
        failed: true,
        ..StepOutcome::default()
    })
}

fn one_suite(
    run: &Run<'_>,
    suite: &str,
    python: &Path,
    tools: &Tools,
    server: &mut Server,
    folder: &Path,
    cell: &Cell,
) -> Result<StepOutcome> {
    server.child.check_alive()?;
    let subject = cell.subject;
    let mut files = files(&run.workspace.clients(), suite)?;
    files.retain(|file| !cell.left_out.iter().any(|name| file.ends_with(name)));
    let scratch = folder.join(format!("scratch-{suite}"));
    let mut command = Command::new(python);
    command
        .args(["-m", "pytest", "--basetemp"])
        .arg(&scratch)
        .args(files)
        .current_dir(run.workspace.clients())
        .env("ASHLAR_TEST_ENDPOINT", &server.endpoint)
        .env("ASHLAR_TEST_ACCESS_KEY", ACCESS_KEY)
        .env("ASHLAR_TEST_SECRET_KEY", SECRET_KEY)
        .env("ASHLAR_TEST_MC", &tools.mc)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("ASHLAR_TEST_CA");
    if let Some(authority) = &server.authority {
        command.env("ASHLAR_TEST_CA", authority);
    }
    if subject != Subject::Reference {
        command.env("ASHLAR_TEST_ADMIN", crate::bench::admin(server.child.log())?);
        command.env("ASHLAR_TEST_PROGRAM", run.gateway()).env("ASHLAR_TEST_META", &server.meta);
        command.env("ASHLAR_TEST_BLOCKS", &server.blocks);
        command.env("ASHLAR_TEST_DATA_DIR", folder.join("data"));
        command.env("ASHLAR_TEST_LIFECYCLE_DAY", LIFECYCLE_DAY);
    }
    if subject == Subject::Reference {
        command.env("ASHLAR_TEST_SUBJECT", "reference");
    }
    let log = folder.join(format!("{suite}.log"));
    let outcome = pytest(run, command, suite, &log, SUITE_LIMIT, server.child.log());
    std::fs::remove_dir_all(&scratch).ok();
    outcome
}

/// Runs pytest to its end, and says how that was; `server` is the log of what is tested.
pub(super) fn pytest(
    run: &Run<'_>,
    command: Command,
    suite: &str,
    log: &Path,
    limit: Duration,
    server: &Path,
) -> Result<StepOutcome> {
    let status = match Child::spawn(command, suite, log)?.wait(run.stop, limit) {
        Ok(status) => status,
        Err(error) => return Ok(lost(&format!("{error:#}\n{}", tail(log, TAIL_LINES)))),
    };
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let Some((line, counts)) = summary::pytest(&text) else {
        return Ok(lost(&format!("no test ran, {status}\n{}", tail(log, TAIL_LINES))));
    };
    let failed = !status.success() || counts.passed == 0;
    let mut remark = counts.sentence();
    if failed {
        let server = tail(server, TAIL_LINES / 2);
        remark = format!(
            "{remark}, {status}\n{}\n--- the server's log ends in:\n{server}",
            tail(log, TAIL_LINES)
        );
    }
    let mut summary = summary::told(&text);
    summary.push(line);
    Ok(StepOutcome { remark, summary, counts, failed })
}

/// A suite that did not come to an end counts as one failure.
pub(super) fn lost(remark: &str) -> StepOutcome {
    let counts = Counts { failed: 1, ..Counts::default() };
    StepOutcome { remark: remark.to_owned(), counts, failed: true, ..StepOutcome::default() }
}

/// The files of a suite.
pub(super) fn files(folder: &Path, suite: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).context("cannot list the suites")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix("test_").and_then(|rest| rest.strip_prefix(suite));
        if rest.is_some_and(|rest| rest == ".py" || rest.starts_with('_')) {
            files.push(folder.join(name));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
