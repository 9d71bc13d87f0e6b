//! Nodes: what a view of files calls, by inode and name.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use content::{ContentStream, ContentWriter, Permit, RecordSlices, SliceSource, StagedContent};
use ledger::Note;
use namespace::{
    Acl, AclKind, AttributeChange, ContentChange, DeleteBucket, FindName, FindNode,
    FindNodeOrOrphan, FindXattr, FoundNode, FsError, LinkNode, ListedNames, MakeNode, NewNode,
    NodeName, ObjectItem, Planner, ReadNames, RemoveDirectory, RemoveName, RemovedName, RenameMode,
    RenameNode, Renamed, SetAccessTime, SetAcl, SetAttributes, SetObjectItem, SetXattr, Whiteout,
    WriteContent, XattrChange, pages_of,
};
use record::{Content, File, HoldScope, Ino, InodeBody, RetainUntil, Slice, Sum, Tag, Timestamp};
use session::ReadPin;

use super::NewBucket;
use super::object::opaque_tag;
use crate::{Volume, VolumeError};

/// A node that somebody has open: it is kept from being deleted, whatever becomes of its names.
#[derive(Clone, Debug)]
pub struct OpenNode {
    _pin: Arc<ReadPin>,
}

/// Who makes a node, and with which permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creator {
    /// Permission bits that are wanted.
    pub mode: u32,
    /// Bits that are not given, unless the directory's default access control list says what is.
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory gives its own.
    pub gid: u32,
}

/// A change of a file's content, apart from the content itself.
#[derive(Clone, Copy, Debug)]
pub struct FileWrite<'a> {
    /// The file.
    pub ino: Ino,
    /// A name that it has, if one is known.
    pub known_name: Option<&'a NodeName>,
    /// What becomes of its attributes with it.
    pub attributes: &'a AttributeChange,
    /// The data version that the file must have, if it must have one:
    /// [`namespace::FsError::ContentReplaced`] if it has another.
    pub over: Option<u64>,
    /// By which it is known later whether it was carried out, if that is to be known.
    pub note: Option<&'a Note>,
    /// The retention that earlier writes of the same open file gave the object by its bucket's default:
    /// it does not refuse further writes of that open file.
    pub own_retention: Option<RetainUntil>,
}

impl<'a> FileWrite<'a> {
    /// A change of content alone, over whatever the file has.
    pub fn new(ino: Ino, known_name: Option<&'a NodeName>) -> FileWrite<'a> {
        FileWrite {
            ino,
            known_name,
            attributes: &UNCHANGED,
            over: None,
            note: None,
            own_retention: None,
        }
    }
}

/// Whether a change was carried out need not be known later.
static UNNOTED: Note = Note::none();

/// No change of attributes.
pub(super) const UNCHANGED: AttributeChange = AttributeChange {
    mode: None,
    uid: None,
    gid: None,
    accessed: None,
    modified: None,
    drop_rights: false,
};

/// A run of a body, and where in a file it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRun {
    /// Where in the file it begins.
    pub position: u64,
    /// Bytes.
    pub length: u64,
}

/// What becomes of how long a file is when it is written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// What it has is cut here first, if anywhere.
    pub cut: Option<u64>,
    /// It is at least so long then.
    pub end: u64,
}

/// A regular file without content.
pub fn empty_file() -> File {
    File::new(0, super::object::empty_tag(), Content::Inline(Bytes::new()))
}

impl Volume {
    /// The volume as one request changes it.
    pub fn journaled<'a>(&'a self, note: &'a Note) -> Journaled<'a> {
        Journaled { volume: self, note }
    }

    /// Finds what a name in a directory is bound to.
    pub async fn find_name(&self, name: &NodeName) -> Result<FoundNode, VolumeError> {
        self.session.run_as_watch(&FindName { name }, None).await
    }

