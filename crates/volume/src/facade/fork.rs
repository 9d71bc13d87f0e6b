//! Forks of buckets: a new bucket with the content of another one, which shares its blocks.
//!
//! The walker, the task that runs the fork, reads the source's tree page by page, and starts one
//! plan for each name, several at a time. No block is read or written. Each file is copied as of
//! one instant, but the instants differ: a file that is moved to a directory behind the walker is
//! missed.
//!
//! The new bucket is consistent at any time. A fork that fails halfway has made fewer files, and
//! none of them is incomplete. For example, after 10,000 of 30,000 files the new bucket has 10,000
//! complete files.

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
    BoundName, CountUsage, DirectoryPage, FindBucketConfigs, ForkBucket, ForkedDirectory, FsError,
    NamedBucket, ReadDirectoryPage,
};
use record::{Bucket, BucketConfigKind, Content, Ino, InodeBody, Kind, Origin, Xattr, XattrPlace};
use store::Write;

use self::entry::{Fork, ForkedEntry};
use self::target::Target;
use crate::{Volume, VolumeError};

/// Names of a directory of the source that one round trip reads, with their inodes.
const NAMES_AT_ONCE: u32 = 128;

/// Most names whose copies are in flight. A file whose content map is in pages counts one more for
/// each page.
const IN_FLIGHT_MAX: usize = 64;

/// Most nested new directories that may be missing while the walker goes on. With more, it waits
/// for their creation, because one plan would have to create too many.
const DIRECTORIES_AHEAD_MAX: usize = 16;

/// Tries to read a directory whose attributes change while it is read. Then the fork fails with
/// `Contended`.
const READ_ATTEMPTS_MAX: u32 = 8;

/// Most paths in [`Forked::omitted_paths`]. Further entries that could not be copied are only
/// counted.
pub const OMITTED_PATHS_MAX: usize = 10;

/// The progress or the result of a fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forked {
    /// The number of directories that the fork has created, without the bucket's own.
    pub directories: u64,
    /// The number of files that the fork has created.
    pub files: u64,
    /// The bytes of the files that the fork has created.
    pub bytes: u64,
    /// The number of symbolic links and special files that the fork has created.
    pub others: u64,
    /// The number of further hard links that the fork has created for files that have several.
    pub links: u64,
    /// The number of entries that could not be copied: they changed at each try, or have more
    /// extended attributes than one plan carries.
    pub omitted: u64,
    /// The first paths of the entries that could not be copied, at most [`OMITTED_PATHS_MAX`].
    pub omitted_paths: Vec<String>,
}

/// Receives the progress of a fork, for example to print it.
pub trait ForkWatch: Send + Sync {
    /// The new bucket exists, and the copies begin. The source has about `names` names of files.
    fn started(&self, names: u64);

    /// Called with the progress after each entry.
    fn progress(&self, so_far: &Forked);
}

/// Ignores the progress.
impl ForkWatch for () {
    fn started(&self, _: u64) {}

    fn progress(&self, _: &Forked) {}
}

/// A directory of the source whose names the walker has not read yet.
#[derive(Debug)]
struct Subdirectory {
    name: Vec<u8>,
    ino: Ino,
    origin: Origin,
}

/// A directory of the source whose names the walker is reading. The levels of the walker are the
/// directories on its path.
#[derive(Debug)]
struct Level {
    source: Ino,
    target: Arc<Target>,
    /// The beginning of the next page of names, if there is one.
    next: Option<Vec<u8>>,
    /// The directories in the last page.
    subdirectories: VecDeque<Subdirectory>,
}

/// A directory of the source as it was read.
#[derive(Debug)]
struct OpenedDirectory {
    /// The directory and its first names.
    page: DirectoryPage,
    /// The records of its long extended attributes, under the new inode number.
    writes: Vec<Write>,
    /// False if the directory has more extended attributes than one plan carries.
    is_complete: bool,
}

/// A copy that has ended: its weight in the count of copies in flight, and its result.
type Done = (usize, Result<ForkedEntry, VolumeError>);

