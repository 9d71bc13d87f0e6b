//! Forks of buckets: a new bucket that holds what another one holds, and shares its blocks.
//!
//! The tree of the other bucket is walked page by page, and each name is made by a plan of its own,
//! several at a time. Nothing is read of blocks and no block is written. Each file is copied as of one
//! instant, which is its own: what is moved to where the walk has been already is missed.
//!
//! What is there at any time is in order. A fork that ends early has made less, nothing half.

pub(super) mod entry;
mod target;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::future::{BoxFuture, Either, FutureExt, select};
use futures::stream::FuturesUnordered;
use namespace::{
    BoundName, CountUsage, DirectoryPage, FindBucket, ForkBucket, ForkedDirectory, FsError,
    ReadDirectoryPage,
};
use record::{Bucket, Content, Ino, InodeBody, Kind, Origin, Xattr, XattrPlace};
use store::Write;

use self::entry::{Fork, ForkedEntry};
use self::target::Target;
use crate::{Volume, VolumeError};

/// Names of a directory that are read in one round trip, with the inodes that they bind.
const NAMES_AT_ONCE: u32 = 128;

/// Names that are under way at a time. One whose content map lies in pages counts once more for each.
const IN_FLIGHT_MAX: usize = 64;

/// Directories below each other that wait to be made before it is waited for them.
const DIRECTORIES_AHEAD_MAX: usize = 16;

/// How often a directory is looked at again because it changed while it was read.
const READ_ATTEMPTS_MAX: u32 = 8;

/// Paths of what was not copied that are told; of more it is told how many there are.
pub const OMITTED_PATHS_MAX: usize = 10;

/// What a fork has made so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forked {
    /// Directories, the bucket's own apart.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Symbolic links and special files.
    pub others: u64,
    /// Further names of something that has several.
    pub links: u64,
    /// What could not be copied: it changed each time that it was tried, or has more extended
    /// attributes than can be copied at once.
    pub omitted: u64,
    /// The first paths of those, [`OMITTED_PATHS_MAX`] at most.
    pub omitted_paths: Vec<String>,
}

/// Is told how far a fork has come.
pub trait ForkWatch: Send + Sync {
    /// The bucket is there. The other one has about so many names of files.
    fn started(&self, names: u64);

    /// So much is made by now.
    fn progress(&self, so_far: &Forked);
}

/// Nobody watches.
impl ForkWatch for () {
    fn started(&self, _: u64) {}

    fn progress(&self, _: &Forked) {}
}

/// A directory of the other bucket that is to be looked into.
#[derive(Debug)]
struct Subdirectory {
    name: Vec<u8>,
    ino: Ino,
    origin: Origin,
}

/// A directory of the other bucket that is being looked into.
#[derive(Debug)]
struct Level {
    source: Ino,
    target: Arc<Target>,
    /// Where the next page of its names begins, if there is one.
    next: Option<Vec<u8>>,
    /// Directories in the page that was read last.
    subdirectories: VecDeque<Subdirectory>,
}

/// A directory of the other bucket as it was found.
#[derive(Debug)]
struct OpenedDirectory {
    /// The directory, and its first names.
    page: DirectoryPage,
    /// The records of its long attributes, as those of the new directory.
    writes: Vec<Write>,
    /// Whether these are all of them.
    is_complete: bool,
}

/// How much of what may be under way a name weight, and what became of it.
type Done = (usize, Result<ForkedEntry, VolumeError>);

/// A fork under way.
struct Walk<'a> {
    volume: &'a Volume,
    fork: Arc<Fork>,
    watch: &'a dyn ForkWatch,
    in_flight: FuturesUnordered<BoxFuture<'a, Done>>,
    /// How much of [`IN_FLIGHT_MAX`] is in_flight_weight.
    in_flight_weight: usize,
    made: Forked,
}

