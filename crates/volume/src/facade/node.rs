//! Nodes: the operations of a mount, by inode number and name.
//!
//! For example, a program's `rename` calls [`Journaled::rename_node`], and its reads call
//! [`Volume::read_node`].

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use content::{ContentError, ContentStream, Permit, RecordSlices, SliceSource, StagedContent};
use ledger::Note;
use namespace::{
    Acl, AclKind, AttributeChange, ContentChange, DeleteBucket, FindName, FindNode, FindUnlinked,
    FindXattr, FoundNode, FsError, LinkNode, Linked, ListedNames, MakeNode, NewNode, NodeName,
    ObjectItem, Planner, ReadNames, RemoveDirectory, RemoveName, RemovedName, RenameMode,
    RenameNode, Renamed, SetAccessTime, SetAcl, SetAttributes, SetObjectItem, SetXattr, Whiteout,
    WriteContent, XattrChange, pages_of,
};
use record::{
    Content, File, HoldScope, InlineBytes, Ino, InodeBody, RetainUntil, Slice, Sum, Tag, Timestamp,
};
use session::ReadPin;

use super::NewBucket;
use super::randomness::opaque_tag;
use crate::{Volume, VolumeError};

/// Keeps the inode of an open file from being deleted, also after its last name is removed.
#[derive(Clone, Debug)]
pub struct OpenNode {
    _pin: Arc<ReadPin>,
}

/// The owner and the permission bits of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creator {
    /// Requested permission bits of the new node.
    pub mode: u32,
    /// Permission bits that the node does not get, unless the directory has a default access
    /// control list.
    pub umask: u32,
    /// The user id of the new node.
    pub uid: u32,
    /// The group id of the new node, unless the directory passes its own on.
    pub gid: u32,
}

/// The parameters of a content change, apart from the content.
#[derive(Clone, Copy, Debug)]
pub struct FileWrite<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// A name of the file, if one is known. The commit may have to change the dentry of this name,
    /// too.
    pub known_name: Option<&'a NodeName>,
    /// Attributes that change in the same commit.
    pub attributes: &'a AttributeChange,
    /// The data version (the number of content changes) that the file must have. If it has another
    /// one, the change fails with [`namespace::FsError::ContentReplaced`]. `None` accepts any.
    pub expected_data_version: Option<u64>,
    /// The entry of the request in the journal of the ledger, which passes from this process of a
    /// mount to the next. With it the next process knows if the request was carried out. `None` if
    /// it need not know.
    pub note: Option<&'a Note>,
    /// The retention that earlier writes of the same open file gave the object by its bucket's
    /// default. It does not refuse further writes of that open file.
    pub own_retention: Option<RetainUntil>,
}

impl<'a> FileWrite<'a> {
    /// Creates the parameters of a change of content alone, for any data version.
    pub fn new(ino: Ino, known_name: Option<&'a NodeName>) -> FileWrite<'a> {
        FileWrite {
            ino,
            known_name,
            attributes: &UNCHANGED,
            expected_data_version: None,
            note: None,
            own_retention: None,
        }
    }
}

/// The empty note, for a request without an entry in the ledger's journal.
static UNNOTED: Note = Note::none();

/// A change of no attribute.
pub(super) const UNCHANGED: AttributeChange = AttributeChange {
    mode: None,
    uid: None,
    gid: None,
    accessed: None,
    modified: None,
    drop_rights: false,
};

/// A run of bytes of a body that is written, with its position in the file. The runs of a body
/// follow each other in it without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRun {
    /// The offset of the run in the file, in bytes.
    pub position: u64,
    /// The length of the run in bytes.
    pub length: u64,
}

/// Changes of a file's size that go with a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// The size in bytes to which the file is cut before the write, if any.
    pub cut: Option<u64>,
    /// The least size of the file after the write, in bytes. If the file would be shorter, a hole
    /// is added.
    pub end: u64,
}

/// Returns a regular file without content.
pub fn empty_file() -> File {
    File::new(0, super::object::empty_tag(), Content::Inline(InlineBytes::empty()))
}

impl Volume {
    /// Returns the operations that change the volume, for one request of a mount. `note` is the
    /// request's entry in the journal of the ledger (a file in memory that passes from one process
    /// of a mount to the next).
    pub fn journaled<'a>(&'a self, note: &'a Note) -> Journaled<'a> {
        Journaled { volume: self, note }
    }

