//! Checks a volume: its records against each other, and against its blocks.
//!
//! A check reads everything and changes nothing. It needs no session, and works beside gateways
//! that go on writing. So a pass may see one half of a change and not the other. A finding counts
//! only if every one of several passes finds it, the same in each detail. That leaves out whatever
//! keeps changing: a counter of a busy directory is checked once nothing changes in it.
//!
//! It holds a summary of each inode and block in memory, some hundred bytes each.

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
pub use progress::{Progress, Unwatched};

use session::VolumeError;
use session::check_volume_format;

/// How many passes have to find something for it to count.
const PASSES: u32 = 3;

/// The pause before looking again.
const PAUSE: Duration = Duration::from_secs(1);

/// Findings that a report holds at most.
pub const FINDINGS_MAX: usize = 10_000;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in order; at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Whether there was more to find.
    pub truncated: bool,
    /// What there is.
    pub counts: Counts,
}

/// Checks the volume in a store and its blocks.
///
/// # Errors
/// If the store or the blocks cannot be read to the end, or the volume has a format that this
/// release does not know. A record that does not decode is a finding.
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
