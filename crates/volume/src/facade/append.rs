//! Appending to an object.
//!
//! The object keeps its inode and gets more bytes in one commit, as when a program appends to the
//! file. Existing blocks are not read. Only content that is inline in the record is written again
//! together with the new bytes. For example, an append of 10 MB to an object of 1 GB puts only
//! blocks of the 10 MB.

use bytes::Bytes;
use content::{ContentWriter, StagedContent};
use namespace::{Assumption, AttributeChange, ContentChange, FsError, NodeName, WriteContent};
use record::{Content, Ino, Sum, Tag, key};

use super::copy::unchanged;
use super::node::{UNCHANGED, place_runs};
use super::{BodyRun, OBJECT_BYTES_MAX, Object, PublishedObject};
use crate::{Volume, VolumeError};

/// A write removes the set-user-id and set-group-id bits.
const WRITTEN: AttributeChange = AttributeChange { drop_rights: true, ..UNCHANGED };

/// Returns the content of an object if it is inline in the inode's record, else `None`. It is
/// written again together with the appended bytes.
fn inline_content(object: &Object) -> Option<&Bytes> {
    match &object.file().content {
        Content::Inline(bytes) => Some(bytes),
        Content::Slices(_) | Content::Pages(_) => None,
    }
}

impl Volume {
    /// Returns a writer for bytes that will be appended to an object. `size_hint` is their expected
    /// number. If the content of the object is inline in its record, the writer already has these
    /// bytes, so the body that it stages begins with them.
    ///
    /// Fails if the keys of the object's encryption cannot be read, or if a block cannot be
    /// written.
    pub async fn append_writer(
        &self,
        object: &Object,
        size_hint: Option<u64>,
    ) -> Result<ContentWriter, VolumeError> {
        let keys = self.content_keys(object.file().encryption.as_ref()).await?;
        let Some(bytes) = inline_content(object) else {
            return Ok(self.block_writer(Some(&keys), size_hint));
        };
        let all = size_hint.map(|appended| appended.saturating_add(bytes.len() as u64));
        let sparse = object.file().sparse;
        let mut writer = if sparse {
            self.block_writer(Some(&keys), all)
        } else {
            self.writer(Some(&keys), all)
        };
        writer.write(bytes.clone()).await?;
        Ok(writer)
    }

    /// Appends `appended` bytes to an object as it was found. `body` was staged by the writer of
    /// [`Volume::append_writer`]: its blocks are durable and no record names them yet. `sums` are
    /// the checksums of the whole object after the append, and `tag` is its new entity tag.
    ///
    /// # Errors
    /// [`FsError::SourceChanged`] if the key has another object now, or the object other bytes;
    /// [`FsError::WrongSize`] if the object would be longer than [`OBJECT_BYTES_MAX`];
    /// [`FsError::KeepsVersions`] if the bucket keeps versions.
    pub async fn append(
        &self,
        object: &Object,
        mut body: StagedContent,
        appended: u64,
        tag: Tag,
        sums: Vec<Sum>,
    ) -> Result<PublishedObject, VolumeError> {
        // A version never changes, so an object of a versioned bucket cannot get more bytes.
        if object.version.is_some() {
            return Err(FsError::KeepsVersions.into());
        }
        let size = object.size().saturating_add(appended);
        if size > OBJECT_BYTES_MAX {
            return Err(FsError::WrongSize.into());
        }
        // If the body is staged inline, its capacity counts for this file from here on, also if the
        // plan is refused. The relocator looks at the file.
        let mut reservation = body.take_reservation();
        reservation.iter_mut().for_each(|reservation| reservation.assign(object.ino));
        let change = change(object, &body, size, sums)?;
        // The inode's attributes may change in the meantime. The data version shows if its bytes
        // have.
        let inode = key::inode(object.ino);
        // The commit must still find the object under its key, or the bytes would be appended to a
        // replaced object.
        let mut names = unchanged(object);
        names.retain(|assumed| assumed.key != inode);
        let name = names.last().map(name_of);
        let [hidden_ino] = self.fresh().await?;
        let operation = WriteContent {
            ino: object.ino,
            known_name: name.as_ref(),
            expected_data_version: Some(object.file().data_version),
            assumptions: &names,
            change: &change,
            tag,
            hidden_ino,
            attributes: &WRITTEN,
            own_retention: None,
        };
        let written = self.session.run_publishing(&operation, body.into_blocks()).await;
        self.session.wake_reaper();
        let node = match written {
            // For S3 both mean that the object has changed: the view finds it again and decides
            // anew.
            Err(VolumeError::Fs(FsError::ContentReplaced | FsError::Stale)) => {
                return Err(FsError::SourceChanged.into());
            }
            // An item of the trash is another hard link of the file. After detaching, the next
            // request meets a file without it.
            Err(VolumeError::Fs(FsError::NotCurrent)) => {
                self.detach_versions(object.ino).await?;
                return Err(FsError::SourceChanged.into());
            }
            written => written?,
        };
        // The relocator looks at the file a moment after a write.
        self.note_written(object.ino, &node.inode);
        let sums = node.inode.file().map(|file| file.sums.clone()).unwrap_or_default();
        let object_changed = node.inode.attributes.changed;
        Ok(PublishedObject { object_changed, tag, sums, version: None })
    }
}

/// Returns the change of the content by an append. The object is `size` bytes long after it.
fn change(
    object: &Object,
    body: &StagedContent,
    size: u64,
    sums: Vec<Sum>,
) -> Result<ContentChange, VolumeError> {
    let appended_run = BodyRun { position: object.size(), length: size - object.size() };
    // Slices of the body are in sequence. They are moved to the end of the file.
    let at = |runs: &[BodyRun]| match body.content() {
        Content::Slices(laid) => Ok(place_runs(laid, runs)),
        Content::Inline(_) | Content::Pages(_) => {
            Err(VolumeError::Corrupt("the body of an append is not in blocks".to_owned()))
        }
    };
    Ok(match inline_content(object) {
        Some(_) if !object.file().sparse => {
            ContentChange::Replace { content: body.content().clone(), size, sums }
        }
        // A program has extended the file with a hole behind its inline bytes.
        Some(bytes) => {
            let held = BodyRun { position: 0, length: bytes.len() as u64 };
            ContentChange::Replace {
                content: Content::Slices(at(&[held, appended_run])?),
                size,
                sums,
            }
        }
        None => ContentChange::Write { cut: None, slices: at(&[appended_run])?, end: size, sums },
    })
}

/// Returns the name by which a file was found, from the assumption about its dentry.
fn name_of(found: &Assumption) -> NodeName {
    NodeName { directory: Ino(found.key.partition()), name: found.key.suffix().to_vec() }
}
