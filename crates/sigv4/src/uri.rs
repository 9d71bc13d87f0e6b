//! Paths and queries in the canonical encoding over which signatures are computed.
//!
//! Each byte is either unreserved and unescaped, or `%XX` with upper-case digits. S3 is the only
//! service whose paths are escaped once and not normalised: `//` and `..` are parts of a key. For
//! example, the canonical form of `/a/../b c` is `/a/../b%20c`.

/// The error of a received path or query: it has a `%` that is not followed by two hexadecimal
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenEscape;

/// Returns the canonical encoding of a path that has no percent escapes yet: each byte that is
/// neither unreserved nor a slash becomes `%XX`.
pub fn escape_path(path: &str) -> String {
    escape(path, true)
}

/// Returns the canonical encoding of a name or value of a query that has no percent escapes yet. A
/// slash is escaped, too.
pub fn escape_query(text: &str) -> String {
    escape(text, false)
}

/// Returns the canonical encoding, over which signatures are computed, of a received path. The
/// sender may have percent-encoded any characters.
///
/// Fails with `BrokenEscape` if a `%` is not followed by two hexadecimal digits.
pub fn canonical_path(raw: &str) -> Result<String, BrokenEscape> {
    if raw.is_empty() {
        return Ok("/".to_owned());
    }
    respell(raw, true)
}

/// Returns the canonical encoding, over which signatures are computed, of a received name or value
/// of a query. A `+` in it is a space.
///
/// Fails with `BrokenEscape` if a `%` is not followed by two hexadecimal digits.
pub fn canonical_query_part(raw: &str) -> Result<String, BrokenEscape> {
    respell(raw, false)
}

/// Returns the canonical query, which is part of the signed canonical request: the parameters,
/// which are in canonical encoding, sorted by name and then by value.
pub fn canonical_query<'a>(parameters: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut sorted: Vec<_> = parameters.collect();
    // The encoded names are sorted, as AWS specifies. Equal names are sorted by their values.
    sorted.sort_unstable();
    let mut out = String::new();
    for (name, value) in sorted {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        out.push_str(value);
    }
    out
}

fn escape(text: &str, path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        push(&mut out, byte, path);
    }
    out
}

/// Decodes each percent escape once and encodes the result in the canonical encoding.
fn respell(raw: &str, path: bool) -> Result<String, BrokenEscape> {
    let mut out = String::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        // Decoding and encoding each byte gives one form, also if the sender escaped other bytes.
        let byte = match byte {
            b'%' => escaped_byte(&mut bytes).ok_or(BrokenEscape)?,
            b'+' if !path => b' ',
            _ => byte,
        };
        push(&mut out, byte, path);
    }
    Ok(out)
}

fn push(out: &mut String, byte: u8, path: bool) {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            out.push(char::from(byte));
        }
        // An escaped slash also becomes a plain one, so that a key has one encoding.
        b'/' if path => out.push('/'),
        _ => {
            out.push('%');
            out.push(hex_digit(byte >> 4));
            out.push(hex_digit(byte & 0xf));
        }
    }
}

fn escaped_byte(bytes: &mut std::str::Bytes<'_>) -> Option<u8> {
    let high = char::from(bytes.next()?).to_digit(16)?;
    let low = char::from(bytes.next()?).to_digit(16)?;
    u8::try_from(high << 4 | low).ok()
}

/// Returns the hexadecimal digit of a value below 16.
fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}
