//! `ashlar fsck` and `ashlar gc`: check a volume, and collect garbage. Gateways may be running.
//!
//! For example, `ashlar gc --dry-run` counts the blocks without a reference that a crashed gateway
//! left, and `ashlar gc --delete` deletes them.

use std::sync::Arc;

use admin::{
    AdminError, Collected, Collection, Progress, Report, SWEEP_SHARE_PERCENT, SweepOptions,
    SweepScope,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use store::MetaStore;

use crate::config::{MetaPlace, VolumeSettings};
use crate::engines::{self, Use};
use crate::outcome::Outcome;
use crate::output::say;
use crate::rings::VolumeRings;
use crate::table::{Cell, Printing, print_properties};
use crate::{credentials, founding, operator, rings};
use problem::Problem;

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    #[command(flatten)]
    printing: Printing,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("action").required(true).args(["dry_run", "delete"]))]
pub(crate) struct Gc {
    /// Count files and blocks that can be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete the blocks of deleted files, and blocks of ended sessions without a reference
    #[arg(long)]
    delete: bool,
    /// Check the blocks of all ended sessions, including sessions that an earlier collection has
    /// checked completely
    #[arg(long)]
    all: bool,
    /// The limit of deletions, in percent of the blocks checked. A larger share of blocks without a
    /// reference is more often a wrong database than garbage
    #[arg(long, value_name = "PERCENT", default_value_t = SWEEP_SHARE_PERCENT,
          value_parser = clap::value_parser!(u64).range(0..=100))]
    delete_percent_max: u64,
    #[command(flatten)]
    printing: Printing,
}

/// Runs `ashlar fsck`: checks that records and blocks agree, and prints the findings.
pub(crate) async fn fsck(settings: VolumeSettings, command: Fsck) -> Result<Outcome, Problem> {
    let doing = "check the volume";
    let Existing { meta, rings, .. } = existing(&settings, doing).await?;
    let blocks = engines::blocks(&settings.blocks, seed()?, rings.keys()).await?;
    let bar = Bar::new();
    let report = operator::over(Arc::clone(&meta)).check(blocks.store, &bar).await;
    bar.0.finish_and_clear();
    meta.close().await;
    let report = report.map_err(|error| problem(&settings, doing, error))?;
    if command.printing.is_json() {
        print_report(&report, command.printing);
        let clean = report.findings.is_empty();
        return Ok(if clean { Outcome::Success } else { Outcome::Findings });
    }
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
            Ok(Outcome::Success)
        }
        count => {
            say(format_args!("{count} findings{more}"));
            Ok(Outcome::Findings)
        }
    }
}

/// Prints the report of a check as one JSON object.
fn print_report(report: &Report, printing: Printing) {
    let counts = report.counts;
    let findings = report.findings.iter().map(ToString::to_string).collect();
    let properties = vec![
        ("records", Cell::Count(counts.records)),
        ("directories", Cell::Count(counts.directories)),
        ("files", Cell::Count(counts.files)),
        ("file_bytes", Cell::Bytes(counts.bytes)),
        ("awaiting_deletion", Cell::Count(counts.orphans)),
        ("blocks", Cell::Count(counts.blocks)),
        ("block_bytes", Cell::Bytes(counts.block_bytes)),
        ("findings", Cell::Names(findings)),
        ("more_findings", Cell::Flag(report.truncated)),
    ];
    print_properties(&properties, printing);
}

