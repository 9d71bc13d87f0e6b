//! A line that arrives in pieces, with a maximum length.

use bytes::{Buf as _, Bytes};

/// The received part of a line, which may be incomplete. The rest arrives with later input.
#[derive(Debug, Default)]
pub(crate) struct Line {
    bytes: Vec<u8>,
}

/// The error of a line, in a body that arrives in pieces, that exceeds its maximum length.
#[derive(Debug)]
pub(crate) struct TooLong;

impl Line {
    /// Takes bytes from `input` up to the next CR LF. Returns the complete line without CR LF, or
    /// `None` if more input is needed. LF alone does not end a line.
    ///
    /// Fails with `TooLong` if the line, CR LF included, has more than `bytes_max` bytes.
    pub(crate) fn take(
        &mut self,
        input: &mut Bytes,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, TooLong> {
        while !input.is_empty() {
            // Only LF is searched; `strip_suffix` below checks for CR before it. A LF alone stays
            // in the line.
            let end = input.iter().position(|byte| *byte == b'\n');
            let piece = input.split_to(end.map_or(input.len(), |end| end + 1));
            // The limit is checked before bytes are buffered.
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
