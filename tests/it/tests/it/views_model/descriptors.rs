//! Operations of programs on descriptors, which stay open while the names of their files change.

use std::collections::{BTreeMap, BTreeSet};

use files::{HandleId, OpenMode, SetNode};
use record::{Ino, RetainUntil};
use rustix::io::Errno;

use super::World;
use super::model::{FileId, HELD, Name};
use super::objects::bytes;

/// Limit of the open descriptors.
const HANDLES_MAX: usize = 14;

/// Limit of the length of files that programs write, in bytes.
const FILE_MAX: usize = 300_000;

#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) id: HandleId,
    pub(crate) mount: usize,
    pub(crate) file: FileId,
    pub(crate) ino: Ino,
    pub(crate) writes: bool,
    /// True if the flush of another descriptor failed and this one has not reported the error yet.
    pub(crate) unreported_error: bool,
}

/// Dirty data of a mount: the file as its programs see it.
#[derive(Clone, Debug)]
pub(crate) struct DirtyData {
    pub(crate) bytes: Vec<u8>,
    /// The shortest length of the file meanwhile, in bytes.
    least: usize,
    /// Ranges that were written and not truncated since.
    written: Vec<(usize, usize)>,
    mode: Option<u32>,
}

/// The expected result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Kept,
    Refused,
    /// The documentation allows both.
    Either,
}

/// The open descriptors and their dirty data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    pub(crate) handles: Vec<Handle>,
    pub(crate) dirty: BTreeMap<(usize, FileId), DirtyData>,
    /// The retention that the flushes of an open file gave it.
    own: BTreeMap<(usize, FileId), RetainUntil>,
    /// Opened files of the bucket with object lock, including those that have lost their name.
    pub(crate) held: BTreeSet<FileId>,
    /// Open files that another mount has changed and whose attributes this mount has not read
    /// since.
    stale: BTreeSet<(usize, FileId)>,
}

impl Open {
    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.handles.iter().any(|handle| handle.file == file)
    }

    pub(crate) fn is_open_on(&self, mount: usize, file: FileId) -> bool {
        self.handles.iter().any(|handle| handle.file == file && handle.mount == mount)
    }

    /// Records that a mount has read the attributes of a file, so it knows the content unless it
    /// has dirty data.
    pub(crate) fn looked(&mut self, mount: usize, file: FileId) {
        if !self.dirty.contains_key(&(mount, file)) {
            self.stale.remove(&(mount, file));
        }
    }
}

impl World {
    pub(crate) async fn descriptor_operation(&mut self) {
        let many = self.open.handles.len();
        if many == 0 || (many < HANDLES_MAX && self.dice.one_in(4)) {
            let (mount, name) = (self.dice.below(2), self.name());
            return self.open_by_name(mount, name).await;
        }
        if many == HANDLES_MAX {
            let at = self.dice.below(many);
            return self.close(at).await;
        }
        // Few descriptors have a file that noncurrent versions share, and operations on them matter
        // most.
        let handles = self.open.handles.iter().enumerate();
        let left: Vec<usize> =
            handles.filter(|(_, it)| self.model.is_bound(it.file)).map(|(at, _)| at).collect();
        let all: Vec<usize> = (0..many).collect();
        let at = if left.is_empty() || self.dice.one_in(2) { all } else { left };
        let at = self.dice.of(&at);
        match self.dice.below(100) {
            0..45 => self.write(at).await,
            45..52 => self.truncate(at).await,
            52..70 => self.sync(at).await,
            70..80 => self.read(at).await,
            80..92 => self.close(at).await,
            _ => self.change_by_handle(at).await,
        }
    }

    async fn open_by_name(&mut self, mount: usize, name: Name) {
        let writes = self.dice.below(4) > 0;
        let truncates = writes && self.dice.one_in(5);
        let mode = OpenMode { writes, truncates, ..OpenMode::default() };
        self.record(format!("mount {mount}: open {name:?}, {mode:?}"));
        let Some(current) = self.model.current(name) else {
            assert_eq!(self.look_up(mount, name).await.err(), Some(Errno::NOENT), "{name:?}");
            return;
        };
        let file = current.file;
        if truncates && !self.become_writer(mount, file).await {
            return;
        }
        let found = self.look_up(mount, name).await.expect("the file is found");
        self.open.looked(mount, file);
        let opened = self.mounts[mount].files.open(found.ino, mode).await;
        if writes && self.model.is_locked(file, false) {
            assert_eq!(opened.err(), Some(Errno::PERM), "{name:?} is locked");
            self.counts.refused += 1;
            return;
        }
        let opened = opened.expect("the file is opened");
        self.add_handle(mount, file, (opened.handle, found.ino), writes);
        if truncates {
            self.add_dirty(mount, file, |dirty| dirty.resize(0));
        }
    }