/// Runs `ashlar gc`: deletes or counts garbage. Fails if the share of blocks to delete is over the
/// limit.
pub(crate) async fn gc(settings: VolumeSettings, command: Gc) -> Result<Outcome, Problem> {
    let doing = "collect garbage";
    let Existing { meta, sole, rings } = existing(&settings, doing).await?;
    let blocks = engines::blocks(&settings.blocks, seed()?, rings.keys()).await?;
    let sweep = SweepOptions {
        scope: if command.all { SweepScope::All } else { SweepScope::Unswept },
        dry_run: command.dry_run,
        share_percent: command.delete_percent_max,
    };
    let collection = Collection { sole, deletion_grace: settings.deletion_grace.given(), sweep };
    let collected = operator::over(Arc::clone(&meta)).collect(blocks.store, collection).await;
    meta.close().await;
    let Collected { reaped, swept } =
        collected.map_err(|error| problem(&settings, doing, error))?;
    if command.printing.is_json() {
        let properties = vec![
            ("dry_run", Cell::Flag(command.dry_run)),
            ("reclaimed_orphans", Cell::Count(reaped.orphans)),
            ("reclaimed_blocks", Cell::Count(reaped.blocks)),
            ("sessions", Cell::Count(swept.sessions)),
            ("blocks", Cell::Count(swept.listed)),
            ("unreferenced_blocks", Cell::Count(swept.unreferenced)),
            ("unreferenced_bytes", Cell::Bytes(swept.bytes)),
            ("deleted_blocks", Cell::Count(swept.deleted)),
        ];
        print_properties(&properties, command.printing);
    } else {
        say_collected(command.delete, &Collected { reaped, swept });
    }
    // The counts are printed before this error, so that the operator can decide about the limit.
    if swept.beyond_share && command.delete {
        let wrong = format!(
            "{} of {} blocks is more than {} percent",
            swept.unreferenced, swept.listed, command.delete_percent_max
        );
        return Err(Problem::new("delete blocks without a reference", wrong).remedy(
            "check that --meta and --blocks belong together, then allow it with --delete-percent-max",
        ));
    }
    Ok(Outcome::Success)
}

/// Prints the result of a collection.
fn say_collected(deleted: bool, collected: &Collected) {
    let Collected { reaped, swept } = collected;
    if deleted {
        let (orphans, blocks) = (reaped.orphans, reaped.blocks);
        say(format_args!(
            "reclaimed {orphans} deleted files, parts and uploads, and {blocks} blocks"
        ));
    }
    say(format_args!(
        "{} ended sessions with {} blocks; without a reference: {} ({} bytes); deleted: {}",
        swept.sessions, swept.listed, swept.unreferenced, swept.bytes, swept.deleted
    ));
}

/// The metadata store of an existing volume.
pub(super) struct Existing {
    pub(super) meta: Arc<dyn MetaStore>,
    /// True if no other process can serve the volume, because the engine's locks ensure it.
    pub(super) sole: bool,
    /// The ring keys of the volume.
    pub(super) rings: Arc<VolumeRings>,
}

/// Opens the metadata store of an existing volume, and its ring keys. Fails if the database does
/// not exist: opening it would create an empty one, and the check of an empty one finds nothing
/// wrong.
pub(super) async fn existing(settings: &VolumeSettings, doing: &str) -> Result<Existing, Problem> {
    let absent = || founding::no_volume(settings, doing);
    founding::check_present(settings, doing).await?;
    let meta = match &settings.meta {
        MetaPlace::Memory => return Err(absent()),
        MetaPlace::Sqlite(_) => match engines::meta(settings, Use::Serve).await {
            Ok(alone) => alone,
            // Exclusive access fails if a gateway is running. If it failed for another reason,
            // shared access fails, too, and its error has the reason.
            Err(_) => engines::meta(settings, Use::Administer).await?,
        },
        MetaPlace::Server(_) => engines::meta(settings, Use::Administer).await?,
    };
    let sole = meta.limits().serves_one;
    let (rings, meta) = rings::over(meta);
    // Before the block store, because opening a directory of blocks would create it.
    match operator::over(Arc::clone(&meta)).has_volume().await {
        Ok(true) => {
            founding::check_folder(settings, &meta, false).await?;
            rings::open_for_command(&rings, settings).await?;
            Ok(Existing { meta, sole, rings })
        }
        Ok(false) => Err(absent()),
        Err(error) => Err(problem(settings, doing, error)),
    }
}

/// Returns the problem for an error of the action `doing`.
pub(super) fn problem(settings: &VolumeSettings, doing: &str, error: AdminError) -> Problem {
    match error {
        AdminError::NoVolume => founding::no_volume(settings, doing),
        error => Problem::new(doing, error),
    }
}

/// Returns a random seed for the jitter of retries.
pub(super) fn seed() -> Result<u64, Problem> {
    credentials::random_u64()
}

/// A progress bar. It is shown only if standard error is a terminal.
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
