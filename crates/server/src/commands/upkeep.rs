//! `ashlar fsck` and `ashlar gc`: checks a volume and collects garbage, with or without a gateway
//! running.

use std::sync::Arc;

use admin::{AdminError, Collected, Collection, Progress, SweepOptions, SweepScope};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use store::MetaStore;

use crate::config::{MetaPlace, VolumeSettings};
use crate::engines::{self, Use};
use crate::outcome::Outcome;
use crate::output::say;
use crate::problem::Problem;
use crate::{credentials, founding, operator};

#[derive(Debug, Args)]
pub(crate) struct Fsck {}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["dry_run", "delete"]))]
pub(crate) struct Gc {
    /// Count what could be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete what is dead, and blocks of ended sessions that no record names
    #[arg(long)]
    delete: bool,
    /// Look at the blocks of all ended sessions again. Otherwise those are left alone that earlier
    /// collections have looked at, an hour after their first look or later
    #[arg(long)]
    all: bool,
    /// The share of the blocks looked at that may be deleted in one go, in percent. A larger share
    /// more often means a wrong database than that many leftovers
    #[arg(long, value_name = "PERCENT", default_value_t = volume::SWEEP_SHARE_PERCENT,
          value_parser = clap::value_parser!(u64).range(0..=100))]
    share_max: u64,
}

/// Compares records with blocks.
pub(crate) async fn fsck(settings: VolumeSettings, _: Fsck) -> Result<Outcome, Problem> {
    let doing = "check the volume";
    let (meta, _) = existing(&settings, doing).await?;
    let blocks = engines::blocks(&settings.blocks, seed()?).await?;
    let bar = Bar::new();
    let report = operator::over(Arc::clone(&meta)).check(blocks.store, &bar).await;
    bar.0.finish_and_clear();
    meta.close().await;
    let report = report.map_err(|error| problem(&settings, doing, error))?;
    for finding in &report.findings {
        say(format_args!("{finding}"));
    }
    let counts = report.counts;
    say(format_args!(
        "{} records, {} directories, {} files of {} bytes, {} awaiting deletion, \
         {} blocks of {} bytes",
        counts.records,
        counts.directories,
        counts.files,
        counts.bytes,
        counts.orphans,
        counts.blocks,
        counts.block_bytes
    ));
    let more = if report.truncated { " and more" } else { "" };
    match report.findings.len() {
        0 => {
            say(format_args!("no findings"));
            Ok(Outcome::Well)
        }
        count => {
            say(format_args!("{count} findings{more}"));
            Ok(Outcome::Findings)
        }
    }
}

/// Deletes what is dead.
pub(crate) async fn gc(settings: VolumeSettings, command: Gc) -> Result<Outcome, Problem> {
    let doing = "collect garbage";
    let (meta, sole) = existing(&settings, doing).await?;
    let blocks = engines::blocks(&settings.blocks, seed()?).await?;
    let sweep = SweepOptions {
        scope: if command.all { SweepScope::All } else { SweepScope::Unswept },
        dry_run: command.dry_run,
        share_percent: command.share_max,
    };
    let how = Collection { sole, deletion_grace: settings.deletion_grace.said(), sweep };
    let collected = operator::over(Arc::clone(&meta)).collect(blocks.store, how).await;
    meta.close().await;
    let Collected { reaped, swept } =
        collected.map_err(|error| problem(&settings, doing, error))?;
    if command.delete {
        let (orphans, blocks) = (reaped.orphans, reaped.blocks);
        say(format_args!("deleted {orphans} dead files, parts and uploads, and {blocks} blocks"));
    }
    say(format_args!(
        "{} ended sessions left {} blocks, of which no record names {} ({} bytes); deleted {}",
        swept.sessions, swept.listed, swept.unreferenced, swept.bytes, swept.deleted
    ));
    if swept.beyond_share && command.delete {
        let wrong = format!(
            "{} of {} blocks is more than {} percent",
            swept.unreferenced, swept.listed, command.share_max
        );
        return Err(Problem::new("delete blocks that no record names", wrong).remedy(
            "make sure that --meta and --blocks belong together, then allow it with --share-max",
        ));
    }
    Ok(Outcome::Well)
}

/// Opens the metadata store of a volume that exists, and tells whether nobody else uses it. A
/// database that does not exist is an error: otherwise it would be made, and be found in perfect
/// order.
pub(super) async fn existing(
    settings: &VolumeSettings,
    doing: &str,
) -> Result<(Arc<dyn MetaStore>, bool), Problem> {
    let absent = || founding::no_volume(settings, doing);
    founding::check_present(settings, doing).await?;
    let (meta, sole) = match &settings.meta {
        MetaPlace::Memory => return Err(absent()),
        MetaPlace::Sqlite(_) => match engines::meta(settings, Use::Serve).await {
            Ok(alone) => (alone, true),
            // Perhaps a gateway is running. If it is something else, this fails too, and says why.
            Err(_) => (engines::meta(settings, Use::Administer).await?, false),
        },
        MetaPlace::Server(_) => (engines::meta(settings, Use::Administer).await?, false),
    };
    // Opened before the block store, because opening a folder for blocks would make it.
    match operator::over(Arc::clone(&meta)).has_volume().await {
        Ok(true) => {
            founding::check_folder(settings, &meta, false).await?;
            Ok((meta, sole))
        }
        Ok(false) => Err(absent()),
        Err(error) => Err(problem(settings, doing, error)),
    }
}

pub(super) fn problem(settings: &VolumeSettings, doing: &str, error: AdminError) -> Problem {
    match error {
        AdminError::NoVolume => founding::no_volume(settings, doing),
        error => Problem::new(doing, error),
    }
}

pub(super) fn seed() -> Result<u64, Problem> {
    let mut bytes = [0; 8];
    credentials::random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A progress bar on a terminal; nothing elsewhere.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} {msg} read") {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

impl Progress for Bar {
    fn read(&self, what: &'static str, count: u64) {
        self.0.set_message(what);
        self.0.inc(count);
    }
}
