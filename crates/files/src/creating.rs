//! Creations that are committed together with the first content of their file.
//!
//! If this process is the only session of the volume, no other process sees a new name before this
//! one shows it. So a creation is decided by current records and answered without a commit. The
//! name is committed with the bytes and attributes that the program sets meanwhile: at close(2) and
//! fsync(2), or at the age of other dirty data. If another request of the mount reaches the name
//! before that (`creations`), or if the session stops being alone, the name is committed without
//! content that needs a block. Until then the creation is in the file's log in the ledger, so it
//! survives this worker.
//!
//! For example, `tar` creates a file, writes 3,000 bytes, sets owner, mode and times, and closes
//! it: one commit.
//!
//! A new session waits for one second before it reads or changes anything. This session relies on
//! being alone for at most half of that, so its creations are committed before the other one looks,
//! unless the store is slow or this process was stopped. If another session has taken the name
//! meanwhile, the commit is refused, and the descriptor gets the error.

use std::sync::Arc;
use std::time::Duration;

use content::StagedContent;
use record::{INLINE_PERMANENT_MAX, Ino, Sum, Tag};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use volume::{
    AttributeChange, Creator, FoundNode, FsError, NewNode, NodeName, Note, PlannedFile, VolumeError,
};

use crate::commit::{Created, Flushed};
use crate::creation::Creation;
use crate::creations::{NameChange, Place, Reach};
use crate::file_change::FileChange;
use crate::files::Files;
use crate::flush::merged;
use crate::open::{FileState, FlushingData, OpenFile, OpenedFile};

/// The interval at which a mount checks that its session is still alone, while creations wait for
/// their commit. It is much shorter than the second for which a new session waits.
const ALONE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The first content of a file, with its entity tag and checksums.
type FirstBody = (StagedContent, Tag, Vec<Sum>);

