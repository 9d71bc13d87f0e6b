//! Copies by reference.

use std::collections::BTreeSet;
use std::sync::Arc;

use content::StagedContent;
use namespace::{
    Assumption, FsError, NamedBucket, Path, Publish, WriteCondition, add_pack_shares, build_content,
};
use record::{
    BlockId, Content, File, Ino, Mark, ObjectHeaders, ObjectLock, S3Acl, Slice, Sum, key,
};
use store::Write;

use super::object::new_file;
use super::staging::file_content;
use super::{FileOwner, Object, PublishedObject};
use crate::{Volume, VolumeError};

/// What a copy has that its source has not. What is `None` is as in the source.
#[derive(Clone, Debug, Default)]
pub struct CopyChanges {
    /// Content headers and user metadata.
    pub headers: Option<ObjectHeaders>,
    /// Tags.
    pub tags: Option<Vec<(String, String)>>,
    /// Whom it is granted to; nobody if `None`, whoever the source is granted to.
    pub acl: Option<S3Acl>,
    /// Checksums.
    pub sums: Option<Vec<Sum>>,
    /// What keeps it as it is; nothing of what keeps the source.
    pub lock: ObjectLock,
}

impl Volume {
    /// Makes an object of another one's bytes. No data moves: both name the same blocks.
    ///
    /// [`FsError::SourceChanged`] when the source is another by now.
    ///
    /// Goes on if its future is dropped: what it has staged is published or taken back.
    pub async fn copy(
        self: &Arc<Self>,
        source: &Object,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        changes: CopyChanges,
        condition: WriteCondition,
        owner: &FileOwner,
    ) -> Result<PublishedObject, VolumeError> {
        let (volume, source, owner) = (Arc::clone(self), source.clone(), owner.clone());
        let path = Path::new(bucket, key);
        let copying =
            async move { volume.copy_at_once(&source, &path, changes, condition, &owner).await };
        self.session.run_to_completion("copy", copying).await
    }

    async fn copy_at_once(
        &self,
        source: &Object,
        path: &Path,
        changes: CopyChanges,
        condition: WriteCondition,
        owner: &FileOwner,
    ) -> Result<PublishedObject, VolumeError> {
        let mut body = self.copy_staged_inline(source).await?;
        let inos = self.session.allocate_inodes(1 + path.directories.len()).await?;
        let ino = inos[0];
        let (content, writes) = match (&body, &source.file.content) {
            (Some(body), _) => file_content(body, ino),
            (None, inline @ Content::Inline(_)) => (inline.clone(), Vec::new()),
            (None, Content::Slices(_) | Content::Pages(_)) => {
                let slices = self.slices(source).await?;
                let shares = share(&slices, Some(source.ino), ino);
                let (content, mut writes) = build_content(ino, slices);
                writes.extend(shares);
                (content, writes)
            }
        };
        let assumptions = unchanged(source);
        let kept = &source.file.object;
        let mut object = changes.headers.unwrap_or_else(|| kept.clone());
        object.tags = changes.tags.unwrap_or_else(|| kept.tags.clone());
        object.acl = changes.acl;
        object.lock = changes.lock;
        let sums = changes.sums.unwrap_or_else(|| source.file.sums.clone());
        let file = File {
            object,
            sums,
            content,
            data_version: 1,
            links: 1,
            renamed_by: None,
            ..(*source.file).clone()
        };
        let inode = new_file(owner, file);
        let staged = self.stage(ino, &assumptions, writes).await?;
        let operation = Publish {
            path,
            ino,
            fresh: &inos[1..],
            inode: &inode,
            condition: &condition,
            overlap: self.overlap(path.bucket()),
            assumptions: &assumptions,
            writes: staged.writes(),
        };
        let mut reservation = body.as_mut().and_then(StagedContent::take_reservation);
        reservation.iter_mut().for_each(|reservation| reservation.assign(ino));
        let published = match body {
            Some(body) => self.session.run_publishing(&operation, body).await,
            None => self.session.run(&operation).await,
        };
        self.finish_publish(staged, published).await
    }

    /// The bytes of a source that is staged inline, once more: whether its copy is, too, is decided
    /// as for any other body.
    async fn copy_staged_inline(
        &self,
        source: &Object,
    ) -> Result<Option<StagedContent>, VolumeError> {
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
    let records = source.dentries.iter().cloned().chain([inode]);
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
    records.map(put).chain(add_pack_shares(slices, owner)).collect()
}
