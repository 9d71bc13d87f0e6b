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

/// A time in responses: `2026-01-02T03:04:05.006Z`. Headers have whole seconds, but here clients
/// need milliseconds to compare an object's time with a file's.
pub fn format_time(time: OffsetDateTime) -> String {
    let mut out = String::with_capacity(24);
    push_time(&mut out, time);
    out
}

fn push_time(out: &mut String, time: OffsetDateTime) {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = time.date().to_calendar_date();
    let (hour, minute, second, millisecond) = time.time().as_hms_milli();
    let year = u16::try_from(year).unwrap_or_default();
    for (number, width, end) in [
        (year, 4, '-'),
        (u8::from(month).into(), 2, '-'),
        (day.into(), 2, 'T'),
        (hour.into(), 2, ':'),
        (minute.into(), 2, ':'),
        (second.into(), 2, '.'),
        (millisecond, 3, 'Z'),
    ] {
        push_digits(out, number, width);
        out.push(end);
    }
}

/// The last `width` decimal digits of a number.
fn push_digits(out: &mut String, number: u16, width: u32) {
    for place in (0..width).rev() {
        let digit = number / 10_u16.pow(place) % 10;
        out.push(char::from(b'0' + digit.to_le_bytes()[0]));
    }
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

    /// The same, with room for about so many bytes.
    pub fn with_capacity(bytes: usize) -> Writer {
        let mut out = String::with_capacity(bytes);
        out.push_str(DECLARATION);
        Writer { out }
    }

    fn open(&mut self, name: &str) {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
    }

    /// Opens an element with attributes that are constants of ours. Whoever opens it closes it.
    pub(crate) fn open_with(&mut self, name: &str, first: &'static str, second: &'static str) {
        let _ = write!(self.out, "<{name} {first} {second}>");
    }

    fn close(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// Writes an element with what `body` writes inside it.
    pub fn element(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        self.open(name);
        body(self);
        self.close(name);
    }

    /// Writes the outermost element, with S3's namespace.
    pub fn root(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        self.root_in(name, NAMESPACE, body);
    }

    /// Writes the outermost element, with a namespace that is a constant of ours.
    pub(crate) fn root_in(
        &mut self,
        name: &str,
        namespace: &'static str,
        body: impl FnOnce(&mut Writer),
    ) {
        let _ = write!(self.out, "<{name} xmlns=\"{namespace}\">");
        body(self);
        self.close(name);
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
    /// A character that XML 1.0 cannot hold is written as a reference, as S3 does. For example, U+0001
    /// becomes `&#x1;`. Some parsers refuse such a document, but no client is told a wrong key.
    /// Clients that may meet such keys ask for `encoding-type=url`.
    pub fn text(&mut self, name: &str, text: &str) {
        self.element(name, |writer| escape(&mut writer.out, text));
    }

    /// Writes an element that holds text between quotation marks.
    pub(crate) fn quoted(&mut self, name: &str, text: &str) {
        self.element(name, |writer| {
            writer.out.push_str(QUOTATION_MARK);
            escape(&mut writer.out, text);
            writer.out.push_str(QUOTATION_MARK);
        });
    }

    /// Writes an element that holds a key as [`url_encode`] encodes it, which leaves nothing that
    /// would mean anything in a document.
    pub(crate) fn url_encoded(&mut self, name: &str, key: &str) {
        self.element(name, |writer| writer.out.extend(utf8_percent_encode(key, URL_KEEP)));
    }

    /// Writes an element that holds text, if there is any.
    pub fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Writes an element that holds a number.
    pub fn number(&mut self, name: &str, number: u64) {
        self.element(name, |writer| {
            let _ = write!(writer.out, "{number}");
        });
    }

    /// Writes an element that holds `true` or `false`.
    pub fn flag(&mut self, name: &str, flag: bool) {
        self.element(name, |writer| writer.out.push_str(if flag { "true" } else { "false" }));
    }

    /// Writes an element that holds a time.
    pub fn time(&mut self, name: &str, time: OffsetDateTime) {
        self.element(name, |writer| push_time(&mut writer.out, time));
    }

    /// The document.
    pub fn finish(self) -> String {
        self.out
    }
}

const QUOTATION_MARK: &str = "&quot;";

fn escape(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(may_need_escape) {
        // A byte that may need it begins a character: it is ASCII, or leads the last ones of three.
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = special.chars();
        if let Some(character) = characters.next() {
            push_escaped(out, character);
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

/// Whether a character that is written otherwise may begin with this byte.
const fn may_need_escape(byte: u8) -> bool {
    matches!(byte, b'&' | b'<' | b'>' | b'"' | 0..=0x1f | 0xef)
}

/// Whether a document can hold a character, by XML 1.0, section 2.2.
pub(crate) fn is_writable(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => true,
    }
}

fn push_escaped(out: &mut String, character: char) {
    match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str(QUOTATION_MARK),
        // A parser would turn these into other white space if they were written as they are.
        '\r' => out.push_str("&#13;"),
        '\n' => out.push_str("&#10;"),
        '\t' => out.push_str("&#9;"),
        // No reference may name it, and no key contains it.
        '\0' => out.push('\u{fffd}'),
        character if is_writable(character) => out.push(character),
        character => {
            let _ = write!(out, "&#x{:x};", u32::from(character));
        }
    }
}
