//! The content of a file, in chunks that exist only if bytes were written to them.

use std::io::IoSlice;

const CHUNK_BYTES: usize = 256 << 10;
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    chunks: Vec<Option<Box<[u8]>>>,
    len: u64,
}

/// Returns the chunk of a byte, and its offset in the chunk.
fn place(offset: u64) -> (usize, usize) {
    let chunk = CHUNK_BYTES as u64;
    let within = |number: u64| usize::try_from(number).expect("a file fits into memory");
    (within(offset / chunk), within(offset % chunk))
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the allocated space in units of 512 bytes.
    pub(crate) fn blocks(&self) -> u64 {
        self.chunks.iter().flatten().count() as u64 * (CHUNK_BYTES as u64 / 512)
    }

    /// Returns the bytes of a range, up to the end of the file.
    pub(crate) fn read(&self, offset: u64, size: u32) -> Vec<IoSlice<'_>> {
        let mut left = u64::from(size).min(self.len.saturating_sub(offset));
        let (mut index, mut start) = place(offset);
        let mut slices = Vec::with_capacity(6);
        while left > 0 {
            let take = (CHUNK_BYTES - start).min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
            let chunk = self.chunks.get(index).and_then(Option::as_deref).unwrap_or(&ZEROS);
            slices.push(IoSlice::new(&chunk[start..start + take]));
            left -= take as u64;
            (index, start) = (index + 1, 0);
        }
        slices
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.len = self.len.max(offset + data.len() as u64);
        let (mut index, mut start) = place(offset);
        let mut rest = data;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - start));
            self.chunk(index)[start..start + now.len()].copy_from_slice(now);
            rest = later;
            (index, start) = (index + 1, 0);
        }
    }

    fn chunk(&mut self, index: usize) -> &mut [u8] {
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        self.chunks[index].get_or_insert_with(|| vec![0; CHUNK_BYTES].into_boxed_slice())
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, self.len - len);
            self.chunks.truncate(place(len.next_multiple_of(CHUNK_BYTES as u64)).0);
        }
        self.len = len;
    }

    /// Zeroes a range without changing the size.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) {
        let mut left = length.min(self.len.saturating_sub(offset));
        let (mut index, mut start) = place(offset);
        while left > 0 {
            let take = (CHUNK_BYTES - start).min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
            if let Some(chunk) = self.chunks.get_mut(index) {
                match chunk {
                    Some(_) if take == CHUNK_BYTES => *chunk = None,
                    Some(bytes) => bytes[start..start + take].fill(0),
                    None => {}
                }
            }
            left -= take as u64;
            (index, start) = (index + 1, 0);
        }
    }

    /// Returns the first position from here on that is, or is not, in an existing chunk. The end of
    /// the file counts as a hole.
    pub(crate) fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        let mut at = offset;
        while at < self.len {
            let index = place(at).0;
            if self.chunks.get(index).is_some_and(Option::is_some) == data {
                return Some(at);
            }
            at = (index as u64 + 1) * CHUNK_BYTES as u64;
        }
        (!data && offset < self.len).then_some(self.len)
    }
}