    /// Opens a file for writing. Returns `None` if there is no file, if it is locked, or if too
    /// many descriptors are open.
    pub(crate) async fn open_to_write(&mut self, mount: usize, name: Name) -> Option<HandleId> {
        let file = self.model.current(name)?.file;
        if self.open.handles.len() == HANDLES_MAX || self.model.is_locked(file, false) {
            return None;
        }
        self.record(format!("mount {mount}: open {name:?} to write"));
        let mode = OpenMode { writes: true, ..OpenMode::default() };
        let found = self.look_up(mount, name).await.expect("the file is found");
        self.open.looked(mount, file);
        let opened = self.mounts[mount].files.open(found.ino, mode).await;
        let handle = opened.expect("the file is opened").handle;
        self.add_handle(mount, file, (handle, found.ino), true);
        Some(handle)
    }

    pub(crate) fn add_handle(
        &mut self,
        mount: usize,
        file: FileId,
        (id, ino): (HandleId, Ino),
        writes: bool,
    ) {
        if self.model.names_of(file).iter().any(|name| name.0 == HELD) {
            self.open.held.insert(file);
        }
        self.open.handles.push(Handle { id, mount, file, ino, writes, unreported_error: false });
        let node = self.model.files.get_mut(&file).expect("a file of the model");
        assert!(node.ino.is_none_or(|known| known == ino), "the inode number of file {file}");
        node.ino = Some(ino);
    }

    /// Returns the content of a file as the programs of a mount see it.
    pub(crate) fn seen(&self, mount: usize, file: FileId) -> &[u8] {
        match self.open.dirty.get(&(mount, file)) {
            Some(dirty) => &dirty.bytes,
            None => &self.model.body(file).bytes,
        }
    }

    /// Returns true if only descriptors lead to a file.
    fn is_unlinked(&self, file: FileId) -> bool {
        self.model.names_of(file).is_empty() && !self.model.is_bound(file)
    }

    /// Prepares a mount to change a file. The other mount flushes first, and closes its descriptors
    /// of a file without a name. Returns false if that is impossible.
    pub(crate) async fn become_writer(&mut self, mount: usize, file: FileId) -> bool {
        let other = 1 - mount;
        if self.open.dirty.contains_key(&(other, file)) {
            let at = self.open.handles.iter().position(|it| it.mount == other && it.file == file);
            self.sync(at.expect("dirty data was written through a descriptor")).await;
            if self.open.dirty.contains_key(&(other, file)) {
                return false;
            }
        }
        if self.model.names_of(file).is_empty() {
            if self.is_unlinked(file) && self.open.stale.contains(&(mount, file)) {
                return false;
            }
            let is_other = |it: &super::descriptors::Handle| it.mount == other && it.file == file;
            while let Some(at) = self.open.handles.iter().position(is_other) {
                self.close(at).await;
            }
        }
        self.refresh(mount, file).await;
        true
    }

    /// Reads the attributes of an open file, as a program does before it relies on the size.
    async fn refresh(&mut self, mount: usize, file: FileId) {
        if !self.open.stale.contains(&(mount, file)) {
            return;
        }
        let handle = self.open.handles.iter().find(|it| it.mount == mount && it.file == file);
        let ino = handle.expect("only open files are known").ino;
        let found = self.mounts[mount].files.attributes(ino).await.expect("its attributes");
        assert_eq!(found.size, self.model.body(file).bytes.len() as u64, "the size of {file}");
        self.open.looked(mount, file);
    }

    pub(crate) fn add_dirty(
        &mut self,
        mount: usize,
        file: FileId,
        change: impl FnOnce(&mut DirtyData),
    ) {
        let body = self.model.body(file);
        let new = || DirtyData {
            bytes: body.bytes.clone(),
            least: body.bytes.len(),
            written: Vec::new(),
            mode: None,
        };
        change(self.open.dirty.entry((mount, file)).or_insert_with(new));
    }

