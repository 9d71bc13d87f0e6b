//! Names of clients and programs on the operator's terminal.
//!
//! Clients choose keys, and programs choose file names. Either may hold escape sequences that
//! change the terminal, line feeds that forge lines of a listing, or characters that reverse the
//! text. Commands show every such name by [`safe_name`], and documents by [`safe_document`].

use std::fmt;

/// Shows a name so that it stays on its line and a terminal prints it as it is. A name of visible
/// characters is shown unchanged. Any other name is shown as `$'…'` with escapes, which bash reads
/// back: for example, `$'a\x1b[2J'`.
pub(crate) fn safe_name(name: &[u8]) -> SafeName<'_> {
    SafeName(name)
}

/// A name that is shown by [`safe_name`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SafeName<'a>(&'a [u8]);

impl fmt::Display for SafeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) if !text.chars().any(is_hidden) => return f.write_str(text),
            _ => f.write_str("$'")?,
        }
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    '\\' | '\'' => write!(f, "\\{character}")?,
                    other if !is_hidden(other) => write!(f, "{other}")?,
                    // bash takes at most two, four or eight digits of these.
                    other => match u32::from(other) {
                        code @ 0..=0x7f => write!(f, "\\x{code:02x}")?,
                        code @ 0x80..=0xffff => write!(f, "\\u{code:04x}")?,
                        code => write!(f, "\\U{code:08x}")?,
                    },
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        f.write_str("'")
    }
}

/// Returns a JSON or XML document of a client with each hidden character as an escape of its
/// format, so that it means the same and a terminal prints it as it is. For example, U+202E in a
/// policy is shown as `\u202e`, and in a lifecycle rule as `&#x202e;`. Line feeds and tabs stay. A
/// carriage return becomes a space, because JSON has no escape for one between its tokens.
pub(crate) fn safe_document(text: &str) -> String {
    let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with('<');
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            '\r' => safe.push(' '),
            other if !is_hidden(other) => safe.push(other),
            other if is_xml => safe.extend([format!("&#x{:x};", u32::from(other))]),
            other => {
                let units = other.encode_utf16(&mut [0; 2]).to_vec();
                safe.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    safe
}

/// Returns true for characters that control a terminal or are invisible: control characters, line
/// separators, marks of text direction, and characters without a width.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            u32::from(character),
            0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xfff9..=0xfffb | 0xe0000..=0xe007f
        )
}

#[cfg(test)]
mod tests;
