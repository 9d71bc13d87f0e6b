//! How what was written becomes a file's content: in which commits, and with which sums.
//!
//! A file that is all in memory and not long is written whole, as an upload is. Of others, what was
//! written is put into blocks and laid over what there is. Content that stands in the file's record
//! is written anew with it. A change that was computed from what a file had is made only while it has
//! that; else it is computed once more.

use bytes::Bytes;
use content::{Md5Wanted, StagedContent};
use crc_fast::{CrcAlgorithm, Digest};
use record::{Content, File, PageRef, RetainUntil, Sum, Tag};
use volume::{
    BodyRun, FileWrite, FoundNode, FsError, Note, Resize, SetTime, VolumeError, opaque_tag,
};

use crate::dirty::FrozenExtents;
use crate::files::Files;
use crate::open::{FlushingData, OpenFile, retention};
use crate::sequential::{SequentialSums, crc64nvme};
use crate::zeros::zeros;

/// [`FilesOptions::whole_bytes_max`](crate::FilesOptions::whole_bytes_max), unless it is said.
pub const FULL_REWRITE_BYTES_MAX_DEFAULT: u64 = 16 << 20;

/// Pages of a content map that one plan lets go of besides those that it writes anew: it names each of
/// their blocks.
const PAGES_CUT_MAX: usize = 32;

/// Runs that one plan lays over a content map.
const BATCH_RUNS_MAX: usize = 512;

/// Pages of a content map that one plan writes anew for them.
const BATCH_PAGES_MAX: usize = 32;

/// How often one flush detaches noncurrent versions from its file: another client may overwrite a hard
/// link of it in between.
const DETACH_ATTEMPTS_MAX: u32 = 16;

/// Bytes at a position.
type Extent = (u64, Bytes);

/// A file as it was made, and the sums of all of it, if they are known.
type Committed = (FoundNode, Option<SequentialSums>);

/// A file whose content is what was written.
#[derive(Debug)]
pub(crate) struct Flushed {
    pub(crate) node: FoundNode,
    /// The sums of all of it, if they are known.
    pub(crate) sums: Option<SequentialSums>,
    /// Where its tail was thought to begin, if it has one that was appended, and where it does.
    pub(crate) tail: Option<(u64, u64)>,
    /// The retention that writes of this open file gave the object by its bucket's default.
    pub(crate) own_retention: Option<RetainUntil>,
}

/// What is committed, over what.
struct Commit<'a> {
    write: FileWrite<'a>,
    found: &'a File,
    extents: FrozenExtents,
    /// Whether where the extents are depends on the file that was found.
    is_append: bool,
    /// How much of what was found shows.
    base_end: u64,
    /// How long the file is then.
    size: u64,
    /// The sums of what was found, if they are known.
    sums: Option<SequentialSums>,
}

/// What is written in batches.
struct Batches<'a> {
    extents: &'a [Extent],
    shape: Resize,
    /// Whether nobody may write in between.
    in_order: bool,
}

