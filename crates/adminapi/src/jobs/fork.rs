//! The job `fork`: creates a bucket with the content of another one, by reference.

use std::sync::Arc;

use ::admin::BucketFork;
use gateway::ExpectedBucket;

use super::parts::{Completed, JobFailure, JobParts};
use super::progress::JobProgress;

pub(super) async fn run(
    parts: &JobParts,
    (source, expected, target): (&str, ExpectedBucket, &str),
    progress: &JobProgress,
) -> Result<Completed, JobFailure> {
    let fork = BucketFork { source, source_ino: Some(expected.0), target, sole: false };
    let never = std::future::pending();
    let forked = parts.admin.fork_bucket(Arc::clone(&parts.blocks), fork, progress, never).await;
    let forked = forked.map_err(|error| {
        let doing = format!("fork the bucket {source:?} as {target:?}");
        JobFailure::of(&doing, &error)
    })?;
    let message = format!(
        "The bucket {target:?} has {} files of {} bytes in {} directories.",
        forked.files, forked.bytes, forked.directories
    );
    if forked.omitted == 0 {
        return Ok(Completed::with(message));
    }
    Ok(Completed {
        message: format!("{message} {} entries could not be copied.", forked.omitted),
        has_more_lines: forked.omitted > forked.omitted_paths.len() as u64,
        lines: forked.omitted_paths,
    })
}
