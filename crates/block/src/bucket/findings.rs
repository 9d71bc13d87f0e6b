//! What probes and reads have observed about a bucket, and the warnings for operators.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::bare;

/// How often a probe writes a block.
const BLOCK_PROBE_EVERY: Duration = Duration::from_secs(10);

/// The same for a bucket that keeps old versions.
const KEPT_PROBE_EVERY: Duration = Duration::from_hours(1);

/// Observations of probes and reads.
#[derive(Debug, Default)]
pub(super) struct Findings(Mutex<Observations>);

#[derive(Debug, Default)]
struct Observations {
    /// When a probe last wrote a block, and whether its checksums came back with it.
    block: Option<(Instant, bool)>,
    versions: Option<Versions>,
    /// How many bare blocks had lost their checksums.
    learned: u64,
}

/// What a bucket does with deleted objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// They are gone, as far as is known.
    None,
    /// They stay as old versions.
    Kept,
    /// They stay, and nobody may remove them for a while.
    Locked,
}

impl Findings {
    fn found(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an operator should know.
    pub(super) fn warnings(&self, bucket: &str) -> Vec<String> {
        let found = self.found();
        let forgets = found.block.is_some_and(|(_, kept)| !kept);
        let mut warnings: Vec<String> =
            forgets.then(|| Forgets(bucket).to_string()).into_iter().collect();
        match found.versions {
            Some(Versions::Kept) => warnings.push(Versioned(bucket, "").to_string()),
            Some(Versions::Locked) => warnings.push(Versioned(bucket, LOCKED).to_string()),
            Some(Versions::None) | None => {}
        }
        if found.learned > 0 {
            warnings.push(Lost(bucket, found.learned).to_string());
        }
        warnings
    }

    /// Notes that a block had lost its checksums. Logs that the first time, and then ever more rarely.
    pub(super) fn note_learned(&self, bucket: &str) {
        let mut found = self.found();
        found.learned = found.learned.saturating_add(1);
        if found.learned.is_power_of_two() {
            warn!("{}", Lost(bucket, found.learned));
        }
    }

    /// Whether it is known what the bucket does with deleted objects.
    pub(super) fn versions_are_known(&self) -> bool {
        self.found().versions.is_some()
    }

    /// Notes what the bucket does with deleted objects.
    pub(super) fn note_versions(&self, versions: Versions) {
        self.found().versions = Some(versions);
    }

    /// Whether the bucket keeps what probes write.
    pub(super) fn keeps_versions(&self) -> bool {
        matches!(self.found().versions, Some(Versions::Kept | Versions::Locked))
    }

    /// Whether a probe should write a block now.
    pub(super) fn block_is_due(&self) -> bool {
        let every = if self.keeps_versions() { KEPT_PROBE_EVERY } else { BLOCK_PROBE_EVERY };
        self.found().block.is_none_or(|(tried, _)| tried.elapsed() >= every)
    }

    /// Whether a probe has ever written a block.
    pub(super) fn block_was_tried(&self) -> bool {
        self.found().block.is_some()
    }

    /// Notes whether a block's checksums came back. Logs a change.
    pub(super) fn note_block(&self, bucket: &str, kept: bool) {
        let before = self.found().block.replace((Instant::now(), kept));
        match (before.map(|(_, kept)| kept), kept) {
            (None | Some(true), false) => warn!("{}", Forgets(bucket)),
            (Some(false), true) => info!(bucket, "the bucket keeps user metadata again"),
            (None | Some(true), true) | (Some(false), false) => {}
        }
    }
}

struct Forgets<'a>(&'a str);

impl fmt::Display for Forgets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bucket {} keeps no user metadata, or something before it drops or refuses \
             x-amz-meta-*: new blocks carry their checksums themselves, and MD5s are computed here",
            self.0
        )
    }
}

const LOCKED: &str = " and locks them";

struct Versioned<'a>(&'a str, &'a str);

impl fmt::Display for Versioned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Versioned(bucket, locked) = self;
        write!(
            f,
            "bucket {bucket} keeps every version of its objects{locked}: what is deleted goes on \
             taking room; blocks never change, so turn versioning off, or let a lifecycle rule \
             remove versions that are not current"
        )
    }
}

struct Lost<'a>(&'a str, u64);

impl fmt::Display for Lost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost(bucket, blocks) = self;
        write!(
            f,
            "{blocks} blocks in bucket {bucket} have lost their checksums ({}): each is verified as \
             a whole by what its record says, which costs one read of all of it; copy the bucket \
             again with its metadata to have them back",
            bare::SUMS_NAME
        )
    }
}
