//! [`Files`], the state that all operations share, and lookups of nodes by name and by number.

use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use content::{ByteBudget, ReleaseMemory};
use ledger::DirtyLog;
use quick_cache::sync::Cache;
use record::{Ino, Kind};
use rustix::io::Errno;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use volume::{
    CacheValidity, Coherence, FoundNode, Ledger, NodeChanges, NodeName, NodeWatch, Note,
    PUSHED_CACHE_DURATION, Volume, VolumeError,
};

use crate::attributes::{NodeStat, target_of};
use crate::creations::Creations;
use crate::directories::Directories;
use crate::locks::{BeforeSharing, Locks};
use crate::names::KnownNames;
use crate::open::{OpenFile, OpenFiles};
use crate::pending_access_times::PendingAccessTimes;
use crate::read_ahead::STREAMS_MAX;
use crate::resent_requests::ResentRequests;
use crate::retry::retry_until_deadline;
use crate::seen_directories::SeenDirectories;
use crate::stale_retries::{StaleReply, StaleRetries};
use crate::volatile_names::VolatileNames;

/// The longest name that a node can be given here, in bytes: `NAME_MAX` of Linux.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The handle numbers of worker `n` begin at `n << HANDLES_SHIFT`, so that no two workers of a
/// mount give the same number. Directory handles use the upper half of that range.
const HANDLES_SHIFT: u32 = 40;
const DIRECTORY_HANDLES: u64 = 1 << 39;

/// The maximum number of nodes of which the mount remembers that they were looked up by inode
/// number alone. Without that, an open by number can fail with `ESTALE`.
const BY_NUMBER_MAX: usize = 1 << 16;

/// The maximum number of files whose data version at the last open is remembered. The data version
/// is a number of a file that grows with each commit of its content; by it, the kernel's cached
/// pages stay valid at the next open.
const SEEN_VERSIONS_MAX: usize = 1 << 17;

/// The time for which an operation waits until the kernel has dropped its cached pages and
/// attributes of a file.
const INVALIDATION_TIMEOUT: Duration = Duration::from_secs(5);

// After this time everything that the kernel was allowed to cache has expired.
const _: () = assert!(PUSHED_CACHE_DURATION.as_millis() < INVALIDATION_TIMEOUT.as_millis());

/// The memory limit for the dirty data (written and not committed) of all deleted files together,
/// in bytes. Programs still have these files open. It is separate from
/// [`FilesOptions::write_memory`], because no flush can free it: it is held until the files are
/// closed.
const DELETED_MEMORY_BYTES: u64 = 32 << 20;

/// Options of [`Files::new`].
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The inode number of the directory that is the root of this file system.
    pub root: Ino,
    /// True for a read-only file system: each change fails with `EROFS`.
    pub read_only: bool,
    /// The memory limit for the dirty data (written and not committed) of all files, in bytes.
    /// Writes that exceed it wait until flushes have committed some.
    pub write_memory: u64,
    /// The largest file, in bytes, that a flush writes completely and in order when all its content
    /// is in memory. The result has an MD5 entity tag and the same block layout as a PUT. For
    /// larger files, a flush writes only the dirty extents.
    pub full_rewrite_bytes_max: u64,
    /// The time limit for operations while the stores do not answer. After it, the operation fails.
    pub io_timeout: Duration,
    /// True if reads update access times (`relatime`).
    pub updates_atime: bool,
    /// True if new files may be committed together with their first content while the session is
    /// alone. Then the caller must begin each request with [`Files::enter`], and no other view of
    /// this process may show names of the volume. Without a ledger, a crash of this process loses
    /// such files until they are closed.
    pub defers_creations: bool,
    /// The ledger, a file in memory that records open handles, locks and dirty data for the process
    /// that continues this mount after a crash or an upgrade. `None` if no process follows; then
    /// unsynced data is lost with this one.
    pub ledger: Option<Arc<Ledger>>,
}

/// A POSIX file system on a volume, as seen by one request, or by background work if `request` is
/// 0.
#[derive(Debug)]
pub struct Files {
    shared: Arc<SharedFiles>,
    /// The number of the kernel request; 0 for background work.
    pub(crate) request: u64,
    /// The thread that made the request, as the kernel numbers it; 0 if unknown.
    pub(crate) thread: u32,
    /// The entry of the request in the ledger's journal, by which the next worker (process of the
    /// mount) knows whether the request was executed. It is empty if the request changes nothing.
    pub(crate) note: Note,
}