impl Files {
    /// Commits what is becoming a file's content. `sums` are those of what it had before.
    pub(crate) async fn commit(
        &self,
        file: &OpenFile,
        node: &FoundNode,
        flushing: &FlushingData,
        (sums, own_retention): (Option<&SequentialSums>, Option<RetainUntil>),
    ) -> Result<Flushed, VolumeError> {
        let known_name = self.names.get(file.ino);
        let mut attributes = flushing.change;
        if let (Some(written), None) = (flushing.write_time, attributes.modified) {
            attributes.modified = Some(SetTime::At(written));
        }
        let (mut at, sums, mut detached) = (node.clone(), sums.cloned(), 0);
        loop {
            let found = at.inode.file().ok_or(FsError::Stale)?;
            let write = FileWrite {
                ino: file.ino,
                known_name: known_name.as_ref(),
                attributes: &attributes,
                over: Some(found.data_version),
                note: Some(&flushing.note),
                own_retention,
            };
            let sums = sums.clone().filter(|sums| sums.are_of(found.data_version));
            let (mut extents, mut tail) = (flushing.extents.clone(), None);
            let (base_end, size) = match (flushing.cut, flushing.tail) {
                (Some(cut), _) => (cut.min(found.size), flushing.size),
                (None, Some(appended)) => {
                    let start = appended.place(found.size, &extents);
                    extents = extents.shifted(appended.start, start);
                    tail = Some((appended.start, start));
                    (found.size, flushing.size - appended.start + start)
                }
                // Others may have made it longer. That stays, unless it was cut here.
                (None, None) => (found.size, flushing.size.max(found.size)),
            };
            let changes_content = commit_changes_content(&extents, found, base_end, size);
            let commit =
                Commit { write, found, extents, is_append: tail.is_some(), base_end, size, sums };
            match self.commit_onto(commit).await {
                Ok((node, sums)) => {
                    let version = node.inode.file().map(|file| file.data_version);
                    let sums = sums.map(|sums| sums.of_version(version));
                    let own_retention =
                        if changes_content { retention(&node) } else { own_retention };
                    return Ok(Flushed { node, sums, tail, own_retention });
                }
                // Another has written to it: what is there now is taken along.
                Err(VolumeError::Fs(FsError::ContentReplaced)) => {
                    at = self.volume.find_node(file.ino).await?;
                }
                // Noncurrent versions bind the file. They get a copy, and the file is written to.
                Err(VolumeError::Fs(FsError::NotCurrent)) if detached < DETACH_ATTEMPTS_MAX => {
                    detached += 1;
                    self.volume.detach_versions(file.ino).await?;
                    at = self.volume.find_node(file.ino).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn commit_onto(&self, commit: Commit<'_>) -> Result<Committed, VolumeError> {
        let Commit { write, found, extents, base_end, size, .. } = &commit;
        let size = *size;
        if !commit_changes_content(extents, found, *base_end, size) {
            let node = if write.attributes.is_none() {
                self.volume.find_node(write.ino).await?
            } else {
                // Done twice, it is as if done once.
                let note = Note::none();
                let volume = self.volume.journaled(&note);
                volume.set_attributes(write.ino, write.attributes).await?
            };
            return Ok((node, commit.sums));
        }
        if *base_end == 0 {
            let anew = extents.clone();
            return self.rewrite(commit, &anew).await;
        }
        match &found.content {
            Content::Inline(bytes) if !extents.is_empty() || size <= bytes.len() as u64 => {
                let shown = usize::try_from(*base_end).unwrap_or(usize::MAX).min(bytes.len());
                let anew = extents.over(&bytes.slice(..shown));
                let commit = Commit { sums: None, ..commit };
                self.rewrite(commit, &anew).await
            }
            _ => self.overlay(commit).await,
        }
    }

    /// Writes a file that has nothing but these extents.
    async fn rewrite(
        &self,
        commit: Commit<'_>,
        extents: &FrozenExtents,
    ) -> Result<Committed, VolumeError> {
        let Commit { write, found, size, is_append, .. } = commit;
        // What a long content map names is more than one plan may say.
        let write = self.truncate_in_steps(write, found, 0).await?;
        if size <= self.options.full_rewrite_bytes_max {
            return self.write_sequentially(write, extents, size).await;
        }
        let sums = SequentialSums::new().followed_by(extents, size).await;
        let all: Vec<Extent> = extents.iter().cloned().collect();
        let (first, rest) = first_batch(&all, &[]);
        let complete = sums.as_ref().filter(|_| rest.is_empty());
        let (body, runs) = self.stage_runs(first).await?;
        let made = tag_and_sums(complete)?;
        // What has happened is all of it when the last commit has.
        let on_last = write.note;
        let write = FileWrite { note: on_last.filter(|_| rest.is_empty()), ..write };
        let mut node = self.volume.replace_runs(write, body, &runs, size, made).await?;
        if !rest.is_empty() {
            let in_order = is_append || sums.is_some();
            let over = node.inode.file().map(|file| file.data_version).filter(|_| in_order);
            let own_retention = retention(&node);
            let write = FileWrite { over, note: on_last, own_retention, ..write };
            let content = Content::Slices(Vec::new());
            let batches = Batches { extents: rest, shape: Resize::default(), in_order };
            node = self.write_batches(write, batches, &content, sums.as_ref()).await?;
        }
        Ok((node, sums))
    }

    /// Writes what was written over what a file has in blocks, cut if it was cut: in one commit, unless
    /// it is too much for one.
    async fn overlay(&self, commit: Commit<'_>) -> Result<Committed, VolumeError> {
        let Commit { mut write, found, extents, is_append, base_end, size, sums } = commit;
        write = self.truncate_in_steps(write, found, base_end).await?;
        let cut = (base_end < found.size).then_some(base_end);
        let shape = Resize { cut, end: size };
        if extents.is_empty() {
            let node = match cut {
                Some(cut) if size > cut => self.volume.resize(write, shape).await?,
                _ => self.volume.truncate(write, size).await?,
            };
            return Ok((node, None));
        }
        let sums = match sums {
            Some(sums) if cut.is_none() => sums.followed_by(&extents, size).await,
            _ => None,
        };
        // Others may have written elsewhere in the file. Only the sums depend on all of it, and what
        // was appended on where it ends.
        let in_order = is_append || sums.is_some();
        if !in_order && cut.is_none() {
            write.over = None;
        }
        let all: Vec<Extent> = extents.iter().cloned().collect();
        let batches = Batches { extents: &all, shape, in_order };
        let node = self.write_batches(write, batches, &found.content, sums.as_ref()).await?;
        Ok((node, sums))
    }

    /// Writes extents in as many commits as it takes, of which each fits into a plan. The first one
    /// cuts the file, and the last one makes it as long as it is to be and says the sums.
    async fn write_batches(
        &self,
        mut write: FileWrite<'_>,
        batches: Batches<'_>,
        content: &Content,
        sums: Option<&SequentialSums>,
    ) -> Result<FoundNode, VolumeError> {
        let pages: &[PageRef] = match content {
            Content::Pages(pages) => pages,
            Content::Inline(_) | Content::Slices(_) => &[],
        };
        let Batches { mut extents, shape, in_order } = batches;
        let (mut cut, on_last) = (shape.cut, write.note);
        loop {
            let (first, rest) = first_batch(extents, pages);
            let (body, runs) = self.stage_runs(first).await?;
            let made = tag_and_sums(sums.filter(|_| rest.is_empty()))?;
            let end = if rest.is_empty() { shape.end } else { 0 };
            let shape = Resize { cut: cut.take(), end };
            write.note = on_last.filter(|_| rest.is_empty());
            let node = self.volume.write_runs(write, body, &runs, shape, made).await?;
            if rest.is_empty() {
                return Ok(node);
            }
            write.over = node.inode.file().map(|file| file.data_version).filter(|_| in_order);
            write.own_retention = retention(&node);
            extents = rest;
        }
    }

    /// Cuts a long content map step by step until the rest of what is to go fits into one plan.
    /// Returns the write that is to follow, over the data version of the rest.
    async fn truncate_in_steps<'w>(
        &self,
        mut write: FileWrite<'w>,
        found: &File,
        base_end: u64,
    ) -> Result<FileWrite<'w>, VolumeError> {
        let mut content = found.content.clone();
        while let Content::Pages(pages) = &content
            && let Some(cut) = cut_step(pages, base_end)
        {
            let node = self.volume.truncate(FileWrite { note: None, ..write }, cut).await?;
            let file = node.inode.file().ok_or(FsError::Stale)?;
            write.over = Some(file.data_version);
            write.own_retention = retention(&node);
            content = file.content.clone();
        }
        Ok(write)
    }

    /// Writes a file that is all in memory, from its first byte to its last.
    async fn write_sequentially(
        &self,
        write: FileWrite<'_>,
        extents: &FrozenExtents,
        size: u64,
    ) -> Result<Committed, VolumeError> {
        let mut writer = self.volume.writer(Some(size));
        // Whoever may go on behind the end needs the sums as they run.
        let sums = SequentialSums::new().followed_by(extents, size).await;
        if sums.is_none() {
            writer.want_md5(Md5Wanted::AtFinish);
        }
        let mut crc = Digest::new(CrcAlgorithm::Crc64Nvme);
        let mut at = 0;
        for (position, bytes) in extents.iter() {
            let hole = zeros(at..*position).map(|(_, bytes)| bytes);
            for bytes in hole.chain([bytes.clone()]) {
                if sums.is_none() {
                    crc.update(&bytes);
                }
                writer.write(bytes).await?;
            }
            at = position + bytes.len() as u64;
        }
        for (_, bytes) in zeros(at..size) {
            crc.update(&bytes);
            writer.write(bytes).await?;
        }
        let body = writer.finish().await?;
        let (tag, sum) = match (&sums, body.md5()) {
            (Some(sums), _) => (sums.tag(), sums.sum()),
            (None, Some(md5)) => (Tag::Md5(md5), crc64nvme(&crc)),
            (None, None) => (Tag::opaque(opaque_tag()?), crc64nvme(&crc)),
        };
        let node = self.volume.replace_content(write, body, tag, vec![sum]).await?;
        Ok((node, sums))
    }

    /// Puts extents into blocks, one behind the other.
    async fn stage_runs(
        &self,
        extents: &[Extent],
    ) -> Result<(StagedContent, Vec<BodyRun>), VolumeError> {
        let bytes = extents.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut writer = self.volume.run_writer(Some(bytes));
        let mut runs: Vec<BodyRun> = Vec::new();
        for (position, bytes) in extents {
            let (position, length) = (*position, bytes.len() as u64);
            match runs.last_mut() {
                Some(run) if run.position + run.length == position => run.length += length,
                _ => runs.push(BodyRun { position, length }),
            }
            writer.write(bytes.clone()).await?;
        }
        Ok((writer.finish().await?, runs))
    }
}

/// Returns true if a commit changes a file's bytes or size, and not its attributes alone.
fn commit_changes_content(extents: &FrozenExtents, found: &File, base_end: u64, size: u64) -> bool {
    !extents.is_empty() || base_end != found.size || size != found.size
}

/// The entity tag and the checksums of a content.
fn tag_and_sums(sums: Option<&SequentialSums>) -> Result<(Tag, Vec<Sum>), VolumeError> {
    match sums {
        Some(sums) => Ok((sums.tag(), vec![sums.sum()])),
        None => Ok((Tag::opaque(opaque_tag()?), Vec::new())),
    }
}

/// As many extents as one plan can lay over a content map of these pages: each of them may be a
/// slice of its own, and each page that they touch is written anew.
fn first_batch<'a>(extents: &'a [Extent], pages: &[PageRef]) -> (&'a [Extent], &'a [Extent]) {
    let (mut count, mut touched, mut last) = (0, 0, None);
    for (position, bytes) in extents {
        let page = |at: u64| pages.partition_point(|page| page.start <= at);
        let (from, to) = (page(*position), page(position + bytes.len() as u64));
        touched += to - from + usize::from(last != Some(from));
        last = Some(to);
        if count > 0 && (count == BATCH_RUNS_MAX || touched > BATCH_PAGES_MAX) {
            break;
        }
        count += 1;
    }
    extents.split_at(count)
}

/// Where a content map is cut first, if it loses more than one plan may say.
fn cut_step(pages: &[PageRef], base_end: u64) -> Option<u64> {
    let kept = pages.partition_point(|page| page.start < base_end);
    let first = pages.len().checked_sub(PAGES_CUT_MAX).filter(|first| *first > kept)?;
    pages.get(first).map(|page| page.start)
}
