//! `ashlar bucket fork`: a new bucket of what another one holds, with the same blocks.

use std::sync::Arc;
use std::time::Duration;

use admin::{AdminError, BucketFork, ForkWatch, Forked};
use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::{dump, refusal, upkeep};
use crate::config::VolumeSettings;
use crate::output::say;
use crate::problem::Problem;
use crate::{engines, operator};

/// How often the progress bar moves.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// The bucket that is there
    source: String,
    /// The name of the new one
    target: String,
}

impl Fork {
    /// Makes the bucket, while others may be using the volume.
    pub(super) async fn run(&self, settings: &VolumeSettings) -> Result<(), Problem> {
        let Fork { source, target } = self;
        let doing = format!("fork the bucket {source:?} as {target:?}");
        let (meta, sole) = upkeep::existing(settings, &doing).await?;
        let blocks = engines::blocks(&settings.blocks, upkeep::seed()?).await?;
        let bar = Bar::new();
        let fork = BucketFork { source, target, sole };
        let admin = operator::over(Arc::clone(&meta));
        let forked = admin.fork_bucket(blocks.store, fork, &bar, dump::interrupted()).await;
        bar.0.finish_and_clear();
        meta.close().await;
        let forked = forked.map_err(|error| match error {
            AdminError::Interrupted | AdminError::ForkTaken => Problem::new(doing.as_str(), error)
                .remedy(format!("what was copied is in {target}: delete it, and fork again")),
            error => refusal::problem(doing.as_str(), error),
        })?;
        say(format_args!("forked {source} as {target}: {}", InWords(&forked)));
        if forked.omitted == 0 {
            return Ok(());
        }
        for path in &forked.omitted_paths {
            eprintln!("ashlar: left out {path}");
        }
        Err(Problem::new(doing, format!("{} are left out", forked.omitted)).remedy(
            "they changed each time that they were to be copied, or have too many long extended \
             attributes; copy them by another program",
        ))
    }
}

/// What a fork has made, in words.
struct InWords<'a>(&'a Forked);

impl std::fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Forked { directories, files, bytes, others, links, .. } = self.0;
        write!(f, "{files} files of {bytes} bytes in {directories} directories")?;
        if *links > 0 {
            write!(f, ", {links} further names of them")?;
        }
        if *others > 0 {
            write!(f, ", {others} symbolic links and special files")?;
        }
        Ok(())
    }
}

/// A progress bar on a terminal; nothing elsewhere.
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
