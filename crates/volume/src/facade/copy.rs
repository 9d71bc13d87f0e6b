//! Copies by reference: the copy names the blocks of its source.
//!
//! For example, `CopyObject` of a 5 GB object writes only records. The plan guards
//! the source, so its blocks cannot be deleted in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use content::StagedContent;
use futures::StreamExt;
use namespace::{
    Assumption, FsError, NamedBucket, Path, Publish, WriteCondition, add_pack_shares, build_content,
};
use record::{
    BlockId, Content, File, Ino, Mark, ObjectHeaders, ObjectLock, S3Acl, Slice, Sum, Tag, key,
};
use store::Write;

use super::object::new_file;
use super::randomness::opaque_tag;
use super::staging::file_content;
use super::{FileOwner, Object, ObjectMode, PublishedObject};
use crate::{Volume, VolumeError};

/// The properties in which a copy differs from its source. A field that is `None` keeps the
/// source's value, except for the access control list.
#[derive(Clone, Debug, Default)]
pub struct CopyChanges {
    /// The content headers and user metadata of the copy; `None` keeps the source's.
    pub headers: Option<ObjectHeaders>,
    /// The S3 tags of the copy; `None` keeps the source's.
    pub tags: Option<Vec<(String, String)>>,
    /// The access control list. With `None` the copy has none, even if the source has one.
    pub acl: Option<S3Acl>,
    /// The checksums of the copy; `None` keeps the source's.
    pub sums: Option<Vec<Sum>>,
    /// The object lock that the request sets. The source's lock is not copied. Without a retention,
    /// the copy gets the default retention of its bucket at the commit.
    pub lock: ObjectLock,
    /// The mode in which the copy is encrypted. The source's mode is not copied.
    pub mode: ObjectMode,
}

impl Volume {
    /// Publishes a copy of an object under another key. No data moves if both have the same mode of
    /// encryption and, with keys of clients, the same object key: both name the same blocks.
    /// Otherwise the bytes are written again.
    ///
    /// The copy is completed even if the future is dropped, so staged records are published or
    /// taken back.
    ///
    /// # Errors
    /// [`FsError::SourceChanged`] if the source has changed since it was found.
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
        let mut body = self.copy_bytes(source, &changes.mode).await?;
        let inos = self.session.allocate_inodes(1 + path.directories.len()).await?;
        // The first number is for the copy, the others for directories that may be missing on its
        // path.
        let ino = inos[0];
        let (content, writes) = match (&body, &source.file.content) {
            (Some(body), _) => file_content(body, ino),
            (None, inline @ Content::Inline(_)) => (inline.clone(), Vec::new()),
            (None, Content::Slices(_) | Content::Pages(_)) => {
                let slices = self.slices(source).await?;
                let shares = share(&slices, Some(source.ino), ino);
                // Both files are owners of the blocks from the same commit on, so neither deletion
                // can delete a block of the other.
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
        // The access control list and the lock belong to one object and are not copied.
        object.lock = changes.lock;
        // The checksums of content in the clear stay out of a record that a client's key protects.
        let kept_sums = || match (changes.mode.key(), &source.key) {
            (Some(_), None) => Vec::new(),
            (Some(_), Some(_)) | (None, _) => source.file.sums.clone(),
        };
        let sums = changes.sums.unwrap_or_else(kept_sums);
        let file = File {
            object,
            sums,
            content,
            encryption: changes.mode.encryption().cloned(),
            tag: tag_of_copy(source, &changes.mode)?,
            // The copy is a new file: its data version and its names begin anew.
            data_version: 1,
            links: 1,
            renamed_by: None,
            ..(*source.file).clone()
        };
        let inode = new_file(owner, file);
        // A large map does not fit into the publishing plan and is committed ahead of it.
        let staged = self.stage(ino, &assumptions, writes).await?;
        let operation = Publish {
            path,
            ino,
            fresh: &inos[1..],
            inode: &inode,
            condition: &condition,
            assumptions: &assumptions,
            writes: staged.writes(),
        };
        let mut reservation = body.as_mut().and_then(StagedContent::take_reservation);
        reservation.iter_mut().for_each(|reservation| reservation.assign(ino));
        let published = match body {
            Some(body) => self.session.run_publishing(&operation, body.into_blocks()).await,
            None => self.session.run(&operation).await,
        };
        self.finish_publish(staged, published).await
    }

    /// Writes the bytes of a source to a new body in this mode of encryption. Returns `None` if the
    /// copy can name the blocks or the inline bytes of its source.
    async fn copy_bytes(
        &self,
        source: &Object,
        mode: &ObjectMode,
    ) -> Result<Option<StagedContent>, VolumeError> {
        let may_share = source.is_shared_by(mode);
        // A staged inline body moves to a block soon, so its bytes are copied instead of shared.
        // The placement policy decides as for any other body if it is staged inline again.
        if may_share && !source.file.content.is_staged_inline() {
            return Ok(None);
        }
        let keys = self.object_keys(mode).await?;
        let mut writer = self.writer(Some(&keys), Some(source.size()));
        let mut bytes = self.read(source, 0..source.size());
        while let Some(bytes) = bytes.next().await {
            writer.write(bytes?).await?;
        }
        Ok(Some(writer.finish().await?))
    }
}

/// Returns the entity tag of a copy: that of the source, whose content the copy has. If one of them
/// is encrypted under a key of the client, the tag is a new opaque one, because it must not show
/// that both have the same content.
fn tag_of_copy(source: &Object, mode: &ObjectMode) -> Result<Tag, VolumeError> {
    if mode.key().is_some() || source.key.is_some() {
        return Ok(Tag::opaque(opaque_tag()?));
    }
    Ok(*source.tag())
}

/// Returns the assumptions that the source's key still leads to the source, and that its inode is
/// unchanged. Both are needed: a replacement or removal changes the name and leaves the inode to
/// the reaper; a change of tags, or moved bytes, changes only the inode.
pub(super) fn unchanged(source: &Object) -> Vec<Assumption> {
    let inode = (key::inode(source.ino), source.record.clone());
    let records = source.dentries.iter().cloned().chain([inode]);
    let assume = |(key, value)| Assumption { key, value, otherwise: FsError::SourceChanged };
    records.map(assume).collect()
}

/// Returns the writes that make `owner` an owner of the blocks of these slices: a share record for
/// each block, which names the owner. `source` gets a share record, too, since it may have been the
/// only owner, and an only owner has none. In a pack, a block of several files, every owner has a
/// share record from the beginning.
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
