//! The file system: what every operation shares, and finding nodes.

use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use content::{ByteBudget, ReleaseMemory};
use quick_cache::sync::Cache;
use record::{Ino, Kind};
use rustix::io::Errno;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use volume::{
    CacheValidity, Coherence, FoundNode, Ledger, NodeChanges, NodeName, NodeWatch, Note, Volume,
    VolumeError,
};

use crate::attributes::{NodeStat, target_of};
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

/// The longest name that is given, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Handles of each process have numbers of their own, and so have those of directories.
const HANDLES_SHIFT: u32 = 40;
const DIRECTORY_HANDLES: u64 = 1 << 39;

/// Nodes of which it is remembered that they were found by their numbers.
const BY_NUMBER_MAX: usize = 1 << 16;

/// Files whose data versions are remembered.
const SEEN_VERSIONS_MAX: usize = 1 << 17;

/// How long a program waits until its machine has forgotten what it remembers of a file.
const INVALIDATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that are kept in memory of all files of which nothing is kept any more, besides the memory of
/// those that become content: nothing frees it but that they are closed.
const DELETED_MEMORY_BYTES: u64 = 32 << 20;

/// How a file system is opened.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Which directory is its root.
    pub root: Ino,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Bytes of written data that may wait in memory.
    pub write_memory: u64,
    /// Files of at most so many bytes are written whole, in the order of their bytes: then their
    /// entity tag is an MD5, and their blocks are those of a PUT. Of longer ones only what was
    /// changed is written.
    pub full_rewrite_bytes_max: u64,
    /// How long operations wait for stores that do not answer before they fail.
    pub io_timeout: Duration,
    /// Whether it is noted when files are read.
    pub updates_atime: bool,
    /// Where it stands what must outlive this process, if another one may follow it.
    pub ledger: Option<Arc<Ledger>>,
}

/// A POSIX file system on a volume, for one request or for nobody in particular.
#[derive(Debug)]
pub struct Files {
    shared: Arc<SharedFiles>,
    /// The request's number; 0 if it has none.
    pub(crate) request: u64,
    /// The thread that asks, as the kernel numbers it; 0 if that is not known.
    pub(crate) thread: u32,
    /// The request's place in the journal, if its change is to be known later.
    pub(crate) note: Note,
}

/// What all requests share.
#[derive(Debug)]
pub struct SharedFiles {
    pub(crate) tasks: TaskTracker,
    pub(crate) volume: Arc<Volume>,
    pub(crate) options: FilesOptions,
    pub(crate) names: KnownNames,
    /// Nodes that were found by their numbers alone.
    pub(crate) by_number: Cache<Ino, ()>,
    /// Data versions of files as programs' machines remember them.
    pub(crate) seen_versions: Cache<Ino, u64>,
    pub(crate) open: OpenFiles,
    /// What changes faster than it can be asked for.
    pub(crate) volatile_names: VolatileNames,
    pub(crate) stale_retries: StaleRetries,
    pub(crate) directories: Directories,
    pub(crate) seen_directories: SeenDirectories,
    pub(crate) locks: Arc<Locks>,
    pub(crate) memory: ByteBudget,
    /// What was written to files of which nothing is kept any more.
    pub(crate) deleted_memory: ByteBudget,
    /// Who is told what to forget.
    watching: Mutex<Option<Arc<dyn NodeWatch>>>,
    /// Places of streams that read ahead.
    pub(crate) streams: Arc<Semaphore>,
    /// Notified when some file is to be flushed.
    pub(crate) flushes: Notify,
    pub(crate) access_times: PendingAccessTimes,
    /// How often a flush has found no room in the volume.
    pub(crate) found_full: AtomicU64,
    /// What the processes before this one have left.
    pub(crate) resent_requests: ResentRequests,
}

impl Deref for Files {
    type Target = SharedFiles;

    fn deref(&self) -> &SharedFiles {
        &self.shared
    }
}