/// The state of the file system that all requests share: open files, locks, memory limits and
/// caches.
#[derive(Debug)]
pub struct SharedFiles {
    /// The background tasks and the flushes, which continue if their caller stops waiting.
    pub(crate) tasks: TaskTracker,
    pub(crate) volume: Arc<Volume>,
    pub(crate) options: FilesOptions,
    /// The name by which each node was last found.
    pub(crate) names: KnownNames,
    /// Nodes that were looked up by inode number without a name, for example for an NFS file
    /// handle.
    pub(crate) by_number: Cache<Ino, ()>,
    /// The data version at the last open of each file whose pages the kernel may have in its cache.
    /// The data version grows with each commit of the content, so an equal one means that the pages
    /// are valid.
    pub(crate) seen_versions: Cache<Ino, u64>,
    pub(crate) open: OpenFiles,
    /// Names that other clients bind to new files faster than the kernel can look them up and open
    /// them.
    pub(crate) volatile_names: VolatileNames,
    /// The threads that got `ESTALE` from an open a short time ago and are expected to try again.
    pub(crate) stale_retries: StaleRetries,
    /// The files that programs have created and whose names are not committed.
    pub(crate) creations: Creations,
    /// The logs with the names that requests of earlier workers (processes of the mount) used when
    /// they ended.
    pub(crate) inherited_names: Mutex<Vec<DirtyLog>>,
    pub(crate) directories: Directories,
    pub(crate) seen_directories: SeenDirectories,
    pub(crate) locks: Arc<Locks>,
    /// Memory of the dirty data of all files that are not deleted, up to `write_memory`.
    pub(crate) memory: ByteBudget,
    /// Memory of the dirty data of deleted files, up to [`DELETED_MEMORY_BYTES`].
    pub(crate) deleted_memory: ByteBudget,
    /// The receiver of cache invalidations, normally the kernel's notification queue.
    watch: Mutex<Option<Arc<dyn NodeWatch>>>,
    /// One permit for each read-ahead stream (the background read of a sequentially read file) that
    /// may still begin, at most [`STREAMS_MAX`].
    pub(crate) streams: Arc<Semaphore>,
    /// Notified when a file has its `flush_requested` flag set.
    pub(crate) flushes: Notify,
    pub(crate) access_times: PendingAccessTimes,
    /// The number of flushes that failed because the volume or a quota was full.
    pub(crate) full_flushes: AtomicU64,
    /// Requests that earlier workers executed, and that the kernel may send again.
    pub(crate) resent_requests: ResentRequests,
}

impl Deref for Files {
    type Target = SharedFiles;

    fn deref(&self) -> &SharedFiles {
        &self.shared
    }
}

impl Files {
    /// Returns the file system of `volume`, for background work. With a ledger, the locks that the
    /// previous worker (process of the mount) left are loaded here; its open files are restored by
    /// [`Files::take_over`].
    pub fn new(volume: Arc<Volume>, options: FilesOptions) -> Arc<Files> {
        let ledger = options.ledger.as_ref();
        // Handle numbers of an earlier worker stay valid, so they must differ from those of this
        // one.
        let first_handle = ledger.map_or(0, |ledger| ledger.worker() << HANDLES_SHIFT);
        let locks_ledger = ledger.cloned().map(|ledger| ledger as _);
        let shared = Arc::new_cyclic(|me| SharedFiles {
            tasks: TaskTracker::new(),
            seen_directories: SeenDirectories::default(),
            locks: Locks::new(before_sharing(me), &volume, options.io_timeout, locks_ledger),
            volume,
            names: KnownNames::new(),
            by_number: Cache::new(BY_NUMBER_MAX),
            seen_versions: Cache::new(SEEN_VERSIONS_MAX),
            open: OpenFiles::from(first_handle),
            volatile_names: VolatileNames::default(),
            stale_retries: StaleRetries::default(),
            creations: Creations::default(),
            inherited_names: Mutex::default(),
            directories: Directories::from(first_handle | DIRECTORY_HANDLES),
            memory: ByteBudget::new(options.write_memory),
            deleted_memory: ByteBudget::new(DELETED_MEMORY_BYTES),
            watch: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            flushes: Notify::new(),
            access_times: PendingAccessTimes::default(),
            full_flushes: AtomicU64::new(0),
            resent_requests: ResentRequests::default(),
            options,
        });
        // If readers run out of memory, the volume asks for a release: read-ahead streams end then.
        let read_ahead: Arc<dyn ReleaseMemory> = shared.clone();
        shared.volume.release_memory_for_readers(Arc::downgrade(&read_ahead));
        Arc::new(Files { shared, request: 0, thread: 0, note: Note::none() })
    }

    /// Returns this file system as seen by the kernel request with this number; 0 for background
    /// work. `note` is the request's entry in the ledger's journal, by which the next worker knows
    /// whether it was executed. It is empty if the request changes nothing.
    #[must_use]
    pub fn for_request(&self, request: u64, note: Note) -> Files {
        Files { shared: Arc::clone(&self.shared), request, thread: self.thread, note }
    }