    pub(crate) async fn write(&mut self, at: usize) {
        let Handle { id, mount, file, writes, .. } = self.open.handles[at].clone();
        if !writes || !self.become_writer(mount, file).await {
            return;
        }
        let size = self.seen(mount, file).len();
        let (length, appends) = (self.length(), self.dice.one_in(3));
        let position = if appends { size } else { self.dice.below(size + 100) };
        if position + length > FILE_MAX {
            return;
        }
        let bytes = bytes((self.step << 8) | 1, length);
        self.record(format!(
            "mount {mount}: write {length} bytes at {position} of {file} by {id:?}, appends {appends}"
        ));
        let files = &self.mounts[mount].files;
        let written = files.write(id, position as u64, &bytes, appends, false).await;
        // Closing descriptors of the other mount has changed the indices.
        let handle =
            self.open.handles.iter_mut().find(|handle| handle.id == id && handle.mount == mount);
        let unreported_error = std::mem::take(&mut handle.expect("it is open").unreported_error);
        match written {
            Ok(_) => self.add_dirty(mount, file, |dirty| dirty.write(position, &bytes)),
            Err(error) => {
                assert!(unreported_error && error == Errno::PERM, "a write failed: {error}");
            }
        }
    }

    async fn truncate(&mut self, at: usize) {
        let Handle { id, mount, file, ino, writes, .. } = self.open.handles[at].clone();
        if !writes || !self.become_writer(mount, file).await {
            return;
        }
        let size = self.seen(mount, file).len();
        let new = if self.dice.one_in(3) { 0 } else { self.dice.below(size + 50) };
        self.record(format!("mount {mount}: truncate {file} to {new} by {id:?}"));
        let set = SetNode { size: Some(new as u64), ..SetNode::default() };
        let set = self.mounts[mount].files.set(ino, Some(id), set).await.expect("it is truncated");
        assert_eq!(set.size, new as u64);
        self.add_dirty(mount, file, |dirty| dirty.resize(new));
    }

    /// Returns the expected result of a flush of a mount's dirty data.
    pub(crate) fn expected_result(&self, mount: usize, file: FileId) -> Flush {
        let Some(dirty) = self.open.dirty.get(&(mount, file)) else { return Flush::Kept };
        if !dirty.changes_content(self.model.body(file).bytes.len())
            || !self.model.is_locked(file, false)
        {
            return Flush::Kept;
        }
        let lock = self.model.body(file).lock;
        match self.open.own.get(&(mount, file)) {
            // Such a file is dropped, or its inode awaits the reaper.
            _ if self.is_unlinked(file) => Flush::Either,
            Some(_) if lock.legal_hold == Some(true) => Flush::Refused,
            Some(own) if lock.retention == Some(*own) => Flush::Kept,
            // A rename or a link has given it another retention meanwhile.
            Some(_) => Flush::Either,
            None => Flush::Refused,
        }
    }

    /// Flushes a mount's dirty data, as `fsync` does.
    pub(crate) async fn sync(&mut self, at: usize) {
        let Handle { id, mount, file, .. } = self.open.handles[at].clone();
        self.record(format!("mount {mount}: sync {file} by {id:?}"));
        let unreported_error = std::mem::take(&mut self.open.handles[at].unreported_error);
        let expected_result = self.expected_result(mount, file);
        let files = &self.mounts[mount].files;
        let mut synced = files.flush(id).await;
        if synced.is_err() && unreported_error {
            // It returned the error of an earlier flush. The next one returns its own.
            synced = files.flush(id).await;
        }
        match (synced, expected_result) {
            (Ok(()), Flush::Kept | Flush::Either) => self.flushed(mount, file).await,
            (Err(Errno::PERM), Flush::Refused | Flush::Either) => {
                self.counts.locked += 1;
                self.failed(mount, file, Some(id));
            }
            (synced, expected_result) => {
                panic!("a flush ends with {synced:?}, and not {expected_result:?}")
            }
        }
    }

    fn failed(&mut self, mount: usize, file: FileId, reported_to: Option<HandleId>) {
        for handle in &mut self.open.handles {
            if handle.mount == mount && handle.file == file && Some(handle.id) != reported_to {
                handle.unreported_error = true;
            }
        }
    }

    /// The dirty data becomes the content of the file.
    async fn flushed(&mut self, mount: usize, file: FileId) {
        let Some(dirty) = self.open.dirty.remove(&(mount, file)) else { return };
        let changes = dirty.changes_content(self.model.body(file).bytes.len());
        self.content_changes(mount, file, dirty, changes);
        if changes {
            self.check_names(file).await;
        }
    }

