//! `ashlar ring retire`: moves all content under a ring key to the current keys, and removes the
//! key.
//!
//! For example, after `ashlar ring rotate` has made key 2, `ashlar ring retire 1` encrypts the
//! content under key 1 again, and the volume then has key 2 alone.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use admin::{RetirePass, RetireProgress, Retired, Retirement};
use indicatif::{ProgressBar, ProgressStyle};
use keystore::KeyStoreError;
use problem::Problem;
use record::RingNumber;

use crate::commands::upkeep::{Existing, existing, problem, seed};
use crate::config::VolumeSettings;
use crate::output::say;
use crate::{engines, logging, operator, rings};

/// The interval of lines about the progress, if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_mins(1);

/// Runs `ashlar ring retire`.
pub(super) async fn run(
    settings: VolumeSettings,
    number: RingNumber,
    doing: &str,
) -> Result<(), Problem> {
    logging::start(&settings)?;
    let Existing { meta, sole, rings } = existing(&settings, doing).await?;
    let ring = rings::open_for_command(&rings, &settings).await?;
    let blocks = engines::blocks(&settings.blocks, seed()?, rings.keys()).await?;
    let how = Retirement { sole, deletion_grace: settings.deletion_grace.given() };
    let progress = Shown::new();
    let retired = operator::over(meta.clone())
        .retire_ring_key(blocks.store, &ring, number, how, &progress)
        .await;
    progress.bar.finish_and_clear();
    meta.close().await;
    let Retired { moved, left } = retired.map_err(|error| match error {
        admin::AdminError::Ring(error) => refusal(doing, error),
        error => problem(&settings, doing, error),
    })?;
    let (sources, bytes) = (moved.sources, moved.bytes);
    match left {
        None => {
            say(format_args!(
                "ring key {number} is removed: {bytes} bytes of {sources} files and blocks were \
                 encrypted again"
            ));
            Ok(())
        }
        Some(left) => {
            say(format_args!("{bytes} bytes of {sources} files and blocks were encrypted again"));
            let wrong = format!("content is left under it: {}", reasons(&left).join(", "));
            Err(Problem::new(format!("remove ring key {number}"), wrong).remedy(REMEDY))
        }
    }
}

const REMEDY: &str = "the key stays for this content, and nothing new is encrypted under it; when \
                      the content is deleted, copied or completed, run the command again";

fn refusal(doing: &str, error: KeyStoreError) -> Problem {
    let remedy = match &error {
        KeyStoreError::Current(_) => {
            Some("`ashlar ring rotate` makes a new one; with --kms-key NAME for a key of the KMS")
        }
        KeyStoreError::NoSuchKey(_) => Some("`ashlar ring list` prints all keys"),
        KeyStoreError::Ring(_) => {
            Some("its content cannot be read until the key can be used: see docs/ENCRYPTION.md")
        }
        KeyStoreError::Store(_)
        | KeyStoreError::Record(_)
        | KeyStoreError::Kms(_)
        | KeyStoreError::KeyName(_)
        | KeyStoreError::NoKms(_)
        | KeyStoreError::Randomness
        | KeyStoreError::Contended
        | KeyStoreError::Full
        | KeyStoreError::OtherMasterKey { .. }
        | KeyStoreError::Rewrapping { .. }
        | KeyStoreError::NoMasterKey
        | KeyStoreError::NoOldKey
        | KeyStoreError::Secret { .. } => None,
    };
    Problem::new(doing, error).remedy_if(remedy)
}

/// Returns the reasons why content is left, each with its count.
fn reasons(left: &RetirePass) -> Vec<String> {
    let all = [
        (left.customer_files, "files with a key of the client (SSE-C)"),
        (left.upload_parts, "parts of uploads that are not complete"),
        (left.busy_files, "files that programs keep changing"),
        (left.unreadable, "records and blocks that cannot be read (run ashlar fsck)"),
        (left.unreferenced, "blocks without a reference, which await their deletion"),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    let mut reasons: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
    reasons.push(format!("in all {} blocks and {} records", left.blocks, left.records));
    reasons
}

/// The progress: a line that changes on a terminal, and a line a minute elsewhere.
struct Shown {
    bar: ProgressBar,
    is_terminal: bool,
    counts: Mutex<Counts>,
}

struct Counts {
    blocks: u64,
    inodes: u64,
    bytes: u64,
    printed: Instant,
}

impl Shown {
    fn new() -> Shown {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        let counts = Counts { blocks: 0, inodes: 0, bytes: 0, printed: Instant::now() };
        let is_terminal = std::io::stderr().is_terminal();
        Shown { bar, is_terminal, counts: Mutex::new(counts) }
    }

    fn add(&self, blocks: u64, inodes: u64, bytes: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.blocks += blocks;
        counts.inodes += inodes;
        counts.bytes += bytes;
        let Counts { blocks, inodes, bytes, .. } = *counts;
        let line = format!("looked at {blocks} blocks and {inodes} files, moved {bytes} bytes");
        if self.is_terminal {
            self.bar.set_message(line);
        } else if counts.printed.elapsed() >= LINE_INTERVAL {
            counts.printed = Instant::now();
            let _gone = writeln!(std::io::stderr().lock(), "{line}");
        }
    }
}

impl RetireProgress for Shown {
    fn looked_at(&self, blocks: u64, inodes: u64) {
        self.add(blocks, inodes, 0);
    }

    fn moved(&self, bytes: u64) {
        self.add(0, 0, bytes);
    }
}
