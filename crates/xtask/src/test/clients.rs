//! The client suites: real clients with default settings, in cells of one engine, one block store
//! and one scheme.
//!
//! S3 clients behave differently over http and https, so both schemes have cells. Engines and block
//! stores are independent: every engine has cells with MinIO, and SQLite also has cells with a
//! folder. A plain run takes each suite in the cells where its result can differ; `--full` takes
//! every suite in every cell. For example, a plain run takes `rclone` to `minio-http` but not to
//! `minio-https`.
//!
//! Cells share servers, but each has its own database and prefix. So several cells run at the same
//! time, because a client and its gateway mostly wait for each other.

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

/// The time limit of one suite, with a debug build on two busy cores: the longest one takes 13
/// minutes beside the tests in Rust.
const SUITE_LIMIT: Duration = Duration::from_mins(20);

/// The suites, each with its Python environment. A suite is the files `test_NAME.py` and
/// `test_NAME_*.py`.
const SUITES: [(&str, Python); 16] = [
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
    (ADMIN, Python::Aws),
    (MADMIN, Python::Aws),
    (CONSOLE, Python::Aws),
    (PAGES, Python::Aws),
];

/// The suite that counts the gateway's requests to its block store. It moves many bytes, and its
/// results do not depend on the engine.
const COLUMNAR: &str = "columnar";

/// The suite that a browser runs. Its requests depend on the scheme, and not on the engine or the
/// block store.
const BROWSER: &str = "browser";

/// The suite of error answers. MinIO gives other texts, so the suite does not run against it.
const ERRORS: &str = "errors";

/// The suite of lifecycle rules. It waits for several days of [`LIFECYCLE_DAY`].
const LIFECYCLE: &str = "lifecycle";

/// The suite of the administration API, which MinIO does not have.
const ADMIN: &str = "admin";

/// The suite of MinIO's administration protocol with MinIO's client. It also reads the results by
/// the administration API, so it does not run against MinIO.
const MADMIN: &str = "madmin";

/// The suite of the console, which a browser runs. Like [`BROWSER`], it depends on the scheme.
const CONSOLE: &str = "console";

/// The suite of the blocks of `docs/CLIENTS.md`, which readers copy. It has clients of both Python
/// environments, and the page has no certificate.
const PAGES: &str = "pages";

/// The suites of a plain run in `folder-http`. They test the gateway more than its stores.
const SUITES_ON_A_FOLDER: [&str; 8] =
    ["boto3", "awscli", BROWSER, ERRORS, LIFECYCLE, ADMIN, CONSOLE, PAGES];

/// The suites of a plain run over https. They run in `folder-https` only, because the listener does
/// not depend on the engine or the block store. Their clients sign requests differently over https;
/// the other suites use one of these clients.
const SUITES_OVER_HTTPS: [&str; 4] = ["boto3", "mc", BROWSER, CONSOLE];

/// The suites of a plain run on a database server: on the drawn engine, or on Redis if `SQLite` is
/// drawn. `folder-http` runs them on `SQLite` on each day. They use metadata more than others.
const SUITES_ON_A_SERVER: [&str; 1] = ["boto3"];

/// The files of these suites that a plain run takes on SQLite only. They test permissions, the
/// delivery of access logs, and keys of encryption. The gateway decides on permissions after it has
/// read the records, stores a log as it stores each object, and encrypts content before it stores
/// it, so the engine makes no difference. Encrypted blocks in MinIO are read and copied by the
/// other files about encryption.
const FILES_ON_ONE_ENGINE: [&str; 8] = [
    "test_boto3_access.py",
    "test_boto3_conditions.py",
    "test_boto3_customer_keys.py",
    "test_boto3_forms.py",
    "test_boto3_kms.py",
    "test_boto3_logging.py",
    "test_boto3_terraform.py",
    "test_boto3_web_identity.py",
];

/// The files that a plain run takes over http only. Over https, boto3 signs bodies and links
/// differently, and the other files send each kind of them. The long files of the console's suite
/// are here too: the rest of it uses each part of the console that depends on the scheme.
const FILES_OVER_HTTP: [&str; 14] = [
    "test_boto3_conditions.py",
    "test_boto3_customer_keys.py",
    "test_boto3_encrypted_copies.py",
    "test_boto3_kms.py",
    "test_boto3_locks.py",
    "test_boto3_logging.py",
    "test_boto3_terraform.py",
    "test_boto3_trash.py",
    "test_boto3_version_lists.py",
    "test_boto3_versions.py",
    "test_boto3_web_identity.py",
    "test_console_guards.py",
    "test_console_journeys.py",
    "test_console_openid.py",
];

