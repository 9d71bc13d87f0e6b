//! The job `warmup`: reads objects, so that the block cache of this gateway has them.

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Method;
use http_body_util::{BodyExt, Full};
use s3::xml::Element;

use super::objects::{PAGE, all, decoded, is_truncated, text};
use super::parts::{Completed, JobFailure, JobParts, JobSender};
use super::progress::JobProgress;
use crate::ApiError;
use crate::s3_call::S3Call;

/// The number of objects that are read at once.
const OBJECTS_AT_ONCE: usize = 4;

/// The limit of failures in the result.
const FAILURES_MAX: usize = 20;

pub(super) async fn run(
    parts: &JobParts,
    sender: &JobSender,
    (bucket, prefix): (&str, &str),
    progress: &JobProgress,
) -> Result<Completed, JobFailure> {
    let (mut after, mut failures, mut failed) = (None::<String>, Vec::new(), 0_u64);
    loop {
        let mut call = S3Call::on_bucket(Method::GET, bucket, None);
        call.query = vec![("list-type", Some("2".to_owned())), ("prefix", Some(prefix.to_owned()))];
        call.query.push(("encoding-type", Some("url".to_owned())));
        call.query.extend(after.take().map(|token| ("continuation-token", Some(token))));
        let reply = parts.s3(sender, &call, Bytes::new()).await;
        let unlisted = |error: &dyn std::fmt::Display| {
            JobFailure::of(&format!("list the bucket {bucket:?}"), error)
        };
        let reply = reply.map_err(|error| unlisted(&error))?;
        let list = Element::parse(&reply.body, "ListBucketResult", PAGE);
        let list = list.map_err(|fault| unlisted(&fault.message))?;
        let keys = all(&list, "Contents").map(|object| decoded(object, "Key"));
        let keys: Vec<String> = keys.collect();
        let reads =
            stream::iter(keys).map(|key| read_named(parts, sender, (bucket, key), progress));
        let mut reads = std::pin::pin!(reads.buffer_unordered(OBJECTS_AT_ONCE));
        while let Some((key, read)) = reads.next().await {
            match read {
                Ok(()) => progress.add("objects", 1),
                Err(error) => {
                    failed += 1;
                    progress.set("failed", failed);
                    if failures.len() < FAILURES_MAX {
                        failures.push(format!("{key}: {error}"));
                    }
                }
            }
        }
        if !is_truncated(&list) {
            break;
        }
        after = Some(text(&list, "NextContinuationToken"));
    }
    let has_more_lines = failed > failures.len() as u64;
    let message = match failed {
        0 => "All objects were read.".to_owned(),
        failed => format!("{failed} objects could not be read; the others were."),
    };
    Ok(Completed { message, lines: failures, has_more_lines })
}

/// Reads an object. Returns its key with the result.
async fn read_named(
    parts: &JobParts,
    sender: &JobSender,
    (bucket, key): (&str, String),
    progress: &JobProgress,
) -> (String, Result<(), ApiError>) {
    let done = read(parts, sender, (bucket, &key), progress).await;
    (key, done)
}

/// Reads an object to its end, and keeps nothing of it.
async fn read(
    parts: &JobParts,
    sender: &JobSender,
    (bucket, key): (&str, &str),
    progress: &JobProgress,
) -> Result<(), ApiError> {
    let call = S3Call { key: Some(key), ..S3Call::on_bucket(Method::GET, bucket, None) };
    let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
    let response = parts.stream_s3(sender, &call, body).await?;
    let status = response.status();
    let mut body = response.into_body();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| ApiError::from(s3::Code::InternalError);
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        progress.add("bytes", data.len() as u64);
        if first.is_empty() {
            first = data;
        }
    }
    if status.is_success() { Ok(()) } else { Err(crate::s3_call::error_of(status, &first)) }
}
