//! The meaning of a bucket's answers: one table from S3's errors to ours.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use http::StatusCode;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use crate::{BlockError, BlockErrorKind, BlockId, Nonce};

/// What is being done. It becomes text only if there is an error.
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

/// An answer that is not a failure, whatever its status.
#[derive(Debug)]
pub(super) enum ObjectReply<T> {
    Done(T),
    /// 404, although the bucket exists.
    Absent,
    /// 412: the key was not free.
    Taken,
    /// 416: the object ends before the range begins.
    BehindTheEnd,
}

impl<T> ObjectReply<T> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ObjectReply::Done(_) => "with too little",
            ObjectReply::Absent => "404, though nothing was looked for",
            ObjectReply::Taken => "412, though no condition was made",
            ObjectReply::BehindTheEnd => "416, though no range was asked for",
        }
    }
}

/// The code of an answer to a HEAD that finds nothing: such an answer has no body to say more.
pub(super) const NOT_FOUND: &str = "NotFound";

/// Bytes that are kept of an error message.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// A request that did not succeed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Whether the request could not even be built.
    impossible: bool,
    /// The status of the answer, if there was one.
    status: Option<u16>,
    /// S3's error code; empty if there was none.
    code: String,
    text: String,
}

impl Failure {
    /// No request can be built from this.
    pub(super) fn impossible(text: String) -> Failure {
        Failure { impossible: true, status: None, code: String::new(), text }
    }

    /// No answer came.
    pub(super) fn lost(error: &(dyn Error + 'static)) -> Failure {
        Failure { impossible: false, status: None, code: String::new(), text: chain(error) }
    }

    /// An answer came, and it is not what was asked for.
    pub(super) fn answered(status: StatusCode, code: &str, message: &str) -> Failure {
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
            text: chain(&error),
        }
    }
}

/// Turns the result of a request into a reply or an error.
pub(super) fn translate<T>(
    answer: Result<T, Failure>,
    bucket: &str,
    doing: Doing,
) -> Result<ObjectReply<T>, BlockError> {
    let failure = match answer {
        Ok(value) => return Ok(ObjectReply::Done(value)),
        Err(failure) => failure,
    };
    if failure.code == "NoSuchBucket" {
        return Err(no_bucket(bucket, doing));
    }
    // The answer to a HEAD has no error code. Any other 404 without one comes from a proxy or the like,
    // and says nothing about the block.
    match failure.status {
        Some(404) if matches!(failure.code.as_str(), "NoSuchKey" | NOT_FOUND) => {
            return Ok(ObjectReply::Absent);
        }
        Some(412) => return Ok(ObjectReply::Taken),
        Some(416) => return Ok(ObjectReply::BehindTheEnd),
        _ => {}
    }
    let (kind, advice) = meaning(&failure);
    let text = format!("bucket {bucket} {advice}{}", failure.text);
    Err(BlockError::because(kind, doing, text))
}

/// The code and the message of an error as S3 writes it: both empty if it is none.
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
        if kept.len() + text.len() <= MESSAGE_BYTES_MAX {
            kept.push_str(&text);
        }
    }
    (code.trim().to_owned(), message.trim().to_owned())
}

pub(super) fn no_bucket(bucket: &str, doing: Doing) -> BlockError {
    let error = format!("there is no bucket {bucket}: make the bucket or correct --blocks");
    BlockError::because(BlockErrorKind::Refused, doing, error)
}

/// The kind of an error, and advice for the operator.
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
