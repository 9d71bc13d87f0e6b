//! A cache of map pages, by inode and page number.
//!
//! A map page is a record with a part of a file's content map, which is the list of the runs of
//! blocks that the file consists of. A page never changes under its number, so an entry needs no
//! invalidation. For example, a file of 100 GiB has its map in pages, and sequential reads find
//! most pages here.

use std::sync::Arc;

use quick_cache::sync::Cache;
use record::{Ino, PageRef, Slice};

/// Most pages in the cache. With at most 512 slices each that is about 4 MiB.
const PAGES_KNOWN_MAX: usize = 128;

/// The identity of a page: its inode and its number.
type PageName = (Ino, u32);

/// The cache of map pages (parts of the content maps of files). Clones share one cache.
#[derive(Clone, Debug)]
pub(crate) struct KnownPages(Arc<Cache<PageName, Arc<[Slice]>>>);

impl Default for KnownPages {
    fn default() -> KnownPages {
        KnownPages(Arc::new(Cache::new(PAGES_KNOWN_MAX)))
    }
}

impl KnownPages {
    /// Returns the slices of a page, if it is in the cache.
    pub(crate) fn get(&self, ino: Ino, page: PageRef) -> Option<Arc<[Slice]>> {
        self.0.get(&(ino, page.page))
    }

    /// Stores a page that was read.
    pub(crate) fn note(&self, ino: Ino, page: u32, slices: &Arc<[Slice]>) {
        self.0.insert((ino, page), Arc::clone(slices));
    }
}