    /// Finds the node that a name in a directory is bound to. Fails with `NoSuchKey` if the name is
    /// free.
    pub async fn find_name(&self, name: &NodeName) -> Result<FoundNode, VolumeError> {
        self.session.run_as_watch(&FindName { name }, None).await
    }

    /// Finds a node by its number. Fails with [`namespace::FsError::Stale`] if there is none.
    pub async fn find_node(&self, ino: Ino) -> Result<FoundNode, VolumeError> {
        self.session.run_as_watch(&FindNode { ino }, None).await
    }

    /// Returns a whiteout of this user and group, which [`Journaled::rename_node`] binds to the old
    /// name of a rename. A whiteout is a device file by which an overlay file system hides a name.
    /// With `replaces` false the rename fails if the new name exists.
    pub async fn new_whiteout(
        &self,
        (uid, gid): (u32, u32),
        replaces: bool,
    ) -> Result<Whiteout, VolumeError> {
        let [ino] = self.fresh().await?;
        Ok(Whiteout { ino, uid, gid, replaces })
    }

    /// Finds a node by its number. The flag is true if the node has no name any more. The reaper
    /// deletes such a node as soon as no program has it open, unless it is a noncurrent version or
    /// an item of the trash. Fails with [`namespace::FsError::Stale`] if there is none.
    pub async fn find_unlinked(&self, ino: Ino) -> Result<(FoundNode, bool), VolumeError> {
        self.session.run_as_watch(&FindUnlinked { ino }, None).await
    }

    /// Sets the time of the last read of a node. Returns true if that changed the node. S3 shows no
    /// change.
    pub async fn update_access_time(&self, ino: Ino, at: Timestamp) -> Result<bool, VolumeError> {
        self.session.run_as_watch(&SetAccessTime { ino, at }, None).await
    }

    /// Returns the value of an extended attribute. Fails with
    /// [`namespace::FsError::NoSuchAttribute`] if the node does not have it.
    pub async fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Bytes, VolumeError> {
        if self.session.has_no_xattrs(ino) {
            return Err(FsError::NoSuchAttribute.into());
        }
        self.session.run_as_watch(&FindXattr { ino, name }, None).await
    }

    /// Returns at most `limit` names of a directory. `from` is `next` of the page before, or `None`
    /// for the first page. The names of the page stay in the record cache, so that lookups of
    /// them need no round trip; with `whole_inodes` also most of their inodes.
    pub async fn read_names(
        &self,
        directory: Ino,
        from: Option<&[u8]>,
        limit: u32,
        whole_inodes: bool,
    ) -> Result<ListedNames, VolumeError> {
        self.session.run_listing(&ReadNames { directory, from, limit, whole_inodes }).await
    }

    /// Keeps a node that was found since `reading` began from being deleted, until the result is
    /// dropped, also after its last name is removed. Blocks that later writes hide, that is, that
    /// are not visible in the file any more, are not kept.
    pub fn open_node(&self, ino: Ino, reading: session::ReaderGuard) -> OpenNode {
        let pin = ReadPin::new(ino, HoldScope::File, reading);
        self.session.holds().watch(&pin);
        OpenNode { _pin: pin }
    }

    /// Opens a node again that was open in the previous process of a mount, if this process has
    /// resumed its session. Returns `None` if the node is not protected from deletion any more: the
    /// session is new, or [`Volume::end_inheritance`] was called.
    pub fn open_inherited(&self, ino: Ino) -> Option<OpenNode> {
        let pin = ReadPin::new(ino, HoldScope::File, self.session.inherited()?);
        self.session.holds().watch(&pin);
        self.session.rely_on_hold(&pin);
        Some(OpenNode { _pin: pin })
    }

    /// Returns true if this process of a mount has resumed the session of the previous one. If
    /// false, other sessions may have taken the locks of the previous process.
    pub fn is_session_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// Ends the protection from deletion of those files that were open in the previous process of a
    /// mount. The caller has opened them all again.
    pub fn end_inheritance(&self) {
        self.session.end_inheritance();
    }

    /// Pins the current epoch until the result is dropped. The epoch is a counter by which sessions
    /// report that earlier readers have ended. While it is pinned, blocks of nodes that are found
    /// after this call are not deleted.
    pub fn reading(&self) -> session::ReaderGuard {
        self.session.reading()
    }

    /// Returns the bytes of a file in `range`, which must be within its size, verified and in
    /// order. `reading` must be the result of `Volume::reading` from before the node was found;
    /// it keeps the blocks from being deleted until the stream ends.
    pub fn read_node(
        &self,
        node: &FoundNode,
        reading: session::ReaderGuard,
        range: Range<u64>,
    ) -> ContentStream {
        self.content_stream(node, range, || Box::new(reading))
    }