    pub(crate) fn content_changes(
        &mut self,
        mount: usize,
        file: FileId,
        dirty: DirtyData,
        changes: bool,
    ) {
        self.counts.detached += u64::from(self.model.is_bound(file));
        self.model.split(file);
        let body = self.model.body_mut(file);
        body.mode = dirty.mode.unwrap_or(body.mode);
        if !changes {
            return;
        }
        body.bytes = dirty.bytes;
        self.model.files.get_mut(&file).expect("a file of the model").etag = None;
        if self.open.is_open_on(1 - mount, file) {
            self.open.stale.insert((1 - mount, file));
        }
        if self.is_held(file) {
            self.model.retain(HELD, file);
            self.open.own.remove(&(mount, file));
            let retention = self.model.body(file).lock.retention;
            if let Some(retention) = retention.filter(|_| self.open.is_open_on(mount, file)) {
                self.open.own.insert((mount, file), retention);
            }
        }
    }

    /// Returns true if a file belongs to the bucket with object lock.
    fn is_held(&self, file: FileId) -> bool {
        self.open.held.contains(&file)
            || self.model.names_of(file).iter().any(|name| name.0 == HELD)
    }

    async fn read(&mut self, at: usize) {
        let Handle { id, mount, file, .. } = self.open.handles[at].clone();
        self.read_through(mount, file, id).await;
    }

    /// Reads a whole file through a descriptor.
    pub(crate) async fn read_through(&mut self, mount: usize, file: FileId, id: HandleId) {
        if self.is_unlinked(file) && self.open.stale.contains(&(mount, file)) {
            return;
        }
        self.refresh(mount, file).await;
        let read = self.mounts[mount].files.read(id, 0, u64::MAX).await;
        let read = read.expect("a descriptor is read").concat();
        let expected = self.seen(mount, file);
        assert!(
            read == expected,
            "mount {mount}, file {file}: {} bytes are read, and {} were written",
            read.len(),
            expected.len()
        );
    }

    pub(crate) async fn close(&mut self, at: usize) {
        let Handle { id, mount, file, .. } = self.open.handles[at].clone();
        self.record(format!("mount {mount}: close {file}, {id:?}"));
        self.sync(at).await;
        self.mounts[mount].files.release(id).await;
        self.open.handles.remove(at);
        if !self.open.is_open_on(mount, file) {
            // Dirty data that no flush could store is dropped with the last descriptor.
            self.open.dirty.remove(&(mount, file));
            self.open.own.remove(&(mount, file));
            self.open.stale.remove(&(mount, file));
        }
        let open = &self.open;
        self.model.forget(|file| open.is_open(file));
    }

    pub(crate) async fn close_all(&mut self) {
        while !self.open.handles.is_empty() {
            self.close(0).await;
        }
    }

    /// Flushes all dirty data of a mount, as the mount itself does every few seconds.
    pub(crate) async fn flush_all(&mut self, mount: usize) {
        self.record(format!("mount {mount}: flush all"));
        let _told = self.mounts[mount].files.flush_all().await;
        let dirty: Vec<FileId> =
            self.open.dirty.keys().filter(|it| it.0 == mount).map(|it| it.1).collect();
        for file in dirty {
            match self.expected_result(mount, file) {
                Flush::Kept => self.flushed(mount, file).await,
                Flush::Refused => self.failed(mount, file, None),
                Flush::Either => {
                    // The next flush returns the error.
                    self.failed(mount, file, None);
                    let at = self
                        .open
                        .handles
                        .iter()
                        .position(|it| it.mount == mount && it.file == file);
                    self.sync(at.expect("it is open")).await;
                }
            }
        }
    }

    /// Changes attributes through a descriptor. For a file without a name, clients would see no
    /// change.
    async fn change_by_handle(&mut self, at: usize) {
        let Handle { mount, file, ino, .. } = self.open.handles[at].clone();
        if self.is_unlinked(file) {
            return;
        }
        self.change_attributes(mount, file, ino).await;
        self.check_names(file).await;
    }
}

impl DirtyData {
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.written.push((at, end));
    }

    pub(crate) fn resize(&mut self, size: usize) {
        self.bytes.resize(size, 0);
        self.least = self.least.min(size);
        self.written.retain(|(at, _)| *at < size);
    }

    pub(crate) fn chmod(&mut self, mode: u32) {
        self.mode = Some(mode);
    }

    /// Returns true if the content changes, not only attributes. `size` is the present length in
    /// bytes.
    pub(crate) fn changes_content(&self, size: usize) -> bool {
        !self.written.is_empty() || self.least < size || self.bytes.len() != size
    }
}
