//! The observations of probes and reads about a bucket, and the warnings for operators.
//!
//! For example, a probe finds that the bucket keeps old versions. From then on `status` shows a
//! warning that deletes free no space.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::bare;

/// The shortest interval between two probes that write a block.
const BLOCK_PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// The same interval for a bucket that keeps old versions.
const VERSIONED_PROBE_INTERVAL: Duration = Duration::from_hours(1);

/// The observations of probes (checks of a bucket's abilities) and reads.
#[derive(Debug, Default)]
pub(super) struct Findings(Mutex<Observations>);

#[derive(Debug, Default)]
struct Observations {
    /// The time at which a probe last wrote a block, and true if the block's checksums could be
    /// read back; `None` before the first.
    block: Option<(Instant, bool)>,
    versions: Option<Versions>,
    /// The number of bare blocks (objects of content alone) that had lost their checksums.
    lost_checksums: u64,
}

/// The treatment of deleted objects by a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// They are deleted, as far as is known.
    None,
    /// They stay as old versions.
    Kept,
    /// They stay as old versions that cannot be deleted for a while.
    Locked,
}

impl Findings {
    fn found(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the warnings for the operator.
    pub(super) fn warnings(&self, bucket: &str) -> Vec<String> {
        let found = self.found();
        let drops_metadata = found.block.is_some_and(|(_, kept)| !kept);
        let mut warnings: Vec<String> =
            drops_metadata.then(|| DropsMetadata(bucket).to_string()).into_iter().collect();
        match found.versions {
            Some(Versions::Kept) => warnings.push(Versioned(bucket, "").to_string()),
            Some(Versions::Locked) => warnings.push(Versioned(bucket, LOCKED).to_string()),
            Some(Versions::None) | None => {}
        }
        if found.lost_checksums > 0 {
            warnings.push(LostChecksums(bucket, found.lost_checksums).to_string());
        }
        warnings
    }

    /// Records that a block had lost its checksums. Logs a warning at the first, second, fourth,
    /// eighth … block.
    pub(super) fn note_lost_checksums(&self, bucket: &str) {
        let mut found = self.found();
        found.lost_checksums = found.lost_checksums.saturating_add(1);
        // A copied bucket may have millions of such blocks; the log must not.
        if found.lost_checksums.is_power_of_two() {
            warn!("{}", LostChecksums(bucket, found.lost_checksums));
        }
    }

    /// Returns true if a probe has found out if the bucket keeps deleted objects as old versions.
    pub(super) fn versions_are_known(&self) -> bool {
        self.found().versions.is_some()
    }

    /// Records if the bucket keeps deleted objects as old versions.
    pub(super) fn note_versions(&self, versions: Versions) {
        self.found().versions = Some(versions);
    }

    /// Returns true if the bucket keeps old versions of the objects that probes write.
    pub(super) fn keeps_versions(&self) -> bool {
        matches!(self.found().versions, Some(Versions::Kept | Versions::Locked))
    }

    /// Returns true if so much time has passed that a probe (a check of the bucket) should write a
    /// block now.
    pub(super) fn block_is_due(&self) -> bool {
        let every =
            if self.keeps_versions() { VERSIONED_PROBE_INTERVAL } else { BLOCK_PROBE_INTERVAL };
        self.found().block.is_none_or(|(tried, _)| tried.elapsed() >= every)
    }

    /// Returns true if a probe (a check of the bucket) has written a block since the start.
    pub(super) fn block_was_tried(&self) -> bool {
        self.found().block.is_some()
    }

    /// Records if the checksums of a block that a probe wrote could be read back. Logs a change.
    pub(super) fn note_block(&self, bucket: &str, kept: bool) {
        // Only changes are logged, because probes run every few seconds.
        let before = self.found().block.replace((Instant::now(), kept));
        match (before.map(|(_, kept)| kept), kept) {
            (None | Some(true), false) => warn!("{}", DropsMetadata(bucket)),
            (Some(false), true) => info!(bucket, "the bucket keeps user metadata again"),
            (None | Some(true), true) | (Some(false), false) => {}
        }
    }
}

struct DropsMetadata<'a>(&'a str);

impl fmt::Display for DropsMetadata<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bucket {} keeps no user metadata, or a proxy before it drops or refuses \
             x-amz-meta-*: new blocks contain their checksums, and the gateway computes MD5s",
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
            "bucket {bucket} keeps every version of its objects{locked}: deleted blocks continue \
             to take up space; blocks never change, so turn versioning off, or let a lifecycle \
             rule remove noncurrent versions"
        )
    }
}

struct LostChecksums<'a>(&'a str, u64);

impl fmt::Display for LostChecksums<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostChecksums(bucket, blocks) = self;
        write!(
            f,
            "{blocks} blocks in bucket {bucket} have lost their checksums ({}): each is verified \
             as a whole by the CRC in its record, at the cost of one read of the whole block; copy \
             the bucket again with its metadata to restore them",
            bare::SUMS_NAME
        )
    }
}
