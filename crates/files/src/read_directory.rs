//! Reading directories: opendir, readdir, closedir.
//!
//! For example, `ls` of a directory with 2,500 names reads three pages of up to [`PAGE_NAMES`]
//! names.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use record::{Ino, InodeBody, Kind};
use rustix::io::Errno;
use volume::{CacheValidity, ListedName, NodeName};

use crate::attributes::{NodeKind, NodeStat};
use crate::directories::{Cursor, DirectoryEntry, Page, Pages};
use crate::files::Files;
use crate::open::HandleId;

/// The number of names that are read from the volume at once, as one page of a directory.
const PAGE_NAMES: u32 = 1_000;

/// The maximum number of pages of a directory whose first names a handle remembers. By them, a
/// program can go back to an earlier position.
const PAGES_MAX: usize = 4_096;

/// The time for which an open of the root directory waits for stores that do not answer. After it,
/// the open succeeds, and reading names waits.
const ROOT_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of positions in a directory that `.` and `..` take, before its names.
const DOTS: u64 = 2;

impl Files {
    /// Opens a directory for reading. Returns the number of the new handle. Fails with `ENOTDIR`
    /// for other nodes.
    pub async fn open_directory(&self, ino: Ino) -> Result<HandleId, Errno> {
        let parent = self.parent_of_opened(ino).await?;
        let cursor = Cursor { ino, parent, pages: tokio::sync::Mutex::default() };
        let handle = {
            let mut cursors =
                self.directories.cursors.lock().unwrap_or_else(PoisonError::into_inner);
            cursors.0 += 1;
            let handle = cursors.0;
            cursors.1.insert(handle, Arc::new(cursor));
            HandleId(handle)
        };
        let kept = self.keep_handle(handle, ino, true);
        kept.inspect_err(|_| self.release_directory(handle))?;
        Ok(handle)
    }

    /// Finds a directory for an open. Returns its parent; the root is its own parent.
    async fn parent_of_opened(&self, ino: Ino) -> Result<Ino, Errno> {
        let is_root = ino == self.options.root;
        let finding = self.retry_until_deadline(|| self.volume.find_node(ino));
        let node = if is_root {
            // df(1) opens the root of each mount, and must not wait for stores that do not answer.
            // Reading names of it waits then.
            match tokio::time::timeout(ROOT_TIMEOUT, finding).await {
                Ok(found) => found?,
                Err(_elapsed) => return Ok(ino),
            }
        } else {
            match finding.await {
                Err(Errno::STALE) if self.seen_directories.removed(ino).is_some() => {
                    return Ok(ino);
                }
                found => found?,
            }
        };
        self.remember_directory(&node);
        let InodeBody::Directory(directory) = &node.inode.body else {
            return Err(Errno::NOTDIR);
        };
        // Reading counts from the open on, since the kernel may answer the reads from its cache.
        self.note_read(&node);
        Ok(if is_root { ino } else { directory.parent })
    }

    /// Closes a handle of a directory.
    pub fn release_directory(&self, handle: HandleId) {
        self.end_handle(handle);
        let mut cursors = self.directories.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.1.remove(&handle.0);
    }

