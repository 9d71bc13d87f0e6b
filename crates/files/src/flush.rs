//! Making what was written a file's content.
//!
//! One at a time does this for a file, while others go on writing to it. What is on its way stays
//! visible where it was written; when it is committed, it is what lies below.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use content::StagedContent;
use record::{Content, PageRef, Sum, SumAlgorithm, SumKind, Tag};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use volume::{
    AttributeChange, BodyRun, FileWrite, FoundNode, FsError, SetTime, VolumeError, opaque_tag,
};

use crate::dirty::DirtyExtents;
use crate::files::Files;
use crate::open::{Becoming, HandleId, OpenFile};

/// [`FilesOptions::whole_bytes_max`](crate::FilesOptions::whole_bytes_max), unless it is said.
pub const WHOLE_BYTES_MAX_DEFAULT: u64 = 16 << 20;

/// Pages of a content map that one plan lets go of: it names each of their blocks.
const PAGES_CUT_MAX: usize = 64;

/// For how long what was written may stay dirty.
pub(crate) const DIRTY_FOR: Duration = Duration::from_secs(5);

impl Files {
    /// Makes what was written through a handle, and through others, the file's content: durable, and
    /// seen by everybody. Tells of a failure before.
    pub async fn flush(&self, handle: HandleId) -> Result<(), Errno> {
        let handle = self.open.handle(handle)?;
        let flushed = self.flush_file(&handle.file).await;
        let told = handle.failure();
        flushed.and(told)
    }

    /// Begins to make what was written to a file its content.
    pub(crate) fn flush_soon(&self, file: &Arc<OpenFile>) {
        file.wanted.store(true, Ordering::Relaxed);
        self.flushes.notify_one();
    }

    /// Flushes files that were dirty for long, or that are to be, until `end`.
    pub async fn flush_until(self: Arc<Self>, end: CancellationToken) {
        loop {
            let asked = tokio::select! {
                () = end.cancelled() => return,
                () = self.flushes.notified() => true,
                () = tokio::time::sleep(DIRTY_FOR) => false,
            };
            let mut dirty = Vec::new();
            for file in self.open.all() {
                let is_dirty = file.state.try_lock().is_ok_and(|state| state.is_dirty());
                if is_dirty && (!asked || file.wanted.load(Ordering::Relaxed)) {
                    dirty.push(file);
                }
            }
            let flush = dirty.iter().map(|file| self.flush_file(file));
            // Whoever has a file open is told of what fails.
            let _told: Vec<Result<(), Errno>> = futures::future::join_all(flush).await;
        }
    }

    /// Makes everything that was written the content of its file.
    pub async fn flush_all(&self) -> Result<(), Errno> {
        let files = self.open.all();
        let flushed = futures::future::join_all(files.iter().map(|file| self.flush_file(file)));
        flushed.await.into_iter().collect()
    }

    /// Makes what was written to a file its content.
    pub(crate) async fn flush_file(&self, file: &OpenFile) -> Result<(), Errno> {
        let _alone = file.flushing.lock().await;
        file.wanted.store(false, Ordering::Relaxed);
        let (node, becoming) = {
            let mut state = file.state.lock().await;
            if !state.is_dirty() || state.gone {
                return Ok(());
            }
            let becoming = Arc::new(Becoming {
                extents: std::mem::take(&mut state.dirty),
                below: state.below,
                size: state.size,
                change: std::mem::take(&mut state.change),
                written: state.written.take(),
                _permit: state.permit.take(),
            });
            state.becoming = Some(Arc::clone(&becoming));
            state.below = state.size;
            (state.node.clone(), becoming)
        };
        let written = self.patiently(|| self.commit(file, &node, &becoming)).await;
        let mut state = file.state.lock().await;
        state.becoming = None;
        match written {
            Ok(node) => {
                // If others wrote to it meanwhile, what a program's machine remembers is not all.
                let version = |node: &FoundNode| node.inode.file().map(|file| file.data_version);
                if let (Some(before), Some(now)) = (version(&state.node), version(&node))
                    && now <= before.saturating_add(1)
                    && self.seen_versions.get(&file.ino) == Some(before)
                {
                    self.seen_versions.insert(file.ino, now);
                }
                state.node = node;
                Ok(())
            }
            Err(error) => {
                let gone = error == Errno::STALE;
                state.gone |= gone;
                let mut extents = becoming.extents.clone();
                extents.cut(state.below);
                state.dirty.put_under(extents);
                state.below = state.below.min(becoming.below);
                state.written = state.written.or(becoming.written);
                state.change = merged(&becoming.change, &state.change);
                if gone {
                    return Ok(());
                }
                file.fail(error);
                Err(error)
            }
        }
    }

    /// Commits what is becoming a file's content.
    async fn commit(
        &self,
        file: &OpenFile,
        node: &FoundNode,
        becoming: &Becoming,
    ) -> Result<FoundNode, VolumeError> {
        let known_as = self.names.of(file.ino);
        let mut attributes = becoming.change;
        if let (Some(written), None) = (becoming.written, attributes.modified) {
            attributes.modified = Some(SetTime::At(written));
        }
        let write =
            FileWrite { ino: file.ino, known_as: known_as.as_ref(), attributes: &attributes };
        let mut at = node.clone();
        loop {
            let written = self.commit_over(write, &at, becoming).await;
            match written {
                // Another has written to it, small as it was: what is there now is taken along.
                Err(VolumeError::Fs(FsError::ContentReplaced)) => {
                    at = self.volume.find_node(file.ino).await?;
                }
                written => return written,
            }
        }
    }