    /// As [`Volume::read_node`], for a long reader. After some seconds a hold takes the place of
    /// the epoch that `reading` pins. A hold is a record that keeps the blocks of this file alone,
    /// also those of its present content after later writes, so that deletions of other files need
    /// not wait for this reader.
    pub fn read_node_with_hold(
        &self,
        node: &FoundNode,
        reading: session::ReaderGuard,
        range: Range<u64>,
    ) -> ContentStream {
        self.content_stream(node, range, || {
            let pin = ReadPin::new(node.ino, HoldScope::Versions, reading);
            self.session.holds().watch(&pin);
            Box::new(pin)
        })
    }

    fn content_stream(
        &self,
        node: &FoundNode,
        range: Range<u64>,
        guard: impl FnOnce() -> Box<dyn Any + Send>,
    ) -> ContentStream {
        let InodeBody::File(file) = &node.inode.body else {
            return ContentStream::inline(&Bytes::new(), 0..0, false);
        };
        // A program has no key of the client, so it cannot open such a file.
        if file.needs_customer_key() {
            return ContentStream::failed(ContentError::NeedsCustomerKey);
        }
        let slices: Arc<dyn SliceSource> = match &file.content {
            Content::Inline(bytes) => return ContentStream::inline(bytes, range, file.sparse),
            Content::Slices(slices) => {
                Arc::new(RecordSlices { slices: slices.clone(), sparse: file.sparse })
            }
            Content::Pages(_) => Arc::new(self.map_pages(node.ino, Arc::new((**file).clone()))),
        };
        ContentStream::new(&self.streams, slices, range, guard())
    }

    /// Returns the verified bytes of a range of a file if all of it is in blocks that are in the
    /// memory cache, else `None`. Inline content also gives `None`.
    pub fn read_from_memory(&self, node: &FoundNode, range: Range<u64>) -> Option<Vec<Bytes>> {
        let InodeBody::File(file) = &node.inode.body else { return None };
        if file.needs_customer_key() {
            return None;
        }
        let reader = &*self.streams.reader;
        match &file.content {
            Content::Inline(_) => None,
            Content::Slices(slices) => content::read_from_memory(reader, slices, range),
            Content::Pages(pages) => {
                let [page] = pages[pages_of(pages, range.start, range.end)] else { return None };
                let slices = self.known_pages.get(node.ino, page)?;
                content::read_from_memory(reader, &slices, range)
            }
        }
    }

    /// Takes `bytes` bytes of the memory budget of readers, until the result is dropped. Returns
    /// `None` if less is free.
    pub fn try_reader_memory(&self, bytes: u64) -> Option<Permit> {
        self.streams.budget.try_acquire(bytes)
    }

    /// Replaces the whole content of a file by `body`. `tag` and `sums` are the entity tag and the
    /// checksums of the new content.
    pub async fn replace_content(
        &self,
        write: FileWrite<'_>,
        mut body: StagedContent,
        tag: Tag,
        sums: Vec<Sum>,
    ) -> Result<FoundNode, VolumeError> {
        let mut reservation = body.take_reservation();
        reservation.iter_mut().for_each(|reservation| reservation.assign(write.ino));
        let (content, size) = (body.content().clone(), body.size());
        let change = ContentChange::Replace { content, size, sums };
        self.change_content(write, &change, tag, Some(body)).await
    }

    /// Cuts a file if `shape` says so, then writes the runs of a body over it, each at its
    /// position, in one commit. The runs together are as long as the body. The tag and the
    /// checksums are those of the whole file after the write.
    ///
    /// # Errors
    /// [`namespace::FsError::ContentReplaced`] if the content is inline in the inode's record now.
    /// Then the caller replaces it as a whole.
    pub async fn write_runs(
        &self,
        write: FileWrite<'_>,
        body: StagedContent,
        runs: &[BodyRun],
        shape: Resize,
        (tag, sums): (Tag, Vec<Sum>),
    ) -> Result<FoundNode, VolumeError> {
        let Content::Slices(laid) = body.content() else {
            return Err(VolumeError::Corrupt(
                "the body of a write in runs is not in blocks".to_owned(),
            ));
        };
        let slices = place_runs(laid, runs);
        let end = runs.iter().map(|run| run.position + run.length).max().unwrap_or(0);
        let (cut, end) = (shape.cut, end.max(shape.end));
        let change = ContentChange::Write { cut, slices, end, sums };
        self.change_content(write, &change, tag, Some(body)).await
    }

