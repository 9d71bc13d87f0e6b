//! The headers of a part, and the parameters of header values.

use super::malformed;
use crate::Fault;

/// The properties of a form's file, without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePart {
    /// The file's name as the browser sent it, possibly with a local path.
    pub filename: Option<String>,
    /// The media type that the browser assumes. S3 does not store it.
    pub content_type: Option<String>,
}

/// The headers of a part of a multipart body, as far as this module uses them.
#[derive(Debug, Default)]
pub(super) struct PartHead {
    disposition: Option<String>,
    content_type: Option<String>,
}

impl PartHead {
    /// Parses one header line of a part, without its line end. Headers without a meaning here are
    /// ignored.
    pub(super) fn line(&mut self, line: Vec<u8>) -> Result<(), Fault> {
        let line = String::from_utf8(line).map_err(|_| malformed())?;
        let (name, value) = line.split_once(':').ok_or_else(malformed)?;
        let slot = match name.trim() {
            name if name.eq_ignore_ascii_case("content-disposition") => &mut self.disposition,
            name if name.eq_ignore_ascii_case("content-type") => &mut self.content_type,
            _ => return Ok(()),
        };
        // A repeated header would be ambiguous.
        match slot.replace(value.trim().to_owned()) {
            Some(_) => Err(malformed()),
            None => Ok(()),
        }
    }

    /// Returns the name of the form field in this part, in lower case, and the file name and media
    /// type, which have a meaning only if the part is the file. Fails if the part has no name.
    pub(super) fn finish(self) -> Result<(String, FilePart), Fault> {
        let disposition = self.disposition.ok_or_else(malformed)?;
        let value = HeaderValueParts::parse(&disposition).ok_or_else(malformed)?;
        let name = value.parameter("name").filter(|name| !name.is_empty());
        match name {
            Some(name) if value.kind.eq_ignore_ascii_case("form-data") => {
                // The plain parameter takes precedence, because forms should not have the extended
                // one.
                let filename = match (value.parameter("filename"), value.parameter("filename*")) {
                    (Some(plain), _) => Some(plain.to_owned()),
                    (None, Some(extended)) => Some(extended_value(extended)?),
                    (None, None) => None,
                };
                let file = FilePart { filename, content_type: self.content_type };
                Ok((name.to_ascii_lowercase(), file))
            }
            _ => Err(malformed()),
        }
    }
}

/// Decodes a parameter like `filename*=UTF-8''na%C3%AFve.txt` (RFC 8187). Forms should not have it,
/// but some programs send only this form. Without the name, the object would get the key of a form
/// without a file name.
fn extended_value(text: &str) -> Result<String, Fault> {
    let mut parts = text.splitn(3, '\'');
    let (Some(charset), Some(_language), Some(encoded)) =
        (parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed());
    };
    if !charset.eq_ignore_ascii_case("utf-8") {
        return Err(malformed());
    }
    let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| malformed())
}

/// A header value with parameters: `form-data; name="key"`.
#[derive(Debug)]
pub(super) struct HeaderValueParts<'a> {
    pub(super) kind: &'a str,
    /// Lower-case names, each once, with their values.
    parameters: Vec<(String, String)>,
}

impl<'a> HeaderValueParts<'a> {
    /// Parses a value. `None` if it is malformed or repeats a parameter: two readers could use
    /// different values.
    pub(super) fn parse(text: &'a str) -> Option<HeaderValueParts<'a>> {
        let (kind, mut rest) = text.split_once(';').unwrap_or((text, ""));
        let mut parameters: Vec<(String, String)> = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t', ';']);
            if rest.is_empty() {
                return Some(HeaderValueParts { kind: kind.trim(), parameters });
            }
            let (name, after) = rest.split_once('=')?;
            let name = name.trim().to_ascii_lowercase();
            let after = after.trim_start_matches([' ', '\t']);
            let (value, end) = match after.strip_prefix('"') {
                Some(quoted) => unquote(quoted)?,
                None => {
                    let (value, end) = after.split_at(after.find(';').unwrap_or(after.len()));
                    (value.trim().to_owned(), end)
                }
            };
            let end = end.trim_start_matches([' ', '\t']);
            if name.is_empty()
                || parameters.iter().any(|(other, _)| *other == name)
                || !(end.is_empty() || end.starts_with(';'))
            {
                return None;
            }
            parameters.push((name, value));
            rest = end;
        }
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the text up to the closing quotation mark, and the rest. A backslash escapes only a
/// quotation mark and a backslash; before other characters it is literal, as in the paths that old
/// browsers send.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some((text, characters.as_str())),
            '\\' if characters.as_str().starts_with(['"', '\\']) => text.extend(characters.next()),
            _ => text.push(character),
        }
    }
    None
}
