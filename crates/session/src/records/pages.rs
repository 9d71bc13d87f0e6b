//! Pages of directories that mounts and clients list, and which the cache keeps as a whole.
//!
//! A caller says for each read how its pages are kept:
//!
//! - [`Pages::Nodes`]: a mount lists a directory. The records of the page become entries of the
//!   cache, because the kernel asks for them next. For example, `ls -l` reads a page of 1,000
//!   names, and then asks for each of these names and inodes: see [`super::complete_directories`].
//! - [`Pages::Heads`]: an S3 client lists a bucket. The page answers the next listing and nothing
//!   else, so it is kept apart: see [`super::listings`].
//!
//! A page is kept only while the session is authoritative, and only if its directory is kept. Both
//! modules bound the size of a directory.

use bytes::Bytes;
use store::{Entry, Follow, Key, Read, ReadResult};

use super::complete_directories::ListedPage;
use super::currency::{Generation, InFlight, Observation};
use super::listings::ListingPage;
use super::{ReadInFlight, RecordCache};

/// The part of the cache that keeps the pages of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The entries of names and inodes, for a mount.
    Nodes,
    /// The memory for listings, for an S3 client that needs the heads of inodes.
    Heads,
}

impl ReadInFlight {
    /// Stores the pages that the read returned, with all their names and inodes. The store was
    /// asked after this read was registered.
    pub(crate) fn found_pages(self, reads: &[Read], found: &[ReadResult], pages: Pages) {
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
                let (cache, range, follow) = (&self.cache, (start, read_to), follow.as_ref());
                match pages {
                    Pages::Nodes => {
                        cache.learn_page(&in_flight, observation, range, entries, follow);
                    }
                    Pages::Heads => {
                        cache.learn_listing(&in_flight, observation, range, entries, follow);
                    }
                }
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

    /// Stores a page of a listing, all names that exist in this range with the heads of their
    /// inodes.
    fn learn_listing(
        &self,
        in_flight: &InFlight,
        observation: Observation,
        (start, end): (&Key, Key),
        entries: &[Entry],
        follow: Option<&Follow>,
    ) {
        let reads_heads = follow == Some(&record::key::dentry_to_head());
        if start.space() != record::key::space::DENTRY || *start > end || !reads_heads {
            return;
        }
        // The page may lack the names of batches that raced with its read.
        let raced = in_flight.raced_keys(observation, start, &end);
        let generation = observation.generation();
        let page = ListingPage { start, end, raced, entries, generation };
        self.listings
            .learn_page(page, |key| in_flight.generation_of_read(observation, key) == generation);
    }
}

/// Returns the first key that sorts after this one.
pub(super) fn after(key: &Key) -> Key {
    Key::from_bytes(Bytes::from([key.as_bytes(), &[0]].concat()))
}
