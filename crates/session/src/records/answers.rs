//! Answers to reads from current entries, those certainly equal to the store's records.
//!
//! Invariant: an answer is true as of one instant. All entries of an answer are current when the
//! last one is found, or the answer is given up. For example, a read of a dentry and of its inode
//! is answered if both entries are current. If a batch that writes the inode is sent in between,
//! the lookup begins again.

use store::{CounterKey, Entry, Follow, Key, Read, ReadResult, Target, Value};

use super::currency::Generation;
use super::listings::PageName;
use super::pages::after;
use super::{RecordCache, counter_number, is_counter};

/// Tries to answer a read from the cache without the mutex, while other tasks change entries. After
/// these the mutex is taken.
const OPTIMISTIC_READS: usize = 2;

impl RecordCache {
    /// Counts a read of pages among the reads that gain from leases. [`RecordCache::answer`] counts
    /// the reads of single records, and not the ranges that background work reads.
    pub(crate) fn count_listing(&self, reads: &[Read]) {
        if reads.iter().any(|read| matches!(read, Read::Range { .. })) {
            self.demand.count();
        }
    }

    /// Answers reads of single records and counters from current entries, and pages of directories
    /// whose names are all known, all as of one instant. Returns `None` if one of the records is
    /// not current, or if a range belongs to no such directory.
    pub(crate) fn answer(&self, reads: &[Read]) -> Option<Vec<ReadResult>> {
        let is_single = |read: &Read| matches!(read, Read::Record { .. } | Read::Counter(_));
        if reads.iter().all(is_single) {
            self.demand.count();
        }
        for _ in 0..OPTIMISTIC_READS {
            let seen = self.currency.begin_read()?;
            let found = self.current_answers(reads, seen.generation)?;
            if self.currency.is_valid(seen) {
                return Some(found);
            }
        }
        // While the mutex is held no entry changes, so this try succeeds unless the authority ends.
        let _in_flight = self.currency.in_flight();
        let seen = self.currency.begin_read()?;
        let found = self.current_answers(reads, seen.generation)?;
        self.currency.is_valid(seen).then_some(found)
    }

    /// Returns the answers to these reads if all their records are current in `generation`, that
    /// is, certainly equal to the store's; `None` otherwise.
    fn current_answers(&self, reads: &[Read], generation: Generation) -> Option<Vec<ReadResult>> {
        let found = |read: &Read| match read {
            Read::Record { key, follow } => {
                let Some(value) = self.current_value(key, generation)? else {
                    return Some(ReadResult::Record(None));
                };
                let entry = self.current_entry(key.clone(), value, follow.as_ref(), generation)?;
                Some(ReadResult::Record(Some(entry)))
            }
            // An unknown counter is not 0, so the read goes to the store.
            Read::Counter(CounterKey(key)) if is_counter(key) => {
                let value = self.current_value(key, generation)??;
                Some(ReadResult::Counter(counter_number(&value)?))
            }
            Read::Counter(_) => None,
            Read::Range { start, end, limit, follow } => {
                let page = self.current_page((start, end), *limit, follow.as_ref(), generation)?;
                Some(ReadResult::Range(page))
            }
        };
        reads.iter().map(found).collect()
    }

    /// Returns the record, or `Some(None)` if it is certainly absent; `None` if it is not known.
    fn current_value(&self, key: &Key, generation: Generation) -> Option<Option<Value>> {
        let entry = self.entries.get(key).filter(|entry| entry.current_in == generation);
        // No entry does not mean that the record is absent, unless its directory is complete.
        match entry {
            Some(entry) => Some(entry.value),
            None => {
                let is_absent = self.complete_directories.lacks(key, generation)
                    || self.listings.lacks(key, generation);
                is_absent.then_some(None)
            }
        }
    }

    /// Returns a found record with its target. The target must be current, too, since the answer
    /// is of one instant.
    fn current_entry(
        &self,
        key: Key,
        value: Value,
        follow: Option<&Follow>,
        generation: Generation,
    ) -> Option<Entry> {
        let target = match follow.and_then(|follow| Some((follow, follow.target(&value)?))) {
            Some((follow, target)) => follow.to_target(self.current_value(&target, generation)?),
            None => Target::Absent,
        };
        Some(Entry { key, value, target })
    }

    /// Returns the first `limit` records of a range of dentries. Returns `None` if not all names of
    /// their directory are known, or if the record of a name on the page is not known.
    fn current_page(
        &self,
        (start, end): (&Key, &Key),
        limit: u32,
        follow: Option<&Follow>,
        generation: Generation,
    ) -> Option<Vec<Entry>> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut page, mut from) = (Vec::new(), start.clone());
        loop {
            // Some registered names do not exist, so one round may not fill the page.
            let names = self.page_names((&from, end), limit, follow, generation)?;
            let is_last = names.len() < limit;
            let next = names.last().map(|name| after(name.key()));
            for name in names {
                if page.len() == limit {
                    return Some(page);
                }
                let (key, value) = match name {
                    PageName::Known { key, value, target: Some(target) } => {
                        page.push(Entry { key, value, target });
                        continue;
                    }
                    PageName::Known { key, value, target: None } => (key, Some(value)),
                    PageName::Registered(key) => {
                        let value = self.current_value(&key, generation)?;
                        (key, value)
                    }
                };
                if let Some(value) = value {
                    page.push(self.current_entry(key, value, follow, generation)?);
                }
            }
            match next {
                Some(next) if !is_last && page.len() < limit => from = next,
                _ => return Some(page),
            }
        }
    }

    /// Returns the first `count` names that may exist in a range of dentries. Returns `None` if
    /// they are not known.
    fn page_names(
        &self,
        range: (&Key, &Key),
        count: usize,
        follow: Option<&Follow>,
        generation: Generation,
    ) -> Option<Vec<PageName>> {
        if let Some(names) = self.listings.names(range, count, follow, generation) {
            return Some(names);
        }
        let names = self.complete_directories.names(range, count, generation)?;
        Some(names.into_iter().map(PageName::Registered).collect())
    }
}
