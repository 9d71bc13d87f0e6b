//! Files whose creation is committed together with their first content.
//!
//! For example, a mount that has the volume alone answers `open(2)` of a new file with the result
//! of [`Volume::plan_file`], and at `close(2)` commits name and bytes with [`Volume::make_file`].

use content::StagedContent;
use ledger::Note;
use namespace::{
    AttributeChange, FirstContent, FoundNode, MakeFile, MakeNode, NewNode, NodeName, PlanFile,
};
use record::{Ino, Inode, Sum, Tag};

use super::node::Creator;
use crate::{Volume, VolumeError};

/// A file whose creation was decided and is not committed.
#[derive(Clone, Copy, Debug)]
pub struct PlannedFile<'a> {
    /// The name of the file.
    pub name: &'a NodeName,
    /// The inode number of the file.
    pub ino: Ino,
    /// The inode as it was decided, of a file without content.
    pub inode: &'a Inode,
    /// Attributes that were changed since the decision.
    pub attributes: &'a AttributeChange,
}

impl Volume {
    /// Decides about the creation of a file, by current records, and commits nothing. Returns the
    /// new node; `None` if the file must be created at once, because its bucket has a quota,
    /// versions, a trash or object locks. Fails as [`super::Journaled::make_node`] does.
    pub async fn plan_file(
        &self,
        name: &NodeName,
        node: &NewNode,
        creator: Creator,
    ) -> Result<Option<FoundNode>, VolumeError> {
        let [ino] = self.fresh().await?;
        let NodeName { directory, name } = name;
        let Creator { mode, umask, uid, gid } = creator;
        let (directory, name) = (*directory, Some(&name[..]));
        let creation = MakeNode { directory, name, ino, node, mode, umask, uid, gid };
        let inode = self.session.run_as_watch(&PlanFile { creation }, None).await?;
        Ok(inode.map(|inode| FoundNode::made(ino, inode)))
    }

    /// Creates a file as [`Volume::plan_file`] has decided, together with its first content, in one
    /// commit. `body` is the content with its entity tag and checksums; `None` for an empty file.
    /// `note` is the entry of the flush in the ledger's journal.
    ///
    /// # Errors
    /// [`namespace::FsError::NameExists`] if another session has taken the name,
    /// [`namespace::FsError::Stale`] if it has removed the directory.
    /// [`namespace::FsError::ContentReplaced`] if the bucket has changed so that the content cannot
    /// be part of the creation: then the caller creates the empty file first.
    pub async fn make_file(
        &self,
        new: PlannedFile<'_>,
        body: Option<(StagedContent, Tag, Vec<Sum>)>,
        note: &Note,
    ) -> Result<FoundNode, VolumeError> {
        let PlannedFile { name, ino, inode, attributes } = new;
        let Some((mut body, tag, sums)) = body else {
            let operation = MakeFile { name, ino, inode, content: None, attributes };
            return self.session.run_journaled(&operation, None, note).await;
        };
        let mut reservation = body.take_reservation();
        reservation.iter_mut().for_each(|reservation| reservation.assign(ino));
        let first = FirstContent { content: body.content().clone(), size: body.size(), sums, tag };
        let operation = MakeFile { name, ino, inode, content: Some(&first), attributes };
        let blocks = Some(body.into_blocks());
        let made = self.session.run_journaled(&operation, blocks, note).await;
        if let Ok(node) = &made {
            self.note_written(ino, &node.inode);
        }
        made
    }
}