/// The walker of a fork.
struct Walk<'a> {
    volume: &'a Volume,
    fork: Arc<Fork>,
    watch: &'a dyn ForkWatch,
    /// The copies that are in flight.
    in_flight: FuturesUnordered<BoxFuture<'a, Done>>,
    /// The sum of the weights in flight, at most [`IN_FLIGHT_MAX`].
    in_flight_weight: usize,
    /// The progress of the fork so far.
    made: Forked,
}

impl Volume {
    /// Creates a bucket with the current content of `source`, with the same account, ownership
    /// controls, public access block and default encryption. The new bucket shares the source's
    /// blocks and keeps no versions. Object locks and access control lists are not copied.
    ///
    /// Entries that other clients create in the new bucket in the meantime stay as they are.
    ///
    /// # Errors
    /// [`FsError::NoSuchBucket`]; [`FsError::BucketExists`] if the name of the new bucket exists;
    /// [`FsError::KeepsVersions`] if another client turns versioning of the new bucket on before
    /// the end, or removes the bucket. After an error the entries that were made stay.
    pub async fn fork_bucket(
        &self,
        source: impl Into<NamedBucket<'_>>,
        target: &str,
        watch: &dyn ForkWatch,
    ) -> Result<Forked, VolumeError> {
        let source = source.into();
        // The source is found first: a fork of a missing bucket must not create the new one.
        let found = self.session.run(&FindBucketConfigs { name: source.name }).await?;
        if source.ino.is_some_and(|ino| ino != found.ino) {
            return Err(FsError::NoSuchBucket.into());
        }
        let [ino] = self.fresh().await?;
        let opened = self.open_directory(found.ino, ino).await?.ok_or(FsError::NoSuchBucket)?;
        // Of the configurations only that of encryption is copied. Others, such as lifecycle rules,
        // are not.
        let mut configs = found.configs;
        configs.retain(|(kind, _)| *kind == BucketConfigKind::Encryption);
        let settings = Bucket {
            owner: found.settings.owner,
            opaque_tags: found.settings.opaque_tags,
            ownership: found.settings.ownership,
            public_access: found.settings.public_access,
            // Gateways read the configurations of a bucket only if it has had some.
            configs_version: u64::from(!configs.is_empty()),
            default_retention: None,
            default_encryption: found.settings.default_encryption,
        };
        let operation = ForkBucket {
            name: target.as_bytes(),
            ino,
            settings: &settings,
            configs: &configs,
            like: &opened.page.directory.inode,
            writes: &opened.writes,
        };
        let bucket = self.session.run(&operation).await?;
        // The counter includes the bucket's own name.
        let names = self.session.run(&CountUsage { ino: found.ino }).await?.names;
        // The number of names is an estimate, since others may write during the fork.
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
        // Each entry in flight is published or taken back before the result is returned.
        while let Some(done) = walk.in_flight.next().await {
            let _known_already = walk.note(done);
        }
        walked.map(|()| walk.made)
    }

