//! The trash of a bucket: listing, restoring and deleting its items.
//!
//! A key's object that is deleted or replaced becomes an item of the trash. For example, a client
//! deletes `a`, and an operator restores it three days later with [`Volume::restore`].

use std::time::Duration;

use futures::StreamExt as _;
use namespace::{
    Exempt, FsError, ITEMS_SEEN_MAX, ListedVersion, MarkTrashSeen, NamedBucket, NoncurrentKind,
    Path, ReadVersions, Restore, VersionsFrom,
};
use record::{Timestamp, VersionRef, VersionStamp};

use crate::{Volume, VolumeError};

/// Items that one round trip lists.
const PAGE_ENTRIES: u32 = 1_000;

/// Items that are removed concurrently.
const REMOVED_AT_ONCE: usize = 16;

/// An item of a bucket's trash: an object that was deleted or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// The id of the item among those of its key, which gives their order.
    pub id: VersionStamp,
    /// The time at which the object was deleted or replaced, by the clock of the writer.
    pub since: Timestamp,
    /// The time at which a lifecycle pass (the task that deletes expired items) first saw it, by
    /// the clock of that gateway; `None` if no pass has.
    pub seen: Option<Timestamp>,
    /// The size of the item in bytes.
    pub bytes: u64,
}

impl Volume {
    /// Returns a page of the items of the trash, for keys that begin with `prefix`, after the item
    /// `after`: by key, the newest item of each key first. Empty at the end, or if the bucket has
    /// no trash.
    pub async fn trash(
        &self,
        bucket: NamedBucket<'_>,
        prefix: &[u8],
        after: Option<(Vec<u8>, VersionStamp)>,
    ) -> Result<Vec<(Vec<u8>, Trashed)>, VolumeError> {
        let from = match after {
            Some((key, id)) => VersionsFrom::Version(key, VersionRef::Id(id)),
            None => VersionsFrom::Key(prefix.to_vec()),
        };
        let (from, limit, kind) = (&from, PAGE_ENTRIES, NoncurrentKind::Trash);
        let page = self.session.run(&ReadVersions { bucket, prefix, from, limit, kind }).await?;
        let trashed = |version: ListedVersion| {
            let bytes = version.inode.as_ref().map_or(0, |inode| crate::size_and_tag(inode).0);
            let ListedVersion { object, id, since, seen, .. } = version;
            (object, Trashed { id, since, seen, bytes })
        };
        Ok(page.versions.into_iter().map(trashed).collect())
    }

    /// Restores an item of the trash under its key. If the key has an object and `replaces` is
    /// true, that object goes to the trash; if `replaces` is false, the call fails with
    /// `NameExists`.
    ///
    /// # Errors
    /// [`FsError::HasNoTrash`], [`FsError::NoSuchVersion`], [`FsError::NameExists`],
    /// [`FsError::QuotaExceeded`].
    pub async fn restore(
        &self,
        bucket: NamedBucket<'_>,
        key: &[u8],
        id: VersionStamp,
        replaces: bool,
    ) -> Result<(), VolumeError> {
        let path = &Path::new(bucket, key);
        let fresh = &self.session.allocate_inodes(path.directories.len()).await?;
        self.session.run(&Restore { path, version: id, fresh, replaces }).await
    }

    /// Deletes the items of keys that begin with `prefix`, if the objects were deleted or replaced
    /// before `until`. Returns the number of deleted items. An item that is restored in the
    /// meantime stays.
    pub async fn empty_trash(
        &self,
        bucket: NamedBucket<'_>,
        prefix: &[u8],
        until: Timestamp,
    ) -> Result<u64, VolumeError> {
        let (mut after, mut removed) = (None, 0);
        loop {
            let page = self.trash(bucket, prefix, after).await?;
            let is_last = page.len() < PAGE_ENTRIES as usize;
            after = page.last().map(|(key, trashed)| (key.clone(), trashed.id));
            let due = page.into_iter().filter(|(_, trashed)| trashed.since < until).collect();
            removed += self.remove_trashed(bucket, due).await?;
            if is_last {
                return Ok(removed);
            }
        }
    }

