//! The commits of a flush (the commit of a file's dirty data), and the checksums that they set.
//!
//! A flush commits its [`FlushingData`] in one of three ways:
//!
//! - A file of at most [`full_rewrite_bytes_max`](crate::FilesOptions::full_rewrite_bytes_max)
//!   bytes whose content is all in memory is written completely and in order, as a PUT is
//!   ([`Files::rewrite`]).
//! - Content that is stored inline in the file's record is rewritten together with the dirty
//!   extents.
//! - Otherwise the extents are written to blocks and laid over the content map
//!   ([`Files::overlay`]), in batches that each fit into one plan.
//!
//! For example, a program changes 4 KiB in the middle of a 1 GiB file: the flush writes one block
//! of 4 KiB, and the commit replaces that range of the content map.
//!
//! A commit that was computed from a version of the file is guarded by that data version. If
//! another client committed in between, the commit fails, changes nothing, and is computed again
//! from the new version. Only an overlay that neither truncates nor appends nor sets checksums
//! needs no guard.

use bytes::Bytes;
use content::{Md5Wanted, StagedContent};
use crc_fast::{CrcAlgorithm, Digest};
use record::{Content, Encryption, File, PageRef, RetainUntil, Sum, Tag};
use volume::{
    BodyRun, FileWrite, FoundNode, FsError, Note, Resize, SetTime, VolumeError, opaque_tag,
};

use crate::dirty::FrozenExtents;
use crate::files::Files;
use crate::open::{FlushingData, OpenFile, retention};
use crate::sequential::{SequentialSums, crc64nvme};
#[cfg(doc)]
use crate::tail::TAIL_BYTES_MAX;
use crate::zeros::zeros;

/// The default of
/// [`FilesOptions::full_rewrite_bytes_max`](crate::FilesOptions::full_rewrite_bytes_max).
pub const FULL_REWRITE_BYTES_MAX_DEFAULT: u64 = 16 << 20;

/// The maximum number of pages of a file's content map (the list of its extents) that one plan
/// deletes, not counting those that it rewrites. A plan is one conditional commit, and lists each
/// block of these pages.
const PAGES_CUT_MAX: usize = 32;

/// The maximum number of runs, that is, contiguous ranges of new bytes, that one plan (one
/// conditional commit) lays over a file's content map.
const BATCH_RUNS_MAX: usize = 512;

/// The maximum number of pages of a file's content map that one plan (one conditional commit)
/// rewrites for its new ranges.
const BATCH_PAGES_MAX: usize = 32;

/// How often one flush gives the noncurrent S3 versions that share the inode of its file a copy of
/// their own. Another client may overwrite a hard link of the file in between, so once may not be
/// enough.
const DETACH_ATTEMPTS_MAX: u32 = 16;

/// New bytes, and the position in the file at which they begin.
type Extent = (u64, Bytes);

/// The file as committed, and the running checksums of all its content if it was written from front
/// to back.
type Committed = (FoundNode, Option<SequentialSums>);

/// The result of a flush (the commit of a file's dirty data) that succeeded.
#[derive(Debug)]
pub(crate) struct Flushed {
    /// The file as committed.
    pub(crate) node: FoundNode,
    /// The running checksums of all the content, if the file was written from front to back.
    pub(crate) sums: Option<SequentialSums>,
    /// For an append: the position of the appended bytes (the tail) as this mount expected it, and
    /// the position at which they were committed. Both differ if another client appended meanwhile.
    pub(crate) tail: Option<(u64, u64)>,
    /// The S3 retention (the time until which an object is locked) that flushes of this open file
    /// gave the object by the default of its bucket. Further flushes may change the object in spite
    /// of it.
    pub(crate) own_retention: Option<RetainUntil>,
}

/// The result of committing a creation.
pub(crate) enum Created {
    /// The file is committed with its content.
    Complete(Box<Flushed>),
    /// The file exists. The content of the flush is still to be committed.
    WithoutContent(Box<FoundNode>),
}

/// The input of a flush's commit, computed from one version of the file.
struct Commit<'a> {
    /// The file, its new attributes, and the conditions of the commit.
    write: FileWrite<'a>,
    /// The file as it was read. The commit fails if another client has changed it since, where that
    /// matters.
    found: &'a File,
    /// The dirty bytes to commit, at their final positions.
    extents: FrozenExtents,
    /// For appends: the position at which the appended bytes begin. It depends on the file size
    /// that was read, so it must be recomputed if another client changed that.
    tail_start: Option<u64>,
    /// The size up to which the committed content of `found` stays visible, in bytes. It is less
    /// than the size of `found` if the flush truncates the file.
    base_end: u64,
    /// The file size after the commit, in bytes.
    size: u64,
    /// The running checksums of the content of `found`, if it was written from front to back.
    sums: Option<SequentialSums>,
}

