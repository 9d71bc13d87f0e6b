//! Locks, and the coherence of file content under them.
//!
//! Programs on several mounts that synchronise by locks see each other's writes. Before a lock is
//! released that another mount may get, the dirty data of the file is flushed. After a lock is
//! granted, the open file is refreshed from the volume, and the kernel's cached pages of an older
//! version are dropped.

use std::ops::RangeInclusive;

use record::{Ino, RangeLock};
use rustix::io::Errno;

use crate::files::Files;

impl Files {
    /// Takes a lock on a range of a file, or with flock(2) on the whole file, without waiting.
    /// Fails with `EAGAIN` if it conflicts with another one.
    pub async fn try_lock(&self, ino: Ino, requested: RangeLock) -> Result<(), Errno> {
        self.locks.try_lock(ino, requested).await?;
        self.refresh_under_lock(ino).await;
        Ok(())
    }

    /// Takes a lock on a range of a file, or with flock(2) on the whole file, and waits until it is
    /// free. If the future is dropped before that, the lock is not taken.
    ///
    /// # Errors
    /// `EDEADLK` if programs of this mount would wait for each other in a circle, for range locks
    /// only.
    pub async fn lock(&self, ino: Ino, requested: RangeLock) -> Result<(), Errno> {
        let granted = self.locks.lock(ino, requested).await?;
        self.refresh_under_lock(ino).await;
        granted.keep();
        Ok(())
    }

    /// Releases the locks of one owner on a range of a file. `flock` selects its locks of flock(2),
    /// otherwise those of fcntl(2). Other sessions see the data that was written under the locks.
    /// Takes no round trip if the owner holds none of it.
    pub async fn unlock(
        &self,
        ino: Ino,
        owner: u64,
        flock: bool,
        range: RangeInclusive<u64>,
    ) -> Result<(), Errno> {
        let (start, last) = (*range.start(), *range.end());
        if !self.locks.holds(ino, owner, flock, range) {
            return Ok(());
        }
        if self.locks.is_shared().await
            && let Some(file) = self.open.get(ino)
        {
            // The flush error is returned by the next fsync(2) or close(2) of each descriptor.
            let _reported = self.flush_file(&file).await;
        }
        self.locks.unlock(ino, owner, flock, start, last).await
    }

    /// Returns a lock that conflicts with `requested`, if there is one. Its `pid` is 0 if another
    /// mount holds it.
    pub async fn conflicting_lock(
        &self,
        ino: Ino,
        requested: &RangeLock,
    ) -> Result<Option<RangeLock>, Errno> {
        self.locks.conflicting(ino, requested).await
    }

    /// Reads an open file again from the volume after a lock on it was granted: another mount may
    /// have written to it before it released the lock. If the kernel does not drop its cached pages
    /// in time, the new data version is not noted as the one of the cache, so that the next open or
    /// lock tries again.
    async fn refresh_under_lock(&self, ino: Ino) {
        if !self.locks.is_shared().await {
            return;
        }
        let Some(file) = self.open.get(ino) else { return };
        // If another session has the claim, the kernel has no pages here, and the next page access
        // refreshes the file.
        if file.maps.is_claimed_elsewhere() {
            return;
        }
        // A flush that runs now may be planned over the old version.
        let flush_lock = file.flush_lock.lock().await;
        let Ok((node, lost_name)) = self.find_open(&file).await else { return };
        if let Some(node) = &node {
            let mut state = file.state.lock().await;
            state.refresh(node);
            state.rebase(node);
        }
        drop(flush_lock);
        let version = node.and_then(|node| node.inode.file().map(|file| file.data_version));
        version.into_iter().for_each(|version| self.locks.note_version(ino, version));
        let changed = version.filter(|version| self.seen_versions.get(&ino) != Some(*version));
        // A program that waited for the lock of a lock file next checks whether the file is still
        // linked. The kernel must not answer that from its cache.
        if (changed.is_some() || lost_name)
            && self.invalidate_cache(ino).await
            && let Some(version) = changed
        {
            self.seen_versions.insert(ino, version);
        }
    }
}
