//! How to measure, as the command line says it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::dist;
use crate::engines::Engine;

/// How large the gateway's cache in memory may be, which is what it takes by itself on a machine of
/// 16 GiB and more.
pub(super) const CACHE_MIB: f64 = 1024.0;
const CACHE_SETTING: (&str, &str) = ("ASHLAR_CACHE_MEMORY", "1GiB");

/// How to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Measure the file view instead of S3, on a mount: beside MinIO, s3fs-fuse, a local folder and
    /// a file system in memory. SQLite has its blocks in a folder then, other engines in MinIO.
    #[arg(long)]
    pub(super) files: bool,
    /// The metadata engine below; may be given several times. If none is named, it is SQLite, and
    /// with --files Redis besides.
    #[arg(long, value_enum, value_name = "NAME")]
    engine: Vec<Engine>,
    /// When Redis syncs its append-only file: at each write, or once a second, as the targets were
    /// measured. Then the gateway is told that it may rely on no more (`relaxed`).
    #[arg(long, value_enum, value_name = "WHEN", default_value = "everysec")]
    pub(super) redis_fsync: RedisFsync,
    /// Rounds of a second, small files and few of them: shows that it runs, not how fast.
    #[arg(long)]
    pub(super) quick: bool,
    /// Rounds for each figure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) rounds: u32,
    /// Seconds that a round lasts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) seconds: u64,
    /// Only rows whose names contain one of these words, such as "PUT 4" or "cold".
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// MiB of the file that mc copies, with the first engine only: its bytes pass by all engines
    /// alike. 0 leaves the copies out.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    pub(super) copy: u64,
    /// Measure this program instead of what `cargo xtask dist` makes of this checkout.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) binary: Option<PathBuf>,
    #[command(flatten)]
    pub(super) build: dist::Build,
    /// Where to keep data meanwhile, instead of the folder for temporary files; a full run takes up
    /// to 50 GB.
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
    /// Write all figures to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// When Redis syncs its append-only file.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisFsync {
    /// Before it answers a write: nothing acknowledged is lost.
    Always,
    /// Once a second: a crash of the machine takes back what was acknowledged in the last one.
    Everysec,
}

impl RedisFsync {
    /// As Redis names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
        }
    }
}

impl Options {
    /// What the gateway is told: how large its cache may be, and what the metadata store below it
    /// may lose.
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
        match (self.engine.as_slice(), self.files) {
            ([], true) => vec![Engine::Redis, Engine::Sqlite],
            ([], false) => vec![Engine::Sqlite],
            (named, _) => named.to_vec(),
        }
    }

    /// How long a round lasts.
    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { self.seconds })
    }

    /// A folder for what a run keeps meanwhile.
    pub(super) fn make_folder(&self) -> Result<TempDir> {
        let mut maker = tempfile::Builder::new();
        maker.prefix("ashlar-bench-");
        Ok(match &self.folder {
            Some(folder) => maker.tempdir_in(folder)?,
            None => maker.tempdir()?,
        })
    }

    /// Writes all figures to the file that was named, if one was.
    pub(super) fn keep(&self, figures: Vec<Value>) -> Result<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(&Value::Array(figures))?;
        std::fs::write(file, text + "\n").with_context(|| format!("{}", file.display()))
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.only.is_empty() || self.only.iter().any(|words| name.contains(&words.to_lowercase()))
    }
}

#[cfg(test)]
pub(super) mod tests;
