//! The job `fsck`: compares records and blocks, and changes nothing.

use std::sync::Arc;

use ::admin::JOB_LINES_MAX;

use super::parts::{Completed, JobFailure, JobParts};
use super::progress::JobProgress;

pub(super) async fn run(parts: &JobParts, progress: &JobProgress) -> Result<Completed, JobFailure> {
    let report = parts.admin.check(Arc::clone(&parts.blocks), progress).await;
    let report = report.map_err(|error| JobFailure::of("check the volume", &error))?;
    let counts = report.counts;
    let (found, more) = (report.findings.len(), if report.truncated { " or more" } else { "" });
    let message = format!(
        "{found}{more} findings in {} records, {} files of {} bytes and {} blocks of {} bytes.",
        counts.records, counts.files, counts.bytes, counts.blocks, counts.block_bytes
    );
    let lines = report.findings.iter().take(JOB_LINES_MAX).map(ToString::to_string).collect();
    Ok(Completed { message, lines, has_more_lines: report.truncated || found > JOB_LINES_MAX })
}
