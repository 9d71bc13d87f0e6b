//! `ashlar bucket fork`: creates a bucket with the content of another one, which shares its blocks.

use std::sync::Arc;
use std::time::Duration;

use admin::{AdminError, BucketFork, ForkWatch, Forked};
use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::upkeep::Existing;
use crate::commands::{dump, refusal, upkeep};
use crate::config::VolumeSettings;
use crate::output::say;
use crate::{engines, operator};
use problem::Problem;

/// The interval between refreshes of the progress bar.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// The existing bucket
    source: String,
    /// The name of the new bucket
    target: String,
}

impl Fork {
    /// Forks the bucket. Gateways may be serving the volume. If entries of the source changed at
    /// each attempt to copy them, the fork lacks them, and the command lists them and fails.
    pub(super) async fn run(&self, settings: &VolumeSettings) -> Result<(), Problem> {
        let Fork { source, target } = self;
        let doing = format!("fork the bucket {source:?} as {target:?}");
        let Existing { meta, sole, rings } = upkeep::existing(settings, &doing).await?;
        let blocks = engines::blocks(&settings.blocks, upkeep::seed()?, rings.keys()).await?;
        let bar = Bar::new();
        let fork = BucketFork { source, source_ino: None, target, sole };
        let admin = operator::over(Arc::clone(&meta));
        let forked =
            Box::pin(admin.fork_bucket(blocks.store, fork, &bar, dump::interrupted())).await;
        bar.0.finish_and_clear();
        meta.close().await;
        let forked = forked.map_err(|error| match error {
            AdminError::Interrupted | AdminError::ForkTargetChanged => {
                Problem::new(doing.as_str(), error)
                    .remedy(format!("{target} is incomplete: delete it, and fork again"))
            }
            error => refusal::problem(doing.as_str(), error),
        })?;
        say(format_args!("forked {source} as {target}: {}", InWords(&forked)));
        if forked.omitted == 0 {
            return Ok(());
        }
        for path in &forked.omitted_paths {
            eprintln!("ashlar: left out {path}");
        }
        Err(Problem::new(doing, format!("{} entries are left out", forked.omitted)).remedy(
            "they changed at each attempt to copy them, or have too many long extended attributes; \
             copy them with another program",
        ))
    }
}

/// The content of a fork, as a phrase for output.
struct InWords<'a>(&'a Forked);

impl std::fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Forked { directories, files, bytes, others, links, .. } = self.0;
        write!(f, "{files} files of {bytes} bytes in {directories} directories")?;
        if *links > 0 {
            write!(f, ", {links} hard links")?;
        }
        if *others > 0 {
            write!(f, ", {others} symbolic links and special files")?;
        }
        Ok(())
    }
}

/// A progress bar. It is shown only if standard error is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let bar = ProgressBar::new(0);
        let line = "{wide_bar} {human_pos} of {human_len} files, {per_sec}";
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Bar(bar)
    }
}

impl ForkWatch for Bar {
    fn started(&self, names: u64) {
        self.0.set_length(names);
    }

    fn progress(&self, so_far: &Forked) {
        self.0.set_position(so_far.files + so_far.links);
    }
}
