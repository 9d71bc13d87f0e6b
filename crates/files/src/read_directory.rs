//! Reading directories.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use record::{Ino, InodeBody, Kind};
use rustix::io::Errno;
use volume::{CacheValidity, ListedName, NodeName};

use crate::attributes::{NodeKind, NodeStat};
use crate::directories::{Cursor, DirectoryEntry, Page, Pages};
use crate::files::Files;
use crate::open::HandleId;

/// Names that one page reads.
const PAGE_NAMES: u32 = 1_000;

/// Pages whose beginnings a handle remembers.
const PAGES_MAX: usize = 4_096;

/// How long an open of the root waits for stores that do not answer.
const ROOT_TIMEOUT: Duration = Duration::from_secs(1);

/// Positions of `.` and `..`.
const DOTS: u64 = 2;

impl Files {
    /// Opens a directory for reading its names.
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

    /// Finds a directory that is to be opened. Returns the one that it is in; the root is in itself.
    async fn parent_of_opened(&self, ino: Ino) -> Result<Ino, Errno> {
        let is_root = ino == self.options.root;
        let finding = self.retry_until_deadline(|| self.volume.find_node(ino));
        let node = if is_root {
            // df(1) opens the root of a mount, and is not to wait for stores that do not answer. Whatever
            // reads names of it waits then.
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
        // A reader reads it when it opens one.
        self.note_read(&node);
        Ok(if is_root { ino } else { directory.parent })
    }

    /// Ends a handle of a directory.
    pub fn release_directory(&self, handle: HandleId) {
        self.end_handle(handle);
        let mut cursors = self.directories.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.1.remove(&handle.0);
    }

    /// Gives entries of a directory from a position on, until `take` wants no more: none at its end,
    /// and not always all that are left.
    pub async fn read_directory(
        &self,
        handle: HandleId,
        position: u64,
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
            // Whoever begins anew sees what is there now.
            *pages = Pages::default();
        }
        self.turn_to(&cursor, &mut pages, wanted).await?;
        let Some(page) = &pages.page else { return Ok(()) };
        let skip = usize::try_from(wanted - page.position).unwrap_or(usize::MAX);
        // It may have been read for an answer before this one.
        let cache_validity = self.volume.validity_if_unchanged(page.cache_validity);
        for (listed, at) in page.names.iter().zip(page.position..).skip(skip) {
            if !take(&self.entry(&cursor, listed, at + 1, cache_validity)) {
                break;
            }
        }
        Ok(())
    }

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
        // A directory's times and links are not in its head, and neither is what was written to
        // a file that is open.
        let attributes =
            attributes.filter(|_| listed.kind != Kind::Directory && self.open.get(ino).is_none());
        let attributes = attributes.map(|attributes| self.with_access_time(attributes));
        if attributes.is_some() {
            self.names.insert(ino, &NodeName { directory: cursor.ino, name: name.clone() });
        }
        DirectoryEntry { name, ino, kind, next, attributes, cache_validity }
    }

    /// Makes the page with a position the current one, or the last if there is none.
    async fn turn_to(&self, cursor: &Cursor, pages: &mut Pages, wanted: u64) -> Result<(), Errno> {
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
                    self.volume.read_names(cursor.ino, from.as_deref(), PAGE_NAMES)
                })
                .await;
            let listed = match listed {
                Err(Errno::STALE) if self.seen_directories.removed(cursor.ino).is_some() => {
                    // It has no names any more.
                    pages.page = None;
                    return Ok(());
                }
                listed => listed?,
            };
            if pages.beginnings.len() < PAGES_MAX {
                pages.beginnings.insert(position, from);
            }
            pages.page =
                Some(Page { position, cache_validity, names: listed.names, next: listed.next });
        }
    }
}