impl Volume {
    /// Makes a bucket that holds what another one holds now, of its account and with its ownership
    /// controls and public access block. It shares the blocks of the other one, and keeps no
    /// versions. Neither locks nor access control lists of objects come along.
    ///
    /// What others make in the new bucket meanwhile stays as they made it.
    ///
    /// # Errors
    /// [`FsError::NoSuchBucket`]; [`FsError::BucketExists`] if there is one of the new name;
    /// [`FsError::KeepsVersions`] if somebody lets the new one keep versions before the end, or removes
    /// it. What was made until an error stays.
    pub async fn fork_bucket(
        &self,
        source: &str,
        target: &str,
        watch: &dyn ForkWatch,
    ) -> Result<Forked, VolumeError> {
        let found = self.session.run(&FindBucket { name: source.as_bytes() }).await?;
        let [ino] = self.fresh().await?;
        let opened = self.open_directory(found.ino, ino).await?.ok_or(FsError::NoSuchBucket)?;
        let settings = Bucket {
            owner: found.settings.owner,
            refuse_overlap: found.settings.refuse_overlap,
            opaque_tags: found.settings.opaque_tags,
            ownership: found.settings.ownership,
            public_access: found.settings.public_access,
            configs_version: 0,
            default_retention: None,
        };
        let operation = ForkBucket {
            name: target.as_bytes(),
            ino,
            settings: &settings,
            like: &opened.page.directory.inode,
            writes: &opened.writes,
        };
        let bucket = self.session.run(&operation).await?;
        // The bucket's own name is counted, too.
        let names = self.session.run(&CountUsage { ino: found.ino }).await?.names;
        watch.started(names.saturating_sub(1));
        let mut walk = Walk {
            volume: self,
            fork: Arc::new(Fork::new(bucket)),
            watch,
            in_flight: FuturesUnordered::new(),
            in_flight_weight: 0,
            made: Forked::default(),
        };
        let target = Target::bucket(ino);
        if !opened.is_complete {
            walk.omit(target.path_of(b""));
        }
        let walked = walk.run(found.ino, target, opened.page).await;
        // What was begun is published or in_flight_weight back.
        while let Some(done) = walk.in_flight.next().await {
            let _known_already = walk.note(done);
        }
        walked.map(|()| walk.made)
    }

    /// Reads a directory, its first names, and its long attributes as those of another one; nothing if
    /// it has gone.
    async fn open_directory(
        &self,
        source: Ino,
        ino: Ino,
    ) -> Result<Option<OpenedDirectory>, VolumeError> {
        let read = ReadDirectoryPage { directory: source, from: None, limit: NAMES_AT_ONCE };
        for _ in 0..READ_ATTEMPTS_MAX {
            let Some(mut page) = if_exists(self.session.run(&read).await)? else { return Ok(None) };
            match self.long_xattrs(source, &page.directory.inode, ino).await {
                Ok(None) => {}
                Ok(Some(writes)) => {
                    return Ok(Some(OpenedDirectory { page, writes, is_complete: true }));
                }
                Err(VolumeError::Refused(_)) => {
                    let is_here = |xattr: &Xattr| matches!(xattr.value, XattrPlace::Inline(_));
                    page.directory.inode.xattrs.retain(is_here);
                    let writes = Vec::new();
                    return Ok(Some(OpenedDirectory { page, writes, is_complete: false }));
                }
                Err(error) => return Err(error),
            }
        }
        Err(FsError::Contended.into())
    }
}