    /// Replaces the content of a file by the runs of a body, each at its position, and sets the
    /// size to `size` bytes. The gaps between the runs are holes. The tag and the checksums are
    /// those of the whole file after the change.
    pub async fn replace_runs(
        &self,
        write: FileWrite<'_>,
        body: StagedContent,
        runs: &[BodyRun],
        size: u64,
        (tag, sums): (Tag, Vec<Sum>),
    ) -> Result<FoundNode, VolumeError> {
        let slices = match body.content() {
            Content::Slices(laid) => place_runs(laid, runs),
            Content::Inline(_) | Content::Pages(_) if runs.is_empty() => Vec::new(),
            Content::Inline(_) | Content::Pages(_) => {
                let why = "the body of a write in runs is not in blocks";
                return Err(VolumeError::Corrupt(why.to_owned()));
            }
        };
        let change = ContentChange::Replace { content: Content::Slices(slices), size, sums };
        self.change_content(write, &change, tag, Some(body)).await
    }

    /// Sets the file size to `size` bytes, as `ftruncate` does. Growing leaves a hole.
    pub async fn truncate(
        &self,
        write: FileWrite<'_>,
        size: u64,
    ) -> Result<FoundNode, VolumeError> {
        let tag = if size == 0 { super::object::empty_tag() } else { Tag::opaque(opaque_tag()?) };
        self.change_content(write, &ContentChange::Truncate(size), tag, None).await
    }

    /// Cuts a file, and extends the rest with a hole, in one commit, as `shape` says.
    ///
    /// # Errors
    /// As [`Volume::write_runs`].
    pub async fn resize(
        &self,
        write: FileWrite<'_>,
        shape: Resize,
    ) -> Result<FoundNode, VolumeError> {
        let Resize { cut, end } = shape;
        let change = ContentChange::Write { cut, slices: Vec::new(), end, sums: Vec::new() };
        self.change_content(write, &change, Tag::opaque(opaque_tag()?), None).await
    }

    pub(super) async fn change_content(
        &self,
        write: FileWrite<'_>,
        change: &ContentChange,
        tag: Tag,
        body: Option<StagedContent>,
    ) -> Result<FoundNode, VolumeError> {
        // Blocks that the change hides are listed in an orphan of this number, for the reaper.
        let [hidden_ino] = self.fresh().await?;
        let FileWrite { ino, known_name, attributes, expected_data_version, note, own_retention } =
            write;
        let assumptions = &[];
        let operation = WriteContent {
            ino,
            known_name,
            expected_data_version,
            assumptions,
            change,
            tag,
            hidden_ino,
            attributes,
            own_retention,
        };
        let note = note.unwrap_or(&UNNOTED);
        let written = match body {
            // The blocks of the body belong to this plan. If versions must be detached first, the
            // caller stages the body again.
            Some(body) => {
                let blocks = Some(body.into_blocks());
                self.session.run_journaled(&operation, blocks, note).await
            }
            None => {
                self.detaching(ino, || self.session.run_journaled(&operation, None, note)).await
            }
        };
        // Woken also after an error, since the plan may have been committed.
        self.session.wake_reaper();
        if let Ok(node) = &written {
            self.note_written(ino, &node.inode);
        }
        written
    }
}

/// The changing operations for one request of a mount. The journal of the ledger, which passes to
/// the mount's next process, records the request with its plan. So the next process knows if the
/// request was carried out.
#[derive(Clone, Copy, Debug)]
pub struct Journaled<'a> {
    volume: &'a Volume,
    note: &'a Note,
}

