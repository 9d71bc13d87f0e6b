//! Encoded words (RFC 2047): values that are not ASCII, in headers.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// Bytes of text in one encoded word, at most. A word has at most 75 characters, 12 of which are
/// around the text, and three of the others stand for a byte.
const WORD_BYTES_MAX: usize = (75 - 12) / 3;

/// Characters of ASCII that make a text one that is better not read as it is.
const SPECIALS: &str = "\"#$%&'(),.:;<>@[]^`{|}~";

/// The value of user metadata as a response carries it: plain ASCII as it is, and anything else in
/// encoded words, as S3 makes it "mail-safe before returning" (user guide, "Working with object
/// metadata"). A header could hold UTF-8 as well, but many clients would read it as Latin-1.
pub fn mail_safe(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t');
    if value.bytes().all(is_plain) {
        return Cow::Borrowed(value);
    }
    let in_base64 = value.contains(|character| SPECIALS.contains(character));
    let mut out = String::with_capacity(3 * value.len());
    let mut rest = value;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.floor_char_boundary(WORD_BYTES_MAX));
        // White space between two encoded words is no part of the text.
        if !out.is_empty() {
            out.push(' ');
        }
        if in_base64 {
            out.extend(["=?UTF-8?B?", &BASE64_STANDARD.encode(word), "?="]);
        } else {
            out.extend(["=?UTF-8?Q?", &quoted(word), "?="]);
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// Q encoding: an underscore for a space, and two hex digits for a byte that cannot stand there.
fn quoted(word: &str) -> String {
    let mut out = String::with_capacity(3 * word.len());
    for byte in word.bytes() {
        match byte {
            b' ' => out.push('_'),
            byte if byte.is_ascii_graphic() && !b"=?_".contains(&byte) => {
                out.push(char::from(byte));
            }
            byte => {
                out.push('=');
                out.push_str(&hex::encode_upper([byte]));
            }
        }
    }
    out
}
