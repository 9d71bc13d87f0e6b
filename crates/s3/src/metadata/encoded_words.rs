//! Encoded words (RFC 2047): they represent values in headers that are not ASCII.
//!
//! For example, the value `né` becomes `=?UTF-8?Q?n=C3=A9?=`.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// The maximum number of bytes of text in one encoded word. A word has at most 75 characters; 12 of
/// them surround the text, and each byte takes up to three of the others.
const WORD_BYTES_MAX: usize = (75 - 12) / 3;

/// ASCII characters that select the base64 encoding for the whole value.
const SPECIALS: &str = "\"#$%&'(),.:;<>@[]^`{|}~";

/// Returns the value of user metadata as a response header carries it: plain ASCII unchanged, and
/// other text in encoded words, as S3 makes it "mail-safe before returning" (user guide, "Working
/// with object metadata"). A header could contain UTF-8 as well, but many clients would decode it
/// as Latin-1.
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
        // White space between two encoded words is not part of the text.
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

/// Returns text in Q encoding: an underscore for a space, and `=` with two hex digits for a byte
/// that is not allowed.
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
