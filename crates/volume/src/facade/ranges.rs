//! Ranges of files: seeking data and holes, punching holes, and sharing ranges between files.
//!
//! A range is changed by one plan, and no bytes move. The blocks that it named are left to the
//! reaper, and the blocks that it names afterwards are shared with the source. For example, `cp
//! --reflink` and `copy_file_range` call [`Volume::share_range`].

use std::ops::Range;
use std::sync::Arc;

use namespace::{ContentChange, FoundNode, FsError, SharedRange, pages_of};
use record::{Content, File, Ino, Slice, Tag};

use super::node::FileWrite;
use super::randomness::opaque_tag;
use crate::{Volume, VolumeError};

/// Most slices that one plan shares with another file. Each costs two records. The caller shares
/// the rest of a longer range by further calls.
const SLICES_SHARED_MAX: usize = 128;

/// Pages of a file's content map that are read together.
const PAGES_AT_ONCE: usize = 16;

/// The target of a seek in a file: data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// Bytes that were written (`SEEK_DATA`).
    Data,
    /// A hole (`SEEK_HOLE`).
    Hole,
}

impl Volume {
    /// Returns the first position of data or of a hole, as `target` says, in `range`, which must be
    /// within the file's size. Returns `None` if the range has none.
    pub async fn seek_node(
        &self,
        node: &FoundNode,
        range: Range<u64>,
        target: SeekTarget,
    ) -> Result<Option<u64>, VolumeError> {
        let first = self.seek_as_found(node, range.clone(), target).await;
        let Err(error @ VolumeError::Corrupt(_)) = first else { return first };
        // Missing pages may have been replaced by others, because the file changed.
        let _reading = self.session.reading();
        let now = self.find_node(node.ino).await?;
        if now.record == node.record {
            return Err(error);
        }
        self.seek_as_found(&now, range, target).await
    }

    async fn seek_as_found(
        &self,
        node: &FoundNode,
        range: Range<u64>,
        target: SeekTarget,
    ) -> Result<Option<u64>, VolumeError> {
        let file = node.inode.file().ok_or(FsError::IsADirectory)?;
        if range.is_empty() {
            return Ok(None);
        }
        let hole = target == SeekTarget::Hole;
        // A file without holes needs no map.
        if !file.sparse {
            return Ok((!hole).then_some(range.start));
        }
        match &file.content {
            // Inline bytes are followed by a hole up to the file's size.
            Content::Inline(bytes) => {
                let end = bytes.len() as u64;
                let at = if hole { range.start.max(end) } else { range.start };
                Ok((at < if hole { range.end } else { end }).then_some(at))
            }
            Content::Slices(slices) => Ok(layout::seek(slices, range, hole)),
            Content::Pages(pages) => {
                let within = pages_of(pages, range.start, range.end);
                let mut at = range.start;
                // Pages are read in groups, so that a seek in a large file needs little memory.
                for first in within.clone().step_by(PAGES_AT_ONCE) {
                    let next = first.saturating_add(PAGES_AT_ONCE).min(within.end);
                    let end = pages.get(next).map_or(range.end, |page| page.start.min(range.end));
                    let pages = &pages[first..next];
                    let slices =
                        self.map_pages(node.ino, Arc::new(file.clone())).load(pages).await?;
                    if let Some(found) = layout::seek(&slices, at..end.max(at), hole) {
                        return Ok(Some(found));
                    }
                    at = end.max(at);
                }
                // The rest of the range has no slice, so it is a hole.
                Ok((hole && at < range.end).then_some(at))
            }
        }
    }

    /// Makes a range of a file a hole, within the file's size, as punching a hole does.
    ///
    /// # Errors
    /// [`FsError::ContentReplaced`] if the content is inline in the inode's record and bytes follow
    /// behind the range. Then the caller writes the record again.
    pub async fn clear_range(
        &self,
        write: FileWrite<'_>,
        range: Range<u64>,
    ) -> Result<FoundNode, VolumeError> {
        let tag = Tag::opaque(opaque_tag()?);
        self.change_content(write, &ContentChange::Clear(range), tag, None).await
    }

    /// Lets a file name, from `position` on, the blocks that a range of another file names, so that
    /// both files share them. The source may be the file itself if the ranges do not overlap.
    /// Returns the file and the number of bytes of the range that are shared, from its start: at
    /// least one, if the range has any. The caller calls again for the rest.
    ///
    /// # Errors
    /// [`FsError::SourceChanged`] if the source has changed since it was found;
    /// [`FsError::ContentReplaced`] if one of the two files has inline content or they differ in
    /// their mode of encryption, and
    /// [`FsError::BlockReleasePending`] if the file has released the same blocks a short time ago:
    /// then the caller copies the bytes.
    pub async fn share_range(
        &self,
        write: FileWrite<'_>,
        source: &FoundNode,
        range: Range<u64>,
        position: u64,
    ) -> Result<(FoundNode, u64), VolumeError> {
        let file = source.inode.file().ok_or(FsError::IsADirectory)?;
        let found = self.slices_to_share(source.ino, file, range.clone()).await;
        let (found, end) = match found {
            // Missing pages may have been replaced by others.
            Err(VolumeError::Corrupt(_))
                if self.find_node(source.ino).await?.record != source.record =>
            {
                return Err(FsError::SourceChanged.into());
            }
            found => found?,
        };
        let shift =
            |piece: Slice| Slice { position: piece.position - range.start + position, ..piece };
        let range = range.start..end;
        let within = found.iter().filter_map(|slice| layout::clip(slice, &range));
        let bytes = range.end - range.start;
        // A copy of the whole source has its MD5. For a part of it no MD5 is known.
        let is_whole = range == (0..file.size) && position == 0;
        let change = ContentChange::Share(SharedRange {
            range: position..position.saturating_add(bytes),
            slices: within.map(shift).collect(),
            source: source.ino,
            record: source.record.clone(),
            encryption: file.encryption.clone(),
            tag: Some(file.tag).filter(|tag| is_whole && matches!(tag, Tag::Md5(_))),
        });
        let tag = Tag::opaque(opaque_tag()?);
        Ok((self.change_content(write, &change, tag, None).await?, bytes))
    }

    /// Returns the slices of a range of a file, and the end of the part of the range that they
    /// cover. The end is before the end of the range if it has more slices than one plan can share.
    async fn slices_to_share(
        &self,
        ino: Ino,
        file: &File,
        range: Range<u64>,
    ) -> Result<(Vec<Slice>, u64), VolumeError> {
        let (mut slices, mut end) = match &file.content {
            Content::Inline(_) => return Err(FsError::ContentReplaced.into()),
            Content::Slices(slices) => (slices.clone(), range.end),
            Content::Pages(pages) => {
                let within = pages_of(pages, range.start, range.end);
                let next = within.end.min(within.start.saturating_add(PAGES_AT_ONCE));
                let more = pages.get(next).filter(|_| next < within.end);
                let end = more.map_or(range.end, |page| page.start);
                let pages = &pages[within.start..next];
                (self.map_pages(ino, Arc::new(file.clone())).load(pages).await?, end)
            }
        };
        slices.retain(|slice| slice.position < end && slice.end() > range.start);
        if let Some(more) = slices.get(SLICES_SHARED_MAX) {
            end = more.position;
            slices.truncate(SLICES_SHARED_MAX);
        }
        Ok((slices, end))
    }
}
