//! Bytes as hexadecimal text.
//!
//! A page of a listing has a thousand entity tags, so they are written without a formatter for each
//! byte. For example, the bytes `0x0a` and `0xff` are the text `0aff`.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes whose digits are written at once.
const STEP_BYTES: usize = 32;

/// Writes two hexadecimal digits in lower case for each byte.
pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut digits = [0; 2 * STEP_BYTES];
    for step in bytes.chunks(STEP_BYTES) {
        let (pairs, _) = digits.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(step) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        f.write_str(std::str::from_utf8(&digits[..2 * step.len()]).map_err(|_| fmt::Error)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
