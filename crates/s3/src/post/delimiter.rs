//! Finds the delimiters between the parts of a body that arrives in pieces.
//!
//! A delimiter is CR LF, two hyphens and the boundary. It counts if CR LF or two hyphens follow it;
//! otherwise it is content that happens to look like one. Of content, no more is kept than what may
//! be the beginning of a delimiter; the rest passes as slices of what arrived.

use bytes::Bytes;
use memchr::memmem;

/// The bytes after a delimiter that tell what it means.
const MARK_BYTES: usize = 2;

/// Cuts a body at its delimiters.
#[derive(Debug)]
pub(super) struct Cutter {
    delimiter: Vec<u8>,
    finder: memmem::Finder<'static>,
    /// What may be the beginning of a delimiter with its mark. It begins with CR, and no later CR
    /// in it can begin another delimiter.
    held: Vec<u8>,
}

/// What a delimiter announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Another part.
    Part,
    /// The end of the last part.
    Close,
}

impl Cut {
    fn marked(mark: [u8; MARK_BYTES]) -> Option<Cut> {
        match &mark {
            b"\r\n" => Some(Cut::Part),
            b"--" => Some(Cut::Close),
            _ => None,
        }
    }
}

impl Cutter {
    /// The first delimiter has no line before it, so it is searched for as if CR LF had arrived.
    pub(super) fn new(boundary: &str) -> Cutter {
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        let finder = memmem::Finder::new(&delimiter).into_owned();
        Cutter { delimiter, finder, held: b"\r\n".to_vec() }
    }

    /// Takes content from `input`, and passes it to `out` in order. Returns once a delimiter is
    /// complete, or with `None` once all input is taken.
    pub(super) fn take(&mut self, input: &mut Bytes, mut out: impl FnMut(Bytes)) -> Option<Cut> {
        if !self.held.is_empty() {
            match self.resume(input) {
                Resumed::Waiting => return None,
                Resumed::Cut(cut) => return Some(cut),
                Resumed::Content(content) => out(content),
            }
        }
        let mut from = 0;
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
            from = start + 1;
        }
        // Only the last CR can begin what is still incomplete: a delimiter has no other.
        let end = input.len().saturating_sub(self.delimiter.len());
        let start = memchr::memrchr(b'\r', input.get(end..).unwrap_or_default())
            .map(|at| end + at)
            .filter(|start| self.delimiter.starts_with(input.get(*start..).unwrap_or_default()));
        self.hold(input, start.unwrap_or(input.len()), out)
    }

    /// Passes on what precedes `start`, and holds the rest.
    fn hold(&mut self, input: &mut Bytes, start: usize, out: impl FnMut(Bytes)) -> Option<Cut> {
        let rest = input.split_off(start);
        self.held.extend_from_slice(&rest);
        pass(std::mem::take(input), out);
        None
    }

    /// Decides what the held bytes are, as far as the input tells.
    fn resume(&mut self, input: &mut Bytes) -> Resumed {
        let marked_bytes = self.delimiter.len() + MARK_BYTES;
        let taken = input.len().min(marked_bytes.saturating_sub(self.held.len()));
        let kept = self.held.len();
        self.held.extend_from_slice(&input[..taken]);
        let (head, mark) =
            self.held.split_at_checked(self.delimiter.len()).unwrap_or((&self.held, &[]));
        let matches = self.delimiter.starts_with(head);
        let cut = mark.first_chunk().copied().map(Cut::marked);
        match cut {
            Some(Some(cut)) if matches => {
                let _ = input.split_to(taken);
                self.held.clear();
                Resumed::Cut(cut)
            }
            None if matches => {
                let _ = input.split_to(taken);
                Resumed::Waiting
            }
            _ => {
                // What came from the input is searched again: a delimiter may begin in it.
                self.held.truncate(kept);
                Resumed::Content(Bytes::from(std::mem::take(&mut self.held)))
            }
        }
    }
}

enum Resumed {
    /// More input is needed.
    Waiting,
    Cut(Cut),
    /// The held bytes were content.
    Content(Bytes),
}

fn pass(content: Bytes, mut out: impl FnMut(Bytes)) {
    if !content.is_empty() {
        out(content);
    }
}
