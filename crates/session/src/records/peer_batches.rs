//! The effect of other sessions' changes on the record cache.
//!
//! A peer that has promised notice of its changes sends the keys of a batch before the batch
//! itself. From the notice until the peer reports the end of the batch, the cache treats the batch
//! as one of its own in flight. A change that no notice announced is known only by the change feed.
//!
//! For example, a peer gives notice of a batch that writes inode 7. The entry of inode 7 becomes a
//! hint. A read of it that is sent before the end of the batch cannot make it current either, since
//! the read may have seen the record before or after the batch.

use store::Key;

use super::RecordCache;

impl RecordCache {
    /// Registers a batch of a peer that has not been sent to the store yet, and that writes these
    /// records and counters. Their entries become hints until [`RecordCache::peer_batch_ended`].
    pub(crate) fn peer_batch_sent(&self, keys: &[Key]) {
        let mut in_flight = self.currency.in_flight();
        self.complete_directories.add_names(keys);
        in_flight.batch_sent(keys);
        self.demote(&mut in_flight, keys);
    }

    /// Ends the registration of a peer's batch that has committed, was refused, or can never
    /// commit. Reads that were sent before this call do not make its records current, because they
    /// may have seen the store before the batch.
    pub(crate) fn peer_batch_ended(&self, keys: &[Key]) {
        let mut in_flight = self.currency.in_flight();
        in_flight.batch_ended();
        for key in keys {
            in_flight.write_ended(key);
            in_flight.note_written(key.clone());
        }
    }

    /// Handles the feed's report that another session has changed a record: drops its entry.
    ///
    /// While all peers give notice of their changes, a current entry already has the change, so it
    /// stays. Otherwise each record that a peer writes would be read twice: after the peer's batch,
    /// and once more after the report.
    pub(crate) fn forget(&self, key: &Key) {
        let mut in_flight = self.currency.in_flight();
        if let Some(generation) = self.currency.leased_generation() {
            if self.entries.get(key).is_none_or(|entry| entry.current_in != generation) {
                self.entries.remove(key);
                self.entries.remove_name(key);
            }
            return;
        }
        self.entries.remove(key);
        self.entries.remove_name(key);
        self.complete_directories.forget(key);
        self.listings.forget(key);
        self.without_xattrs.forget(key);
        // For reads in flight this change is like a batch that ends now: they may have read the old
        // record.
        self.currency.demoted(&mut in_flight);
        in_flight.batch_ended();
        in_flight.note_written(key.clone());
    }

    /// Begins or ends the count of reads that gain from leases.
    pub(crate) fn set_has_peers(&self, has_peers: bool) {
        self.demand.set(has_peers);
    }

    /// Returns the number of counted reads since the last call.
    pub(crate) fn take_demand(&self) -> u64 {
        self.demand.take()
    }

    /// Returns when [`super::DEMAND_MIN`] reads were counted since the last
    /// [`RecordCache::take_demand`].
    pub(crate) async fn demand_began(&self) {
        self.demand.began().await;
    }
}