impl Files {
    /// The files of a volume.
    pub fn new(volume: Arc<Volume>, options: FilesOptions) -> Arc<Files> {
        let ledger = options.ledger.as_ref();
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
            directories: Directories::from(first_handle | DIRECTORY_HANDLES),
            memory: ByteBudget::new(options.write_memory),
            deleted_memory: ByteBudget::new(DELETED_MEMORY_BYTES),
            watching: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            flushes: Notify::new(),
            access_times: PendingAccessTimes::default(),
            found_full: AtomicU64::new(0),
            resent_requests: ResentRequests::default(),
            options,
        });
        let ahead: Arc<dyn ReleaseMemory> = shared.clone();
        shared.volume.release_memory_for_readers(Arc::downgrade(&ahead));
        Arc::new(Files { shared, request: 0, thread: 0, note: Note::none() })
    }

    /// The same files, for a request: its number, and its place in the journal if it changes something.
    #[must_use]
    pub fn for_request(&self, request: u64, note: Note) -> Files {
        Files { shared: Arc::clone(&self.shared), request, thread: self.thread, note }
    }

    /// The same files, for a thread by the kernel's number for it; 0 if that is not known.
    #[must_use]
    pub fn for_thread(&self, thread: u32) -> Files {
        Files { shared: Arc::clone(&self.shared), request: 0, thread, note: Note::none() }
    }

    /// The root's number.
    pub fn root(&self) -> Ino {
        self.options.root
    }

    /// The locks of its files.
    pub fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// Until when what is asked for from now on may be remembered by those for whom
    /// [`Files::watch`] stands; what is [unsettled](NodeStat::unsettled) may not.
    pub fn cache_validity(&self) -> CacheValidity {
        self.volume.cache_validity()
    }

    /// Tells `watch` of what is changed not through these files, so that whoever remembers it lets
    /// go of it.
    pub fn watch(&self, watch: Arc<dyn NodeWatch>, coherence: Coherence) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&watch));
        self.volume.watch_nodes(watch, coherence);
    }

    /// Tells nobody of changes any more.
    pub fn unwatch(&self) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.volume.unwatch_nodes();
    }

    /// How many handles programs have of a file.
    pub fn handle_count(&self, ino: Ino) -> u64 {
        self.open.handle_count(ino)
    }

    /// Finds what a name is bound to.
    pub async fn look_up(&self, directory: Ino, name: &[u8]) -> Result<NodeStat, Errno> {
        let name = NodeName { directory, name: name.to_vec() };
        let found = self.find(&name).await;
        if found.is_err() {
            self.stale_retries.note_missing(self.thread);
        }
        match found {
            Ok(node) => {
                let volatile_name = self.volatile_names.get(node.ino).is_some();
                Ok(NodeStat { volatile_name, ..self.visible_stat(&node).await })
            }
            // An object may have such a name, but no file is given one.
            Err(Errno::NOENT) if name.name.len() > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
            Err(error) => Err(error),
        }
    }

    /// The node that a name is bound to.
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

    /// The attributes of a node.
    pub async fn attributes(&self, ino: Ino) -> Result<NodeStat, Errno> {
        if let Some(file) = self.open.get(ino) {
            return self.attributes_of_open(&file).await;
        }
        match self.retry_until_deadline(|| self.volume.find_node(ino)).await {
            Ok(node) => Ok(self.visible_stat(&node).await),
            // The record is gone. A file that was opened meanwhile, or is kept, has attributes yet.
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

    /// A node is not to be had any more by the name by which it was found.
    pub(crate) fn stale(&self, ino: Ino) -> Errno {
        self.stale_retries.insert(self.thread, StaleReply::of(ino, Instant::now()));
        self.names.get(ino).into_iter().for_each(|name| self.volatile_names.watch(name));
        Errno::STALE
    }

    /// What a program sees of a node: what was written to it and is not its content yet, too.
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

    /// What a symbolic link says.
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

    /// Tries an operation again while the stores do not answer, which does nothing when that is so.
    pub(crate) async fn retry_until_deadline<T, F>(
        &self,
        operation: impl Fn() -> F,
    ) -> Result<T, Errno>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        let is_kept = self.options.ledger.is_some();
        let operation = || async {
            match operation().await {
                // The process that follows carries it out, in a session of its own.
                Err(VolumeError::Fenced) if is_kept => std::future::pending().await,
                done => done,
            }
        };
        retry_until_deadline(self.options.io_timeout, operation).await
    }

    /// Makes what was written to a file its content. Whoever leaves stops nothing but the waiting.
    pub(crate) async fn flush_file(&self, file: &Arc<OpenFile>) -> Result<(), Errno> {
        let files = self.for_request(0, Note::none());
        let file = Arc::clone(file);
        let flush = self.tasks.spawn(async move { files.flush_now(&file).await });
        flush.await.unwrap_or(Err(Errno::IO))
    }

    /// Goes on with something that nobody waits for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn(work));
    }

    /// Has what a program's machine remembers of a file forgotten, which has turned out to be another.
    /// Answers whether it is: pages do not run out by themselves.
    pub(crate) async fn invalidate_cache(&self, ino: Ino) -> bool {
        let watch = self.watching.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(watch) = watch else { return true };
        let (done, forgotten) = oneshot::channel();
        let changes = NodeChanges { names: Vec::new(), nodes: vec![ino] };
        watch.changed(&changes, Some(done));
        matches!(tokio::time::timeout(INVALIDATION_TIMEOUT, forgotten).await, Ok(Ok(())))
    }

    /// As [`Files::forget_content`], without waiting.
    pub(crate) fn invalidate_cache_soon(&self, ino: Ino) {
        let watch = self.watching.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(watch) = watch {
            watch.changed(&NodeChanges { names: Vec::new(), nodes: vec![ino] }, None);
        }
    }

    /// Refuses a change where nothing may be changed.
    pub(crate) fn check_writable(&self) -> Result<(), Errno> {
        if self.options.read_only { Err(Errno::ROFS) } else { Ok(()) }
    }
}

impl ReleaseMemory for SharedFiles {
    /// What was read ahead can be read again.
    fn release_memory(&self) {
        self.open.handles().iter().for_each(|handle| handle.ahead.end());
    }
}

/// What was written becomes content. Whoever has a file open is told of a failure.
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