    async fn commit_over(
        &self,
        write: FileWrite<'_>,
        node: &FoundNode,
        becoming: &Becoming,
    ) -> Result<FoundNode, VolumeError> {
        let found = node.inode.file().ok_or(FsError::Stale)?;
        let (size, below) = (becoming.size, becoming.below.min(found.size));
        let is_cut = below < found.size;
        if becoming.extents.is_empty() && !is_cut && size == found.size {
            return if write.attributes.is_none() {
                self.volume.find_node(write.ino).await
            } else {
                self.volume.set_attributes(write.ino, write.attributes).await
            };
        }
        // What stands in the record is written anew with it.
        let mut extents = becoming.extents.clone();
        let mut over_nothing = below == 0;
        if let Content::Inline(bytes) = &found.content
            && (!becoming.extents.is_empty() || size <= bytes.len() as u64)
        {
            let mut under = DirtyExtents::default();
            under.write(0, bytes);
            under.cut(below);
            extents.put_under(under);
            over_nothing = true;
        }
        if let Content::Pages(pages) = &found.content
            && let Some(cut) = Self::cut_step(pages, below)
        {
            let node = self.volume.truncate(write, cut).await?;
            return Box::pin(self.commit_over(write, &node, becoming)).await;
        }
        if over_nothing {
            if size <= self.options.whole_bytes_max {
                return self.write_whole(write, &extents, size).await;
            }
            let (body, runs) = self.stage_runs(&extents).await?;
            return self.volume.replace_runs(write, body, &runs, size).await;
        }
        if is_cut {
            let cut = self.volume.truncate(write, below).await?;
            if extents.is_empty() && size == below {
                return Ok(cut);
            }
        }
        let mut written = None;
        let mut end = below;
        if !extents.is_empty() {
            let (body, runs) = self.stage_runs(&extents).await?;
            end = runs.iter().map(|run| run.position + run.length).max().unwrap_or(0).max(below);
            written = Some(self.volume.write_runs(write, body, &runs).await?);
        }
        match written {
            Some(written) if size <= end => Ok(written),
            _ => self.volume.truncate(write, size).await,
        }
    }

    /// Where a content map is cut first, if it loses more than one plan may say.
    fn cut_step(pages: &[PageRef], below: u64) -> Option<u64> {
        let kept = pages.partition_point(|page| page.start < below);
        let first = pages.len().checked_sub(PAGES_CUT_MAX).filter(|first| *first > kept)?;
        pages.get(first).map(|page| page.start)
    }

    /// Writes a file that is all in memory, from its first byte to its last.
    async fn write_whole(
        &self,
        write: FileWrite<'_>,
        extents: &DirtyExtents,
        size: u64,
    ) -> Result<FoundNode, VolumeError> {
        let mut writer = self.volume.writer(Some(size));
        writer.want_md5(content::Md5Wanted::AtFinish);
        let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        let mut at = 0;
        for (position, bytes) in extents.iter() {
            let hole = vec![0; length(position - at)];
            for bytes in [&hole[..], bytes] {
                if !bytes.is_empty() {
                    crc.update(bytes);
                    writer.write(Bytes::copy_from_slice(bytes)).await?;
                }
            }
            at = position + bytes.len() as u64;
        }
        if at < size {
            let hole = vec![0; length(size - at)];
            crc.update(&hole);
            writer.write(hole.into()).await?;
        }
        let body = writer.finish().await?;
        let tag = match body.md5() {
            Some(md5) => Tag::Md5(md5),
            None => Tag::opaque(opaque_tag()?),
        };
        let bytes = crc.finalize().to_be_bytes().to_vec();
        let sum = Sum { algorithm: SumAlgorithm::Crc64Nvme, kind: SumKind::FullObject, bytes };
        self.volume.replace_content(write, body, tag, vec![sum]).await
    }

    /// Puts extents into blocks, one behind the other.
    async fn stage_runs(
        &self,
        extents: &DirtyExtents,
    ) -> Result<(StagedContent, Vec<BodyRun>), VolumeError> {
        let mut writer = self.volume.run_writer(Some(extents.bytes()));
        let mut runs: Vec<BodyRun> = Vec::new();
        for (position, bytes) in extents.iter() {
            let length = bytes.len() as u64;
            match runs.last_mut() {
                Some(run) if run.position + run.length == position => run.length += length,
                _ => runs.push(BodyRun { position, length }),
            }
            writer.write(Bytes::copy_from_slice(bytes)).await?;
        }
        Ok((writer.finish().await?, runs))
    }
}

/// Two changes, one after the other.
fn merged(first: &AttributeChange, then: &AttributeChange) -> AttributeChange {
    AttributeChange {
        mode: then.mode.or(first.mode),
        uid: then.uid.or(first.uid),
        gid: then.gid.or(first.gid),
        accessed: then.accessed.or(first.accessed),
        modified: then.modified.or(first.modified),
        drop_rights: first.drop_rights || then.drop_rights,
    }
}

/// A length of what memory holds.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