impl Walk<'_> {
    /// Walks all of it, and begins to make what is found.
    async fn run(
        &mut self,
        source: Ino,
        target: Arc<Target>,
        page: DirectoryPage,
    ) -> Result<(), VolumeError> {
        let mut levels = vec![self.open_level(source, target, page).await?];
        while let Some(level) = levels.last_mut() {
            if let Some(below) = level.subdirectories.pop_front() {
                let (source, above) = (level.source, Arc::clone(&level.target));
                levels.extend(self.enter(source, &above, below).await?);
            } else if let Some(from) = level.next.take() {
                let from = Some(from.as_slice());
                let read =
                    ReadDirectoryPage { directory: level.source, from, limit: NAMES_AT_ONCE };
                let page = self.while_progressing(self.volume.session.run(&read)).await?;
                if let Some(page) = if_exists(page)? {
                    let target = Arc::clone(&level.target);
                    *level = self.open_level(level.source, target, page).await?;
                }
            } else {
                levels.pop();
            }
        }
        while let Some(done) = self.in_flight.next().await {
            self.note(done)?;
        }
        Ok(())
    }

    /// Begins to look into a directory that was found in another one, if it still is there.
    async fn enter(
        &mut self,
        source: Ino,
        above: &Arc<Target>,
        below: Subdirectory,
    ) -> Result<Option<Level>, VolumeError> {
        let volume = self.volume;
        let [ino] = volume.fresh().await?;
        let opened = self.while_progressing(volume.open_directory(below.ino, ino)).await??;
        let Some(OpenedDirectory { page, writes, is_complete }) = opened else { return Ok(None) };
        let inode = page.directory.inode.clone();
        let is_here = matches!(&inode.body, InodeBody::Directory(directory)
            if directory.parent == source && directory.name == below.name);
        if !is_here {
            return Ok(None);
        }
        let Subdirectory { name, origin, ino: source } = below;
        let is_heavy = !writes.is_empty();
        let target = Target::below(above, ForkedDirectory { name, ino, origin, inode, writes });
        if !is_complete {
            self.omit(target.path_of(b""));
        }
        // One that a key implied comes with what is in it.
        if origin == Origin::Made {
            let (fork, made) = (Arc::clone(&self.fork), Arc::clone(&target));
            let making = async move { volume.fork_directory(&fork, &made).await };
            if is_heavy || target.missing_directories().1.len() >= DIRECTORIES_AHEAD_MAX {
                let made = self.while_progressing(making).await?;
                self.count(made?);
            } else {
                self.start(1, making.boxed()).await?;
            }
        }
        self.open_level(source, target, page).await.map(Some)
    }

    /// Begins to make what names bind, and weight note of directories.
    async fn open_level(
        &mut self,
        source: Ino,
        target: Arc<Target>,
        page: DirectoryPage,
    ) -> Result<Level, VolumeError> {
        let mut subdirectories = VecDeque::new();
        for found in page.names {
            let BoundName { dentry, .. } = &found;
            if dentry.kind == Kind::Directory {
                let name = found.sort_key();
                let name = name.strip_suffix(b"/").unwrap_or(name).to_vec();
                subdirectories.push_back(Subdirectory {
                    name,
                    ino: dentry.ino,
                    origin: dentry.origin,
                });
                continue;
            }
            let Some(inode) = entry::decode(&found)? else {
                self.omit(target.path_of(found.sort_key()));
                continue;
            };
            let pages = match inode.file().map(|file| &file.content) {
                Some(Content::Pages(pages)) => pages.len(),
                _ => 0,
            };
            let (volume, links) = (self.volume, inode.links());
            let (fork, target) = (Arc::clone(&self.fork), Arc::clone(&target));
            let copying = async move { volume.fork_name(&fork, &target, found, links).await };
            self.start(pages.saturating_add(1).min(IN_FLIGHT_MAX), copying.boxed()).await?;
        }
        Ok(Level { source, target, next: page.next, subdirectories })
    }
}

impl<'a> Walk<'a> {
    /// Begins something as soon as there is room for it.
    async fn start(
        &mut self,
        weight: usize,
        begun: BoxFuture<'a, Result<ForkedEntry, VolumeError>>,
    ) -> Result<(), VolumeError> {
        while self.in_flight_weight + weight > IN_FLIGHT_MAX {
            let Some(done) = self.in_flight.next().await else { break };
            self.note(done)?;
        }
        self.in_flight_weight += weight;
        self.in_flight.push(begun.map(move |named| (weight, named)).boxed());
        Ok(())
    }

    /// Waits for something while what is under way goes on.
    async fn while_progressing<T>(
        &mut self,
        awaited: impl Future<Output = T>,
    ) -> Result<T, VolumeError> {
        let mut awaited = pin!(awaited);
        while !self.in_flight.is_empty() {
            match select(&mut awaited, self.in_flight.next()).await {
                Either::Left((outcome, _)) => return Ok(outcome),
                Either::Right((Some(done), _)) => self.note(done)?,
                Either::Right((None, _)) => {}
            }
        }
        Ok(awaited.await)
    }

    /// Counts what has come to its end.
    fn note(&mut self, (weight, named): Done) -> Result<(), VolumeError> {
        self.in_flight_weight -= weight;
        self.count(named?);
        Ok(())
    }

    fn count(&mut self, named: ForkedEntry) {
        match named {
            ForkedEntry::Directory | ForkedEntry::Skipped => {}
            ForkedEntry::File(bytes) => {
                self.made.files += 1;
                self.made.bytes += bytes;
            }
            ForkedEntry::Other => self.made.others += 1,
            ForkedEntry::Link => self.made.links += 1,
            ForkedEntry::Omitted(path) => self.omit(path),
        }
        self.made.directories = self.fork.directories.load(Ordering::Relaxed);
        self.watch.progress(&self.made);
    }

    fn omit(&mut self, path: String) {
        self.made.omitted += 1;
        if self.made.omitted_paths.len() < OMITTED_PATHS_MAX {
            self.made.omitted_paths.push(path);
        }
    }
}

/// What was read of a directory, if it is there.
fn if_exists<T>(read: Result<T, VolumeError>) -> Result<Option<T>, VolumeError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(VolumeError::Fs(FsError::Stale | FsError::NotADirectory)) => Ok(None),
        Err(error) => Err(error),
    }
}
