//! Finds the delimiters between the parts of a multipart body that arrives in pieces.
//!
//! A delimiter is CR LF, two hyphens and the boundary. It counts only if CR LF (another part) or
//! two hyphens (the end) follow it; otherwise it is content that looks like a delimiter. For
//! example, with the boundary `b`, `\r\n--bc` is content.
//!
//! The cutter buffers only bytes that may be the beginning of a delimiter. It passes all other
//! content on as slices of the input.

use bytes::Bytes;
use memchr::memmem;

/// The number of bytes after a delimiter, called its mark, that determine its meaning: CR LF, or
/// two hyphens.
const MARK_BYTES: usize = 2;

/// Splits a multipart body, which arrives in pieces, at the delimiters between its parts.
#[derive(Debug)]
pub(super) struct Cutter {
    delimiter: Vec<u8>,
    finder: memmem::Finder<'static>,
    /// Bytes that may be the beginning of a delimiter and of its mark, the two bytes after it. They
    /// begin with CR, and no later CR in them can begin another delimiter.
    buffered: Vec<u8>,
}

/// The meaning of a delimiter in a multipart body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Another part follows.
    Part,
    /// The last part ends here, and no other part follows.
    Close,
}

impl Cut {
    /// Returns the meaning of the two bytes after a delimiter; `None` if the bytes are content.
    fn marked(mark: [u8; MARK_BYTES]) -> Option<Cut> {
        match &mark {
            b"\r\n" => Some(Cut::Part),
            b"--" => Some(Cut::Close),
            _ => None,
        }
    }
}

impl Cutter {
    /// Returns a cutter. The first delimiter has no line before it, so the cutter starts as if CR
    /// LF had arrived.
    pub(super) fn new(boundary: &str) -> Cutter {
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        // The finder is built once for the whole body.
        let finder = memmem::Finder::new(&delimiter).into_owned();
        Cutter { delimiter, finder, buffered: b"\r\n".to_vec() }
    }

    /// Takes content from `input` and passes it to `out` in order. At a complete delimiter, returns
    /// its meaning and leaves the rest in `input`. Returns `None` when all input is taken.
    pub(super) fn take(&mut self, input: &mut Bytes, mut out: impl FnMut(Bytes)) -> Option<Cut> {
        // Bytes of the previous input come first.
        if !self.buffered.is_empty() {
            match self.resume(input) {
                Resumed::Waiting => return None,
                Resumed::Cut(cut) => return Some(cut),
                Resumed::Content(content) => out(content),
            }
        }
        let mut from = 0;
        // The finder searches only for the delimiter, so each match is checked for its mark. If the
        // input ends before the mark, the match is kept for the next input.
        while let Some(found) = self.finder.find(input.get(from..).unwrap_or_default()) {
            let start = from + found;
            let after = start + self.delimiter.len();
            let Some(mark) = input.get(after..).and_then(<[u8]>::first_chunk) else {
                return self.hold(input, start, out);
            };
            if let Some(cut) = Cut::marked(*mark) {
                pass(input.split_to(start), out);
                let _ = input.split_to(self.delimiter.len() + MARK_BYTES);
                return Some(cut);
            }
            // The match was content; another delimiter may begin within it.
            from = start + 1;
        }
        // Only the last CR can begin an incomplete delimiter, because a delimiter contains no other
        // CR.
        let end = input.len().saturating_sub(self.delimiter.len());
        let start = memchr::memrchr(b'\r', input.get(end..).unwrap_or_default())
            .map(|at| end + at)
            .filter(|start| self.delimiter.starts_with(input.get(*start..).unwrap_or_default()));
        self.hold(input, start.unwrap_or(input.len()), out)
    }

    /// Passes on the input before `start`, which is content, and buffers the rest, which may be the
    /// beginning of a delimiter.
    fn hold(&mut self, input: &mut Bytes, start: usize, out: impl FnMut(Bytes)) -> Option<Cut> {
        let rest = input.split_off(start);
        self.buffered.extend_from_slice(&rest);
        pass(std::mem::take(input), out);
        None
    }

    /// Decides with new input whether the buffered bytes are a delimiter.
    fn resume(&mut self, input: &mut Bytes) -> Resumed {
        let marked_bytes = self.delimiter.len() + MARK_BYTES;
        let taken = input.len().min(marked_bytes.saturating_sub(self.buffered.len()));
        let kept = self.buffered.len();
        self.buffered.extend_from_slice(&input[..taken]);
        // The buffered bytes may still be shorter than a delimiter; then there is no mark yet.
        let (head, mark) =
            self.buffered.split_at_checked(self.delimiter.len()).unwrap_or((&self.buffered, &[]));
        let matches = self.delimiter.starts_with(head);
        let cut = mark.first_chunk().copied().map(Cut::marked);
        match cut {
            Some(Some(cut)) if matches => {
                let _ = input.split_to(taken);
                self.buffered.clear();
                Resumed::Cut(cut)
            }
            None if matches => {
                let _ = input.split_to(taken);
                Resumed::Waiting
            }
            _ => {
                // The bytes from the input are searched again, because a delimiter may begin in
                // them.
                self.buffered.truncate(kept);
                Resumed::Content(Bytes::from(std::mem::take(&mut self.buffered)))
            }
        }
    }
}

/// The decision about buffered bytes that may have been the beginning of a delimiter.
enum Resumed {
    /// More input is needed.
    Waiting,
    /// The bytes were a delimiter.
    Cut(Cut),
    /// The bytes were content.
    Content(Bytes),
}

/// Passes content on, unless it is empty.
fn pass(content: Bytes, mut out: impl FnMut(Bytes)) {
    if !content.is_empty() {
        out(content);
    }
}
