//! HTML form uploads. The fields are read first; the file then is a body like that of a PUT.
//!
//! For example, the policy of a form limits the length of the file. The body fails as soon as it
//! exceeds the limit, and at its end if it is too short.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use s3::post::{FilePart, Form, FormEvent, FormReader, LengthRange, boundary};
use s3::{Code, Fault};
use tokio::time::timeout;

use crate::http::{BoxError, HttpBody};
use crate::receive::Frames;
use crate::unknown_senders::SenderMemory;

/// The file part of a form, which follows the fields.
#[derive(Debug)]
pub(crate) struct FormFile {
    frames: Frames,
    reader: FormReader,
    /// Parsed pieces of the file, such as its bytes and its end, that the body's reader has not
    /// taken yet.
    arrived: VecDeque<FormEvent>,
}

/// The time limit for all fields of a form. They are few and short, and the sender is unknown until
/// the last of them has arrived.
const FIELDS_WAIT: Duration = Duration::from_secs(10);

/// Reads the fields of a form, up to its file.
///
/// Faults: those of `FormReader` and `Form`; `InvalidArgument` if there is no file;
/// `RequestTimeout` if the file does not begin in time.
pub(crate) async fn begin(
    headers: &HeaderMap,
    body: HttpBody,
    patience: Duration,
    memory: SenderMemory<'_>,
) -> Result<(Form, FormFile), Fault> {
    let fields = fields(headers, body, patience, memory);
    // One deadline covers all fields, because the sender is unknown until the last one.
    timeout(patience.min(FIELDS_WAIT), fields).await.map_err(|_late| Code::RequestTimeout)?
}

async fn fields(
    headers: &HeaderMap,
    body: HttpBody,
    patience: Duration,
    mut memory: SenderMemory<'_>,
) -> Result<(Form, FormFile), Fault> {
    let boundary = boundary(headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes))?;
    let mut reader = FormReader::new(&boundary);
    let mut frames = Frames::new(body, patience);
    let (mut fields, mut events) = (Vec::new(), Vec::new());
    let mut all_bytes = 0;
    loop {
        let Some(bytes) = frames.next().await? else {
            reader.finish()?;
            return Err(no_file());
        };
        all_bytes += bytes.len() as u64;
        reader.push(bytes, &mut events)?;
        let mut arrived = VecDeque::from(std::mem::take(&mut events));
        while let Some(event) = arrived.pop_front() {
            match event {
                FormEvent::Field { name, value } => fields.push((name, value)),
                FormEvent::File(part) => return file(fields, &part, frames, reader, arrived),
                FormEvent::Content(_) => {}
                FormEvent::End => return Err(no_file()),
            }
        }
        // The file does not begin in what has arrived, so the sender is still unknown.
        memory.grow(all_bytes).await?;
    }
}

fn file(
    fields: Vec<(String, String)>,
    part: &FilePart,
    frames: Frames,
    reader: FormReader,
    arrived: VecDeque<FormEvent>,
) -> Result<(Form, FormFile), Fault> {
    Ok((Form::new(fields, part)?, FormFile { frames, reader, arrived }))
}

fn no_file() -> Fault {
    Fault::because(Code::InvalidArgument, "POST requires exactly one file upload per request.")
        .with("ArgumentName", "file")
        .with("ArgumentValue", "0")
}

impl FormFile {
    /// Returns the file as a body. The body ends with a fault if the file is too short or too long,
    /// or if the form is malformed.
    pub(crate) fn into_body(self, lengths: LengthRange) -> HttpBody {
        let pieces = stream::try_unfold((self, 0_u64), move |(mut file, sent)| async move {
            let Some(bytes) = file.next().await? else {
                lengths.check(sent)?;
                return Ok::<_, BoxError>(None);
            };
            let sent = sent + bytes.len() as u64;
            // A file that is too long fails here, before the rest of it arrives.
            lengths.check_so_far(sent)?;
            Ok(Some((Frame::data(bytes), (file, sent))))
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    /// Returns the next bytes of the file; `None` at its end. Fields after the file are ignored.
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            while let Some(event) = self.arrived.pop_front() {
                match event {
                    FormEvent::Content(bytes) => return Ok(Some(bytes)),
                    FormEvent::End => return Ok(None),
                    FormEvent::Field { .. } | FormEvent::File(_) => {}
                }
            }
            let Some(bytes) = self.frames.next().await? else {
                return Err(Code::MalformedPOSTRequest.into());
            };
            let mut events = Vec::new();
            self.reader.push(bytes, &mut events)?;
            self.arrived.extend(events);
        }
    }
}
