//! The job `gc`: deletes blocks without a reference, or counts them.

use ::admin::{Collected, SweepOptions};

use super::parts::{Completed, JobFailure, JobParts};

pub(super) async fn run(parts: &JobParts, options: SweepOptions) -> Result<Completed, JobFailure> {
    let collected = parts.volume.upkeep().gc(options).await;
    let Collected { reaped, swept } =
        collected.map_err(|error| JobFailure::of("collect garbage", &error))?;
    if swept.beyond_share && !options.dry_run {
        return Err(JobFailure(format!(
            "Nothing was deleted: {} of {} blocks have no reference, which is more than {} percent. \
             Check that the metadata store and the block store belong together, then start the job \
             with a larger limit.",
            swept.unreferenced, swept.listed, options.share_percent
        )));
    }
    Ok(Completed::with(format!(
        "Reclaimed {} deleted files, parts and uploads, and {} blocks. {} ended sessions with {} \
         blocks: {} without a reference ({} bytes), {} deleted.",
        reaped.orphans,
        reaped.blocks,
        swept.sessions,
        swept.listed,
        swept.unreferenced,
        swept.bytes,
        swept.deleted
    )))
}