/// The long files of the console's suite. A plain run takes one group of them over http, because
/// they take longer than all others of the suite. The drawn engine selects it ([`turn`]).
const CONSOLE_FILES_IN_TURN: [&[&str]; 2] =
    [&["test_console_journeys.py"], &["test_console_guards.py", "test_console_openid.py"]];

/// The turn in which a plain run takes `boto3` over https, beside the shorter group of the
/// console's files. In the other turn, `mc` and the browser sign requests over https.
const TURN_OF_BOTO3_OVER_HTTPS: usize = 1;

/// The suites of a plain run on the drawn engine alone, the one that the date selects. Their
/// requests are those of `boto3` in other clients' words, or they move content, so the engine makes
/// no difference, and each run takes them once.
const SUITES_ON_THE_DRAWN_ENGINE: [&str; 7] =
    ["mc", MADMIN, "s3fs", "pyarrow", "rclone", "restic", "s3cmd"];

/// The cache size of gateways: a tenth of the file that [`COLUMNAR`] reads.
const CACHE: (&str, &str) = ("ASHLAR_CACHE_MEMORY", "50MB");

/// The address of a gateway's console: a free port, because cells run at the same time.
const CONSOLE_LISTEN: (&str, &str) = ("ASHLAR_CONSOLE_LISTEN", "127.0.0.1:0");

/// The length of a day of lifecycle rules in seconds, for gateways and suites.
const LIFECYCLE_DAY: &str = "2";

/// The time between deliveries of access logs of buckets, so that their tests do not wait.
const LOG_INTERVAL: (&str, &str) = ("ASHLAR_BUCKET_LOG_INTERVAL_SECONDS", "1");

/// The static key management service of gateways: MinIO's variable, and its value, the name of a
/// key and 32 bytes in base64.
const KMS: (&str, &str) =
    ("MINIO_KMS_SECRET_KEY", "test-key:pO3upElrwuEXSoFwCfnZPdSsmt/xWeFa0N9KgDijwVs=");

/// A Python environment of [`Tools`].
#[derive(Clone, Copy, Debug)]
enum Python {
    Aws,
    Frames,
}

/// The server under test of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The gateway with SQLite and blocks in a folder.
    Folder,
    /// The gateway with this engine and blocks in MinIO.
    Bucket(Engine),
    /// MinIO itself.
    Reference,
}

impl Subject {
    /// The gateway's engine; `None` for MinIO.
    fn engine(self) -> Option<Engine> {
        match self {
            Self::Folder => Some(Engine::Sqlite),
            Self::Bucket(engine) => Some(engine),
            Self::Reference => None,
        }
    }
}

/// A cell: one server, with its engine, block store and scheme, and the suites to run against it.
#[derive(Debug)]
pub(super) struct Cell {
    subject: Subject,
    tls: bool,
    suites: Vec<(&'static str, Python)>,
    /// The names of files of the suites that do not run in this cell, because a plain run takes
    /// them in another cell.
    left_out: &'static [&'static str],
}

impl Cell {
    /// The name, for example `minio-https` for SQLite with blocks in MinIO, or `postgres-https`.
    fn name(&self) -> String {
        let subject = match self.subject {
            Subject::Folder => "folder",
            Subject::Bucket(Engine::Sqlite) => "minio",
            Subject::Bucket(engine) => engine.name(),
            Subject::Reference => "reference",
        };
        format!("{subject}-{}", if self.tls { "https" } else { "http" })
    }

    /// Returns true if the gateway's blocks are in MinIO.
    pub(super) fn needs_bucket(&self) -> bool {
        matches!(self.subject, Subject::Bucket(_))
    }

    /// Returns true if one of the suites needs a browser.
    pub(super) fn needs_browser(&self) -> bool {
        self.suites.iter().any(|(suite, _)| [BROWSER, CONSOLE].contains(suite))
    }

