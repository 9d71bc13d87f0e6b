//! The command line of `cargo xtask bench`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::dist;
use crate::engines::Engine;

/// The size of the gateway's cache in memory. It equals the gateway's default on a machine with 16
/// GiB or more, and is set so that all machines measure the same.
pub(super) const CACHE_MIB: f64 = 1024.0;
/// The setting of [`CACHE_MIB`].
const CACHE_SETTING: (&str, &str) = ("ASHLAR_CACHE_MEMORY", "1GiB");

/// Options of `cargo xtask bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Measure a mount instead of S3, and compare it with MinIO, s3fs-fuse, a local folder and a
    /// file system in memory. SQLite has its blocks in a folder then, other engines in MinIO.
    #[arg(long)]
    pub(super) files: bool,
    /// Compare a process that has its volume alone with one on a volume that an idle gateway and an
    /// idle mount have open as well: requests to a gateway, or with --files work on a mount.
    #[arg(long)]
    pub(super) company: bool,
    /// The metadata engine. May be given several times. The default is SQLite; with --files Redis
    /// and SQLite; with --company Redis and PostgreSQL; with both Redis.
    #[arg(long, value_enum, value_name = "NAME")]
    engine: Vec<Engine>,
    /// When Redis syncs its append-only file: for each write, or once a second. The targets hold
    /// for once a second, and the gateway then runs with --metadata-durability=relaxed.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "everysec")]
    pub(super) redis_fsync: RedisFsync,
    /// Measure rounds of one second with few and small files. This shows that the benchmark works;
    /// the figures mean nothing.
    #[arg(long)]
    pub(super) quick: bool,
    /// The number of rounds for each figure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) rounds: u32,
    /// The duration of a round in seconds. The default is 5, and with --company 1.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
    /// Measure only rows whose names contain one of these texts, for example "PUT 4" or "cold".
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// The size in MiB of the file that mc copies; 0 for no copies. The copies run with the first
    /// engine only, because their bytes do not pass through the engine.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    pub(super) copy: u64,
    /// Measure this program instead of the build of `cargo xtask dist` of this checkout.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) binary: Option<PathBuf>,
    #[command(flatten)]
    pub(super) build: dist::Build,
    /// The folder of the data during the run, instead of the folder for temporary files. A full run
    /// needs up to 50 GB.
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
    /// Write all figures to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// When Redis syncs its append-only file.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisFsync {
    /// Before it answers a write: no acknowledged write is lost.
    Always,
    /// Once a second: a crash of the machine loses the acknowledged writes of the last second.
    Everysec,
}

impl RedisFsync {
    /// The value of Redis' `appendfsync`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
        }
    }
}

impl Options {
    /// The gateway's settings as variables: the size of its cache, and the durability of its
    /// metadata store.
    pub(super) fn settings(&self, engine: Engine) -> &'static [(&'static str, &'static str)] {
        match (engine, self.redis_fsync) {
            (Engine::Redis, RedisFsync::Everysec) => {
                &[CACHE_SETTING, ("ASHLAR_METADATA_DURABILITY", "relaxed")]
            }
            _ => &[CACHE_SETTING],
        }
    }

    /// The engines to measure, in this order.
    pub(super) fn engines(&self) -> Vec<Engine> {
        match (self.engine.as_slice(), self.files, self.company) {
            ([], true, true) => vec![Engine::Redis],
            ([], false, true) => vec![Engine::Redis, Engine::Postgres],
            ([], true, false) => vec![Engine::Redis, Engine::Sqlite],
            ([], false, false) => vec![Engine::Sqlite],
            (named, _, _) => named.to_vec(),
        }
    }

    /// The duration of a round.
    pub(super) fn time(&self) -> Duration {
        // In company each round has three states, so rounds are short.
        let usual = if self.company { 1 } else { 5 };
        Duration::from_secs(if self.quick { 1 } else { self.seconds.unwrap_or(usual) })
    }

    /// Creates the folder of the data during the run.
    pub(super) fn make_folder(&self) -> Result<TempDir> {
        let mut maker = tempfile::Builder::new();
        maker.prefix("ashlar-bench-");
        Ok(match &self.folder {
            Some(folder) => maker.tempdir_in(folder)?,
            None => maker.tempdir()?,
        })
    }

    /// Writes all figures to the file of `--json`, if the user wants one.
    pub(super) fn keep(&self, figures: Vec<Value>) -> Result<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(&Value::Array(figures))?;
        std::fs::write(file, text + "\n")
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns true if the user wants a row of this name.
    pub(super) fn wants(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.only.is_empty() || self.only.iter().any(|words| name.contains(&words.to_lowercase()))
    }
}

#[cfg(test)]
pub(super) mod tests;
