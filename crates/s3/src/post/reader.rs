//! Parses a form as it arrives. For example, the fields `key` and `policy` become two events
//! [`FormEvent::Field`], and the content of the field `file` arrives in pieces, each a
//! [`FormEvent::Content`].

use bytes::Bytes;

use super::delimiter::{Cut, Cutter};
use super::malformed;
use super::part::{FilePart, HeaderValueParts, PartHead};
use crate::fields::invalid;
use crate::line::Line;
use crate::{Code, Fault};

/// The maximum number of bytes before the file: fields, their headers and delimiters. This is S3's
/// limit.
pub const PRE_FILE_BYTES_MAX: usize = 20 << 10;

/// The maximum number of fields of a form before its file.
pub const FIELDS_MAX: usize = 20;

/// The maximum length in bytes of a boundary, the text that separates the parts of a multipart body
/// (RFC 2046).
const BOUNDARY_BYTES_MAX: usize = 70;

/// Returns the boundary in a request's `Content-Type`, that is, the text that separates the parts
/// of the body.
///
/// Fails with `PreconditionFailed` for another content type, or with `MalformedPOSTRequest` for a
/// missing or invalid boundary.
pub fn boundary(content_type: Option<&[u8]>) -> Result<String, Fault> {
    let text = content_type.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
    // S3 reports another content type as a failed precondition.
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        return Err(Fault::because(
            Code::PreconditionFailed,
            "At least one of the pre-conditions you specified did not hold.",
        )
        .with("Condition", "Bucket POST must be of the enclosure-type multipart/form-data"));
    }
    let value = HeaderValueParts::parse(text).ok_or_else(malformed)?;
    let boundary = value.parameter("boundary").unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if boundary.is_empty()
        || boundary.len() > BOUNDARY_BYTES_MAX
        || boundary.ends_with(' ')
        || !boundary.bytes().all(legal)
    {
        return Err(malformed());
    }
    Ok(boundary.to_owned())
}

/// An event of the form parser, in order of arrival: fields, then at most one file with its
/// content, then its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormEvent {
    /// A complete field of the form, which came before the file.
    Field {
        /// The name of the field, in lower case.
        name: String,
        /// The value of the field as the client sent it.
        value: String,
    },
    /// The file of the form begins. The value has its name and media type.
    File(FilePart),
    /// The next piece of the content of the file.
    Content(Bytes),
    /// The file is complete. No further event follows.
    End,
}

/// The parser of one form. It buffers at most [`PRE_FILE_BYTES_MAX`], and nothing of the file.
#[derive(Debug)]
pub struct FormReader {
    cutter: Cutter,
    state: State,
    /// The bytes that arrived before the file.
    pre_file_bytes: usize,
    fields: usize,
    /// The first fault, if there was one. After it nothing more is parsed, and each call returns
    /// it.
    first_fault: Option<Fault>,
}

/// The state of the form parser.
///
/// ```text
/// Preamble -> Head -> Field -> Head ...    fields
///                  -> File -> Epilogue     the file
/// ```
#[derive(Debug)]
enum State {
    /// Before the first delimiter; no content is allowed here.
    Preamble,
    /// In the headers of a part, which is a field or the file.
    Head(Line, PartHead),
    /// In the value of a field.
    Field { name: String, value: Vec<u8> },
    /// In the content of the file.
    File,
    /// After the file; the rest of the body is ignored.
    Epilogue,
}

impl FormReader {
    /// Returns a parser for a body with a boundary that [`boundary`] has returned.
    pub fn new(boundary: &str) -> FormReader {
        FormReader {
            cutter: Cutter::new(boundary),
            state: State::Preamble,
            pre_file_bytes: 0,
            fields: 0,
            first_fault: None,
        }
    }

    /// Parses bytes as they arrive, and appends the events that they complete to `out`.
    ///
    /// Fails with `MalformedPOSTRequest`, also for more than 20 fields;
    /// `MaxPostPreDataLengthExceededError`; or `InvalidArgument` if there is no file or a field is
    /// not UTF-8. The first fault is final: each later call returns it again.
    pub fn push(&mut self, input: Bytes, out: &mut Vec<FormEvent>) -> Result<(), Fault> {
        if let Some(fault) = &self.first_fault {
            return Err(fault.clone());
        }
        let outcome = self.read(input, out);
        if let Err(fault) = &outcome {
            self.first_fault = Some(fault.clone());
        }
        outcome
    }

