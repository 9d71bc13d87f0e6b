//! The adapter between the FUSE protocol and the file system: each request becomes a call of
//! `files`.
//!
//! A request passes through these steps: `replay` (has an earlier worker already executed it?),
//! `virtual_files` (is it about `.ashlar`?), then `dispatch` with the limit of `interruptible` (was
//! its caller killed?). Reads skip the first two, because they change nothing. For example, MKDIR
//! becomes `Files::make_directory`, and its result the reply with the new node's attributes. This
//! module keeps no state of nodes: their numbers are those of the volume.

mod answer;
mod caching;
mod interruptible;
mod killed;
mod locks;
mod ranges;
mod reach;
mod removed;
mod replay;
mod start;
mod virtual_files;
mod writes;
mod xattrs;

use std::ffi::OsStr;
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use files::{CreateOptions, DirectoryEntry, Files, HandleId, NodeStat, OpenMode, OpenedFile};
use fuse::{
    DirectoryBuffer, DirectoryName, Errno, FileHandle, FileOperation, FileSystem, NodeEntry,
    NodeId, OpenFlags, Reply, Request,
};
use record::{Ino, SpecialKind};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::{CacheValidity, Ledger, RenameMode};

use crate::context::MountContext;
use crate::shape::{PERMISSION_BITS, file_time, kind_bits, set_node};
use crate::stats::Stats;
use answer::Answer;
use killed::WaitingCaller;

/// The type bits of `st_mode`.
const KIND_BITS: u32 = 0o170_000;

/// The time after which GETATTR of the root returns its last known attributes.
const ROOT_TIMEOUT: Duration = Duration::from_secs(1);

/// Flags of open(2).
const ACCESS_MODE: u32 = 0o3;
const READ_WRITE: u32 = 0o2;
const CREATE_EXCLUSIVELY: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;
const NO_ATIME: u32 = 0o1_000_000;

/// The kernel's flag `FMODE_EXEC`, which it sets when it opens a program to execute it.
const EXECUTE: u32 = 0o40;

/// Names that the kernel looks up only for file handles, for example of an NFS server: the node
/// itself, and the parent of a directory.
const THIS: &str = ".";
const PARENT: &str = "..";

/// Flags of renameat2(2).
const RENAME_NO_REPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

/// The file system of a volume, as the FUSE session calls it.
#[derive(Debug)]
pub(super) struct Glue {
    pub(super) files: Arc<Files>,
    pub(super) runtime: Handle,
    /// The operations in flight.
    pub(super) tasks: TaskTracker,
    /// Cancelled when the mount does not exist any more.
    pub(super) gone: CancellationToken,
    /// The ledger of the mount, that is, the state that passes to the next worker; `None` if no
    /// other worker can follow this one.
    pub(super) ledger: Option<Arc<Ledger>>,
    pub(super) context: Arc<MountContext>,
}

impl FileSystem for Glue {
    fn handle(&self, request: Request, reply: Reply) {
        // Reads are the most frequent requests. They change nothing, so they need neither the
        // journal nor a validity for the kernel's caches.
        if let FileOperation::Read { handle, offset, size, lock_owner, .. } = request.operation() {
            if Stats::is_handle(handle) {
                return self.context.stats.read(handle, offset, size, reply);
            }
            let (files, pid) = (Arc::clone(&self.files), request.pid());
            // The kernel sends a lock owner only with reads that bypass its page cache.
            let read_request = ReadRequest {
                handle: HandleId(handle.0),
                offset,
                size,
                fills: lock_owner.is_none(),
            };
            return self.start(async move { read(&files, pid, read_request, reply).await });
        }
        let (files, gone) = (self.files.for_thread(request.pid()), self.gone.clone());
        // Before the read of the volume, so that the kernel caches the result no longer than it is
        // valid.
        let context = Arc::clone(&self.context);
        let is_cacheable = self.register(&request);
        let cache_validity = files.cache_validity();
        let cache_validity =
            if is_cacheable { cache_validity } else { cache_validity.without_leases() };
        let call = Call { files, cache_validity, gone, request, context };
        let commits = call.commits();
        let answering = call.execute_once(self.ledger.clone(), reply);
        if commits { self.start_task(answering) } else { self.start(answering) }
    }

    fn forget(&self, _forgotten: fuse::Forgotten<'_>) {
        // No state of nodes to free: their numbers are those of the volume.
    }

    fn destroyed(&self) {
        self.gone.cancel();
    }
}

/// The parameters of a READ.
struct ReadRequest {
    handle: HandleId,
    offset: u64,
    size: u32,
    /// True if the bytes go to the kernel's page cache.
    fills: bool,
}

