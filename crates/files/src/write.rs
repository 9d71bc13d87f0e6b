//! Writing to an open file, and changing how long it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use content::Permit;
use record::Ino;
use rustix::io::Errno;

use crate::files::Files;
use crate::open::{GONE_BYTES_MAX, HandleId, OpenFile, OpenMode};
use crate::telling::FileChange;

/// Dirty bytes of one file at which they begin to become its content, though nobody asks for it.
const FLUSH_BYTES: u64 = 32 << 20;

/// The longest file, in bytes: as long as Linux allows with pages of 4 KiB.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 44;

/// How long a write waits for memory before others are made to let go of theirs again.
const MEMORY_PATIENCE: Duration = Duration::from_millis(200);

/// A write whose bytes are taken, and which may still have to wait for the memory that they take.
#[derive(Debug)]
#[must_use = "it is answered when it is settled"]
pub struct TakenWrite {
    file: Arc<OpenFile>,
    written: u32,
    /// Bytes that it takes and does not hold memory for.
    owed: u64,
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
        let taken = self.take_write(handle, position, bytes, appends, drop_rights).await?;
        let written = self.settle_write(&taken).await;
        self.end_write(taken).await;
        written
    }

    /// The first part of [`Files::write`]: the bytes are taken, whether there is memory for them or not.
    /// So the request that brought them need not be kept. It is answered after
    /// [`Files::settle_write`] alone, and before [`Files::end_write`]; so each program that writes is above the limit by one request at
    /// most, which it would hold in any case.
    pub async fn take_write(
        &self,
        handle: HandleId,
        position: u64,
        bytes: &[u8],
        appends: bool,
        drop_rights: bool,
    ) -> Result<TakenWrite, Errno> {
        self.changeable()?;
        let handle = self.open.handle(handle)?;
        let written = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
        let file = Arc::clone(&handle.file);
        if self.inheritance.has_made(self.request) {
            return Ok(TakenWrite { file, written, owed: 0, appended_by: None });
        }
        handle.failure()?;
        let mut state = file.state.lock().await;
        // A program's machine may think that the file ends elsewhere.
        let is_elsewhere = appends && position != state.size;
        let position = if appends { state.size } else { position };
        let end = position.checked_add(bytes.len() as u64);
        let end = end.filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::FBIG)?;
        let growth = state.dirty.growth(position..end);
        let permit = if state.gone {
            let fits = state.dirty.bytes() + growth <= GONE_BYTES_MAX;
            let permit = self.gone_memory.try_acquire(growth).filter(|_| fits);
            Some(permit.ok_or(Errno::IO)?)
        } else {
            self.memory.try_acquire(growth)
        };
        let now = self.volume.now();
        self.log(&mut state, &FileChange::Write { position, bytes, appends, drop_rights, now })?;
        let owed = if permit.is_some() { 0 } else { growth };
        state.hold(permit);
        state.note_write(position, end, appends);
        state.dirty.write(position, bytes);
        state.size = state.size.max(end);
        state.touch(now, drop_rights);
        let appended_by = Some(self.request).filter(|request| appends && *request != 0);
        state.unanswered.extend(appended_by);
        let is_full = state.dirty.bytes() >= FLUSH_BYTES && state.becoming.is_none();
        drop(state);
        if is_elsewhere {
            self.forget_soon(file.ino);
        }
        if is_full {
            self.flush_soon(&file);
        }
        Ok(TakenWrite { file, written, owed, appended_by })
    }

    /// The second part of [`Files::write`]: waits for the memory that it takes.
    pub async fn settle_write(&self, taken: &TakenWrite) -> Result<u32, Errno> {
        let TakenWrite { file, written, owed, .. } = taken;
        if *owed > 0 {
            let permit = self.make_room(file, *owed).await?;
            let mut state = file.state.lock().await;
            let held = state.permit.as_ref().map_or(0, Permit::bytes);
            // What has become content meanwhile takes none any more.
            if !state.gone && state.dirty.bytes() > held {
                state.hold(Some(permit));
            }
        }
        Ok(*written)
    }

    /// The last part of [`Files::write`]: the program has been told.
    pub async fn end_write(&self, taken: TakenWrite) {
        let TakenWrite { file, appended_by, .. } = taken;
        if let Some(request) = appended_by {
            file.state.lock().await.unanswered.retain(|unanswered| *unanswered != request);
        }
    }

    /// Waits until there is memory for so many bytes that are written to a file. Files are made to let
    /// go of theirs. If this one cannot, since there is no room in the volume, nobody waits for that.
    async fn make_room(&self, file: &OpenFile, bytes: u64) -> Result<Permit, Errno> {
        let began = tokio::time::Instant::now();
        let (failures, _) = file.last_failure();
        let full = self.found_full.load(Ordering::Relaxed);
        loop {
            for file in self.open.all() {
                self.flush_soon(&file);
            }
            if let Ok(permit) = self.memory.acquire(bytes, MEMORY_PATIENCE).await {
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
        self.changeable()?;
        if size > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let (opened, file) = match handle {
            Some(_) if self.inheritance.has_made(self.request) => return Ok(()),
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
        self.changeable()?;
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
