//! The record cache: hints and current entries.

mod client_listings;
mod complete_directories;
mod currency;
mod hints;
mod interleaved;
mod interleaved_pages;
mod listings;
mod without_xattrs;

use std::sync::Arc;

use store::MetaStore;

use super::RecordCache;
use crate::cached_store::CachedStore;
use crate::leases::Leases;

/// Puts a store behind a cache, in a session without peers.
fn behind(cache: &Arc<RecordCache>, store: Arc<dyn MetaStore>) -> CachedStore {
    CachedStore::new(store, Arc::clone(cache), Leases::new(cache, &Arc::default()))
}
