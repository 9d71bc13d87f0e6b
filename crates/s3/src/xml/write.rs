//! The writer: elements nest as closures, so an open element is always closed. For example,
//! `writer.text("Key", "a&b")` writes `<Key>a&amp;b</Key>`.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use time::OffsetDateTime;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The characters that `encoding-type=url` does not escape: letters, digits, `-._~*` and `/`.
const URL_KEEP: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'*').remove(b'/');

/// Encodes a key for `encoding-type=url`. `/` is unchanged; a space becomes `%20` and `+` becomes
/// `%2B`.
pub fn url_encode(text: &str) -> String {
    utf8_percent_encode(text, URL_KEEP).to_string()
}

/// Returns a time for documents: `2026-01-02T03:04:05.006Z`. Headers have whole seconds, but
/// clients need milliseconds here to compare an object's time with a file's.
pub fn format_time(time: OffsetDateTime) -> String {
    let mut out = String::with_capacity(24);
    push_time(&mut out, time);
    out
}

/// Appends a time directly, without a formatter or a temporary string: a listing has up to 1000
/// times.
fn push_time(out: &mut String, time: OffsetDateTime) {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = time.date().to_calendar_date();
    let (hour, minute, second, millisecond) = time.time().as_hms_milli();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    // The format has no sign, so a negative year becomes 0000.
    put_digits(&mut text[..4], u16::try_from(year).unwrap_or_default());
    let two = [u8::from(month), day, hour, minute, second];
    for (place, number) in text[5..19].chunks_mut(3).zip(two) {
        put_digits(&mut place[..2], number.into());
    }
    put_digits(&mut text[20..23], millisecond);
    out.push_str(std::str::from_utf8(&text).unwrap_or_default());
}

/// Writes the last decimal digits of a number into all of `place`.
fn put_digits(place: &mut [u8], number: u16) {
    let mut rest = number;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
    }
}

/// Appends the last `width` decimal digits of a number.
pub(crate) fn push_digits(out: &mut String, number: u16, width: u32) {
    for place in (0..width).rev() {
        let digit = number / 10_u16.pow(place) % 10;
        out.push(char::from(b'0' + digit.to_le_bytes()[0]));
    }
}

/// Appends a number in decimal digits.
fn push_number(out: &mut String, number: u64) {
    let mut text = [0; DIGITS_MAX];
    let (mut first, mut rest) = (DIGITS_MAX, number);
    while first == DIGITS_MAX || rest > 0 {
        first -= 1;
        text[first] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
    }
    out.push_str(std::str::from_utf8(&text[first..]).unwrap_or_default());
}

/// The number of decimal digits of `u64::MAX`.
const DIGITS_MAX: usize = 20;

/// The beginning of each document.
pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// An XML document that is being written.
#[derive(Debug)]
pub struct Writer {
    out: String,
}

impl Writer {
    /// Returns a document with an XML declaration.
    pub fn document() -> Writer {
        Writer { out: DECLARATION.to_owned() }
    }

    /// Returns a document with an XML declaration, and with memory for about `bytes` bytes.
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

    /// Opens an element with constant attributes. The caller must close it.
    pub(crate) fn open_with(&mut self, name: &str, first: &'static str, second: &'static str) {
        let _ = write!(self.out, "<{name} {first} {second}>");
    }

    fn close(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// Writes an element; `body` writes its content.
    pub fn element(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        self.open(name);
        body(self);
        self.close(name);
    }

    /// Writes the root element with S3's namespace.
    pub fn root(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        self.root_in(name, NAMESPACE, body);
    }

    /// Writes the root element with another constant namespace.
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

    /// Writes text directly into the open element. Characters are escaped as in `text`.
    pub fn characters(&mut self, text: &str) {
        escape(&mut self.out, text);
    }

    /// Writes markup, which is not escaped and is therefore a constant.
    pub(crate) fn literal(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// Writes an element with text.
    ///
    /// A character that XML 1.0 cannot represent is written as a reference, as S3 does. For
    /// example, U+0001 becomes `&#x1;`. Some parsers refuse such a document, but no client receives
    /// a wrong key. Clients that may have such keys request `encoding-type=url`.
    pub fn text(&mut self, name: &str, text: &str) {
        self.element(name, |writer| escape(&mut writer.out, text));
    }

    /// Writes an element with text between quotation marks.
    pub(crate) fn quoted(&mut self, name: &str, text: &str) {
        self.element(name, |writer| {
            writer.out.push_str(QUOTATION_MARK);
            escape(&mut writer.out, text);
            writer.out.push_str(QUOTATION_MARK);
        });
    }

    /// Writes an element with a key encoded by [`url_encode`], which leaves no character to escape.
    pub(crate) fn url_encoded(&mut self, name: &str, key: &str) {
        self.element(name, |writer| writer.url_characters(key));
    }

    /// Writes a key encoded by [`url_encode`] directly into the open element.
    pub(crate) fn url_characters(&mut self, key: &str) {
        self.out.extend(utf8_percent_encode(key, URL_KEEP));
    }

    /// Writes an element with text; nothing if `text` is `None`.
    pub fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Writes an element with a number.
    pub fn number(&mut self, name: &str, number: u64) {
        self.element(name, |writer| writer.digits(number));
    }

    /// Writes an element with `true` or `false`.
    pub fn flag(&mut self, name: &str, flag: bool) {
        self.element(name, |writer| writer.out.push_str(if flag { "true" } else { "false" }));
    }

    /// Writes an element with a time.
    pub fn time(&mut self, name: &str, time: OffsetDateTime) {
        self.element(name, |writer| writer.time_characters(time));
    }

    /// Writes a number directly into the open element.
    pub(crate) fn digits(&mut self, number: u64) {
        push_number(&mut self.out, number);
    }

    /// Writes a time directly into the open element.
    pub(crate) fn time_characters(&mut self, time: OffsetDateTime) {
        push_time(&mut self.out, time);
    }

    /// Returns the finished XML document.
    pub fn finish(self) -> String {
        self.out
    }
}

const QUOTATION_MARK: &str = "&quot;";

/// Appends text with escaped characters. Text without special characters is copied in one piece.
fn escape(out: &mut String, text: &str) {
    let mut rest = text;
    // Bytes are scanned instead of characters, because most text needs no escape.
    while let Some(at) = rest.bytes().position(|byte| MAY_NEED_ESCAPE[usize::from(byte)]) {
        // This byte begins a character: it is ASCII, or the first of the three bytes of the last
        // characters below U+10000.
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

/// The result of [`may_need_escape`] for each byte.
const MAY_NEED_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = u8::MIN;
    loop {
        table[byte as usize] = may_need_escape(byte);
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// Returns true if a character that may need an escape can begin with this byte.
const fn may_need_escape(byte: u8) -> bool {
    matches!(byte, b'&' | b'<' | b'>' | b'"' | 0..=0x1f | 0xef)
}

/// Returns true if XML 1.0, section 2.2, allows the character.
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
        // A parser would normalize these to other white space if they were written literally.
        '\r' => out.push_str("&#13;"),
        '\n' => out.push_str("&#10;"),
        '\t' => out.push_str("&#9;"),
        // XML has no reference for NUL, and no key contains it.
        '\0' => out.push('\u{fffd}'),
        character if is_writable(character) => out.push(character),
        character => {
            let _ = write!(out, "&#x{:x};", u32::from(character));
        }
    }
}
