//! Reads a form as it arrives.

use bytes::Bytes;

use super::delimiter::{Cut, Cutter};
use super::malformed;
use super::part::{FilePart, HeaderValueParts, PartHead};
use crate::fields::invalid;
use crate::line::Line;
use crate::{Code, Fault};

/// The most bytes before the file: fields, their headers and the delimiters. S3's own limit.
pub const PRE_FILE_BYTES_MAX: usize = 20 << 10;

/// The most fields before the file.
pub const FIELDS_MAX: usize = 20;

/// The longest boundary, by RFC 2046.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The boundary that a request's `Content-Type` announces.
///
/// Faults: `PreconditionFailed` for any other type of body; `MalformedPOSTRequest` for a boundary
/// that is missing or none.
pub fn boundary(content_type: Option<&[u8]>) -> Result<String, Fault> {
    let text = content_type.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
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

/// What a form consists of, in the order in which it arrives: fields, at most one file with its
/// content, and an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormEvent {
    /// A field before the file.
    Field {
        /// In lower case.
        name: String,
        /// As sent.
        value: String,
    },
    /// The file begins.
    File(FilePart),
    /// Bytes of the file.
    Content(Bytes),
    /// The file has ended.
    End,
}

/// Reads one form. It keeps at most [`PRE_FILE_BYTES_MAX`], and nothing of the file.
#[derive(Debug)]
pub struct FormReader {
    cutter: Cutter,
    state: State,
    /// Bytes that arrived before the file.
    pre_file_bytes: usize,
    fields: usize,
    /// The first fault; after it nothing more is read.
    broken: Option<Fault>,
}

#[derive(Debug)]
enum State {
    /// Nothing may precede the first delimiter.
    Preamble,
    Head(Line, PartHead),
    Field {
        name: String,
        value: Vec<u8>,
    },
    File,
    /// Whatever follows the file is ignored.
    Epilogue,
}

impl FormReader {
    /// A reader for a body with a boundary that [`boundary`] has returned.
    pub fn new(boundary: &str) -> FormReader {
        FormReader {
            cutter: Cutter::new(boundary),
            state: State::Preamble,
            pre_file_bytes: 0,
            fields: 0,
            broken: None,
        }
    }

    /// Takes bytes as they arrived, and appends what they complete to `out`.
    ///
    /// Faults: `MalformedPOSTRequest`, also for more than 20 fields;
    /// `MaxPostPreDataLengthExceededError`; `InvalidArgument` when there is no file, and for a
    /// field that is not UTF-8. The first one is final.
    pub fn push(&mut self, input: Bytes, out: &mut Vec<FormEvent>) -> Result<(), Fault> {
        if let Some(fault) = &self.broken {
            return Err(fault.clone());
        }
        let outcome = self.read(input, out);
        if let Err(fault) = &outcome {
            self.broken = Some(fault.clone());
        }
        outcome
    }

    /// Ends the body. Faults: `MalformedPOSTRequest` when the file has not ended, and whatever
    /// `push` found.
    pub fn finish(self) -> Result<(), Fault> {
        match (self.broken, self.state) {
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
                State::Epilogue => return Ok(()),
                State::Preamble | State::Head(..) | State::Field { .. } => {
                    // No more is looked at than is allowed to come before the file.
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

    /// Takes some of the input, at least one byte.
    fn read_before_file(
        &mut self,
        input: &mut Bytes,
        out: &mut Vec<FormEvent>,
    ) -> Result<(), Fault> {
        match &mut self.state {
            State::Preamble => {
                let mut stray = false;
                let cut = self.cutter.take(input, |_| stray = true);
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
        // S3 knows the file by its field's name. Some clients give every field a file name.
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
