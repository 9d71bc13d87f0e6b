//! A line that arrives in pieces, never longer than its limit.

use bytes::{Buf as _, Bytes};

/// The part of a line that has arrived.
#[derive(Debug, Default)]
pub(crate) struct Line {
    bytes: Vec<u8>,
}

/// The line is longer than allowed.
#[derive(Debug)]
pub(crate) struct TooLong;

impl Line {
    /// Takes bytes from `input` up to the next CR LF. Returns the line without it, once it is
    /// complete. A line feed alone does not end a line.
    pub(crate) fn take(
        &mut self,
        input: &mut Bytes,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, TooLong> {
        while !input.is_empty() {
            let end = input.iter().position(|byte| *byte == b'\n');
            let piece = input.split_to(end.map_or(input.len(), |end| end + 1));
            if self.bytes.len() + piece.len() > bytes_max {
                return Err(TooLong);
            }
            self.bytes.extend_from_slice(piece.chunk());
            if let Some(line) = self.bytes.strip_suffix(b"\r\n") {
                let line = line.to_vec();
                self.bytes.clear();
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}