    /// Ends the body. Fails with `MalformedPOSTRequest` if the file has not ended, or with the
    /// fault of `push`.
    pub fn finish(self) -> Result<(), Fault> {
        match (self.first_fault, self.state) {
            (Some(fault), _) => Err(fault),
            (None, State::Epilogue) => Ok(()),
            (None, _) => Err(malformed()),
        }
    }

    fn read(&mut self, mut input: Bytes, out: &mut Vec<FormEvent>) -> Result<(), Fault> {
        while !input.is_empty() {
            match &mut self.state {
                State::File => {
                    let cut = self.cutter.take(&mut input, |content| {
                        out.push(FormEvent::Content(content));
                    });
                    if cut.is_some() {
                        out.push(FormEvent::End);
                        self.state = State::Epilogue;
                    }
                }
                // S3 ignores fields after the file, so they are not parsed.
                State::Epilogue => return Ok(()),
                State::Preamble | State::Head(..) | State::Field { .. } => {
                    // No more bytes are parsed than may come before the file, so that the limit
                    // does not depend on the size of the input.
                    let allowance = PRE_FILE_BYTES_MAX - self.pre_file_bytes;
                    if allowance == 0 {
                        return Err(pre_file_too_large());
                    }
                    let mut piece = input.slice(..input.len().min(allowance));
                    let offered = piece.len();
                    self.read_before_file(&mut piece, out)?;
                    let taken = offered - piece.len();
                    self.pre_file_bytes += taken;
                    let _ = input.split_to(taken);
                }
            }
        }
        Ok(())
    }

    /// Parses some of the input before the file, at least one byte, and appends the completed
    /// fields to `out`.
    fn read_before_file(
        &mut self,
        input: &mut Bytes,
        out: &mut Vec<FormEvent>,
    ) -> Result<(), Fault> {
        match &mut self.state {
            State::Preamble => {
                let mut stray = false;
                let cut = self.cutter.take(input, |_| stray = true);
                // Content before the first delimiter is not allowed.
                if stray {
                    return Err(malformed());
                }
                self.begin_part(cut)
            }
            State::Head(line, head) => {
                let Ok(line) = line.take(input, PRE_FILE_BYTES_MAX) else {
                    return Err(pre_file_too_large());
                };
                match line {
                    None => Ok(()),
                    Some(line) if line.is_empty() => {
                        let head = std::mem::take(head);
                        self.begin_content(head, out)
                    }
                    Some(line) => head.line(line),
                }
            }
            State::Field { name, value } => {
                let cut = self.cutter.take(input, |content| value.extend_from_slice(&content));
                if cut.is_some() {
                    // The field is complete, so its buffer is moved out and not copied.
                    let (name, value) = (std::mem::take(name), std::mem::take(value));
                    let value = String::from_utf8(value)
                        .map_err(|_| invalid(&name, "A field of the form is not UTF-8."))?;
                    out.push(FormEvent::Field { name, value });
                }
                self.begin_part(cut)
            }
            State::File | State::Epilogue => Ok(()),
        }
    }

    fn begin_part(&mut self, cut: Option<Cut>) -> Result<(), Fault> {
        match cut {
            None => Ok(()),
            Some(Cut::Part) => {
                self.state = State::Head(Line::default(), PartHead::default());
                Ok(())
            }
            // The body ended without a part named `file`.
            Some(Cut::Close) => Err(Fault::because(
                Code::InvalidArgument,
                "POST requires exactly one file upload per request.",
            )
            .with("ArgumentName", "file")
            .with("ArgumentValue", "0")),
        }
    }

    fn begin_content(&mut self, head: PartHead, out: &mut Vec<FormEvent>) -> Result<(), Fault> {
        let (name, file) = head.finish()?;
        // S3 recognizes the file by its field name, because some clients give each field a file
        // name.
        if name == "file" {
            out.push(FormEvent::File(file));
            self.state = State::File;
            return Ok(());
        }
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(malformed());
        }
        self.state = State::Field { name, value: Vec::new() };
        Ok(())
    }
}

fn pre_file_too_large() -> Fault {
    Fault::because(
        Code::MaxPostPreDataLengthExceededError,
        "Your POST request fields preceding the upload file were too large.",
    )
    .with("MaxPostPreDataLengthBytes", PRE_FILE_BYTES_MAX.to_string())
}
