//! Checks a volume: its records against each other, and against its blocks.
//!
//! A check reads everything and changes nothing. It needs no session and runs beside gateways that
//! continue to write. So one pass may see a half of a change. A finding is reported only if each of
//! several passes finds it with the same details. This suppresses everything that keeps changing:
//! for example, the counter of a busy directory is verified only once the directory is quiet.
//!
//! A check holds a summary of each inode and block in memory, some hundred bytes each.

mod check;
mod collect;
mod finding;
mod progress;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use store::MetaStore;

pub use check::Counts;
pub(crate) use collect::Inventory;
pub use finding::Finding;
pub use progress::{NoProgress, Progress};

use session::VolumeError;
use session::check_volume_format;

/// The number of passes over the volume that must all make a finding before it is reported.
const PASSES: u32 = 3;

/// The pause between two passes.
const PAUSE: Duration = Duration::from_secs(1);

/// The most findings of a report.
pub const FINDINGS_MAX: usize = 10_000;

/// The result of a check of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, sorted; at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// True if there were more findings than the report has.
    pub truncated: bool,
    /// The numbers of records, files and blocks.
    pub counts: Counts,
}

/// Checks the volume of a metadata store and its blocks.
///
/// # Errors
/// Fails if the store or the blocks cannot be read to the end, or if the volume has a format that
/// this release does not know. A record that does not decode is a finding.
pub async fn fsck(
    store: Arc<dyn MetaStore>,
    blocks: Arc<dyn BlockStore>,
    progress: &dyn Progress,
) -> Result<Report, VolumeError> {
    check_volume_format(&*store).await?;
    let (mut findings, mut counts) = one_pass(&*store, &*blocks, progress).await?;
    for _ in 1..PASSES {
        if findings.is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let (again, recounted) = one_pass(&*store, &*blocks, progress).await?;
        // A finding that is absent from one pass, or has other details, was a change under way.
        findings.retain(|finding| again.contains(finding));
        counts = recounted;
    }
    let truncated = findings.len() > FINDINGS_MAX;
    let findings = findings.into_iter().take(FINDINGS_MAX).collect();
    Ok(Report { findings, truncated, counts })
}

async fn one_pass(
    store: &dyn MetaStore,
    blocks: &dyn BlockStore,
    progress: &dyn Progress,
) -> Result<(BTreeSet<Finding>, Counts), VolumeError> {
    let inventory = Inventory::read(store, blocks, progress).await?;
    Ok(check::check(inventory))
}
