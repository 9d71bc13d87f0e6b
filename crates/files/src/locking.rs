//! What locks mean for the bytes under them.
//!
//! Programs of several mounts that take turns by locks find what the others have written: before a lock
//! that other mounts may get next is let go of, what was written here becomes the file's content, and
//! who has got one looks at the file as it is now.

use std::ops::RangeInclusive;

use record::{Ino, RangeLock};
use rustix::io::Errno;

use crate::files::Files;

impl Files {
    /// Takes a lock, or fails with EAGAIN.
    pub async fn try_lock(&self, ino: Ino, asked: RangeLock) -> Result<(), Errno> {
        self.locks.try_lock(ino, asked).await?;
        self.refresh_under_lock(ino).await;
        Ok(())
    }

    /// Takes a lock when it can be had. Dropped before, leaves no trace.
    ///
    /// # Errors
    /// `EDEADLK` if programs of this mount would wait for each other in a circle, for locks of ranges.
    pub async fn lock(&self, ino: Ino, asked: RangeLock) -> Result<(), Errno> {
        let granted = self.locks.lock(ino, asked).await?;
        self.refresh_under_lock(ino).await;
        granted.keep();
        Ok(())
    }

    /// Lets an owner go of a range of a file. Costs nothing where it holds none of it.
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
            // Whoever has the file open is told of a failure.
            let _reported = self.flush_file(&file).await;
        }
        self.locks.unlock(ino, owner, flock, start, last).await
    }

    /// The lock that is in the way of another one. One of another mount has no process.
    pub async fn conflicting_lock(
        &self,
        ino: Ino,
        asked: &RangeLock,
    ) -> Result<Option<RangeLock>, Errno> {
        self.locks.conflicting(ino, asked).await
    }

    /// Looks at an open file as it is now, if others may have written to it before they let go of a
    /// lock, and has what a program's machine remembers of another version forgotten. If that was not
    /// heeded, the next open or lock sees to it.
    async fn refresh_under_lock(&self, ino: Ino) {
        if !self.locks.is_shared().await {
            return;
        }
        let Some(file) = self.open.get(ino) else { return };
        // If another session has the pages, the kernel has none here, and the next page looks.
        if file.maps.is_claimed_elsewhere() {
            return;
        }
        // What is on its way to the volume may be planned over what the file was before.
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
        // A program that waited for the lock of a lock file looks next whether the file still has a
        // name. It must not be answered from what its machine remembers.
        if (changed.is_some() || lost_name)
            && self.invalidate_cache(ino).await
            && let Some(version) = changed
        {
            self.seen_versions.insert(ino, version);
        }
    }
}