impl Files {
    /// Begins a request with this reach: commits the creations that it could observe. Hold the
    /// result until the request has ended. An error of such a commit is not returned here, but at
    /// the descriptors of the new file.
    pub async fn enter(&self, reach: Reach<'_>) -> NameChange<'_> {
        let (files, change) = self.creations.begin(reach);
        if !files.is_empty() {
            futures::future::join_all(files.iter().map(|file| self.commit_name(file))).await;
        }
        change
    }

    /// Creates a file without a commit, and opens it. Returns `None` if the file must be created at
    /// once, because the session is not alone or another request may change names.
    pub(crate) async fn create_in_memory(
        &self,
        name: &NodeName,
        node: &NewNode,
        creator: Creator,
    ) -> Result<Option<OpenedFile>, Errno> {
        if !self.options.defers_creations {
            return Ok(None);
        }
        // The previous worker may have created the file for this request.
        if let Some(opened) = self.reopened_handle().await {
            self.names.insert(opened.attributes.ino, name);
            return Ok(Some(opened));
        }
        // It ended before it had logged the creation, and only the handle is left.
        self.resent_requests
            .get_handle(self.request)
            .into_iter()
            .for_each(|handle| self.end_handle(handle));
        // Locks in records belong to files with a record.
        if !self.volume.is_alone() || self.locks.is_in_records().await {
            return Ok(None);
        }
        let Some(place) = self.creations.reserve(name) else { return Ok(None) };
        let reading = self.volume.reading();
        let planned =
            self.retry_until_deadline(|| self.volume.plan_file(name, node, creator)).await?;
        let Some(node) = planned else { return Ok(None) };
        let ino = node.ino;
        self.names.insert(ino, name);
        // The handle comes first: a creation in the ledger without a handle would be carried out
        // by the next worker, and the program's repeated request would find the name taken.
        let opened = self.add_handle(node, reading).await;
        let opened = opened.inspect_err(|_| self.names.remove(ino, name))?;
        let file = Arc::clone(&self.open.handle(opened.handle)?.file);
        file.note_made();
        let begun = match self.begin_creation(name, &file, place).await {
            Ok(true) if self.volume.is_alone() => Ok(()),
            Ok(_) => self.flush_file(&file).await,
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            // The close must not commit what failed here.
            self.drop_creation(&mut *file.state.lock().await);
            self.release(opened.handle).await;
            return Err(error);
        }
        Ok(Some(OpenedFile { attributes: file.attributes(None).await, ..opened }))
    }

    /// Logs the creation of an open file, makes it part of the file's dirty state, and enters it
    /// into its place. Returns false if it must be committed before it is answered.
    async fn begin_creation(
        &self,
        name: &NodeName,
        file: &Arc<OpenFile>,
        place: Place<'_>,
    ) -> Result<bool, Errno> {
        let mut state = file.state.lock().await;
        let record = state.node.record.clone();
        // First, because the log takes the name from it.
        state.creation = Some(Arc::new(Creation::new(name.clone())));
        if let Err(error) = self.log(&mut state, &FileChange::Created { record: &record }) {
            state.creation = None;
            return Err(error);
        }
        // Under the lock: a flush that commits the creation must find it in the table.
        Ok(place.enter(file))
    }

    /// Notes that another request has found the file of a creation in the store. The creation is
    /// committed then, also if its commit has failed here without a known outcome.
    pub(crate) async fn note_exists(&self, ino: Ino) {
        let Some(file) = self.open.get(ino).filter(|_| !self.creations.is_empty()) else { return };
        if let Some(creation) = file.state.lock().await.creation.take() {
            self.creations.remove(&creation.name, ino);
        }
    }

    /// Drops the creation of a file that could not be committed, if it has one. Nothing can be
    /// committed to the file then.
    pub(crate) fn drop_creation(&self, state: &mut FileState) {
        let Some(creation) = state.creation.take() else { return };
        let ino = state.node.ino;
        state.life = state.life.deleted();
        self.creations.remove(&creation.name, ino);
        self.names.remove(ino, &creation.name);
    }

    /// Commits the creations in a directory. Returns false if there are none.
    pub(crate) async fn commit_creations_in(&self, directory: Ino) -> bool {
        let (files, _) = self.creations.begin(Reach::Directory(directory));
        futures::future::join_all(files.iter().map(|file| self.commit_name(file))).await;
        !files.is_empty()
    }

    /// Returns the node of an open file whose creation is not committed; `None` for all others.
    pub(crate) async fn uncommitted_node(&self, ino: Ino) -> Option<FoundNode> {
        let file = self.open.get(ino).filter(|_| !self.creations.is_empty())?;
        let state = file.state.lock().await;
        state.is_new().then(|| (*state.node).clone())
    }

    /// Commits the creation of a file with the data of its first flush. `node` is the file as it
    /// was decided, `attributes` are the changes of attributes that go with the data.
    pub(crate) async fn commit_creation(
        &self,
        creation: &Creation,
        node: &FoundNode,
        flushing: &FlushingData,
        attributes: &AttributeChange,
    ) -> Result<Created, VolumeError> {
        let size = flushing.size;
        if size <= self.options.full_rewrite_bytes_max && !creation.is_made() {
            let (mut body, mut known_sums) = (None, None);
            if size > 0 {
                let encryption = node.inode.file().and_then(|file| file.encryption.as_ref());
                let (staged, tag, sum, sums) =
                    self.stage_sequentially(&flushing.extents, size, encryption).await?;
                body = Some((staged, tag, vec![sum]));
                known_sums = sums;
            }
            match self.make_once(creation, node, (attributes, body), &flushing.note).await {
                Ok((node, true)) => {
                    let version = node.inode.file().map(|file| file.data_version);
                    let sums = known_sums.map(|sums| sums.with_version(version));
                    let flushed = Flushed { node, sums, tail: None, own_retention: None };
                    return Ok(Created::Complete(Box::new(flushed)));
                }
                // Another request has committed the name meanwhile.
                Ok((made, false)) => return Ok(Created::WithoutContent(Box::new(made))),
                // The bucket has changed: create the empty file, then write the content.
                Err(VolumeError::Fs(FsError::ContentReplaced)) => {}
                Err(error) => return Err(error),
            }
        }
        let unchanged = AttributeChange::default();
        // Without the note: the flush has happened when its content is committed.
        let (made, _) = self.make_once(creation, node, (&unchanged, None), &Note::none()).await?;
        Ok(Created::WithoutContent(Box::new(made)))
    }

    /// Commits the creation of a file, unless that was done before. Returns the file, and true if
    /// this call has committed it as given.
    async fn make_once(
        &self,
        creation: &Creation,
        planned: &FoundNode,
        (attributes, body): (&AttributeChange, Option<FirstBody>),
        note: &Note,
    ) -> Result<(FoundNode, bool), VolumeError> {
        let mut progress = creation.progress.lock().await;
        if let Some(made) = &progress.made {
            return Ok((made.clone(), false));
        }
        let mut made = None;
        // The outcome of an earlier commit may be unknown.
        if std::mem::replace(&mut progress.was_sent, true) {
            made = self.find_own(planned).await?.map(|found| (found, false));
        }
        let (made, is_first) = match made {
            Some(made) => made,
            None => {
                let (name, ino, inode) = (&creation.name, planned.ino, &planned.inode);
                let new = PlannedFile { name, ino, inode, attributes };
                match self.volume.make_file(new, body, note).await {
                    Ok(made) => (made, true),
                    // The earlier commit may have been carried out since.
                    Err(VolumeError::Fs(
                        error @ (FsError::NameExists | FsError::InodeNumberInUse),
                    )) => (self.find_own(planned).await?.ok_or(error)?, false),
                    Err(error) => return Err(error),
                }
            }
        };
        progress.made = Some(made.clone());
        creation.note_made();
        Ok((made, is_first))
    }

    /// Finds the file of a creation in the store, if it was committed. Fails with
    /// `InodeNumberInUse` if another file has its number. This is possible after the store was
    /// restored to an earlier state.
    async fn find_own(&self, planned: &FoundNode) -> Result<Option<FoundNode>, VolumeError> {
        match self.volume.find_node(planned.ino).await {
            Ok(found) if is_same_creation(&found, planned) => Ok(Some(found)),
            Ok(_) => Err(FsError::InodeNumberInUse.into()),
            Err(VolumeError::Fs(FsError::Stale)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Commits the creation of a file whose name a request reaches. Content that does not fit into
    /// the record is committed later, so that the request waits for no block. An error is not
    /// returned here, but at the descriptors of the file when they are closed.
    pub(crate) async fn commit_name(&self, file: &Arc<OpenFile>) {
        let (creation, node, attributes) = {
            let state = file.state.lock().await;
            let Some(creation) = state.uncommitted() else { return };
            if state.flushing.is_none() && state.size <= INLINE_PERMANENT_MAX as u64 {
                drop(state);
                let _reported = self.flush_file(file).await;
                return;
            }
            (Arc::clone(creation), Arc::clone(&state.node), state.new_rights())
        };
        let (files, file) = (self.for_request(0, Note::none()), Arc::clone(file));
        let task = self.tasks.spawn(async move {
            let no_note = Note::none();
            let commit = || files.make_once(&creation, &node, (&attributes, None), &no_note);
            let Ok((made, _)) = files.retry_until_deadline(commit).await else { return };
            let mut state = file.state.lock().await;
            files.creations.remove(&creation.name, file.ino);
            let is_this = |own: &Arc<Creation>| Arc::ptr_eq(own, &creation);
            // A flush that has taken the creation finds it committed.
            let mut is_open = state
                .flushing
                .as_ref()
                .is_some_and(|flushing| flushing.creation.as_ref().is_some_and(is_this));
            if state.creation.take_if(|own| is_this(own)).is_some() {
                state.become_made(made);
                is_open = true;
            }
            if is_open {
                // The next worker must not create the file if it does not exist.
                let known_name = files.names.get(file.ino);
                let NodeName { directory, name } = known_name.as_ref().unwrap_or(&creation.name);
                let proof = FileChange::Name { directory: *directory, name };
                let _reported = files.log(&mut state, &proof);
            }
        });
        let _ended = task.await;
    }

    /// Commits the names of all creations, without content that needs a block. Errors are returned
    /// at the descriptors of the files.
    pub async fn commit_names(&self) {
        let files = self.creations.all();
        futures::future::join_all(files.iter().map(|file| self.commit_name(file))).await;
    }

    /// Commits the names of all creations when the session stops being alone, until `end` is
    /// cancelled. Independent of flushes, which may wait for the block store.
    pub(crate) async fn show_names_until(&self, end: &CancellationToken) {
        loop {
            let entered = self.creations.entered.notified();
            if self.creations.is_empty() {
                tokio::select! {
                    () = end.cancelled() => return,
                    () = entered => {}
                }
            }
            tokio::select! {
                () = end.cancelled() => return,
                () = tokio::time::sleep(ALONE_CHECK_INTERVAL) => {}
            }
            if !self.volume.is_alone() {
                self.commit_names().await;
            }
        }
    }
}

impl FileState {
    /// Returns the creation of the file, if the file is not known to exist in the store.
    pub(crate) fn uncommitted(&self) -> Option<&Arc<Creation>> {
        let flushing = self.flushing.as_ref().and_then(|flushing| flushing.new_file());
        self.creation.as_ref().or(flushing)
    }

    /// Returns the mode and owner that programs have set and no flush has committed.
    fn new_rights(&self) -> AttributeChange {
        let flushing = self.flushing.as_ref().map(|flushing| flushing.change);
        let AttributeChange { mode, uid, gid, .. } =
            merged(&flushing.unwrap_or_default(), &self.change);
        AttributeChange { mode, uid, gid, ..AttributeChange::default() }
    }

    /// Notes that the file was created as `made`, without the dirty data.
    fn become_made(&mut self, made: FoundNode) {
        if made.inode.file().is_some_and(|file| file.size > 0) {
            // An earlier flush has committed content, all of which is in the dirty data.
            self.cut = Some(0);
        }
        self.node = Arc::new(made);
    }
}

/// Returns true if two versions of a node come from one creation.
pub(crate) fn is_same_creation(found: &FoundNode, planned: &FoundNode) -> bool {
    let (found, planned) = (&found.inode, &planned.inode);
    found.bucket == planned.bucket && found.attributes.created == planned.attributes.created
}
