//! Writing to an open file, and changing how long it is.

use std::time::Duration;

use record::Ino;
use rustix::io::Errno;

use crate::files::Files;
use crate::open::{HandleId, OpenMode};
use crate::telling::FileChange;

/// Dirty bytes of one file at which they begin to become its content, though nobody asks for it.
const FLUSH_BYTES: u64 = 32 << 20;

/// Bytes that may be written to a file of which nothing is kept any more: they stay in memory.
const GONE_BYTES_MAX: u64 = 4 << 20;

/// The longest file, in bytes: as long as Linux allows with pages of 4 KiB.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 44;

/// How long a write waits for memory before others are made to let go of theirs again.
const MEMORY_PATIENCE: Duration = Duration::from_millis(200);

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
        self.changeable()?;
        let handle = self.open.handle(handle)?;
        if self.inheritance.has_made(self.request) {
            return u32::try_from(bytes.len()).map_err(|_| Errno::INVAL);
        }
        handle.failure()?;
        let written = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
        let file = &handle.file;
        let is_full = loop {
            let mut state = file.state.lock().await;
            if state.gone && state.dirty.bytes() >= GONE_BYTES_MAX {
                return Err(Errno::IO);
            }
            let position = if appends { state.size } else { position };
            let end = position.checked_add(bytes.len() as u64);
            let end = end.filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::FBIG)?;
            let growth = state.dirty.growth(position..end);
            let Some(permit) = self.memory.try_acquire(growth) else {
                drop(state);
                self.make_room(growth).await?;
                continue;
            };
            let now = self.volume.now();
            self.log(&mut state, &FileChange::Write { position, bytes, drop_rights, now })?;
            match &mut state.permit {
                Some(held) => held.merge(permit),
                None => state.permit = Some(permit),
            }
            state.dirty.write(position, bytes);
            state.size = state.size.max(end);
            state.written = Some(now);
            state.change.modified = None;
            if drop_rights {
                state.drop_rights();
            }
            break state.dirty.bytes() >= FLUSH_BYTES && state.becoming.is_none();
        };
        if is_full {
            self.flush_soon(file);
        }
        Ok(written)
    }

    /// Waits until there is memory for so many bytes that are written. Files are made to let go of
    /// theirs.
    async fn make_room(&self, bytes: u64) -> Result<(), Errno> {
        let began = tokio::time::Instant::now();
        loop {
            for file in self.open.all() {
                self.flush_soon(&file);
            }
            if self.memory.acquire(bytes, MEMORY_PATIENCE).await.is_ok() {
                return Ok(());
            }
            if began.elapsed() >= self.options.io_timeout {
                return Err(Errno::NOMEM);
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
            state.written = Some(now);
            state.change.modified = None;
            if drop_rights {
                state.drop_rights();
            }
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
            state.size = end;
            state.written = Some(now);
        }
        Ok(())
    }
}
