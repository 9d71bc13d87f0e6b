//! Translates a bucket's responses to errors: one table from S3's errors to ours.
//!
//! For example, 404 `NoSuchKey` means that the object is absent, 503 `SlowDown` is `Unavailable`
//! and is retried, and 403 is `Refused` with advice to check the keys.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use http::StatusCode;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use crate::{BlockError, BlockErrorKind, BlockId, Nonce};

/// The operation, which becomes text only if an error occurs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    Block(&'static str, BlockId),
    Listing(Nonce),
    Other(&'static str),
}

impl From<Doing> for String {
    fn from(doing: Doing) -> String {
        match doing {
            Doing::Block(verb, id) => format!("{verb} block {id}"),
            Doing::Listing(session) => format!("listing the blocks of session {session}"),
            Doing::Other(text) => text.to_owned(),
        }
    }
}

/// A response that is no failure for the caller, though its status may be an error.
#[derive(Debug)]
pub(super) enum ObjectReply<T> {
    Done(T),
    /// 404 from an existing bucket: there is no object.
    Absent,
    /// 412: an object with this key exists.
    Taken,
    /// 416: the object ends before the range begins.
    PastEnd,
}

impl<T> ObjectReply<T> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ObjectReply::Done(_) => "with an incomplete response",
            ObjectReply::Absent => "404 to a request that looked for no object",
            ObjectReply::Taken => "412 to a request without a condition",
            ObjectReply::PastEnd => "416 to a request without a range",
        }
    }
}

/// The code for a HEAD that finds nothing. Its response has no body with a code.
pub(super) const NOT_FOUND: &str = "NotFound";

/// The most bytes of an error message that are kept.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// True if the request could not be built.
    impossible: bool,
    /// The status of the response; `None` if there was none.
    status: Option<u16>,
    /// S3's error code; empty if there was none.
    code: String,
    text: String,
}

impl Failure {
    /// Creates the failure of a request that cannot be built.
    pub(super) fn invalid_request(text: String) -> Failure {
        Failure { impossible: true, status: None, code: String::new(), text }
    }

    /// Creates the failure of a request without a response.
    pub(super) fn no_response(error: &(dyn Error + 'static)) -> Failure {
        Failure { impossible: false, status: None, code: String::new(), text: error_chain(error) }
    }

    /// Creates the failure of a request with an unexpected response.
    pub(super) fn unexpected_response(status: StatusCode, code: &str, message: &str) -> Failure {
        let parts = [status.as_str(), code, message];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let text = parts.join(": ");
        let status = Some(status.as_u16());
        Failure { impossible: false, status, code: code.to_owned(), text }
    }
}

impl<E: ProvideErrorMetadata + Error + 'static> From<SdkError<E>> for Failure {
    fn from(error: SdkError<E>) -> Failure {
        Failure {
            impossible: matches!(error, SdkError::ConstructionFailure(_)),
            status: error.raw_response().map(|response| response.status().as_u16()),
            code: error.code().unwrap_or_default().to_owned(),
            text: error_chain(&error),
        }
    }
}

/// Translates the result of a request into a reply or an error.
pub(super) fn translate<T>(
    answer: Result<T, Failure>,
    bucket: &str,
    doing: Doing,
) -> Result<ObjectReply<T>, BlockError> {
    let failure = match answer {
        Ok(value) => return Ok(ObjectReply::Done(value)),
        Err(failure) => failure,
    };
    // Checked first, because its status is 404, as for a missing object.
    if failure.code == "NoSuchBucket" {
        return Err(no_bucket(bucket, doing));
    }
    // The response to a HEAD has no error code. Any other 404 without a code comes from a proxy or
    // similar, and says nothing about the block.
    match failure.status {
        Some(404) if matches!(failure.code.as_str(), "NoSuchKey" | NOT_FOUND) => {
            return Ok(ObjectReply::Absent);
        }
        Some(412) => return Ok(ObjectReply::Taken),
        Some(416) => return Ok(ObjectReply::PastEnd),
        _ => {}
    }
    let (kind, advice) = meaning(&failure);
    let text = format!("bucket {bucket} {advice}{}", failure.text);
    Err(BlockError::with_cause(kind, doing, text))
}

/// Returns the code and the message of an S3 error document; both are empty if it is none.
pub(super) fn read(xml: &str) -> (String, String) {
    let (mut code, mut message) = (String::new(), String::new());
    let mut reader = Reader::from_str(xml);
    let mut open: Vec<String> = Vec::new();
    loop {
        let (place, event) = (open.as_slice(), reader.read_event());
        let text = match event {
            Ok(Event::Start(start)) => {
                open.push(start.local_name().as_ref().to_owned());
                continue;
            }
            Ok(Event::End(_)) => {
                open.pop();
                continue;
            }
            Ok(Event::Text(text)) => text.xml10_content().into_owned(),
            Ok(Event::CData(text)) => text.xml10_content().into_owned(),
            Ok(Event::GeneralRef(reference)) => match reference.resolve_char_ref() {
                Ok(Some(character)) => character.to_string(),
                _ => resolve_predefined_entity(&reference.xml10_content())
                    .unwrap_or_default()
                    .to_owned(),
            },
            Ok(Event::Eof) | Err(_) => break,
            Ok(_) => continue,
        };
        let kept = match place {
            [root, name] if root == "Error" && name == "Code" => &mut code,
            [root, name] if root == "Error" && name == "Message" => &mut message,
            _ => continue,
        };
        // An error message of a foreign server is not trusted to be short.
        if kept.len() + text.len() <= MESSAGE_BYTES_MAX {
            kept.push_str(&text);
        }
    }
    (code.trim().to_owned(), message.trim().to_owned())
}

pub(super) fn no_bucket(bucket: &str, doing: Doing) -> BlockError {
    let error = format!("there is no bucket {bucket}: make the bucket or correct --blocks");
    BlockError::with_cause(BlockErrorKind::Refused, doing, error)
}

/// Returns the kind of an error, and advice for the operator.
fn meaning(failure: &Failure) -> (BlockErrorKind, &'static str) {
    use BlockErrorKind::{Full, Refused, Unavailable};
    match (failure.impossible, failure.status, failure.code.as_str()) {
        (true, ..) => (Refused, "cannot be asked like this: correct --blocks: "),
        (_, None, _) => (Unavailable, "cannot be reached: "),
        (_, Some(507), _) | (_, _, "XMinioStorageFull") => {
            (Full, "is full: free space on its backend: ")
        }
        // Too many or too slow requests, and races of conditional writes.
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

/// Returns the text of an error and its causes, without repetitions.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        // Many errors repeat the text of their cause.
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
