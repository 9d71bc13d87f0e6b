//! Writing to an open file, and changing how long it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use content::Permit;
use record::Ino;
use rustix::io::Errno;

use crate::change_log::FileChange;
use crate::files::Files;
use crate::open::{DELETED_FILE_BYTES_MAX, HandleId, OpenFile, OpenMode};

/// Dirty bytes of one file at which they begin to become its content, though nobody asks for it.
const FLUSH_BYTES: u64 = 32 << 20;

/// The longest file, in bytes: as long as Linux allows with pages of 4 KiB.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 44;

/// How long a write waits for memory before others are made to let go of theirs again.
const MEMORY_WAIT: Duration = Duration::from_millis(200);

/// A write whose bytes are taken, and which may still have to wait for the memory that they take.
#[derive(Debug)]
#[must_use = "it is answered when it is settled"]
pub struct AcceptedWrite {
    file: Arc<OpenFile>,
    written: u32,
    /// Bytes that it takes and does not hold memory for.
    unreserved: u64,
    /// The request, if it has appended: done twice, it would make a difference.
    appended_by: Option<u64>,
}

impl Files {
    /// Writes bytes at a position, or at the end of the file. They are the file's content when it is
    /// closed or synced.
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

    /// The first part of [`Files::write`]: the bytes are taken, whether there is memory for them or not.
    /// So the request that brought them need not be kept. It is answered after
    /// [`Files::settle_write`] alone, and before [`Files::end_write`]; so each program that writes is above the limit by one request at
    /// most, which it would hold in any case.
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
        if self.resent_requests.has_executed(self.request) {
            return Ok(AcceptedWrite { file, written, unreserved: 0, appended_by: None });
        }
        handle.failure()?;
        let mut state = file.state.lock().await;
        // A program's machine may think that the file ends elsewhere.
        let is_elsewhere = appends && position != state.size;
        let position = if appends { state.size } else { position };
        let end = position.checked_add(bytes.len() as u64);
        let end = end.filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::FBIG)?;
        let growth = state.dirty.growth(position..end);
        let permit = if state.deleted {
            let fits = state.dirty.bytes() + growth <= DELETED_FILE_BYTES_MAX;
            let permit = self.deleted_memory.try_acquire(growth).filter(|_| fits);
            Some(permit.ok_or(Errno::IO)?)
        } else {
            self.memory.try_acquire(growth)
        };
        let now = self.volume.now();
        self.log(&mut state, &FileChange::Write { position, bytes, appends, drop_rights, now })?;
        let unreserved = if permit.is_some() { 0 } else { growth };
        state.hold(permit);
        state.note_write(position, end, appends);
        state.dirty.write(position, bytes);
        state.size = state.size.max(end);
        state.touch(now, drop_rights);
        let appended_by = Some(self.request).filter(|request| appends && *request != 0);
        state.unanswered_appends.extend(appended_by);
        let is_full = state.dirty.bytes() >= FLUSH_BYTES && state.flushing.is_none();
        drop(state);
        if is_elsewhere {
            self.invalidate_cache_soon(file.ino);
        }
        if is_full {
            self.flush_soon(&file);
        }
        Ok(AcceptedWrite { file, written, unreserved, appended_by })
    }

    /// The second part of [`Files::write`]: waits for the memory that it takes.
    pub async fn wait_for_write_memory(&self, taken: &AcceptedWrite) -> Result<u32, Errno> {
        let AcceptedWrite { file, written, unreserved, .. } = taken;
        if *unreserved > 0 {
            let permit = self.wait_for_memory(file, *unreserved).await?;
            let mut state = file.state.lock().await;
            let held = state.permit.as_ref().map_or(0, Permit::bytes);
            // What has become content meanwhile takes none any more.
            if !state.deleted && state.dirty.bytes() > held {
                state.hold(Some(permit));
            }
        }
        Ok(*written)
    }

    /// The last part of [`Files::write`]: the program has been told.
    pub async fn finish_write(&self, taken: AcceptedWrite) {
        let AcceptedWrite { file, appended_by, .. } = taken;
        if let Some(request) = appended_by {
            file.state
                .lock()
                .await
                .unanswered_appends
                .retain(|unanswered_appends| *unanswered_appends != request);
        }
    }

    /// Waits until there is memory for so many bytes that are written to a file. Files are made to let
    /// go of theirs. If this one cannot, since there is no room in the volume, nobody waits for that.
    async fn wait_for_memory(&self, file: &OpenFile, bytes: u64) -> Result<Permit, Errno> {
        let began = tokio::time::Instant::now();
        let (failures, _) = file.last_failure();
        let full = self.found_full.load(Ordering::Relaxed);
        loop {
            for file in self.open.all() {
                self.flush_soon(&file);
            }
            if let Ok(permit) = self.memory.acquire(bytes, MEMORY_WAIT).await {
                return Ok(permit);
            }
            match file.last_failure() {
                (count, Some(failure)) if count > failures => return Err(failure),
                // What holds the memory cannot become content.
                _ if self.found_full.load(Ordering::Relaxed) > full => return Err(Errno::NOSPC),
                _ if began.elapsed() >= self.options.io_timeout => return Err(Errno::NOMEM),
                _ => {}
            }
        }
    }

    /// Makes a file so long. Through a handle it becomes so with what is written through that.
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
                let opened = self.open(ino, OpenMode { writes: true, ..OpenMode::default() });
                let opened = opened.await?.handle;
                (Some(opened), self.open.handle(opened)?.file.clone())
            }
        };
        {
            let mut state = file.state.lock().await;
            let now = self.volume.now();
            self.log(&mut state, &FileChange::Resize { size, drop_rights, now })?;
            if state.size != size {
                state.resize(size);
            }
            state.touch(now, drop_rights);
        }
        let Some(opened) = opened else { return Ok(()) };
        let flushed = self.flush_file(&file).await;
        self.release(opened).await;
        flushed
    }

    /// Allocates a range: the file is as long as its end, unless its size is to stay.
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
            self.log(&mut state, &FileChange::Extend { size: end, now })?;
            state.note_resize(end);
            state.size = end;
            state.touch(now, false);
        }
        Ok(())
    }
}
