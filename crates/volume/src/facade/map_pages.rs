//! Content maps in pages.
//!
//! The content map of a file is the list of its slices, each a run of bytes of one block. A long
//! map is divided into pages, each a record of its own. A page never changes: a change of the
//! file's slices writes new pages under new numbers. So pages are cached without invalidation. For
//! example, a write to the middle of a file with 1,000 pages replaces one or two pages, and all
//! others stay in the cache.

use std::sync::Arc;

use async_trait::async_trait;
use content::{ContentError, SliceSource};
use namespace::pages_of;
use record::{Content, File, Ino, MapPage, PageRef, Slice, key};
use session::corrupt;
use store::{Key, MetaStore, Read, ReadResult, Value};

use crate::known_pages::KnownPages;
use crate::{Volume, VolumeError};

/// Pages that one round trip fetches.
const PAGES_AT_ONCE: usize = 16;

/// Reads the content map of one file, if it is in pages, as the file was when it was found.
#[derive(Debug)]
pub(super) struct MapPages {
    store: Arc<dyn MetaStore>,
    known: KnownPages,
    ino: Ino,
    file: Arc<File>,
}

impl Volume {
    /// Returns the reader of the map pages of a file.
    pub(super) fn map_pages(&self, ino: Ino, file: Arc<File>) -> MapPages {
        let (store, known) = (Arc::clone(self.session.store()), self.known_pages.clone());
        MapPages { store, known, ino, file }
    }
}

impl MapPages {
    /// Returns the slices of these pages, in their order. Fails with `Corrupt` if a page is
    /// missing. This can also mean that the file has changed since it was found.
    pub(super) async fn load(&self, pages: &[PageRef]) -> Result<Vec<Slice>, VolumeError> {
        let mut slices = Vec::new();
        for pages in pages.chunks(PAGES_AT_ONCE) {
            let mut known: Vec<_> =
                pages.iter().map(|page| self.known.get(self.ino, *page)).collect();
            let missing = || pages.iter().zip(&known).filter(|(_, known)| known.is_none());
            let missing: Vec<u32> = missing().map(|(page, _)| page.page).collect();
            // Only the missing pages are read, in one round trip.
            let mut loaded = self.fetch(&missing).await?.into_iter();
            for page in &mut known {
                let page = page.take().or_else(|| loaded.next());
                slices.extend_from_slice(page.as_deref().unwrap_or_default());
            }
        }
        Ok(slices)
    }

    /// Reads pages in one round trip and stores them in the cache.
    async fn fetch(&self, pages: &[u32]) -> Result<Vec<Arc<[Slice]>>, VolumeError> {
        let keys: Vec<Key> = pages.iter().map(|page| key::map_page(self.ino, *page)).collect();
        let mut found = Vec::with_capacity(keys.len());
        for ((page, key), value) in
            pages.iter().zip(&keys).zip(read_records(&*self.store, &keys).await?)
        {
            let missing = || VolumeError::Corrupt(format!("the record {key:?} is missing"));
            let value = value.ok_or_else(missing)?;
            let slices = MapPage::decode(key, &value).map_err(|error| corrupt(key, &error))?.0;
            let slices: Arc<[Slice]> = slices.into();
            self.known.note(self.ino, *page, &slices);
            found.push(slices);
        }
        Ok(found)
    }
}

#[async_trait]
impl SliceSource for MapPages {
    async fn slices(&self, range: std::ops::Range<u64>) -> Result<Vec<Slice>, ContentError> {
        let Content::Pages(pages) = &self.file.content else { return Ok(Vec::new()) };
        let loaded = self.load(&pages[pages_of(pages, range.start, range.end)]).await;
        loaded.map_err(|error| match error {
            VolumeError::Corrupt(why) => ContentError::Corrupt(why),
            error => ContentError::Unavailable(error.to_string()),
        })
    }

    fn is_sparse(&self) -> bool {
        self.file.sparse
    }
}

/// Reads records by key in one round trip, without the cache. `None` means an absent record.
pub(super) async fn read_records(
    store: &dyn MetaStore,
    keys: &[Key],
) -> Result<Vec<Option<Value>>, VolumeError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let record = |key: &Key| Read::Record { key: key.clone(), follow: None };
    let reads: Vec<Read> = keys.iter().map(record).collect();
    let found = store.read(&reads).await?;
    let value = |found| match found {
        ReadResult::Record(entry) => entry.map(|entry: store::Entry| entry.value),
        ReadResult::Range(_) | ReadResult::Counter(_) => None,
    };
    Ok(found.into_iter().map(value).collect())
}
