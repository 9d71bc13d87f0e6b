//! The tests in Rust, and the tests of `tests/it` at full length.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::steps::{Run, StepOutcome};
use super::{scratch, summary};
use crate::engines::{self, Databases, Engine};
use crate::servers::{ACCESS_KEY, SECRET_KEY};

/// The number of tests that run at the same time, for each core.
const TESTS_PER_CORE: usize = 4;

/// The time limit of the tests of `tests/it` at full length, on one engine.
const PROOFS_LIMIT: Duration = Duration::from_hours(6);

/// The services of the tests in Rust. Without them, `cargo test` skips the tests that need one.
pub(super) struct Services<'a> {
    /// The endpoint of a running MinIO.
    pub(super) endpoint: &'a str,
    /// MinIO's program, for tests that stop and kill a server of their own.
    pub(super) minio: &'a Path,
    pub(super) databases: &'a Databases,
}

/// The number of tests of one program that run at the same time. It is larger than the number of
/// cores, because tests of servers mostly wait.
fn tests_at_once() -> usize {
    TESTS_PER_CORE * thread::available_parallelism().map_or(1, usize::from)
}

impl Run<'_> {
    /// Runs all tests in Rust, one program after the other.
    ///
    /// Only a full run tests the examples in documentation, because cargo must start rustdoc for
    /// every crate to find them.
    pub(super) fn rust_tests(&self, services: &Services<'_>) -> Result<StepOutcome> {
        let engines = self.engines();
        let mut command = self.tests(services, &engines);
        if !self.options.full {
            command.arg("--tests");
        }
        if self.is_plain() {
            command.env("ASHLAR_TEST_EACH", self.drawn.name());
        }
        for name in engines::crates_without_servers(&engines) {
            // Cargo warns about excluded packages that do not exist.
            if self.workspace.members.iter().any(|member| member.name == name) {
                command.args(["--exclude", &name]);
            }
        }
        let outcome = self.watch(command, "rust")?;
        Ok(self.counted(outcome, "rust"))
    }

    /// Runs the tests of `tests/it` at full length, on the drawn engine only.
    pub(super) fn long_proofs(&self, services: &Services<'_>) -> Result<StepOutcome> {
        let mut command = self.tests(services, &[self.drawn]);
        // The command names the whole workspace, not the package `it`, so that dependencies keep
        // their features and are not built again.
        command.args(["--test", "it"]).env("ASHLAR_TEST_SCALE", "full");
        let outcome = self.watch_for(command, "proofs", PROOFS_LIMIT)?;
        Ok(self.counted(outcome, "proofs"))
    }

    /// Returns the command `cargo test` with the services and with these engines.
    fn tests(&self, services: &Services<'_>, engines: &[Engine]) -> Command {
        let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        let mut command = self.linting_cargo();
        command
            .args(["test", "--workspace", "--no-fail-fast"])
            .envs(services.databases.variables())
            .env("ASHLAR_TEST_ENGINES", names.join(","))
            .env("ASHLAR_TEST_DRAWN", self.drawn.name())
            .env("ASHLAR_TEST_S3_ENDPOINT", services.endpoint)
            .env("ASHLAR_TEST_S3_ACCESS_KEY", ACCESS_KEY)
            .env("ASHLAR_TEST_S3_SECRET_KEY", SECRET_KEY)
            .env("ASHLAR_TEST_MINIO", services.minio)
            .env("ASHLAR_TEST_REQUIRE_SERVICES", "1")
            .env("TMPDIR", scratch::data(&self.folder))
            .env("RUST_TEST_THREADS", tests_at_once().to_string())
            .env("ASHLAR_BIN", self.gateway());
        command
    }

    /// Adds the summaries of the test runners, and the output of failed tests.
    fn counted(&self, mut outcome: StepOutcome, name: &str) -> StepOutcome {
        let log = std::fs::read_to_string(self.log(name)).unwrap_or_default();
        outcome.summary = summary::cargo_lines(&log);
        let counts = summary::cargo_counts(&outcome.summary);
        outcome.counts = counts;
        // The end of the log alone can be the output of a later test program that passed.
        let failures = summary::cargo_failures(&log);
        outcome.remark = format!("{}\n{}{failures}", counts.sentence(), outcome.remark);
        outcome.remark.truncate(outcome.remark.trim_end().len());
        outcome
    }
}