    /// Returns this file system as seen by a request of a thread, as the kernel numbers it; 0 if
    /// unknown. The thread decides how an open is answered after `ESTALE`.
    #[must_use]
    pub fn for_thread(&self, thread: u32) -> Files {
        Files { shared: Arc::clone(&self.shared), request: 0, thread, note: Note::none() }
    }

    /// Returns the inode number of the directory that is the root of this file system.
    pub fn root(&self) -> Ino {
        self.options.root
    }

    /// Returns the locks that programs of this mount hold, and their waiters.
    pub fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// Returns how long the kernel may cache replies to requests that begin now. This time is valid
    /// only while a receiver of invalidations is set with [`Files::watch`], and not for attributes
    /// that are [volatile](NodeStat::volatile_attributes).
    pub fn cache_validity(&self) -> CacheValidity {
        self.volume.cache_validity()
    }

    /// Sets the receiver of cache invalidations, normally the queue of notifications to the kernel.
    /// It is notified of each change that was not made through these files, so that the kernel
    /// drops its cached entries.
    pub fn watch(&self, watch: Arc<dyn NodeWatch>, coherence: Coherence) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&watch));
        self.volume.watch_nodes(watch, coherence);
    }

    /// Removes the receiver of cache invalidations. From then on the kernel is not notified of
    /// changes.
    pub fn unwatch(&self) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.volume.unwatch_nodes();
    }

    /// Returns the number of open handles of a file; 0 if it is not open.
    pub fn handle_count(&self, ino: Ino) -> u64 {
        self.open.handle_count(ino)
    }

    /// Looks up a name, and returns the attributes of its node.
    ///
    /// # Errors
    /// `ENOENT` if the name does not exist; `ENAMETOOLONG` if it is longer than 255 bytes and does
    /// not exist.
    pub async fn look_up(&self, directory: Ino, name: &[u8]) -> Result<NodeStat, Errno> {
        let name = NodeName { directory, name: name.to_vec() };
        let mut found = self.find(&name).await;
        if let Ok(node) = &found
            && node.inode.kind() == Kind::Directory
            && self.commit_creations_in(node.ino).await
        {
            // Its time is that of the last creation in it.
            found = self.find(&name).await;
        }
        if found.is_err() {
            // The retry is not forgotten yet: the kernel may look up the name a second time.
            self.stale_retries.note_missing(self.thread);
        }
        match found {
            Ok(node) => {
                let volatile_name = self.volatile_names.get(node.ino).is_some();
                Ok(NodeStat { volatile_name, ..self.visible_stat(&node).await })
            }
            // S3 can create an object with such a name, so the lookup comes first. No file is
            // created with one.
            Err(Errno::NOENT) if name.name.len() > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
            Err(error) => Err(error),
        }
    }

    /// Returns the node to which a name is bound. If the name is watched, because other clients
    /// bind it to new files too fast, the node is pinned for a few seconds: its data is not
    /// deleted, so an open that follows can still succeed.
    pub(crate) async fn find(&self, name: &NodeName) -> Result<FoundNode, Errno> {
        if self.stale_retries.note_lookup(self.thread) {
            self.volatile_names.watch(name.clone());
        }
        let reading = self.volatile_names.is_watched(name).then(|| self.volume.reading());
        let node = self.retry_until_deadline(|| self.volume.find_name(name)).await?;
        self.names.insert(node.ino, name);
        if let Some(reading) = reading.filter(|_| node.inode.kind() != Kind::Directory) {
            let pin = self.volume.open_node(node.ino, reading);
            self.volatile_names.keep(OpenFile::new(pin, node.clone()));
        }
        Ok(node)
    }

    /// Returns the attributes of a node. If programs have it open, its dirty data and pending
    /// changes are included.
    ///
    /// # Errors
    /// `ESTALE` if the node does not exist any more and no program has it open.
    pub async fn attributes(&self, ino: Ino) -> Result<NodeStat, Errno> {
        if let Some(file) = self.open.get(ino) {
            return self.attributes_of_open(&file).await;
        }
        match self.retry_until_deadline(|| self.volume.find_node(ino)).await {
            Ok(node) => Ok(self.visible_stat(&node).await),
            // The record is deleted. A file that is open or pinned still has attributes, and so has
            // a removed directory that a program holds.
            Err(Errno::STALE) => {
                match self.open.get(ino).or_else(|| self.volatile_names.get(ino)) {
                    Some(file) => Ok(self.with_access_time(file.attributes(None).await)),
                    None => match self.seen_directories.removed(ino) {
                        Some(stat) => Ok(self.with_access_time(stat)),
                        None => Err(self.stale(ino)),
                    },
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that this request's thread gets `ESTALE` for a node and is expected to try again.
    /// Watches the name of the node: nodes to which it leads from now on are kept for the retry.
    /// Returns `ESTALE`.
    pub(crate) fn stale(&self, ino: Ino) -> Errno {
        self.stale_retries.insert(self.thread, StaleReply::of(ino, Instant::now()));
        self.names.get(ino).into_iter().for_each(|name| self.volatile_names.watch(name));
        Errno::STALE
    }

    /// Returns the attributes of a node as programs see them: dirty data and pending changes
    /// included. If no handle of the node is open, also notes the attributes of a directory.
    pub(crate) async fn visible_stat(&self, node: &FoundNode) -> NodeStat {
        self.with_access_time(match self.open.get(node.ino) {
            Some(file) => file.attributes(Some(node)).await,
            None => {
                let stat = NodeStat::of(node);
                self.seen_directories.note(&stat);
                stat
            }
        })
    }

    /// Returns the target of a symbolic link. Fails with `EINVAL` if the node is not one, and with
    /// `ESTALE` if it does not exist any more.
    pub async fn read_link(&self, ino: Ino) -> Result<Vec<u8>, Errno> {
        let node = match self.retry_until_deadline(|| self.volume.find_node(ino)).await {
            Err(Errno::STALE) => {
                let kept = self.volatile_names.get(ino).ok_or_else(|| self.stale(ino))?;
                (*kept.state.lock().await.node).clone()
            }
            found => found?,
        };
        target_of(&node).map(<[u8]>::to_vec).ok_or(Errno::INVAL)
    }

    /// Runs an operation of the volume again while the stores do not answer, up to `io_timeout`. A
    /// failed try must have changed nothing. If the session with the store has ended and a worker
    /// (process of the mount) follows, this waits for ever: the kernel sends the request again to
    /// that worker.
    pub(crate) async fn retry_until_deadline<T, F>(
        &self,
        operation: impl Fn() -> F,
    ) -> Result<T, Errno>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        let has_next_worker = self.options.ledger.is_some();
        let operation = || async {
            match operation().await {
                // The next worker executes the request in a session of its own. An error now would
                // reach the program although the request may still succeed.
                Err(VolumeError::Fenced) if has_next_worker => std::future::pending().await,
                done => done,
            }
        };
        retry_until_deadline(self.options.io_timeout, operation).await
    }

    /// Flushes a file, that is, commits its dirty data. The flush runs in a task of its own, so it
    /// continues if the caller stops waiting.
    pub(crate) async fn flush_file(&self, file: &Arc<OpenFile>) -> Result<(), Errno> {
        // Most files that are closed are clean, and a task would cost more than this check.
        if file.is_flushed() {
            return Ok(());
        }
        let files = self.for_request(0, Note::none());
        let file = Arc::clone(file);
        let flush = self.tasks.spawn(async move { files.flush_now(&file).await });
        flush.await.unwrap_or(Err(Errno::IO))
    }

    /// Runs `work` in a background task, which is not awaited.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn(work));
    }

    /// Has the kernel drop the cached pages and attributes of a file that another client changed,
    /// and waits until it has. Returns false if it did not within [`INVALIDATION_TIMEOUT`]. The
    /// caller must then not treat the cache as valid, because cached pages do not expire.
    pub(crate) async fn invalidate_cache(&self, ino: Ino) -> bool {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(watch) = watch else { return true };
        let (done, forgotten) = oneshot::channel();
        let changes = NodeChanges { names: Vec::new(), nodes: vec![ino] };
        watch.changed(&changes, Some(done));
        matches!(tokio::time::timeout(INVALIDATION_TIMEOUT, forgotten).await, Ok(Ok(())))
    }

    /// Asks the kernel to drop the cached pages and attributes of a file, without waiting until it
    /// has.
    pub(crate) fn invalidate_cache_soon(&self, ino: Ino) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(watch) = watch {
            watch.changed(&NodeChanges { names: Vec::new(), nodes: vec![ino] }, None);
        }
    }

    /// Fails with `EROFS` if the file system is read-only.
    pub(crate) fn check_writable(&self) -> Result<(), Errno> {
        if self.options.read_only { Err(Errno::ROFS) } else { Ok(()) }
    }
}

impl ReleaseMemory for SharedFiles {
    /// Ends all read-ahead streams. Their data can be read again from the volume.
    fn release_memory(&self) {
        self.open.handles().iter().for_each(|handle| handle.ahead.end());
    }
}

/// Returns the hook that flushes all dirty data before another session (another process on the
/// volume) can get locks that were released in this one's memory. Flush errors are reported to the
/// descriptors of each file.
fn before_sharing(files: &Weak<SharedFiles>) -> BeforeSharing {
    let files = files.clone();
    BeforeSharing(Box::new(move || {
        let files = files.clone();
        Box::pin(async move {
            if let Some(shared) = files.upgrade() {
                let files = Files { shared, request: 0, thread: 0, note: Note::none() };
                let _reported = files.flush_all().await;
            }
        })
    }))
}
