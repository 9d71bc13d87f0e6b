//! Copies by reference.

use std::collections::BTreeSet;
use std::sync::Arc;

use content::StagedContent;
use namespace::{Assumption, FsError, Path, Publish, WriteCondition, join_packs, lay_out};
use record::{BlockId, Content, File, Ino, Mark, ObjectHeaders, Slice, key};
use store::Write;

use super::object::new_file;
use super::staging::content_of;
use super::{FileOwner, Object, PublishedObject};
use crate::{Volume, VolumeError};

impl Volume {
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
        owner: &FileOwner,
    ) -> Result<PublishedObject, VolumeError> {
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
        owner: &FileOwner,
    ) -> Result<PublishedObject, VolumeError> {
        let path = Path::new(bucket.as_bytes(), key);
        let mut body = self.again(source).await?;
        let inos = self.session.allocate_inodes(1 + path.directories.len()).await?;
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
        let mut reservation = body.as_mut().and_then(StagedContent::take_reservation);
        reservation.iter_mut().for_each(|reservation| reservation.assign(ino));
        let published = match body {
            Some(body) => self.session.run_publishing(&operation, body).await,
            None => self.session.run(&operation).await,
        };
        self.conclude(staged, published).await
    }

    /// The bytes of a source that is staged inline, once more: whether its copy is, too, is decided
    /// as for any other body.
    async fn again(&self, source: &Object) -> Result<Option<StagedContent>, VolumeError> {
        match &source.file.content {
            Content::Inline(bytes) if source.file.content.is_staged_inline() => {
                let mut writer = self.writer(Some(bytes.len() as u64));
                writer.write(bytes.clone()).await?;
                Ok(Some(writer.finish().await?))
            }
            Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => Ok(None),
        }
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
