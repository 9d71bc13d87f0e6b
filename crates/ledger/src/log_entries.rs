//! Writing and reading the logs of dirty data, one for each file with changes that are not
//! committed.

use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use record::Ino;
use rustix::fs::{FallocateFlags, fallocate};
use tracing::warn;

use crate::dirty::{
    CHANGE_WORDS, DirtyLog, HEAD_WORDS, LOG_BYTES_MAX, LoggedChange, PAGE_BYTES, REGION_BYTES_KEPT,
    mark, region_at, word_bytes,
};
use crate::ledger::Ledger;
use crate::table::read_or_zeros;

impl Ledger {
    /// Begins the log of a file that is about to get dirty data (changes that are not committed).
    /// Fails with `StorageFull` if [`LOGS_MAX`](crate::LOGS_MAX) files are dirty.
    pub fn begin_log(&self, ino: Ino) -> io::Result<DirtyLog> {
        let generation = self.dirty.next_generation.fetch_add(1, Ordering::Relaxed);
        let region = self.dirty.table.insert([ino.0, 0, generation, 0])?;
        Ok(DirtyLog { ino, region, generation, start: 0, end: 0, next: 0 })
    }

    /// Appends a change of a file to the log of its dirty data: its kind, the number of the request
    /// that makes it, its parameters and its bytes. Call this before the program gets the answer,
    /// so that the change survives this process. Fails with `StorageFull` if the log would exceed
    /// `LOG_BYTES_MAX`; then nothing is appended.
    pub fn log(
        &self,
        log: &mut DirtyLog,
        kind: u64,
        request: u64,
        words: [u64; CHANGE_WORDS],
        bytes: &[u8],
    ) -> io::Result<()> {
        let head = [log.generation, log.next, request, kind, bytes.len() as u64, 0];
        let head = word_bytes(&[&head[..], &words[..]].concat());
        let mark = mark(log.generation, log.next).to_le_bytes();
        let length = (head.len() + bytes.len() + mark.len()) as u64;
        // A longer log would run into the region of another file.
        if log.end + length > LOG_BYTES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let at = region_at(log.region) + log.end;
        // One call for head, bytes and mark saves two system calls for each small write.
        let parts = [IoSlice::new(&head), IoSlice::new(bytes), IoSlice::new(&mark)];
        let written = loop {
            match rustix::io::pwritev(&*self.dirty.file, &parts, at) {
                Err(rustix::io::Errno::INTR) => {}
                written => break written? as u64,
            }
        };
        if written < length {
            // Write the rest after the part that was accepted.
            let whole = [&head[..], bytes, &mark].concat();
            let done = usize::try_from(written).unwrap_or(whole.len());
            self.dirty.file.write_all_at(&whole[done..], at + written)?;
        }
        log.end += length;
        log.next += 1;
        Ok(())
    }

    /// Trims a log: removes the changes before offset `end`, after a flush has committed them.
    /// Later changes stay. The memory of the removed part is freed.
    pub fn trim_log(&self, log: &mut DirtyLog, end: u64) -> io::Result<()> {
        // The table first: memory must not be freed while the log still begins in it.
        self.dirty.table.put(log.region, [log.ino.0, end, log.generation, 0])?;
        // The page at the new start also has the first bytes of the next change, so it stays. The
        // page at the old start has only trimmed changes before it, so it goes.
        self.free_pages(log.region, log.start / PAGE_BYTES..end / PAGE_BYTES);
        log.start = end;
        Ok(())
    }

    /// Ends a log with all its changes, because its file has no dirty data any more. Its region,
    /// the range of the ledger that contains it, can be used for another file.
    pub fn end_log(&self, log: &DirtyLog) {
        // Small regions keep their memory: most files write little, and freeing costs a system
        // call.
        if log.end > REGION_BYTES_KEPT {
            let pages = log.start / PAGE_BYTES..log.end.div_ceil(PAGE_BYTES);
            self.free_pages(log.region, pages);
        }
        if let Err(error) = self.dirty.table.clear(log.region) {
            warn!(%error, "cannot remove the log of a clean file from the ledger");
        }
    }

    /// Frees the memory of pages of a region, by their numbers. The bytes read as zeros afterwards.
    fn free_pages(&self, region: u32, pages: std::ops::Range<u64>) {
        if pages.is_empty() {
            return;
        }
        let (start, length) = (pages.start * PAGE_BYTES, (pages.end - pages.start) * PAGE_BYTES);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = fallocate(&*self.dirty.file, flags, region_at(region) + start, length) {
            warn!(%error, "cannot free memory of the ledger");
        }
    }

    /// Returns the logs that earlier workers (processes of the mount) left, one for each file with
    /// dirty data. Each is at its start.
    pub fn inherited_logs(&self) -> Vec<DirtyLog> {
        self.dirty.inherited.clone()
    }

    /// Reads the next change of a log that an earlier worker left. Returns `None` at the end of the
    /// log. A change that the worker had not written completely when it was killed is not part of
    /// the log. Read the log to its end before you append to it.
    pub fn next_change(&self, log: &mut DirtyLog) -> io::Result<Option<LoggedChange>> {
        let at = region_at(log.region) + log.end;
        let mut head = [0; (HEAD_WORDS + CHANGE_WORDS) * 8];
        read_or_zeros(&self.dirty.file, &mut head, at)?;
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[index * 8..][..8]);
            u64::from_le_bytes(bytes)
        };
        let (generation, number, request, kind, length) =
            (word(0), word(1), word(2), word(3), word(4));
        // After a trim, the first change can have any number; each later one continues its
        // predecessor.
        let first = log.end == log.start;
        if generation != log.generation || (!first && number != log.next) || length > LOG_BYTES_MAX
        {
            return Ok(None);
        }
        let mark_at = at + head.len() as u64 + length;
        // Without its mark the worker was killed before it had written the change.
        if crate::table::read_word(&self.dirty.file, mark_at)? != mark(generation, number) {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        read_or_zeros(&self.dirty.file, &mut bytes, at + head.len() as u64)?;
        let mut words = [0; CHANGE_WORDS];
        for (index, value) in words.iter_mut().enumerate() {
            *value = word(HEAD_WORDS + index);
        }
        log.end = mark_at + 8 - region_at(log.region);
        log.next = number + 1;
        Ok(Some(LoggedChange { kind, request, words, bytes }))
    }
}
