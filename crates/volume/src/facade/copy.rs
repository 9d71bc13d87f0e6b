//! Copies by reference, and what is staged ahead of a plan that would be too large.

use std::collections::BTreeSet;
use std::sync::Arc;

use content::{Listed, StagedContent};
use namespace::resting_marks;
use namespace::{
    Assumption, FsError, Path, Publish, Stage, Unstage, WriteCondition, lay_out, rests,
};
use namespace::{join_listed, join_packs};
use record::{BlockId, Content, File, Ino, Mark, ObjectHeaders, Slice, key};
use store::{Plan, Write};
use tracing::warn;

use super::object::new_file;
use super::{Object, Owner, Published};
use crate::{Volume, VolumeError};

/// The most writes that a publishing plan carries besides its own; more are staged ahead of it.
const WRITES_WITH_PUBLISH: usize = 512;

/// The most bytes of such writes.
const BYTES_WITH_PUBLISH: usize = 512 * 1024;

/// Writes that go with a publishing plan, and those that went ahead of it.
#[derive(Debug)]
pub(super) struct Staged {
    ino: Ino,
    /// What went ahead, each plan by itself.
    ahead: Vec<Vec<Write>>,
    with: Vec<Write>,
}

impl Staged {
    /// What the publishing plan must carry.
    pub(super) fn writes(&self) -> &[Write] {
        &self.with
    }
}

impl Volume {
    /// Writes ahead of the plan that publishes `ino` what would make that plan too large.
    pub(super) async fn stage(
        &self,
        ino: Ino,
        assumptions: &[Assumption],
        writes: Vec<Write>,
    ) -> Result<Staged, VolumeError> {
        let chunks = chunks(&writes);
        if chunks.len() <= 1 {
            return Ok(Staged { ino, ahead: Vec::new(), with: writes });
        }
        let mark = Write::Delete(key::staged(self.session.env().session, ino));
        let mut staged = Staged { ino, ahead: Vec::new(), with: vec![mark] };
        for writes in chunks {
            if let Err(error) = self.session.run(&Stage { ino, assumptions, writes }).await {
                self.unstage(staged, &error).await;
                return Err(error);
            }
            staged.ahead.push(writes.to_vec());
        }
        Ok(staged)
    }

    /// Takes back what was staged for a plan that was not committed. What cannot be taken back
    /// now goes once the session has ended.
    ///
    /// The last goes first: whoever is stopped halfway leaves the pages that tell how much of each
    /// pack is left to be given up.
    pub(super) async fn unstage(&self, staged: Staged, why: &VolumeError) {
        if staged.ahead.is_empty() || matches!(why, VolumeError::Unknown(_)) {
            return;
        }
        for (index, writes) in staged.ahead.iter().enumerate().rev() {
            let last = index == 0;
            if let Err(error) = self.session.run(&Unstage { ino: staged.ino, writes, last }).await {
                warn!(ino = staged.ino.0, %error, "staged records left to the sweeper");
                return;
            }
        }
    }

    /// Makes an object of another one's bytes. No data moves: both name the same blocks.
    ///
    /// `replace` stands for the source's content headers and user metadata, `tags` for its tags.
    /// [`FsError::SourceChanged`] when the source is another by now.
    ///
    /// Goes on if its future is dropped: what it has staged is published or taken back.
    #[expect(clippy::too_many_arguments, reason = "each is a header of CopyObject")]
    pub async fn copy(
        self: &Arc<Self>,
        source: &Object,
        bucket: &str,
        key: &[u8],
        replace: Option<ObjectHeaders>,
        tags: Option<Vec<(String, String)>>,
        condition: WriteCondition,
        owner: &Owner,
    ) -> Result<Published, VolumeError> {
        let (volume, source, owner) = (Arc::clone(self), source.clone(), owner.clone());
        let (bucket, key) = (bucket.to_owned(), key.to_vec());
        let copying = async move {
            volume.copy_at_once(&source, &bucket, &key, replace, tags, condition, &owner).await
        };
        self.session.to_its_end("copy", copying).await
    }