    /// Returns true if a suite makes sense in this cell. For example, the suite of error answers
    /// makes no sense against plain MinIO, which gives other texts.
    fn is_for(&self, suite: &str) -> bool {
        match suite {
            COLUMNAR => self.subject == Subject::Bucket(Engine::Sqlite) && !self.tls,
            BROWSER | CONSOLE => self.subject == Subject::Folder,
            PAGES => self.subject == Subject::Folder && !self.tls,
            ERRORS | ADMIN | MADMIN => self.subject != Subject::Reference,
            _ => true,
        }
    }

    /// Returns true if a run of this breadth, that is, a plain or a full run, takes a suite in this
    /// cell.
    fn is_taken(&self, suite: &str, breadth: Breadth) -> bool {
        let Breadth::Plain(drawn) = breadth else { return true };
        match self.subject {
            Subject::Reference => true,
            Subject::Folder if self.tls => {
                let has_turn = suite != "boto3" || turn(drawn) == TURN_OF_BOTO3_OVER_HTTPS;
                has_turn && SUITES_OVER_HTTPS.contains(&suite)
            }
            Subject::Folder => SUITES_ON_A_FOLDER.contains(&suite),
            Subject::Bucket(_) if self.tls => false,
            Subject::Bucket(engine) => {
                let server = if drawn.has_server() { drawn } else { Engine::Redis };
                engine == Engine::Sqlite && suite == COLUMNAR
                    || engine == server && SUITES_ON_A_SERVER.contains(&suite)
                    || engine == drawn && SUITES_ON_THE_DRAWN_ENGINE.contains(&suite)
            }
        }
    }
}

/// Returns the turn of a plain run with this drawn engine: 0 or 1. Of five consecutive days, three
/// have the turn 0 and two the turn 1.
fn turn(drawn: Engine) -> usize {
    Engine::ALL.iter().position(|engine| *engine == drawn).unwrap_or_default() % 2
}

/// The breadth of a run: the part of the matrix that it takes if the user excludes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breadth {
    /// Each suite in the cells where its result can differ, and more suites on this drawn engine.
    Plain(Engine),
    /// Every suite in every cell where it makes sense.
    Every,
}

/// Returns the cells that the user wants, each with its wanted suites. A cell is one server under
/// test.
pub(super) fn wanted(run: &Run<'_>) -> Vec<Cell> {
    let subjects = subjects(run.options.reference, &run.engines());
    let options = run.options;
    // A user who names steps or engines gets all their suites.
    let plain = options.only.is_empty() && options.engine.is_empty() && !options.full;
    let breadth = if plain { Breadth::Plain(run.drawn) } else { Breadth::Every };
    cells(&subjects, breadth, |step| run.wants(step))
}

/// Returns the engines of the cells, each once.
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

