//! Pages of content maps that were read, remembered by inode and number.

use std::sync::Arc;

use quick_cache::sync::Cache;
use record::{Ino, PageRef, Slice};

/// Pages that are remembered: of at most 512 slices each, some 4 MiB in all.
const PAGES_KNOWN_MAX: usize = 128;

/// A page: of which inode, and its number.
type PageName = (Ino, u32);

/// Pages that were read. None is ever changed.
#[derive(Clone, Debug)]
pub(crate) struct KnownPages(Arc<Cache<PageName, Arc<[Slice]>>>);

impl Default for KnownPages {
    fn default() -> KnownPages {
        KnownPages(Arc::new(Cache::new(PAGES_KNOWN_MAX)))
    }
}

impl KnownPages {
    /// The slices of a page, if it was read not long ago.
    pub(crate) fn get(&self, ino: Ino, page: PageRef) -> Option<Arc<[Slice]>> {
        self.0.get(&(ino, page.page))
    }

    /// Takes note of a page that was read.
    pub(crate) fn note(&self, ino: Ino, page: u32, slices: &Arc<[Slice]>) {
        self.0.insert((ino, page), Arc::clone(slices));
    }
}
