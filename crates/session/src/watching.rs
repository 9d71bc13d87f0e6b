//! Registering a watch for changes of nodes, and the validity of the data that it caches.

use std::sync::Arc;

use record::Ino;

use crate::records::Basis;
use crate::session::Session;
use crate::watch::{CacheValidity, Coherence, NodeWatch, Watch};

impl Session {
    /// Registers `watch`, the component that invalidates outside caches, in place of the one
    /// before. It is notified of changes from now on. `coherence` is the consistency of its caches
    /// while other sessions exist.
    pub fn watch_nodes(&self, watch: Arc<dyn NodeWatch>, coherence: Coherence) {
        self.records.track_xattrs();
        self.watches.set(Some(Watch { watch, coherence }));
    }

    /// Removes the registered watch, the component that invalidates outside caches. It gets no
    /// notifications any more, and must drop its cached data or let it expire. Changes wait until
    /// the times that were granted to it have passed, half a second or a second at most.
    pub fn unwatch_nodes(&self) {
        self.watches.set(None);
    }

    /// Returns how long the registered watch may let outside caches keep data that it reads from
    /// now on. Call it before the read.
    pub fn cache_validity(&self) -> CacheValidity {
        self.watches.cache_validity(self.records.relied_on())
    }

    /// Returns true if certainly no other session of the volume changes records now, or reads them
    /// within the next half of [`crate::JOIN_PATIENCE`]. A session with peers is not alone, also if
    /// it has their leases.
    pub fn is_alone(&self) -> bool {
        self.records.basis() == Some(Basis::Alone)
    }

    /// Returns how long outside caches may keep data that the watch read while `before` was valid
    /// but that it hands out only now. Returns no validity if a record may have changed since
    /// `before`.
    pub fn validity_if_unchanged(&self, before: CacheValidity) -> CacheValidity {
        let now = self.cache_validity();
        let is_unchanged = before.seen.is_some_and(|seen| self.records.is_unchanged(seen));
        if is_unchanged { now } else { CacheValidity::default() }
    }

    /// Returns true if the inode certainly has no extended attributes. False means that it is not
    /// known.
    pub fn has_no_xattrs(&self, ino: Ino) -> bool {
        self.records.has_no_xattrs(ino)
    }
}
