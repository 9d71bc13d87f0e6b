//! Beginning to watch a session's changes, and asking it for how long they may be remembered.

use std::sync::Arc;

use record::Ino;

use crate::session::Session;
use crate::watch::{CacheValidity, Coherence, NodeWatch, Watch};

impl Session {
    /// Tells `watch` of changes from now on, and nobody who watched before.
    pub fn watch_nodes(&self, watch: Arc<dyn NodeWatch>, coherence: Coherence) {
        self.records.track_xattrs();
        self.watches.set(Some(Watch { watch, coherence }));
    }

    /// Tells nobody of changes any more: what was given out is forgotten, or runs out.
    pub fn unwatch_nodes(&self) {
        self.watches.set(None);
    }

    /// Until when what is read from now on may be remembered by those for whom the watch stands. To
    /// be asked for before it is read.
    pub fn cache_validity(&self) -> CacheValidity {
        self.watches.cache_validity(self.records.authority_until())
    }

    /// Until when what was read while `before` was said may be remembered, though it is given out
    /// only now: not at all if anything may have changed since.
    pub fn validity_if_unchanged(&self, before: CacheValidity) -> CacheValidity {
        let now = self.cache_validity();
        let is_unchanged = before.seen.is_some_and(|seen| self.records.is_unchanged(seen));
        if is_unchanged { now } else { CacheValidity::default() }
    }

    /// Whether an inode certainly has no extended attributes, as far as that is remembered.
    pub fn has_no_xattrs(&self, ino: Ino) -> bool {
        self.records.has_no_xattrs(ino)
    }
}