    /// Finds a node by its number; [`namespace::FsError::Stale`] if there is none.
    pub async fn find_node(&self, ino: Ino) -> Result<FoundNode, VolumeError> {
        self.session.run_as_watch(&FindNode { ino }, None).await
    }

    /// A whiteout of this owner, to be bound by [`Journaled::rename_node`]. `replaces` is false if nothing
    /// may have the new name.
    pub async fn new_whiteout(
        &self,
        (uid, gid): (u32, u32),
        replaces: bool,
    ) -> Result<Whiteout, VolumeError> {
        let [ino] = self.fresh().await?;
        Ok(Whiteout { ino, uid, gid, replaces })
    }

    /// Finds a node by its number. Returns true with it if its last name is gone and the reaper is
    /// about to delete it. Fails with [`namespace::FsError::Stale`] if there is none.
    pub async fn find_unlinked(&self, ino: Ino) -> Result<(FoundNode, bool), VolumeError> {
        self.session.run_as_watch(&FindNodeOrOrphan { ino }, None).await
    }

    /// Notes when a node was last read, and answers whether that was not noted yet. Nothing that S3
    /// shows changes with it.
    pub async fn update_access_time(&self, ino: Ino, at: Timestamp) -> Result<bool, VolumeError> {
        self.session.run_as_watch(&SetAccessTime { ino, at }, None).await
    }

    /// What an extended attribute says.
    pub async fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Bytes, VolumeError> {
        if self.session.has_no_xattrs(ino) {
            return Err(FsError::NoSuchAttribute.into());
        }
        self.session.run_as_watch(&FindXattr { ino, name }, None).await
    }

    /// Names of a directory, at most `limit` of them, from where the page before ended.
    pub async fn read_names(
        &self,
        directory: Ino,
        from: Option<&[u8]>,
        limit: u32,
    ) -> Result<ListedNames, VolumeError> {
        self.session.run_as_watch(&ReadNames { directory, from, limit }, None).await
    }

    /// Keeps a node, as it was found since `reading` began, from being deleted until what this
    /// returns is dropped. What writes hide of it is not kept.
    pub fn open_node(&self, ino: Ino, reading: session::ReaderGuard) -> OpenNode {
        let pin = ReadPin::new(ino, HoldScope::File, reading);
        self.session.holds().watch(&pin);
        OpenNode { _pin: pin }
    }

    /// Opens a node again that was open when this process went on with the session of another one;
    /// none if it is not kept any more, since the session is another one or all has been opened.
    pub fn open_inherited(&self, ino: Ino) -> Option<OpenNode> {
        let pin = ReadPin::new(ino, HoldScope::File, self.session.inherited()?);
        self.session.holds().watch(&pin);
        self.session.rely_on_hold(&pin);
        Some(OpenNode { _pin: pin })
    }

    /// Returns true if this process goes on with the session of another process. If it returns false, other
    /// sessions may have taken the locks that the other process had.
    pub fn is_session_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// All that was open is open again: what else was kept is let go of.
    pub fn end_inheritance(&self) {
        self.session.end_inheritance();
    }

    /// Pins what is found from here on.
    pub fn reading(&self) -> session::ReaderGuard {
        self.session.reading()
    }

    /// The bytes of a file in `range`, which lies within its size, verified, in order. `reading`, which
    /// began before the node was known to be what the file is, keeps them from being deleted
    /// meanwhile.
    pub fn read_node(
        &self,
        node: &FoundNode,
        reading: session::ReaderGuard,
        range: Range<u64>,
    ) -> ContentStream {
        self.content_stream(node, range, || Box::new(reading))
    }