    /// Deletes the items that have been in the trash for longer than `stays`, and marks those that
    /// no pass has seen before as seen at `now`, the time of this pass. Returns the number of
    /// deleted items.
    ///
    /// The time at which an object was deleted or replaced is the writer's, whose clock may be
    /// wrong. So an item counts as lost when a pass first saw it, or earlier by at most `day`, the
    /// time between two passes. No item is deleted by the first pass that sees it.
    ///
    /// If the metadata store is full, items stay unmarked until a later pass, and due items are
    /// deleted all the same, because that frees space.
    pub async fn expire_trash(
        &self,
        bucket: NamedBucket<'_>,
        (stays, day): (Duration, Duration),
        now: Timestamp,
    ) -> Result<u64, VolumeError> {
        let (mut after, mut removed, mut is_full) = (None, 0, false);
        let [stays, day] =
            [stays, day].map(|time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        loop {
            let page = self.trash(bucket, b"", after).await?;
            let is_last = page.len() < PAGE_ENTRIES as usize;
            after = page.last().map(|(key, trashed)| (key.clone(), trashed.id));
            let (mut due, mut new) = (Vec::new(), Vec::new());
            for (key, item) in page {
                // An item that was seen in the future was seen by a gateway with a wrong clock, and
                // is seen anew.
                match item.seen.filter(|seen| *seen <= now) {
                    None => new.push((key, item.id)),
                    Some(seen) if item.lost(seen, day, now).0.saturating_add(stays) < now.0 => {
                        due.push((key, item));
                    }
                    Some(_) => {}
                }
            }
            // Before the marks, which need space in the store.
            removed += self.remove_trashed(bucket, due).await?;
            for items in new.chunks(ITEMS_SEEN_MAX) {
                if is_full {
                    break;
                }
                match self.session.run(&MarkTrashSeen { bucket, items, at: now }).await {
                    Ok(()) => {}
                    Err(VolumeError::Full(_)) => is_full = true,
                    Err(error) => return Err(error),
                }
            }
            if is_last {
                return Ok(removed);
            }
        }
    }

    /// Deletes items of the trash. Returns the number of those that were still there.
    async fn remove_trashed(
        &self,
        bucket: NamedBucket<'_>,
        items: Vec<(Vec<u8>, Trashed)>,
    ) -> Result<u64, VolumeError> {
        let remove = async |(key, trashed): (Vec<u8>, Trashed)| {
            let id = VersionRef::Id(trashed.id);
            match self.delete_version_sparing(bucket, &key, id, Exempt::Current).await {
                Ok(done) => Ok(u64::from(done.existed)),
                Err(VolumeError::Fs(FsError::NoSuchVersion)) => Ok(0),
                Err(error) => Err(error),
            }
        };
        let mut removed = 0;
        let mut removals =
            futures::stream::iter(items).map(remove).buffer_unordered(REMOVED_AT_ONCE);
        while let Some(done) = removals.next().await {
            removed += done?;
        }
        Ok(removed)
    }
}

impl Trashed {
    /// Returns the time from which an item's days in the trash count, if a pass first saw it at
    /// `seen`, and the time is `now`. That is the writer's time, but not earlier than `seen` by
    /// more than `day` nanoseconds.
    ///
    /// If the writer's time is later than `seen`, one of the two clocks is wrong: that of the
    /// writer was fast, or that of the gateway which saw the item was slow. The later time counts,
    /// so that a slow clock ends no item's days early. A time that is still to come was certainly
    /// wrong.
    fn lost(&self, seen: Timestamp, day: i64, now: Timestamp) -> Timestamp {
        let written = if self.since <= now { self.since } else { seen };
        written.max(Timestamp(seen.0.saturating_sub(day)))
    }
}
