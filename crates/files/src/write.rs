//! Writes to open files, truncation and allocation.
//!
//! A write has three steps, because the kernel's requests have a fixed number of buffers, and a
//! write must not hold one while it waits for memory. [`Files::accept_write`] copies the bytes;
//! then the request buffer can be freed. [`Files::wait_for_write_memory`] waits until the memory
//! limit has capacity. The write is answered after that, and [`Files::finish_write`] ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use content::Permit;
use record::Ino;
use rustix::io::Errno;

use crate::file_change::FileChange;
use crate::files::Files;
use crate::open::{DELETED_FILE_BYTES_MAX, HandleId, OpenFile, OpenMode};
use crate::tail::TAIL_BYTES_MAX;

/// The size of a file's dirty data, in bytes, at which a write requests a flush in the background.
const FLUSH_BYTES: u64 = 32 << 20;

/// The largest file size in bytes: 16 TiB, as of ext4 with blocks of 4 KiB.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 44;

/// The time for which a write waits for memory before it requests flushes of all files again.
const MEMORY_WAIT: Duration = Duration::from_millis(200);

/// A write whose bytes are part of the file's dirty data already, and whose answer may have to wait
/// until the memory limit for dirty data allows them.
#[derive(Debug)]
#[must_use = "wait for its memory, reply, and then call `finish_write`"]
pub struct AcceptedWrite {
    file: Arc<OpenFile>,
    written: u32,
    /// The number of bytes of dirty data that this write added beyond the memory limit; 0 if it
    /// need not wait.
    unreserved: u64,
    /// The number of the request if it appended, and otherwise `None`. Until it is answered, the
    /// ledger must show that it was executed: repeated, an append would have an effect twice.
    appended_by: Option<u64>,
}

impl Files {
    /// Writes bytes at `position`, or at the end of the file if `appends` is true. Returns the
    /// number of bytes, which is all of them. They are dirty data then, which the next flush
    /// commits. With `drop_rights`, the set-user-ID and set-group-ID bits are cleared.
    ///
    /// # Errors
    /// `EFBIG` beyond the largest file size, 16 TiB; `ENOSPC` or `EDQUOT` if memory is full and
    /// flushes cannot free any; `ENOMEM` if memory stays full until `io_timeout`; `EIO` if the file
    /// is deleted and its memory is used up.
    pub async fn write(
        &self,
        handle: HandleId,
        position: u64,
        bytes: &[u8],
        appends: bool,
        drop_rights: bool,
    ) -> Result<u32, Errno> {
        let taken = self.accept_write(handle, position, bytes, appends, drop_rights).await?;
        let written = self.wait_for_write_memory(&taken).await;
        self.finish_write(taken).await;
        written
    }