    /// As [`Volume::read_node`], for somebody who may take long: then a hold on this version of the
    /// file takes the place of the epoch that `reading` has pinned.
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
        let slices: Arc<dyn SliceSource> = match &file.content {
            Content::Inline(bytes) => return ContentStream::inline(bytes, range, file.sparse),
            Content::Slices(slices) => {
                Arc::new(RecordSlices { slices: slices.clone(), sparse: file.sparse })
            }
            Content::Pages(_) => Arc::new(self.map_pages(node.ino, Arc::new((**file).clone()))),
        };
        ContentStream::new(&self.streams, slices, range, guard())
    }

    /// The bytes of a range if all of them lie in blocks and are in memory now, verified.
    pub fn read_from_memory(&self, node: &FoundNode, range: Range<u64>) -> Option<Vec<Bytes>> {
        let InodeBody::File(file) = &node.inode.body else { return None };
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

    /// Memory of the readers', if so much of it is free.
    pub fn try_reader_memory(&self, bytes: u64) -> Option<Permit> {
        self.streams.budget.try_acquire(bytes)
    }

    /// Begins bytes that are to be written into a file, where there may be others around them.
    pub fn run_writer(&self, size_hint: Option<u64>) -> ContentWriter {
        ContentWriter::in_blocks(&self.writers, size_hint)
    }

    /// Gives a file this content in place of what it has.
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

    /// Cuts a file, and writes the runs of a body over what is left, each at its position, in one commit.
    /// Together they are as long as the body. The tag and the checksums are those of the whole file
    /// then.
    ///
    /// # Errors
    /// [`namespace::FsError::ContentReplaced`] if the file has its content in its record by now: then that is
    /// to be replaced.
    pub async fn write_runs(
        &self,
        write: FileWrite<'_>,
        body: StagedContent,
        runs: &[BodyRun],
        shape: Resize,
        (tag, sums): (Tag, Vec<Sum>),
    ) -> Result<FoundNode, VolumeError> {
        let Content::Slices(laid) = body.content() else {
            return Err(VolumeError::Corrupt("what is written in runs lies in blocks".to_owned()));
        };
        let slices = place_runs(laid, runs);
        let end = runs.iter().map(|run| run.position + run.length).max().unwrap_or(0);
        let (cut, end) = (shape.cut, end.max(shape.end));
        let change = ContentChange::Write { cut, slices, end, sums };
        self.change_content(write, &change, tag, Some(body)).await
    }

    /// Gives a file the runs of a body as its content, each at its position, in place of what it has,
    /// and makes it so long. What is between them is a hole.
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
            _ if runs.is_empty() => Vec::new(),
            _ => {
                let why = "what is written in runs lies in blocks";
                return Err(VolumeError::Corrupt(why.to_owned()));
            }
        };
        let change = ContentChange::Replace { content: Content::Slices(slices), size, sums };
        self.change_content(write, &change, tag, Some(body)).await
    }

    /// Makes a file so long: it is cut, or continued by a hole.
    pub async fn truncate(
        &self,
        write: FileWrite<'_>,
        size: u64,
    ) -> Result<FoundNode, VolumeError> {
        let tag = if size == 0 { super::object::empty_tag() } else { Tag::opaque(opaque_tag()?) };
        self.change_content(write, &ContentChange::Truncate(size), tag, None).await
    }

    /// Cuts a file, and continues what is left by a hole, in one commit.
    ///
    /// # Errors
    /// As of [`Volume::write_runs`].
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
        let [hidden_ino] = self.fresh().await?;
        let FileWrite { ino, known_name, attributes, over, note, own_retention } = write;
        let assumptions = &[];
        let operation = WriteContent {
            ino,
            known_name,
            expected_data_version: over,
            assumptions,
            change,
            tag,
            hidden_ino,
            attributes,
            own_retention,
        };
        let note = note.unwrap_or(&UNNOTED);
        let written = match body {
            // The body goes with its plan. The caller detaches versions, and stages it again.
            Some(body) => self.session.run_journaled(&operation, Some(body), note).await,
            None => {
                self.detaching(ino, || self.session.run_journaled(&operation, None, note)).await
            }
        };
        self.session.wake_reaper();
        if let Ok(node) = &written {
            self.upkeep.note_written(ino, &node.inode);
        }
        written
    }
}