    /// Reads a directory of the source, its first names, and its long extended attributes (those
    /// with a record of their own), as records of the new inode `ino`. Returns `None` if the
    /// directory was removed.
    async fn open_directory(
        &self,
        source: Ino,
        ino: Ino,
    ) -> Result<Option<OpenedDirectory>, VolumeError> {
        let read = ReadDirectoryPage { directory: source, from: None, limit: NAMES_AT_ONCE };
        for _ in 0..READ_ATTEMPTS_MAX {
            let Some(mut page) = if_exists(self.session.run(&read).await)? else { return Ok(None) };
            match self.long_xattrs(source, &page.directory.inode, ino).await {
                // An attribute is missing: the directory has changed between the two reads.
                Ok(None) => {}
                Ok(Some(writes)) => {
                    return Ok(Some(OpenedDirectory { page, writes, is_complete: true }));
                }
                Err(VolumeError::Refused(_)) => {
                    // Short attributes are in the inode and can be copied. The long ones are
                    // omitted, and the report shows it.
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
    /// Walks the whole tree and starts the copies of all entries.
    async fn run(
        &mut self,
        source: Ino,
        target: Arc<Target>,
        page: DirectoryPage,
    ) -> Result<(), VolumeError> {
        let mut levels = vec![self.open_level(source, target, page).await?];
        while let Some(level) = levels.last_mut() {
            // Depth first, so that only one path of open directories is in memory.
            if let Some(below) = level.subdirectories.pop_front() {
                let (source, above) = (level.source, Arc::clone(&level.target));
                levels.extend(self.enter(source, &above, below).await?);
            } else if let Some(from) = level.next.take() {
                let from = Some(from.as_slice());
                let read =
                    ReadDirectoryPage { directory: level.source, from, limit: NAMES_AT_ONCE };
                // Copies in flight go on during the read.
                let page = self.while_progressing(self.volume.session.run(&read)).await?;
                if let Some(page) = if_exists(page)? {
                    let target = Arc::clone(&level.target);
                    *level = self.open_level(level.source, target, page).await?;
                }
            } else {
                levels.pop();
            }
        }
        // The walk has ended, and the last copies are awaited.
        while let Some(done) = self.in_flight.next().await {
            self.note(done)?;
        }
        Ok(())
    }

    /// Opens a directory that was found in another one, and creates or plans its copy below
    /// `above`. Returns `None` if it is not in its place any more.
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
        // The directory may have been moved after its name was read. At its new place the walker
        // finds it by its new name, or misses it.
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
        // A directory that exists only because of a key below it is created with its first entry.
        if origin == Origin::Made {
            let (fork, made) = (Arc::clone(&self.fork), Arc::clone(&target));
            let making = async move { volume.fork_directory(&fork, &made).await };
            // Its creation is awaited if it has many attributes, or if too many parents would have
            // to be created in one plan.
            if is_heavy || target.missing_directories().1.len() >= DIRECTORIES_AHEAD_MAX {
                let made = self.while_progressing(making).await?;
                self.count(made?);
            } else {
                self.start(1, making.boxed()).await?;
            }
        }
        self.open_level(source, target, page).await.map(Some)
    }

    /// Starts the copies of a page's files, and collects its directories.
    async fn open_level(
        &mut self,
        source: Ino,
        target: Arc<Target>,
        page: DirectoryPage,
    ) -> Result<Level, VolumeError> {
        let mut subdirectories = VecDeque::new();
        // Directories are visited after the page's files, so that the page need not be kept in
        // memory.
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
            // A name without an inode is damage. It is omitted, and the rest of the bucket is
            // copied.
            let Some(inode) = entry::decode(&found)? else {
                self.omit(target.path_of(found.sort_key()));
                continue;
            };
            // Copying a file in pages writes its whole map, so it counts for more.
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
    /// Starts a copy, which counts `weight` against `IN_FLIGHT_MAX`. First waits for others to end
    /// if too many are in flight.
    async fn start(
        &mut self,
        weight: usize,
        begun: BoxFuture<'a, Result<ForkedEntry, VolumeError>>,
    ) -> Result<(), VolumeError> {
        // The weight of one entry is at most the limit, so it starts at the latest when all others
        // have ended.
        while self.in_flight_weight + weight > IN_FLIGHT_MAX {
            let Some(done) = self.in_flight.next().await else { break };
            self.note(done)?;
        }
        self.in_flight_weight += weight;
        self.in_flight.push(begun.map(move |named| (weight, named)).boxed());
        Ok(())
    }

    /// Waits for `awaited` while the copies in flight go on.
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

    /// Counts a copy that has ended.
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

/// Returns the result of a read, or `None` if the directory does not exist any more.
fn if_exists<T>(read: Result<T, VolumeError>) -> Result<Option<T>, VolumeError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(VolumeError::Fs(FsError::Stale | FsError::NotADirectory)) => Ok(None),
        Err(error) => Err(error),
    }
}