/// Reads bytes of an open file for a READ of the program `pid` and replies with them, or with
/// `EINTR` if the program is being killed.
async fn read(files: &Files, pid: u32, request: ReadRequest, reply: Reply) {
    let ReadRequest { handle, offset, size, fills } = request;
    let reading = async {
        let access = files.access_pages(handle, fills).await?;
        Ok((files.read(handle, offset, u64::from(size)).await?, access))
    };
    let mut reading = std::pin::pin!(reading);
    match WaitingCaller::new(pid).until_done(reading.as_mut(), &reply).await {
        // The access to the pages must last until the kernel has them, which is after the reply.
        Some(Ok((bytes, _access))) => {
            let parts: Vec<IoSlice<'_>> = bytes.iter().map(|bytes| IoSlice::new(bytes)).collect();
            reply.data(&parts);
        }
        Some(Err(error)) => reply.error(errno(error)),
        None => reply.error(Errno::EINTR),
    }
}

/// A request of the kernel that is being executed: the node, the caller, and the mount's parts.
struct Call {
    files: Files,
    cache_validity: CacheValidity,
    gone: CancellationToken,
    request: Request,
    context: Arc<MountContext>,
}

impl Call {
    /// Returns the inode of the request's node.
    fn node(&self) -> Ino {
        self.ino(self.request.node())
    }

    /// Returns the inode of a node. They differ for the root alone, which is 1 for the kernel and
    /// may be any directory of the volume.
    fn ino(&self, node: NodeId) -> Ino {
        if node == NodeId::ROOT { self.files.root() } else { Ino(node.0) }
    }

    /// Returns the number that the kernel has for an inode of the volume: 1 for the root of the
    /// mount, otherwise the inode's own number.
    fn node_id(&self, ino: Ino) -> NodeId {
        if ino == self.files.root() { NodeId::ROOT } else { NodeId(ino.0) }
    }

    /// Returns the options to create a node with the owner of the calling program, or with the one
    /// that the mount shows.
    fn create_options(&self, mode: u32, umask: u32) -> CreateOptions {
        let uid = self.context.shown.uid.unwrap_or(self.request.uid());
        let gid = self.context.shown.gid.unwrap_or(self.request.gid());
        CreateOptions { mode, umask, uid, gid }
    }

    /// Returns the attributes of a node. If the stores do not answer in time, those of the root are
    /// the last known ones, because df(1) reads the root of each mount of a machine, and would
    /// hang.
    async fn attributes(&self, ino: Ino) -> Result<NodeStat, rustix::io::Errno> {
        // The operation is not cancelled by the timeout below: if no attributes are known, it is
        // awaited.
        let finding = self.files.attributes(ino);
        if ino != self.files.root() {
            return finding.await;
        }
        let mut finding = std::pin::pin!(finding);
        let last = match tokio::time::timeout(ROOT_TIMEOUT, finding.as_mut()).await {
            Ok(found) => {
                self.context.remember_root(found.as_ref().ok());
                return found;
            }
            Err(_elapsed) => self.context.last_root(),
        };
        match last {
            Some(stat) => Ok(NodeStat { volatile_attributes: true, ..stat }),
            None => finding.await,
        }
    }

    /// Returns the reply to OPEN. `flags` are those of open(2).
    async fn opened(&self, opened: &OpenedFile, flags: u32) -> Answer {
        let handle = FileHandle(opened.handle.0);
        let maps = self.map_flags(flags, opened.handle).await;
        if opened.unchanged && maps == OpenFlags::none() {
            Answer::Opened(handle, OpenFlags::KEEP_CACHE)
        } else if self.cache_validity.may_be_stale() {
            Answer::OpenedChanged(self.request.node(), handle, maps)
        } else {
            Answer::Opened(handle, maps)
        }
    }

    /// Returns the mode in which the kernel caches a file that was opened as `handle` with these
    /// flags of open(2). If another session of the volume has mapped the file, reads and writes
    /// bypass the page cache on this mount, and pages of maps wait until no other session has them.
    /// A kernel before 6.6 refuses such maps with `ENODEV`.
    async fn map_flags(&self, flags: u32, handle: HandleId) -> OpenFlags {
        let may_be_mapped = flags & ACCESS_MODE == READ_WRITE;
        // A program that can read and write may map the file, so this session claims it before the
        // kernel caches pages.
        let is_cached = if may_be_mapped {
            self.files.claim_map(handle).await
        } else {
            !self.files.is_claimed_elsewhere(handle).await
        };
        if is_cached { OpenFlags::none() } else { OpenFlags::DIRECT_IO }
    }