/// A volume as one request changes it: a journal notes the request with its change, if it is to be
/// known later whether it was carried out.
#[derive(Clone, Copy, Debug)]
pub struct Journaled<'a> {
    volume: &'a Volume,
    note: &'a Note,
}

impl Journaled<'_> {
    /// Makes a node under a name, or a file without one.
    pub async fn make_node(
        self,
        directory: Ino,
        name: Option<&[u8]>,
        node: &NewNode,
        maker: Creator,
    ) -> Result<FoundNode, VolumeError> {
        let [ino] = self.volume.fresh().await?;
        self.note.creates(ino);
        let Creator { mode, umask, uid, gid } = maker;
        let operation = MakeNode { directory, name, ino, node, mode, umask, uid, gid };
        let inode = self.volume.session.run_journaled(&operation, None, self.note).await?;
        Ok(FoundNode::made(ino, inode))
    }

    /// Makes a directory of the root, which is a bucket: [`namespace::FsError::BucketExists`] when the
    /// name is taken.
    pub async fn make_bucket_directory(
        self,
        name: &str,
        new: &NewBucket<'_>,
    ) -> Result<(), VolumeError> {
        self.volume.make_bucket(name, new, Some(self.note)).await
    }

    /// Removes an empty directory of the root, which is a bucket.
    pub async fn remove_bucket_directory(self, name: &str) -> Result<(), VolumeError> {
        let operation = DeleteBucket { name: name.as_bytes() };
        self.volume.session.run_journaled(&operation, None, self.note).await?;
        self.volume.session.wake_reaper();
        Ok(())
    }

    /// Takes a name away from anything but a directory.
    pub async fn remove_name(self, name: &NodeName) -> Result<RemovedName, VolumeError> {
        let removed =
            self.volume.session.run_journaled(&RemoveName { name }, None, self.note).await?;
        self.volume.session.wake_reaper();
        Ok(removed)
    }

    /// Removes an empty directory.
    pub async fn remove_directory(self, name: &NodeName) -> Result<RemovedName, VolumeError> {
        self.volume.session.run_journaled(&RemoveDirectory { name }, None, self.note).await
    }

    /// Gives a node another name.
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

    /// Gives a node one more name. `known_name` is one that it has.
    pub async fn link_node(
        self,
        ino: Ino,
        known_name: Option<&NodeName>,
        to: &NodeName,
    ) -> Result<FoundNode, VolumeError> {
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

    /// Gives a node an access control list, and the permission bits that go with it, or takes it away.
    pub async fn set_acl(
        self,
        ino: Ino,
        kind: AclKind,
        acl: Option<&Acl>,
        drop_group_id: bool,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetAcl { ino, kind, acl, drop_group_id }).await
    }

    /// Changes an extended attribute that is no access control list.
    pub async fn set_xattr(
        self,
        ino: Ino,
        known_name: Option<&NodeName>,
        name: &[u8],
        change: &XattrChange,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetXattr { ino, known_name, name, change }).await
    }

    /// Changes something that S3 keeps with a file; without a value, takes it away. `had` says whether
    /// the file must have it before.
    pub async fn set_object_item(
        self,
        ino: Ino,
        item: &ObjectItem,
        value: Option<&str>,
        had: Option<bool>,
    ) -> Result<FoundNode, VolumeError> {
        self.changing(ino, &SetObjectItem { ino, item, value, must_exist: had }).await
    }

    /// Runs a change of one node, and detaches noncurrent versions that bind it first.
    async fn changing<P>(self, ino: Ino, operation: &P) -> Result<FoundNode, VolumeError>
    where
        P: Planner<Output = FoundNode> + Sync,
    {
        let run = || self.volume.session.run_journaled(operation, None, self.note);
        self.volume.detaching(ino, run).await
    }
}

/// The slices of a body, which lie one behind the other, at the places of its runs in a file.
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
