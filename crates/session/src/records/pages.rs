//! Pages of directories that a mount lists, and which the cache keeps as a whole.
//!
//! A caller says for each read that its pages are kept. A listing of an S3 client does not: a page
//! of a large bucket would evict the entries that writers need. For example, `ls -l` reads a page of
//! 1,000 names, and then asks for each of these names and inodes. All of them are answered from the
//! kept page.
//!
//! A page is kept only while the session is authoritative, and only if its directory is kept: see
//! [`super::complete_directories`], which bounds the size of a directory.

use bytes::Bytes;
use store::{Entry, Follow, Key, Read, ReadResult};

use super::complete_directories::ListedPage;
use super::currency::{Generation, InFlight, Observation};
use super::{ReadInFlight, RecordCache};

impl ReadInFlight {
    /// Stores the pages that the read returned, with all their names and inodes. The store was asked
    /// after this read was registered.
    pub(crate) fn found_pages(self, reads: &[Read], found: &[ReadResult]) {
        let currency = &self.cache.currency;
        let in_flight = currency.in_flight();
        let observation = currency.observation(&in_flight, self.sent_at);
        if observation.generation() == Generation::NONE {
            return;
        }
        for (read, found) in reads.iter().zip(found) {
            if let (Read::Range { start, end, limit, follow }, ReadResult::Range(entries)) =
                (read, found)
            {
                let is_last = entries.len() < usize::try_from(*limit).unwrap_or(usize::MAX);
                let read_to = match entries.last() {
                    _ if is_last => end.clone(),
                    Some(last) => after(&last.key),
                    None => continue,
                };
                let range = (start, read_to);
                self.cache.learn_page(&in_flight, observation, range, entries, follow.as_ref());
            }
        }
    }
}

impl RecordCache {
    /// Stores the records of a page, all that exist in this range, if its directory is kept.
    fn learn_page(
        &self,
        in_flight: &InFlight,
        observation: Observation,
        (start, end): (&Key, Key),
        entries: &[Entry],
        follow: Option<&Follow>,
    ) {
        if start.space() != record::key::space::DENTRY || *start > end {
            return;
        }
        // The page may lack the names of batches that raced with its read.
        let mut names = in_flight.raced_keys(observation, start, &end);
        names.extend(entries.iter().map(|entry| entry.key.clone()));
        let generation = observation.generation();
        let page = ListedPage { start, end, names, generation };
        if self.complete_directories.learn_page(page) {
            for entry in entries {
                self.learn_entry(in_flight, observation, entry, follow);
            }
        }
    }
}

/// Returns the first key that sorts after this one.
pub(super) fn after(key: &Key) -> Key {
    Key::from_bytes(Bytes::from([key.as_bytes(), &[0]].concat()))
}
