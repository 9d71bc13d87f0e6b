//! The writer: elements nest by closures, so an open element is always closed.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use time::OffsetDateTime;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// What `encoding-type=url` leaves as it is: letters, digits, `-._~*` and `/`.
const URL_KEEP: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'*').remove(b'/');

/// Encodes a key for `encoding-type=url`. `/` stays; a space becomes `%20`, `+` becomes `%2B`.
pub fn url_encode(text: &str) -> String {
    utf8_percent_encode(text, URL_KEEP).to_string()
}

/// A time in answers: `2026-01-02T03:04:05.006Z`. Headers have whole seconds; here clients that
/// compare an object's time with a file's want to know more.
pub fn format_time(time: OffsetDateTime) -> String {
    let time = time.to_offset(time::UtcOffset::UTC);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

/// How every document begins.
pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// A document being written.
#[derive(Debug)]
pub struct Writer {
    out: String,
}

impl Writer {
    /// A document with its XML declaration.
    pub fn document() -> Writer {
        Writer { out: DECLARATION.to_owned() }
    }

    /// Writes an element with what `body` writes inside it.
    pub fn element(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        let _ = write!(self.out, "<{name}>");
        body(self);
        let _ = write!(self.out, "</{name}>");
    }

    /// Writes the outermost element, with S3's namespace.
    pub fn root(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        let _ = write!(self.out, "<{name} xmlns=\"{NAMESPACE}\">");
        body(self);
        let _ = write!(self.out, "</{name}>");
    }

    /// Writes text directly inside the element that is open. Characters as for `text`.
    pub fn characters(&mut self, text: &str) {
        escape(&mut self.out, text);
    }

    /// Writes markup that is a constant of ours.
    pub(crate) fn literal(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// Writes an element that holds text.
    ///
    /// A character that XML 1.0 cannot hold becomes U+FFFD, so that the document always parses;
    /// clients that may meet such keys ask for `encoding-type=url`.
    pub fn text(&mut self, name: &str, text: &str) {
        let _ = write!(self.out, "<{name}>");
        escape(&mut self.out, text);
        let _ = write!(self.out, "</{name}>");
    }

    /// Writes an element that holds text, if there is any.
    pub fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Writes an element that holds a number.
    pub fn number(&mut self, name: &str, number: u64) {
        let _ = write!(self.out, "<{name}>{number}</{name}>");
    }

    /// Writes an element that holds `true` or `false`.
    pub fn flag(&mut self, name: &str, flag: bool) {
        let _ = write!(self.out, "<{name}>{flag}</{name}>");
    }

    /// Writes an element that holds a time.
    pub fn time(&mut self, name: &str, time: OffsetDateTime) {
        let _ = write!(self.out, "<{name}>{}</{name}>", format_time(time));
    }

    /// The document.
    pub fn finish(self) -> String {
        self.out
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Raw, a parser would turn these into other white space.
            '\r' => out.push_str("&#13;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
}