    /// Reads entries of an open directory from a position on, and passes each to `take`, until
    /// `take` returns false. Passes none at the end of the directory, and not always all that
    /// remain. `with_attributes` is true if the program is expected to ask for the attributes of
    /// the entries next.
    pub async fn read_directory(
        &self,
        handle: HandleId,
        position: u64,
        with_attributes: bool,
        mut take: impl FnMut(&DirectoryEntry) -> bool,
    ) -> Result<(), Errno> {
        let cursor = {
            let cursors = self.directories.cursors.lock().unwrap_or_else(PoisonError::into_inner);
            cursors.1.get(&handle.0).cloned().ok_or(Errno::BADF)?
        };
        if position < DOTS {
            let dots = [(&b"."[..], cursor.ino), (b"..", cursor.parent)];
            for ((name, ino), next) in dots.into_iter().zip(1..).skip(usize::from(position == 1)) {
                let (name, kind) = (name.into(), NodeKind::Directory);
                let cache_validity = CacheValidity::default();
                if !take(&DirectoryEntry {
                    name,
                    ino,
                    kind,
                    next,
                    attributes: None,
                    cache_validity,
                }) {
                    return Ok(());
                }
            }
        }
        let mut pages = cursor.pages.lock().await;
        let wanted = position.max(DOTS);
        if position == 0 {
            // A program that reads from the beginning sees the present names.
            *pages = Pages::default();
        }
        self.seek_page(&cursor, &mut pages, wanted, with_attributes).await?;
        let Some(page) = &pages.page else { return Ok(()) };
        let skip = usize::try_from(wanted - page.position).unwrap_or(usize::MAX);
        // The page may have been read for an earlier reply, so its validity is shorter now.
        let cache_validity = self.volume.validity_if_unchanged(page.cache_validity);
        for (listed, at) in page.names.iter().zip(page.position..).skip(skip) {
            if !take(&self.entry(&cursor, listed, at + 1, cache_validity)) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the entry for a name that was read. `next` is the position after it.
    fn entry(
        &self,
        cursor: &Cursor,
        listed: &ListedName,
        next: u64,
        cache_validity: CacheValidity,
    ) -> DirectoryEntry {
        let (name, ino) = (listed.name.clone(), listed.ino);
        let attributes = listed.inode.as_ref().map(|head| NodeStat::of_head(ino, head));
        let kind = match (&attributes, listed.kind) {
            (Some(attributes), _) => attributes.kind,
            (None, Kind::Directory) => NodeKind::Directory,
            (None, Kind::Symlink) => NodeKind::Symlink,
            (None, Kind::File | Kind::Special) => NodeKind::File,
        };
        // The head of an inode has no times and links of a directory, and the record of an open
        // file has no dirty data.
        let attributes =
            attributes.filter(|_| listed.kind != Kind::Directory && self.open.get(ino).is_none());
        let attributes = attributes.map(|attributes| self.with_access_time(attributes));
        if attributes.is_some() {
            self.names.insert(ino, &NodeName { directory: cursor.ino, name: name.clone() });
        }
        DirectoryEntry { name, ino, kind, next, attributes, cache_validity }
    }

    /// Reads pages until the current one contains the position `wanted`. Sets no page if the
    /// directory ends before that position.
    async fn seek_page(
        &self,
        cursor: &Cursor,
        pages: &mut Pages,
        wanted: u64,
        with_attributes: bool,
    ) -> Result<(), Errno> {
        loop {
            let (position, from) = match &pages.page {
                Some(page) if page.position <= wanted && wanted < page.end() => return Ok(()),
                Some(page) if page.position <= wanted => match &page.next {
                    Some(next) => (page.end(), Some(next.clone())),
                    None => {
                        pages.page = None;
                        return Ok(());
                    }
                },
                _ => {
                    let known = pages.beginnings.range(..=wanted).next_back();
                    known.map_or((DOTS, None), |(at, from)| (*at, from.clone()))
                }
            };
            let cache_validity = self.cache_validity();
            let listed = self
                .retry_until_deadline(|| {
                    let from = from.as_deref();
                    self.volume.read_names(cursor.ino, from, PAGE_NAMES, with_attributes)
                })
                .await;
            let listed = match listed {
                Err(Errno::STALE) if self.seen_directories.removed(cursor.ino).is_some() => {
                    // A removed directory has no names.
                    pages.page = None;
                    return Ok(());
                }
                listed => listed?,
            };
            // Beyond the limit, going back reads from the last known beginning.
            if pages.beginnings.len() < PAGES_MAX {
                pages.beginnings.insert(position, from);
            }
            pages.page =
                Some(Page { position, cache_validity, names: listed.names, next: listed.next });
        }
    }
}
