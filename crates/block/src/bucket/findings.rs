//! What was found out about a bucket, by probes and otherwise, and what an operator is told of it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::bare;

/// How soon a probe writes a block again.
const BLOCK_PROBE_EVERY: Duration = Duration::from_secs(10);

/// The same for a bucket that keeps all of them.
const KEPT_PROBE_EVERY: Duration = Duration::from_hours(1);

/// What probes and reads found besides.
#[derive(Debug, Default)]
pub(super) struct Findings(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    /// When a block was last tried, and whether its checksums stayed beside it.
    block: Option<(Instant, bool)>,
    versions: Option<Versions>,
    /// Bare blocks that had lost their checksums.
    learned: u64,
}

/// What a bucket does with what is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// It is gone, as far as the bucket tells.
    None,
    /// It stays as a version.
    Kept,
    /// So it does, and nobody may remove it for a while.
    Locked,
}

impl Findings {
    fn found(&self) -> MutexGuard<'_, Found> {
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

    /// Notes that a block had lost its checksums. Says so the first time, and ever more seldom.
    pub(super) fn note_learned(&self, bucket: &str) {
        let mut found = self.found();
        found.learned = found.learned.saturating_add(1);
        if found.learned.is_power_of_two() {
            warn!("{}", Lost(bucket, found.learned));
        }
    }

    /// Whether it is known what the bucket does with what is deleted.
    pub(super) fn versions_are_known(&self) -> bool {
        self.found().versions.is_some()
    }

    /// Notes what the bucket does with what is deleted.
    pub(super) fn note_versions(&self, versions: Versions) {
        self.found().versions = Some(versions);
    }

    /// Whether the bucket keeps what probes write.
    pub(super) fn keeps_versions(&self) -> bool {
        matches!(self.found().versions, Some(Versions::Kept | Versions::Locked))
    }

    /// Whether a block is to be tried.
    pub(super) fn block_is_due(&self) -> bool {
        let every = if self.keeps_versions() { KEPT_PROBE_EVERY } else { BLOCK_PROBE_EVERY };
        self.found().block.is_none_or(|(tried, _)| tried.elapsed() >= every)
    }

    /// Whether a block was ever tried with success.
    pub(super) fn block_was_tried(&self) -> bool {
        self.found().block.is_some()
    }

    /// Notes what became of a block's checksums. Says so when it changes.
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
