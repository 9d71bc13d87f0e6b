//! `--external`: the suites of other projects, and programs that depend on the guarantees of S3.
//! They run against the gateway with SQLite and a folder.
//!
//! They test what client suites leave out. For example, they test the texts of errors, operations
//! that Ashlar does not have, and writers that use conditional writes against each other.
//!
//! A file next to each suite lists the cases that Ashlar does not pass, each with a reason. A case
//! that fails without being in the list fails the run. A case in the list that passes also fails
//! the run, so that the list stays correct.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::clients::{self, Services};
use super::steps::{Run, StepOutcome, Steps};
use crate::engines::Engine;
use crate::servers::{ACCESS_KEY, Blocks, SECRET_KEY, Server};
use crate::tools::{ExternalSuites, TABLES};
use crate::workspace::which;

/// The time limit of one suite, with a debug build.
const SUITE_LIMIT: Duration = Duration::from_mins(30);

/// The suite of MinIO's client for Python.
const MINIO_PY: &str = "minio_py";

/// The suite of Terraform: its state and locks in a bucket, and buckets as its resources.
const TERRAFORM: &str = "terraform";

/// Folders that may contain Terraform's providers, so that Terraform downloads none.
const TERRAFORM_MIRRORS: [&str; 3] =
    ["/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins", "/opt/tf-plugins"];

/// The cells. The results of these suites do not depend on the engine, so both cells have SQLite. A
/// suite is the files `test_NAME.py` and `test_NAME_*.py`.
///
/// minio-go needs both schemes: over https it sends unsigned bodies and uses encryption; over http
/// it signs each chunk.
const CELLS: [Cell; 2] = [
    Cell {
        name: "external",
        tls: false,
        suites: &["versitygw", "minio_go", MINIO_PY, "mc", TERRAFORM, TABLES],
    },
    Cell { name: "external-https", tls: true, suites: &["minio_go"] },
];

/// A cell: one gateway, over http or https, and the suites of other projects that run against it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    name: &'static str,
    tls: bool,
    suites: &'static [&'static str],
}

/// Returns the cells that the user wants, each with its wanted suites.
pub(super) fn wanted(run: &Run<'_>) -> Vec<(Cell, Vec<&'static str>)> {
    if !run.options.external {
        return Vec::new();
    }
    let mut cells = Vec::new();
    for cell in CELLS {
        let step = |suite: &&str| run.wants(&format!("{} {suite}", cell.name));
        let suites: Vec<_> = cell.suites.iter().copied().filter(step).collect();
        if !suites.is_empty() {
            cells.push((cell, suites));
        }
    }
    cells
}

/// Runs the suites of each cell one after the other, on a new server for each cell.
pub(super) fn run(
    steps: &mut Steps<'_>,
    cells: &[(Cell, Vec<&'static str>)],
    services: &Services<'_>,
    external: &ExternalSuites,
) -> Result<()> {
    for (cell, suites) in cells {
        let folder = steps.run.folder.join(cell.name);
        std::fs::create_dir_all(&folder)?;
        let mut server = None;
        steps.step(&format!("start {}", cell.name), |run| {
            server = Some(start(run, *cell, services, &folder)?);
            Ok(StepOutcome::default())
        })?;
        // The step of the start has failed, and without a server no suite has a result.
        let Some(mut server) = server else { return Ok(()) };
        for suite in suites {
            if *suite == TERRAFORM && which("terraform").is_none() {
                steps.skip(&format!("{} {suite}", cell.name), "terraform is not installed");
                continue;
            }
            steps.step(&format!("{} {suite}", cell.name), |run| {
                one_suite(run, suite, services, external, &mut server, &folder)
            })?;
        }
        steps.step(&format!("stop {}", cell.name), |_| clients::end(&mut server))?;
    }
    Ok(())
}

/// Starts the gateway of a cell.
fn start(run: &Run<'_>, cell: Cell, services: &Services<'_>, folder: &Path) -> Result<Server> {
    let certificate = cell.tls.then_some(services.certificate);
    let meta = services.databases.fresh(Engine::Sqlite, folder, cell.name)?;
    Server::gateway(&run.gateway(), folder, &meta, Blocks::Folder, certificate, &[], run.stop)
}

/// Runs one suite against the gateway of a cell.
fn one_suite(
    run: &Run<'_>,
    suite: &str,
    services: &Services<'_>,
    external: &ExternalSuites,
    server: &mut Server,
    folder: &Path,
) -> Result<StepOutcome> {
    server.child.check_alive()?;
    let suites = run.workspace.external();
    let python = match suite {
        MINIO_PY => &external.python_minio,
        TABLES => &external.python_tables,
        _ => &services.tools.python_aws,
    };
    let mut command = Command::new(python);
    command
        .args(["-m", "pytest", "--basetemp"])
        .arg(folder.join(format!("scratch-{suite}")))
        .args(clients::files(&suites, suite)?)
        .current_dir(&suites)
        .env("ASHLAR_TEST_ENDPOINT", &server.endpoint)
        .env("ASHLAR_TEST_ACCESS_KEY", ACCESS_KEY)
        .env("ASHLAR_TEST_SECRET_KEY", SECRET_KEY)
        .env("ASHLAR_TEST_VERSITYGW_SOURCE", &external.versitygw_source)
        .env("ASHLAR_TEST_MINIO_GO_SOURCE", &external.minio_go_source)
        .env("ASHLAR_TEST_MINIO_PY_SOURCE", &external.minio_py_source)
        .env("ASHLAR_TEST_MC", &services.tools.mc)
        .env("ASHLAR_TEST_MC_SOURCE", &external.mc_source)
        // Runs must not write into the checkout.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The variable of the user's own environment is for another server.
        .env_remove("ASHLAR_TEST_CA");
    if let Some(authority) = &server.authority {
        command.env("ASHLAR_TEST_CA", authority);
    }
    let provider = terraform_mirror();
    if let Some(folder) = &provider {
        command.env("ASHLAR_TEST_TERRAFORM_MIRROR", folder);
    }
    let log = folder.join(format!("{suite}.log"));
    let mut outcome = clients::pytest(run, command, suite, &log, SUITE_LIMIT, server.child.log())?;
    if suite == TERRAFORM && provider.is_none() {
        outcome.remark.push_str("; Terraform's aws provider is not on this machine");
    }
    Ok(outcome)
}

/// Returns the folder that contains Terraform's aws provider below the name of a registry, or
/// `None`.
fn terraform_mirror() -> Option<PathBuf> {
    let has_provider = |folder: &PathBuf| {
        let registries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        registries.into_iter().any(|registry| registry.path().join("hashicorp/aws").is_dir())
    };
    TERRAFORM_MIRRORS.into_iter().map(PathBuf::from).find(has_provider)
}