/// Dirty extents that are written in one or more commits, because one plan (one conditional commit)
/// may have a limited size.
struct Batches<'a> {
    extents: &'a [Extent],
    /// The size at which the file is cut before the extents are written, and its size at the end.
    shape: Resize,
    /// True if each batch is guarded by the data version of the one before it, so that no other
    /// client can write in between.
    in_order: bool,
    /// For appends: the position at which the appended bytes begin. One batch has all of them.
    tail_start: Option<u64>,
    /// The mode in which the file is encrypted.
    encryption: Option<&'a Encryption>,
}

impl Files {
    /// Commits the data of a flush to the volume. `node` is the file as last read, `sums` are the
    /// running checksums of its content if they are known, and `own_retention` is the S3 retention
    /// that earlier flushes of this open file caused. If another client has committed meanwhile,
    /// computes the commit again from the new version. Fails as the volume fails; then the last of
    /// its commits has changed nothing, and the flush can be repeated.
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
        let mut cut = flushing.cut;
        if let Some(creation) = &flushing.creation {
            match self.commit_creation(creation, node, flushing, &attributes).await? {
                Created::Complete(flushed) => return Ok(*flushed),
                Created::WithoutContent(made) => {
                    // An earlier flush has committed content, all of which is in this flush.
                    let has_content = made.inode.file().is_some_and(|file| file.size > 0);
                    cut = if has_content { Some(0) } else { cut };
                    at = *made;
                }
            }
        }
        // One turn for each version of the file that another client commits meanwhile.
        loop {
            let found = at.inode.file().ok_or(FsError::Stale)?;
            let write = FileWrite {
                ino: file.ino,
                known_name: known_name.as_ref(),
                attributes: &attributes,
                expected_data_version: Some(found.data_version),
                note: Some(&flushing.note),
                own_retention,
            };
            let sums = sums.clone().filter(|sums| sums.match_version(found.data_version));
            let (mut extents, mut tail) = (flushing.extents.clone(), None);
            let (base_end, size) = match (cut, flushing.tail) {
                (Some(cut), _) => (cut.min(found.size), flushing.size),
                (None, Some(appended)) => {
                    let start = appended.place(found.size, &extents);
                    extents = extents.shifted(appended.start, start);
                    tail = Some((appended.start, start));
                    (found.size, flushing.size - appended.start + start)
                }
                // Another client may have extended the file. The longer size stays, unless this
                // flush truncates.
                (None, None) => (found.size, flushing.size.max(found.size)),
            };
            let changes_content = commit_changes_content(&extents, found, base_end, size);
            let commit = Commit {
                write,
                found,
                extents,
                tail_start: tail.map(|(_, at)| at),
                base_end,
                size,
                sums,
            };
            match self.commit_onto(commit).await {
                Ok((node, sums)) => {
                    let version = node.inode.file().map(|file| file.data_version);
                    let sums = sums.map(|sums| sums.with_version(version));
                    let own_retention =
                        if changes_content { retention(&node) } else { own_retention };
                    return Ok(Flushed { node, sums, tail, own_retention });
                }
                // Another client has written to the file: apply the data to its present content.
                Err(VolumeError::Fs(FsError::ContentReplaced)) => {
                    at = self.volume.find_node(file.ino).await?;
                }
                // Noncurrent versions share this inode and must not change. Give them a copy, then
                // commit.
                Err(VolumeError::Fs(FsError::NotCurrent)) if detached < DETACH_ATTEMPTS_MAX => {
                    detached += 1;
                    self.volume.detach_versions(file.ino).await?;
                    at = self.volume.find_node(file.ino).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Commits the data of a flush over the version of the file from which it was computed.
    async fn commit_onto(&self, commit: Commit<'_>) -> Result<Committed, VolumeError> {
        let Commit { write, found, extents, base_end, size, .. } = &commit;
        let size = *size;
        if !commit_changes_content(extents, found, *base_end, size) {
            // Nothing but attributes to commit: no content, no block, no new data version.
            let node = if write.attributes.is_none() {
                self.volume.find_node(write.ino).await?
            } else {
                // Repeated by the next worker, this has the same result, so it needs no journal
                // entry.
                let note = Note::none();
                let volume = self.volume.journaled(&note);
                volume.set_attributes(write.ino, write.attributes).await?
            };
            return Ok((node, commit.sums));
        }
        if *base_end == 0 {
            let all = extents.clone();
            return self.rewrite(commit, &all).await;
        }
        match &found.content {
            Content::Inline(bytes) if !extents.is_empty() || size <= bytes.len() as u64 => {
                let shown = usize::try_from(*base_end).unwrap_or(usize::MAX).min(bytes.len());
                let all = extents.over(&bytes.slice(..shown));
                let commit = Commit { sums: None, ..commit };
                self.rewrite(commit, &all).await
            }
            Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => {
                self.overlay(commit).await
            }
        }
    }

    /// Commits a file that consists of these extents and holes only; nothing of its previous
    /// content stays.
    async fn rewrite(
        &self,
        commit: Commit<'_>,
        extents: &FrozenExtents,
    ) -> Result<Committed, VolumeError> {
        let Commit { write, found, size, tail_start, .. } = commit;
        // A long content map has more blocks than one plan may delete, so shorten it first.
        let write = self.truncate_in_steps(write, found, 0).await?;
        if size <= self.options.full_rewrite_bytes_max {
            let encryption = found.encryption.as_ref();
            return self.write_sequentially(write, extents, size, encryption).await;
        }
        let sums = SequentialSums::new().extended_with(extents, size).await;
        let all: Vec<Extent> = extents.iter().cloned().collect();
        let (first, rest) = first_batch(&all, &[], tail_start);
        // Before the appended bytes are committed, the file ends where they begin. A flush that is
        // repeated appends them there.
        let first_size = tail_start.filter(|_| !rest.is_empty()).unwrap_or(size);
        let complete = sums.as_ref().filter(|_| rest.is_empty());
        let encryption = found.encryption.as_ref();
        let (body, runs) = self.stage_runs(first, encryption).await?;
        let tag_and_sums = tag_and_sums(complete)?;
        // The journal entry goes with the last commit: before it, the flush has not happened.
        let final_note = write.note;
        let write = FileWrite { note: final_note.filter(|_| rest.is_empty()), ..write };
        let mut node =
            self.volume.replace_runs(write, body, &runs, first_size, tag_and_sums).await?;
        if !rest.is_empty() {
            let in_order = tail_start.is_some() || sums.is_some();
            let expected_data_version =
                node.inode.file().map(|file| file.data_version).filter(|_| in_order);
            let own_retention = retention(&node);
            let write =
                FileWrite { expected_data_version, note: final_note, own_retention, ..write };
            let content = Content::Slices(Vec::new());
            let shape = Resize { cut: None, end: size };
            let batches = Batches { extents: rest, shape, in_order, tail_start, encryption };
            node = self.write_batches(write, batches, &content, sums.as_ref()).await?;
        }
        Ok((node, sums))
    }

    /// Lays the extents over content that is stored in blocks, and truncates it if necessary. Takes
    /// one commit, or several if the extents do not fit into one plan.
    async fn overlay(&self, commit: Commit<'_>) -> Result<Committed, VolumeError> {
        let Commit { mut write, found, extents, tail_start, base_end, size, sums } = commit;
        write = self.truncate_in_steps(write, found, base_end).await?;
        let cut = (base_end < found.size).then_some(base_end);
        let shape = Resize { cut, end: size };
        // Without extents the flush is a truncation or an extension.
        if extents.is_empty() {
            let node = match cut {
                Some(cut) if size > cut => self.volume.resize(write, shape).await?,
                _ => self.volume.truncate(write, size).await?,
            };
            return Ok((node, None));
        }
        let sums = match sums {
            Some(sums) if cut.is_none() => sums.extended_with(&extents, size).await,
            _ => None,
        };
        // Other clients may have written elsewhere in the file. That conflicts only with the
        // checksums, which cover the whole file, and with appends, which depend on its size.
        let in_order = tail_start.is_some() || sums.is_some();
        if !in_order && cut.is_none() {
            write.expected_data_version = None;
        }
        let all: Vec<Extent> = extents.iter().cloned().collect();
        let encryption = found.encryption.as_ref();
        let batches = Batches { extents: &all, shape, in_order, tail_start, encryption };
        let node = self.write_batches(write, batches, &found.content, sums.as_ref()).await?;
        Ok((node, sums))
    }

    /// Writes extents in as many commits as necessary, each small enough for one plan. The first
    /// commit truncates the file; the last one sets its size and checksums.
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
        let Batches { mut extents, shape, in_order, tail_start, encryption } = batches;
        let (mut cut, final_note) = (shape.cut, write.note);
        loop {
            let (first, rest) = first_batch(extents, pages, tail_start);
            let (body, runs) = self.stage_runs(first, encryption).await?;
            // Checksums and size are set by the last batch: only then are they true.
            let tag_and_sums = tag_and_sums(sums.filter(|_| rest.is_empty()))?;
            let end = if rest.is_empty() { shape.end } else { 0 };
            let shape = Resize { cut: cut.take(), end };
            write.note = final_note.filter(|_| rest.is_empty());
            let node = self.volume.write_runs(write, body, &runs, shape, tag_and_sums).await?;
            if rest.is_empty() {
                return Ok(node);
            }
            write.expected_data_version =
                node.inode.file().map(|file| file.data_version).filter(|_| in_order);
            write.own_retention = retention(&node);
            extents = rest;
        }
    }

    /// Truncates a long content map in steps, until the part that is still to be removed fits into
    /// one plan. Returns `write` with the data version after the last step as its condition. The
    /// data version is a number of a file that grows with each commit of its content.
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
            write.expected_data_version = Some(file.data_version);
            write.own_retention = retention(&node);
            content = file.content.clone();
        }
        Ok(write)
    }