    /// The first step of a write: adds the bytes to the file's dirty data, even if the memory limit
    /// is reached. The parameters and errors are those of `Files::write`. So each program can
    /// exceed the limit by at most one request, which would need the same memory if it waited.
    pub async fn accept_write(
        &self,
        handle: HandleId,
        position: u64,
        bytes: &[u8],
        appends: bool,
        drop_rights: bool,
    ) -> Result<AcceptedWrite, Errno> {
        self.check_writable()?;
        let handle = self.open.handle(handle)?;
        let written = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
        let file = Arc::clone(&handle.file);
        // The previous worker executed this request before it died.
        if self.resent_requests.has_executed(self.request) {
            return Ok(AcceptedWrite { file, written, unreserved: 0, appended_by: None });
        }
        handle.failure()?;
        let mut state = file.state.lock().await;
        if appends && state.tail.is_some_and(|tail| state.size - tail.start >= TAIL_BYTES_MAX) {
            drop(state);
            self.flush_file(&file).await?;
            state = file.state.lock().await;
        }
        // The kernel may assume another end of the file than the present one.
        let end_differs = appends && position != state.size;
        let position = if appends { state.size } else { position };
        let end = position.checked_add(bytes.len() as u64);
        let end = end.filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::FBIG)?;
        let growth = state.dirty.growth(position..end);
        // Dirty data of a deleted file cannot be flushed, so it has a separate limit, and fails at
        // once.
        let permit = if state.life.is_deleted() {
            let fits = state.dirty.bytes() + growth <= DELETED_FILE_BYTES_MAX;
            let permit = self.deleted_memory.try_acquire(growth).filter(|_| fits);
            Some(permit.ok_or(Errno::IO)?)
        } else {
            self.memory.try_acquire(growth)
        };
        let now = self.volume.now();
        let change = FileChange::Write { position, bytes, appends, drop_rights, now };
        self.log_and_apply(&mut state, &change)?;
        let unreserved = if permit.is_some() { 0 } else { growth };
        state.add_permit(permit);
        let appended_by = Some(self.request).filter(|request| appends && *request != 0);
        state.unanswered_appends.extend(appended_by);
        let reaches_limit = state.dirty.bytes() >= FLUSH_BYTES && state.flushing.is_none();
        drop(state);
        if end_differs {
            self.invalidate_cache_soon(file.ino);
        }
        if reaches_limit {
            self.flush_soon(&file);
        }
        Ok(AcceptedWrite { file, written, unreserved, appended_by })
    }

    /// The second step of a write: if the write exceeded the memory limit for dirty data, waits
    /// until flushes have freed enough. Returns the number of bytes written, for the reply.
    pub async fn wait_for_write_memory(&self, taken: &AcceptedWrite) -> Result<u32, Errno> {
        let AcceptedWrite { file, written, unreserved, .. } = taken;
        if *unreserved > 0 {
            let permit = self.wait_for_memory(file, *unreserved).await?;
            let mut state = file.state.lock().await;
            let held = state.permit.as_ref().map_or(0, Permit::bytes);
            // A flush may have freed this write's memory in the meantime.
            if !state.life.is_deleted() && state.dirty.bytes() > held {
                state.add_permit(Some(permit));
            }
        }
        Ok(*written)
    }

    /// The last step of a write, after its reply was sent. From then on the kernel does not send
    /// the request again, so the ledger need not show any more that it was executed.
    pub async fn finish_write(&self, taken: AcceptedWrite) {
        let AcceptedWrite { file, appended_by, .. } = taken;
        if let Some(request) = appended_by {
            file.state.lock().await.unanswered_appends.retain(|unanswered| *unanswered != request);
        }
    }

    /// Waits until the memory limit for dirty data has capacity for `bytes` bytes, and has all
    /// files flushed to free some. Fails with the flush error of `file`, with `ENOSPC` if any flush
    /// found the volume full, and with `ENOMEM` after `io_timeout`.
    async fn wait_for_memory(&self, file: &OpenFile, bytes: u64) -> Result<Permit, Errno> {
        let began = tokio::time::Instant::now();
        let (failures, _) = file.last_failure();
        let full = self.full_flushes.load(Ordering::Relaxed);
        loop {
            // Any file can hold the memory that this write needs.
            for file in self.open.all() {
                self.flush_soon(&file);
            }
            if let Ok(permit) = self.memory.acquire(bytes, MEMORY_WAIT).await {
                return Ok(permit);
            }
            match file.last_failure() {
                (count, Some(failure)) if count > failures => return Err(failure),
                // The dirty data that holds the memory cannot be committed.
                _ if self.full_flushes.load(Ordering::Relaxed) > full => return Err(Errno::NOSPC),
                _ if began.elapsed() >= self.options.io_timeout => return Err(Errno::NOMEM),
                _ => {}
            }
        }
    }

    /// Sets the size of a file, as `ftruncate` does. With a handle, the change is part of the
    /// file's dirty data; without one, it is flushed at once.
    pub(crate) async fn resize(
        &self,
        ino: Ino,
        handle: Option<HandleId>,
        size: u64,
        drop_rights: bool,
    ) -> Result<(), Errno> {
        self.check_writable()?;
        if size > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let (opened, file) = match handle {
            Some(_) if self.resent_requests.has_executed(self.request) => return Ok(()),
            Some(handle) => (None, self.open.handle(handle)?.file.clone()),
            None => {
                // truncate(2) has no descriptor: open the file for the time of the change.
                let opened = self.open(ino, OpenMode { writes: true, ..OpenMode::default() });
                let opened = opened.await?.handle;
                (Some(opened), self.open.handle(opened)?.file.clone())
            }
        };
        {
            let mut state = file.state.lock().await;
            let now = self.volume.now();
            self.log_and_apply(&mut state, &FileChange::Resize { size, drop_rights, now })?;
        }
        let Some(opened) = opened else { return Ok(()) };
        let flushed = self.flush_file(&file).await;
        self.release(opened).await;
        flushed
    }

    /// Extends a file to `end` bytes if it is shorter, as `fallocate` does. The new range is a
    /// hole. Does nothing if `keeps_size` is true: blocks are not reserved.
    pub async fn allocate(
        &self,
        handle: HandleId,
        end: u64,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.check_writable()?;
        if end > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let handle = self.open.handle(handle)?;
        let mut state = handle.file.state.lock().await;
        if end > state.size && !keeps_size {
            let now = self.volume.now();
            self.log_and_apply(&mut state, &FileChange::Extend { size: end, now })?;
        }
        Ok(())
    }
}