    /// As `map_flags`, for a new file, which no other session can have mapped.
    async fn map_flags_of_new(&self, flags: u32, handle: HandleId) -> OpenFlags {
        let may_be_mapped = flags & ACCESS_MODE == READ_WRITE;
        if may_be_mapped { self.map_flags(flags, handle).await } else { OpenFlags::none() }
    }

    /// Executes the request, and replies.
    async fn answer(self, reply: Reply) {
        if self.is_virtual_file() {
            return self.answer_virtual(reply);
        }
        let operation = self.request.operation();
        if let FileOperation::SetLkW(request) = operation {
            return self.lock(request, reply).await;
        }
        if let FileOperation::Write { .. } = operation {
            let taken = self.accept_write(&operation).await;
            return self.wait_for_write_memory(taken, reply).await;
        }
        if let FileOperation::Release { handle, lock_owner, flock_unlock, .. } = operation {
            return self.release(handle, lock_owner.0, flock_unlock, reply).await;
        }
        self.answer_interruptible(operation, reply).await;
    }

    /// Executes the request. If its node is a removed directory, the error is that of a local disk.
    async fn dispatch(&self, operation: FileOperation<'_>) -> Result<Answer, rustix::io::Errno> {
        let _until_done = self.enter(self.reach(&operation)).await;
        match self.dispatch_present(operation).await {
            Err(rustix::io::Errno::STALE) => self.answer_stale().await,
            done => done,
        }
    }