    #[expect(clippy::too_many_arguments, reason = "each is a header of CopyObject")]
    async fn copy_at_once(
        &self,
        source: &Object,
        bucket: &str,
        key: &[u8],
        replace: Option<ObjectHeaders>,
        tags: Option<Vec<(String, String)>>,
        condition: WriteCondition,
        owner: &Owner,
    ) -> Result<Published, VolumeError> {
        let path = Path::new(bucket.as_bytes(), key);
        let mut body = self.again(source).await?;
        let listed = body.as_ref().and_then(StagedContent::listed);
        let inos = self.numbers_for(listed, path.directories.len()).await?;
        let ino = inos[0];
        let (content, writes) = match (&body, &source.file.content) {
            (Some(body), _) => content_of(body, ino),
            (None, inline @ Content::Inline(_)) => (inline.clone(), Vec::new()),
            (None, Content::Slices(_) | Content::Pages(_)) => {
                let slices = self.slices(source).await?;
                let shares = share(&slices, Some(source.ino), ino);
                let (content, mut writes) = lay_out(ino, slices);
                writes.extend(shares);
                (content, writes)
            }
        };
        let assumptions = unchanged(source);
        let kept = &source.file.object;
        let mut object = replace.unwrap_or_else(|| kept.clone());
        object.tags = tags.unwrap_or_else(|| kept.tags.clone());
        let file = File { object, content, data_version: 1, links: 1, ..(*source.file).clone() };
        let inode = new_file(owner, file);
        let staged = self.stage(ino, &assumptions, writes).await?;
        let operation = Publish {
            path: &path,
            ino,
            fresh: &inos[1..],
            inode: &inode,
            condition: &condition,
            overlap: self.overlap(bucket),
            assumptions: &assumptions,
            writes: staged.writes(),
        };
        let mut place = body.as_mut().and_then(StagedContent::take_place);
        place.iter_mut().for_each(|place| place.give(ino));
        let published = match body {
            Some(body) => self.session.run_publishing(&operation, body).await,
            None => self.session.run(&operation).await,
        };
        self.conclude(staged, published).await
    }

    /// The bytes of a source that rests in its record, once more: its copy does not rest with it
    /// unless there is room.
    async fn again(&self, source: &Object) -> Result<Option<StagedContent>, VolumeError> {
        match &source.file.content {
            Content::Inline(bytes) if rests(&source.file.content) => {
                let mut writer = self.writer(Some(bytes.len() as u64));
                writer.write(bytes.clone()).await?;
                Ok(Some(writer.finish().await?))
            }
            Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => Ok(None),
        }
    }
}

/// The content of a new file, and what its plan writes besides. The file's number is the body's own,
/// if it has one.
pub(super) fn content_of(body: &StagedContent, ino: Ino) -> (Content, Vec<Write>) {
    match body.content() {
        Content::Slices(slices) => {
            let (content, mut besides) = lay_out(ino, slices.clone());
            besides.extend(match (body.listed(), slices.as_slice()) {
                (Some(Listed { ino: own, roster }), [slice]) if own == ino => {
                    join_listed(slice, roster)
                }
                _ => join_packs(slices, ino),
            });
            (content, besides)
        }
        inline => (inline.clone(), resting_marks(inline, ino)),
    }
}

/// That the source of a copy is still what its key leads to, and the file it was. Both are needed: who
/// replaces or removes an object changes its name and leaves the inode to the reaper, and who
/// changes its tags or moves its bytes changes the inode alone.
pub(super) fn unchanged(source: &Object) -> Vec<Assumption> {
    let inode = (key::inode(source.ino), source.record.clone());
    let records = source.way.iter().cloned().chain([inode]);
    let assume = |(key, value)| Assumption { key, value, otherwise: FsError::SourceChanged };
    records.map(assume).collect()
}

/// Records that `owner` owns the blocks of these slices from now on, together with `source`, which
/// may have been the only one until now. In a pack every owner says so from the beginning.
pub(super) fn share(slices: &[Slice], source: Option<Ino>, owner: Ino) -> Vec<Write> {
    let ordinary = slices.iter().map(|slice| slice.block).filter(|block| !block.is_pack());
    let blocks: BTreeSet<BlockId> = ordinary.collect();
    let owners = || source.into_iter().chain([owner]);
    let records = blocks.iter().flat_map(|block| owners().map(|owner| (*block, owner)));
    let put = |(block, owner)| {
        let key = key::share(block, owner);
        Write::Put(key.clone(), Mark.encode(&key))
    };
    records.map(put).chain(join_packs(slices, owner)).collect()
}

/// Cuts writes into what one plan may carry. A tally stays with the record before it, which it
/// counts.
fn chunks(writes: &[Write]) -> Vec<&[Write]> {
    let (mut chunks, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, write) in writes.iter().enumerate() {
        let size = Plan { guards: Vec::new(), writes: vec![write.clone()] }.bytes();
        let full = index - start >= WRITES_WITH_PUBLISH || bytes + size > BYTES_WITH_PUBLISH;
        if full && index > start && !matches!(write, Write::Add(..)) {
            chunks.push(&writes[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < writes.len() {
        chunks.push(&writes[start..]);
    }
    chunks
}
