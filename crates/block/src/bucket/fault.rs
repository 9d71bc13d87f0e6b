//! What an answer of a bucket means: one table from the SDK's errors to ours.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::{BlockError, BlockErrorKind};

/// An answer that is not a failure, whatever its status.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Done(T),
    /// 404, and not for want of the bucket.
    Absent,
    /// 412: the key was not free.
    Taken,
    /// 416: the object ends before the range begins.
    BehindTheEnd,
}

impl<T> Answer<T> {
    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Done(value) => Answer::Done(with(value)),
            Answer::Absent => Answer::Absent,
            Answer::Taken => Answer::Taken,
            Answer::BehindTheEnd => Answer::BehindTheEnd,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Answer::Done(_) => "with too little",
            Answer::Absent => "404, though nothing was looked for",
            Answer::Taken => "412, though no condition was made",
            Answer::BehindTheEnd => "416, though no range was asked for",
        }
    }
}

/// What came of a request.
pub(super) fn translate<T, E: ProvideErrorMetadata + Error + 'static>(
    answer: Result<T, SdkError<E>>,
    bucket: &str,
    doing: &str,
) -> Result<Answer<T>, BlockError> {
    let error = match answer {
        Ok(value) => return Ok(Answer::Done(value)),
        Err(error) => error,
    };
    let status = error.raw_response().map(|response| response.status().as_u16());
    let code = error.code().unwrap_or_default();
    if code == "NoSuchBucket" {
        return Err(no_bucket(bucket, doing));
    }
    // A HEAD is answered without a code; elsewhere a 404 without one comes from something else
    // than a bucket, such as a proxy, and says nothing about the block.
    match status {
        Some(404) if matches!(code, "NoSuchKey" | "NotFound") => return Ok(Answer::Absent),
        Some(412) => return Ok(Answer::Taken),
        Some(416) => return Ok(Answer::BehindTheEnd),
        _ => {}
    }
    let (kind, advice) = meaning(&error, status, code);
    let text = format!("bucket {bucket} {advice}{}", chain(&error));
    Err(BlockError::because(kind, doing, text))
}

pub(super) fn no_bucket(bucket: &str, doing: &str) -> BlockError {
    let error = format!("there is no bucket {bucket}: make the bucket or correct --blocks");
    BlockError::because(BlockErrorKind::Refused, doing, error)
}

/// What the caller does next, and what the operator may do.
fn meaning<E>(
    error: &SdkError<E>,
    status: Option<u16>,
    code: &str,
) -> (BlockErrorKind, &'static str) {
    use BlockErrorKind::{Refused, Unavailable};
    match (error, status, code) {
        (SdkError::ConstructionFailure(_), ..) => {
            (Refused, "cannot be asked like this: correct --blocks: ")
        }
        (_, None, _) => (Unavailable, "cannot be reached: "),
        (_, Some(507), _) | (_, _, "XMinioStorageFull") => {
            (Unavailable, "is full: free space on its backend: ")
        }
        // Our own haste, and races of conditional writes.
        (_, Some(408 | 409 | 429), _) | (_, _, "RequestTimeout" | "IncompleteBody") => {
            (Unavailable, "asks to try again: ")
        }
        (_, Some(401 | 403), _) => {
            (Refused, "does not let us in: check the keys, their policy and the clock: ")
        }
        (_, Some(301 | 307 | 308), _) | (_, _, "AuthorizationHeaderMalformed") => {
            (Refused, "is elsewhere: correct the region or the endpoint: ")
        }
        (_, Some(400..=499 | 501), _) => (Refused, "refuses the request: correct --blocks: "),
        _ => (Unavailable, "fails: "),
    }
}

/// The error and its causes, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