/// Returns two cells (http and https) for each subject, with the suites whose steps are wanted.
/// Cells without suites are left out.
fn cells(subjects: &[Subject], breadth: Breadth, wants: impl Fn(&str) -> bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &subject in subjects {
        for tls in [false, true] {
            let mut cell = Cell { subject, tls, suites: Vec::new(), left_out: &[] };
            let name = cell.name();
            let other = matches!(subject, Subject::Bucket(engine) if engine != Engine::Sqlite);
            if let Breadth::Plain(drawn) = breadth {
                cell.left_out = match subject {
                    // SQLite's cells take these files.
                    _ if other => &FILES_ON_ONE_ENGINE,
                    _ if tls => &FILES_OVER_HTTP,
                    _ => CONSOLE_FILES_IN_TURN[1 - turn(drawn)],
                };
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

/// The tools and servers that all cells of a run share: programs of clients, MinIO and the
/// databases.
pub(super) struct Services<'a> {
    pub(super) tools: &'a Tools,
    pub(super) certificate: &'a Certificate,
    pub(super) minio: &'a Server,
    pub(super) databases: &'a Databases,
}

/// Runs the suites of a cell one after the other, on a new server.
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
        // Each suite counts as failed, so that the summary does not hide tests that did not run.
        for (suite, _) in &cell.suites {
            steps
                .step(&format!("{suite} {name}"), |_| Ok(unfinished("the server did not start")))?;
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
    // Later cells need the disk space.
    if !steps.run.options.keep {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Starts the server of a cell.
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
    let day = ("ASHLAR_LIFECYCLE_DAY_SECONDS", LIFECYCLE_DAY);
    let environment = [CACHE, CONSOLE_LISTEN, LOG_INTERVAL, KMS, day];
    Server::gateway(&run.gateway(), folder, &meta, blocks, certificate, &environment, run.stop)
}

/// Stops the server under test. The step fails if the server ended before, or if its exit status is
/// an error. The remark is the peak memory.
pub(super) fn end(server: &mut Server) -> Result<StepOutcome> {
    // The kernel forgets the peak memory when the process ends.
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

/// Runs one suite against the server of a cell.
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
        .env("ASHLAR_TEST_PYTHON_FRAMES", &tools.python_frames)
        // Runs must not write into the checkout.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The variable of the user's own environment is for another server.
        .env_remove("ASHLAR_TEST_CA");
    if let Some(authority) = &server.authority {
        command.env("ASHLAR_TEST_CA", authority);
    }
    // These variables are for tests of behaviour that MinIO does not have, such as metrics.
    if subject != Subject::Reference {
        command.env("ASHLAR_TEST_ADMIN", crate::bench::admin(server.child.log())?);
        let console = crate::bench::announced(server.child.log(), "console")?;
        command.env("ASHLAR_TEST_CONSOLE", console);
        command.env("ASHLAR_TEST_PROGRAM", run.gateway()).env("ASHLAR_TEST_META", &server.meta);
        command.env("ASHLAR_TEST_BLOCKS", &server.blocks);
        command.env("ASHLAR_TEST_DATA_DIR", folder.join("data"));
        command.env("ASHLAR_TEST_LIFECYCLE_DAY", LIFECYCLE_DAY);
        let (key, _) = KMS.1.split_once(':').context("the KMS has no name of a key")?;
        command.env("ASHLAR_TEST_KMS_KEY", key);
    }
    if subject == Subject::Reference {
        command.env("ASHLAR_TEST_SUBJECT", "reference");
    }
    let log = folder.join(format!("{suite}.log"));
    let outcome = pytest(run, command, suite, &log, SUITE_LIMIT, server.child.log());
    // Suites leave large files, and the next suite needs the disk space.
    std::fs::remove_dir_all(&scratch).ok();
    outcome
}

/// Runs a suite with pytest and returns its result. `log` is the suite's log, and `server` is the
/// log of the server under test, which the report of a failure shows.
pub(super) fn pytest(
    run: &Run<'_>,
    command: Command,
    suite: &str,
    log: &Path,
    limit: Duration,
    server: &Path,
) -> Result<StepOutcome> {
    // A suite over its time limit is a failed step with its log, and not the end of the run.
    let status = match Child::spawn(command, suite, log)?.wait(run.stop, limit) {
        Ok(status) => status,
        Err(error) => return Ok(unfinished(&format!("{error:#}\n{}", tail(log, TAIL_LINES)))),
    };
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let Some((line, counts)) = summary::pytest(&text) else {
        return Ok(unfinished(&format!(
            "pytest has no summary, {status}\n{}",
            tail(log, TAIL_LINES)
        )));
    };
    // A suite without a passed test proves nothing. For example, all its tests may be skipped.
    let failed = !status.success() || counts.passed == 0;
    let mut remark = counts.sentence();
    if failed {
        // The cause of a failed test is often in the log of the server.
        let server = tail(server, TAIL_LINES / 2);
        remark = format!(
            "{remark}, {status}\n{}\n--- the end of the server's log:\n{server}",
            tail(log, TAIL_LINES)
        );
    }
    let mut summary = summary::inner_summaries(&text);
    summary.push(line);
    Ok(StepOutcome { remark, summary, counts, failed })
}

/// The outcome of a suite that did not complete. It counts as one failed test.
pub(super) fn unfinished(remark: &str) -> StepOutcome {
    let counts = Counts { failed: 1, ..Counts::default() };
    StepOutcome { remark: remark.to_owned(), counts, failed: true, ..StepOutcome::default() }
}

/// Returns the files of a suite, sorted.
pub(super) fn files(folder: &Path, suite: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).context("cannot list the suites")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix("test_").and_then(|rest| rest.strip_prefix(suite));
        // `test_mc.py` is a file of the suite `mc`, and `test_mcfoo.py` is not.
        if rest.is_some_and(|rest| rest == ".py" || rest.starts_with('_')) {
            files.push(folder.join(name));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