    /// Executes the request with the call of `files` for its operation.
    #[expect(
        clippy::too_many_lines,
        reason = "a row for each operation, so that none is forgotten"
    )]
    async fn dispatch_present(
        &self,
        operation: FileOperation<'_>,
    ) -> Result<Answer, rustix::io::Errno> {
        let (files, node) = (&self.files, self.node());
        Ok(match operation {
            FileOperation::Lookup { name } if name == THIS => {
                Answer::Entry(self.known_entry(&files.look_up_number(node).await?))
            }
            FileOperation::Lookup { name } if name == PARENT => {
                Answer::Entry(self.known_entry(&files.look_up_parent(node).await?))
            }
            FileOperation::Lookup { name } => match files.look_up(node, name.as_bytes()).await {
                Err(rustix::io::Errno::NOENT) if self.is_virtual_directory(name) => {
                    Answer::Entry(self.virtual_directory())
                }
                Err(rustix::io::Errno::NOENT) => Answer::NoEntry(self.cache_validity),
                found => Answer::Entry(self.entry(&found?)),
            },
            FileOperation::GetAttr { .. } => {
                let stat = self.attributes(node).await?;
                Answer::Attributes(self.context.shown.attributes(&stat), self.timeout(&stat))
            }
            FileOperation::StatX { .. } => {
                let stat = self.attributes(node).await?;
                let timeout = self.timeout(&stat);
                Answer::StatX(self.context.shown.attributes(&stat), file_time(stat.created), timeout)
            }
            FileOperation::SetAttr(changes) => {
                let handle = changes.handle.map(|handle| HandleId(handle.0));
                let stat = files.set(node, handle, set_node(&changes)).await?;
                Answer::Attributes(self.context.shown.attributes(&stat), Duration::ZERO)
            }
            FileOperation::ReadLink => Answer::Bytes(files.read_link(node).await?),
            FileOperation::MkNod { name, mode, rdev, umask } => {
                let by = self.create_options(mode & PERMISSION_BITS, umask);
                let kind = mode & KIND_BITS;
                let made = self.make_node(name.as_bytes(), kind, rdev, by).await?;
                Answer::Entry(self.entry(&made))
            }
            FileOperation::MkDir { name, mode, umask } => {
                let by = self.create_options(mode & PERMISSION_BITS, umask);
                let made = files.make_directory(node, name.as_bytes(), by).await?;
                Answer::Entry(self.entry(&made))
            }
            FileOperation::Symlink { name, target } => {
                let (name, by) = (name.as_bytes(), self.create_options(0o777, 0));
                let made = files.make_symlink(node, name, target.as_bytes(), by).await?;
                Answer::Entry(self.entry(&made))
            }
            FileOperation::Link { target, name } => {
                let linked = files.link(self.ino(target), node, name.as_bytes()).await?;
                Answer::Entry(self.known_entry(&linked))
            }
            FileOperation::Unlink { name } => {
                files.unlink(node, name.as_bytes()).await.map(|()| Answer::Ok)?
            }
            FileOperation::RmDir { name } => {
                files.remove_directory(node, name.as_bytes()).await.map(|()| Answer::Ok)?
            }
            FileOperation::Rename { name, new_parent, new_name, flags } => {
                let from = (node, name.as_bytes());
                let to = (self.ino(new_parent), new_name.as_bytes());
                self.rename(from, to, flags).await.map(|()| Answer::Ok)?
            }
            FileOperation::Open { flags, kill_suidgid } => self.open(flags, kill_suidgid).await?,
            FileOperation::Create { name, flags, mode, umask, .. } => {
                let by = self.create_options(mode & PERMISSION_BITS, umask);
                self.create(name.as_bytes(), flags, by).await?
            }
            FileOperation::TmpFile { flags, mode, umask } => {
                let by = self.create_options(mode & PERMISSION_BITS, umask);
                let opened = files.create_unnamed(node, by).await?;
                let maps = self.map_flags_of_new(flags, opened.handle).await;
                Answer::Created(self.entry(&opened.attributes), opened.handle, maps)
            }
            FileOperation::Flush { handle, lock_owner } => {
                let flushed = files.flush(HandleId(handle.0)).await;
                let unlocked = files.unlock(node, lock_owner.0, false, 0..=u64::MAX).await;
                flushed.and(unlocked).map(|()| Answer::Ok)?
            }
            FileOperation::FSync { handle, .. } => {
                files.flush(HandleId(handle.0)).await.map(|()| Answer::Ok)?
            }
            FileOperation::FAllocate { handle, offset, length, mode } => {
                self.allocate(HandleId(handle.0), offset, length, mode).await?
            }
            FileOperation::LSeek { handle, offset, whence } => {
                self.seek(HandleId(handle.0), offset, whence).await?
            }
            FileOperation::CopyFileRange {
                handle,
                offset,
                target_handle,
                target_offset,
                length,
                ..
            } => {
                let from = (HandleId(handle.0), offset);
                let to = (HandleId(target_handle.0), target_offset);
                self.copy_range(from, to, length).await?
            }
            FileOperation::OpenDir { .. } => {
                let handle = files.open_directory(node).await?;
                Answer::Opened(FileHandle(handle.0), OpenFlags::none())
            }
            FileOperation::ReadDir { handle, offset, size } => {
                Answer::Directory(self.names(handle, offset, size, false).await?)
            }
            FileOperation::ReadDirPlus { handle, offset, size } => {
                Answer::Directory(self.names(handle, offset, size, true).await?)
            }
            FileOperation::ReleaseDir { handle, .. } => {
                files.release_directory(HandleId(handle.0));
                Answer::Ok
            }
            // Changes of names are durable before their reply.
            FileOperation::FSyncDir { .. } => Answer::Ok,
            FileOperation::SyncFs => files.flush_all().await.map(|()| Answer::Ok)?,
            FileOperation::StatFs => Answer::Space(self.context.space.figures().await),
            FileOperation::GetXattr { name, size } => self.xattr(name, size).await?,
            FileOperation::ListXattr { size } => self.xattr_names(size).await?,
            FileOperation::SetXattr { name, value, flags, acl_kill_sgid } => {
                self.set_xattr(name, value, flags, acl_kill_sgid).await?
            }
            FileOperation::RemoveXattr { name } => self.remove_xattr(name).await?,
            FileOperation::GetLk(request) => self.conflicting_lock(&request).await?,
            FileOperation::SetLk(request) => self.try_lock(&request).await?,
            FileOperation::IoCtl { .. } => return Err(rustix::io::Errno::NOTTY),
            // With `default_permissions` the kernel checks them itself. After ENOSYS it sends no
            // ACCESS.
            FileOperation::Access { .. }
            // Answered before the dispatch.
            | FileOperation::Read { .. }
            | FileOperation::Write { .. }
            | FileOperation::Release { .. }
            | FileOperation::SetLkW(_)
            // Answered by the FUSE session.
            | FileOperation::Forget { .. }
            | FileOperation::Init
            | FileOperation::Destroy
            | FileOperation::Interrupt { .. }
            | FileOperation::Unknown { .. } => return Err(rustix::io::Errno::NOSYS),
        })
    }

    /// Creates a node other than a directory. `kind` is the type bits of `st_mode`.
    async fn make_node(
        &self,
        name: &[u8],
        kind: u32,
        device: u32,
        by: CreateOptions,
    ) -> Result<NodeStat, rustix::io::Errno> {
        let kind = match kind {
            0o010_000 => SpecialKind::Fifo,
            0o140_000 => SpecialKind::Socket,
            0o020_000 => SpecialKind::Character,
            0o060_000 => SpecialKind::Block,
            _ => return self.files.make_file(self.node(), name, by).await,
        };
        self.files.make_special(self.node(), name, kind, device, by).await
    }

    /// Renames a name in a directory to a name in another or the same directory, with these flags
    /// of renameat2(2).
    async fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: u32,
    ) -> Result<(), rustix::io::Errno> {
        let mode = match flags {
            0 => RenameMode::Replace,
            RENAME_NO_REPLACE => RenameMode::NoReplace,
            RENAME_EXCHANGE => RenameMode::Exchange,
            _ if flags & !RENAME_NO_REPLACE == RENAME_WHITEOUT => {
                let CreateOptions { uid, gid, .. } = self.create_options(0, 0);
                let replaces = flags & RENAME_NO_REPLACE == 0;
                return self.files.rename_to_whiteout(from, to, (uid, gid), replaces).await;
            }
            _ => return Err(rustix::io::Errno::INVAL),
        };
        self.files.rename(from, to, mode).await
    }

    /// Opens the node. `flags` are those of open(2).
    async fn open(&self, flags: u32, drops_rights: bool) -> Result<Answer, rustix::io::Errno> {
        let mode = OpenMode { drops_rights, ..open_mode(flags) };
        let opened = self.files.open(self.node(), mode).await?;
        // With cached pages the kernel sends no READ, so the open itself counts as the read for the
        // access time.
        let known = opened.unchanged && !mode.writes;
        self.files.note_opened(&opened, flags & NO_ATIME == 0, known).await;
        Ok(self.opened(&opened, flags).await)
    }

    /// Creates a file and opens it, or opens the file that has the name. `flags` are those of
    /// open(2).
    async fn create(
        &self,
        name: &[u8],
        flags: u32,
        by: CreateOptions,
    ) -> Result<Answer, rustix::io::Errno> {
        let (files, node) = (&self.files, self.node());
        let (opened, maps) = match files.create(node, name, by).await {
            // The kernel sends CREATE for names that it does not know. Another mount may have
            // created the file since.
            Err(rustix::io::Errno::EXIST) if flags & CREATE_EXCLUSIVELY == 0 => {
                let opened = files.open_by_name(node, name, open_mode(flags)).await?;
                (opened, self.map_flags(flags, opened.handle).await)
            }
            opened => {
                let opened = opened?;
                (opened, self.map_flags_of_new(flags, opened.handle).await)
            }
        };
        Ok(Answer::Created(self.entry(&opened.attributes), opened.handle, maps))
    }

    /// Replies to RELEASE. No program waits for the reply, but a late one blocks other requests of
    /// the session, so it is sent before the handle's dirty data is flushed.
    async fn release(&self, handle: FileHandle, owner: u64, flock: bool, reply: Reply) {
        if flock {
            // RELEASE has no error that a program sees. A failed unlock is repeated by the
            // session's end.
            let _unreported = self.files.unlock(self.node(), owner, true, 0..=u64::MAX).await;
        }
        self.files.end_handle(HandleId(handle.0));
        reply.ok();
        self.files.release(HandleId(handle.0)).await;
    }

    /// Returns the entries of a directory from a position, with attributes if `plus`.
    async fn names(
        &self,
        handle: FileHandle,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<DirectoryBuffer, rustix::io::Errno> {
        let mut buffer = DirectoryBuffer::new(size);
        let put = |entry: &DirectoryEntry| {
            let DirectoryEntry { name, ino, kind, next, attributes, cache_validity } = entry;
            let (inode, name) = (self.node_id(*ino).0, OsStr::from_bytes(name));
            let name = DirectoryName { inode, cookie: *next, kind: kind_bits(*kind) >> 12, name };
            if plus {
                // One value, so that the name and the attributes expire together. The kernel may
                // apply both after a notification that they have changed.
                let left = cache_validity.remaining_if_unordered();
                let entry = attributes.as_ref().map(|stat| NodeEntry {
                    entry_timeout: left,
                    attributes_timeout: left,
                    ..self.entry(stat)
                });
                buffer.push_plus(entry.as_ref(), name)
            } else {
                buffer.push(name)
            }
        };
        self.files.read_directory(HandleId(handle.0), offset, plus, put).await?;
        Ok(buffer)
    }
}

/// Returns an error in the form of `fuse`.
fn errno(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error()).unwrap_or(Errno::EIO)
}

/// Returns the mode for flags of open(2).
fn open_mode(flags: u32) -> OpenMode {
    OpenMode {
        writes: flags & ACCESS_MODE != 0,
        truncates: flags & TRUNCATE != 0,
        executes: flags & EXECUTE != 0,
        drops_rights: false,
    }
}