impl Journaled<'_> {
    /// Creates a node under a name. If `name` is `None`, creates a file without a name, as
    /// `O_TMPFILE` does.
    pub async fn make_node(
        self,
        directory: Ino,
        name: Option<&[u8]>,
        node: &NewNode,
        creator: Creator,
    ) -> Result<FoundNode, VolumeError> {
        let [ino] = self.volume.fresh().await?;
        self.note.creates(ino);
        let Creator { mode, umask, uid, gid } = creator;
        let operation = MakeNode { directory, name, ino, node, mode, umask, uid, gid };
        let inode = self.volume.session.run_journaled(&operation, None, self.note).await?;
        Ok(FoundNode::made(ino, inode))
    }

    /// Creates a directory of the root, which is a bucket. Fails with
    /// [`namespace::FsError::BucketExists`] if the name exists.
    pub async fn make_bucket_directory(
        self,
        name: &str,
        new: &NewBucket<'_>,
    ) -> Result<(), VolumeError> {
        self.volume.make_bucket(name, new, Some(self.note)).await
    }

    /// Removes an empty directory of the root, which is a bucket.
    pub async fn remove_bucket_directory(self, name: &str) -> Result<(), VolumeError> {
        let operation = DeleteBucket { bucket: name.into() };
        self.volume.session.run_journaled(&operation, None, self.note).await?;
        self.volume.session.wake_reaper();
        Ok(())
    }

    /// Removes a name of a node that is not a directory, as `unlink` does.
    pub async fn remove_name(self, name: &NodeName) -> Result<RemovedName, VolumeError> {
        let removed =
            self.volume.session.run_journaled(&RemoveName { name }, None, self.note).await?;
        self.volume.session.wake_reaper();
        Ok(removed)
    }

    /// Removes an empty directory, as `rmdir` does. Fails with `DirectoryNotEmpty` if it has names.
    pub async fn remove_directory(self, name: &NodeName) -> Result<RemovedName, VolumeError> {
        self.volume.session.run_journaled(&RemoveDirectory { name }, None, self.note).await
    }

    /// Renames a node. `mode` says what happens to a node with the new name: see `RenameMode`.
    pub async fn rename_node(
        self,
        from: &NodeName,
        to: &NodeName,
        mode: RenameMode,
    ) -> Result<Renamed, VolumeError> {
        let operation = RenameNode { from, to, mode };
        let renamed = self.volume.detaching_names([from, to], || {
            self.volume.session.run_journaled(&operation, None, self.note)
        });
        let renamed = renamed.await?;
        if renamed.replaced.is_some() {
            self.volume.session.wake_reaper();
        }
        Ok(renamed)
    }

    /// Adds a name to a node, as `link` does. `known_name` is a name that it has.
    pub async fn link_node(
        self,
        ino: Ino,
        known_name: Option<&NodeName>,
        to: &NodeName,
    ) -> Result<Linked, VolumeError> {
        self.note.creates(ino);
        let operation = LinkNode { ino, known_name, to };
        self.changing(ino, &operation).await
    }

    /// Changes attributes of a node.
    pub async fn set_attributes(
        self,
        ino: Ino,
        change: &AttributeChange,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetAttributes { ino, change }).await
    }

    /// Sets an access control list and the permission bits that go with it, or removes the list.
    pub async fn set_acl(
        self,
        ino: Ino,
        kind: AclKind,
        acl: Option<&Acl>,
        drop_group_id: bool,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetAcl { ino, kind, acl, drop_group_id }).await
    }

    /// Changes an extended attribute that is not an access control list.
    pub async fn set_xattr(
        self,
        ino: Ino,
        known_name: Option<&NodeName>,
        name: &[u8],
        change: &XattrChange,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetXattr { ino, known_name, name, change }).await
    }

    /// Sets a header, tag or similar item that S3 keeps with a file, or removes it if `value` is
    /// `None`. If `had` is given, the item must exist (true) or be absent (false) before.
    pub async fn set_object_item(
        self,
        ino: Ino,
        item: &ObjectItem,
        value: Option<&str>,
        had: Option<bool>,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetObjectItem { ino, item, value, must_exist: had }).await
    }

    /// Runs a change of one node. If noncurrent versions bind its file, they first get a copy of
    /// it, because a version never changes.
    async fn changing<P>(self, ino: Ino, operation: &P) -> Result<P::Output, VolumeError>
    where
        P: Planner + Sync,
        P::Output: Send,
    {
        let run = || self.volume.session.run_journaled(operation, None, self.note);
        self.volume.detaching(ino, run).await
    }
}

/// Returns the slices of a body, moved to the positions that its runs have in the file. `laid` are
/// the slices of the body, in sequence from position 0.
pub(super) fn place_runs(laid: &[Slice], runs: &[BodyRun]) -> Vec<Slice> {
    let mut slices = Vec::with_capacity(laid.len() + runs.len());
    let mut begin = 0;
    for run in runs {
        let range = begin..begin + run.length;
        for piece in laid.iter().filter_map(|slice| layout::clip(slice, &range)) {
            slices.push(Slice { position: run.position + (piece.position - begin), ..piece });
        }
        begin = range.end;
    }
    slices.sort_unstable_by_key(|slice| slice.position);
    slices
}