    /// Writes content that is all in memory, from the first byte to the last, as a PUT does.
    async fn write_sequentially(
        &self,
        write: FileWrite<'_>,
        extents: &FrozenExtents,
        size: u64,
        encryption: Option<&Encryption>,
    ) -> Result<Committed, VolumeError> {
        let (body, tag, sum, sums) = self.stage_sequentially(extents, size, encryption).await?;
        let node = self.volume.replace_content(write, body, tag, vec![sum]).await?;
        Ok((node, sums))
    }

    /// Puts content that is all in memory into blocks, as a PUT does. Returns the staged content,
    /// its entity tag and checksum, and the running checksums if a later flush can continue them.
    pub(crate) async fn stage_sequentially(
        &self,
        extents: &FrozenExtents,
        size: u64,
        encryption: Option<&Encryption>,
    ) -> Result<(StagedContent, Tag, Sum, Option<SequentialSums>), VolumeError> {
        let keys = self.volume.content_keys(encryption).await?;
        let mut writer = self.volume.writer(Some(&keys), Some(size));
        // A later flush may continue at the end of this file. It needs running checksums; the
        // writer's MD5 cannot be continued.
        let sums = SequentialSums::new().extended_with(extents, size).await;
        if sums.is_none() {
            writer.request_md5(Md5Wanted::AtFinish);
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
        Ok((body, tag, sum, sums))
    }

    /// Writes extents to blocks, one after the other. Returns the staged blocks (durable, and not
    /// yet named by a record) and the ranges of the file to which their bytes belong.
    async fn stage_runs(
        &self,
        extents: &[Extent],
        encryption: Option<&Encryption>,
    ) -> Result<(StagedContent, Vec<BodyRun>), VolumeError> {
        let bytes = extents.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let keys = self.volume.content_keys(encryption).await?;
        let mut writer = self.volume.block_writer(Some(&keys), Some(bytes));
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

/// Returns true if a commit changes the content or size of the file `found`, and not only its
/// attributes: if it has extents, truncates the file to `base_end`, or sets another size.
fn commit_changes_content(extents: &FrozenExtents, found: &File, base_end: u64, size: u64) -> bool {
    !extents.is_empty() || base_end != found.size || size != found.size
}

/// Returns the entity tag and the checksums of a content; an opaque tag if they are unknown.
fn tag_and_sums(sums: Option<&SequentialSums>) -> Result<(Tag, Vec<Sum>), VolumeError> {
    match sums {
        Some(sums) => Ok((sums.tag(), vec![sums.sum()])),
        None => Ok((Tag::opaque(opaque_tag()?), Vec::new())),
    }
}

/// Splits off as many extents as one plan (one conditional commit) can apply to a file with these
/// pages of its content map. Returns them and the rest. Each extent may become a slice (an entry of
/// the map), and each page that it touches is rewritten. The first part is never empty.
///
/// If bytes were appended at `tail_start`, the last part has all of them: if a commit had only
/// some, and the next one failed, a repeated flush would append these again. They are one range
/// behind the last page, at most about two [`TAIL_BYTES_MAX`] long, so one plan can apply them.
fn first_batch<'a>(
    extents: &'a [Extent],
    pages: &[PageRef],
    tail_start: Option<u64>,
) -> (&'a [Extent], &'a [Extent]) {
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
    let before_tail = |start| extents.partition_point(|(position, _)| *position < start);
    match tail_start.map(before_tail) {
        Some(0) => count = extents.len(),
        Some(fixed) if count < extents.len() => count = count.min(fixed),
        Some(_) | None => {}
    }
    extents.split_at(count)
}

/// Returns the size to which the next step truncates a file with these pages of its content map;
/// `None` if one plan can remove all pages after `base_end`.
fn cut_step(pages: &[PageRef], base_end: u64) -> Option<u64> {
    let kept = pages.partition_point(|page| page.start < base_end);
    let first = pages.len().checked_sub(PAGES_CUT_MAX).filter(|first| *first > kept)?;
    pages.get(first).map(|page| page.start)
}
