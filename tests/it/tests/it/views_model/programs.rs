//! Operations of programs on names: files and directories are created, removed and moved.

use files::{SetNode, XattrWrite};
use record::Ino;
use rustix::io::Errno;
use volume::{AttributeChange, RenameMode};

use super::World;
use super::descriptors::{Flush, Handle};
use super::model::{Body, DIRECTORIES, FileId, HELD, KEPT, Name, PLAIN, TRASH};
use super::objects::bytes;
use super::tree::{by, cut};

impl World {
    pub(crate) async fn program_operation(&mut self) {
        let (mount, name) = (self.dice.below(2), self.name());
        match self.dice.below(100) {
            0..14 => self.create(mount, name).await,
            14..24 => self.save(mount, name).await,
            24..36 => self.unlink(mount, name).await,
            36..54 => {
                let to = self.key_of(name.0);
                let exchanges = self.dice.one_in(6);
                let mode = if exchanges {
                    RenameMode::Exchange
                } else {
                    self.dice.of(&[RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace])
                };
                self.rename(mount, name, to, mode).await;
            }
            54..64 => {
                let to = self.key_of(name.0);
                self.link(mount, name, to).await;
            }
            64..78 => self.move_directory(mount).await,
            78..82 => self.make_or_remove_directory(mount).await,
            82..87 => self.truncate_by_name(mount, name).await,
            _ => self.change_by_name(mount, name).await,
        }
    }

    /// Creates a file and leaves it open.
    async fn create(&mut self, mount: usize, name: Name) {
        self.record(format!("mount {mount}: create {name:?}"));
        let (directory, last) = cut(name.1);
        let directory = self.walk_making(mount, name.0, directory).await;
        let made = self.mounts[mount].files.create(directory, last.as_bytes(), by()).await;
        if self.model.current(name).is_some() {
            assert_eq!(made.err(), Some(Errno::EXIST), "{name:?} exists");
            return;
        }
        let made = made.expect("a file is made");
        let mut body = Body::new(Vec::new());
        body.content_type = (last == "f.txt").then(|| "text/plain".to_owned());
        body.is_encrypted = self.model.buckets[name.0].encrypts;
        let id = self.model.move_in(name);
        let file = self.model.make(body);
        self.model.bind(name, id, file);
        self.add_handle(mount, file, (made.handle, made.attributes.ino), true);
        self.check_key(name).await;
    }

    /// Writes another file and renames it, as most programs save.
    async fn save(&mut self, mount: usize, to: Name) {
        let from = self.key_of(to.0);
        if self.model.current(from).is_some() || from == to {
            return;
        }
        self.create(mount, from).await;
        let length = self.length();
        let written = bytes((self.step << 8) | 2, length);
        let at = self.open.handles.len() - 1;
        let handle = self.open.handles[at].clone();
        let files = &self.mounts[mount].files;
        let taken = files.write(handle.id, 0, &written, false, false).await;
        taken.expect("a new file is written");
        self.add_dirty(mount, handle.file, |dirty| dirty.write(0, &written));
        match self.dice.below(4) {
            0 | 1 => self.close(at).await,
            2 => self.sync(at).await,
            _ => {}
        }
        self.rename(mount, from, to, RenameMode::Replace).await;
    }

    async fn unlink(&mut self, mount: usize, name: Name) {
        self.record(format!("mount {mount}: unlink {name:?}"));
        let (directory, last) = cut(name.1);
        let unlinked = match self.walk(mount, name.0, directory).await {
            Ok(directory) => self.mounts[mount].files.unlink(directory, last.as_bytes()).await,
            Err(error) => Err(error),
        };
        if self.model.current(name).is_none() {
            assert_eq!(unlinked, Err(Errno::NOENT), "{name:?}");
            return;
        }
        unlinked.expect("a file is unlinked");
        self.model.delete(name);
        self.check_key(name).await;
    }

    async fn rename(&mut self, mount: usize, from: Name, to: Name, mode: RenameMode) {
        self.record(format!("mount {mount}: rename {from:?} to {to:?}, {mode:?}"));
        let (old, last) = cut(from.1);
        let (new, new_last) = cut(to.1);
        let new = self.walk_making(mount, to.0, new).await;
        let renamed = match self.walk(mount, from.0, old).await {
            Ok(old) => {
                let (from, to) = ((old, last.as_bytes()), (new, new_last.as_bytes()));
                self.mounts[mount].files.rename(from, to, mode).await
            }
            Err(error) => Err(error),
        };
        let (source, target) = (self.model.current(from), self.model.current(to));
        let locked = |it: Option<super::model::Current>| {
            it.is_some_and(|it| from.0 == HELD && self.model.is_locked(it.file, false))
        };
        let is_same = source.zip(target).is_some_and(|(source, target)| source.file == target.file);
        let refused = match (source, target, mode) {
            (None, ..) => Some(Errno::NOENT),
            (_, Some(_), RenameMode::NoReplace) => Some(Errno::EXIST),
            _ if is_same => None,
            (_, None, RenameMode::Exchange) => Some(Errno::NOENT),
            (_, _, RenameMode::Exchange) if locked(source) || locked(target) => Some(Errno::PERM),
            _ => None,
        };
        assert_eq!(renamed.err(), refused, "{from:?} to {to:?}");
        if refused.is_some() || is_same {
            return;
        }
        let source = source.expect("it was looked at").file;
        match target.filter(|_| mode == RenameMode::Exchange) {
            Some(target) => self.exchanged(from, to, (source, target.file)),
            None => {
                // If noncurrent versions share the source, the rename gives the versions of both
                // files a copy.
                if let Some(target) = target.filter(|_| self.model.is_bound(source)) {
                    self.model.split(target.file);
                }
                self.renamed(from, to, source);
            }
        }
        self.check_key(from).await;
        self.check_key(to).await;
    }

    fn renamed(&mut self, from: Name, to: Name, file: FileId) {
        self.model.split(file);
        let id = self.model.supersede(to);
        if from.0 == HELD && self.model.is_locked(file, false) {
            // The locked version stays under its key, and the new name is a hard link to it.
            self.model.delete(from);
        } else {
            self.model.move_away(from);
        }
        self.model.bind(to, id, file);
        self.model.retain(to.0, file);
    }

    fn exchanged(&mut self, from: Name, to: Name, (source, target): (FileId, FileId)) {
        for file in [source, target] {
            self.model.split(file);
        }
        for (name, file) in [(to, source), (from, target)] {
            let id = self.model.move_in(name);
            self.model.bind(name, id, file);
            self.model.retain(name.0, file);
        }
    }

    async fn link(&mut self, mount: usize, from: Name, to: Name) {
        self.record(format!("mount {mount}: link {from:?} to {to:?}"));
        let Some(current) = self.model.current(from) else { return };
        let file = current.file;
        // The link flushes the file first.
        if self.open.dirty.contains_key(&(mount, file)) {
            let is_it = |it: &super::descriptors::Handle| it.mount == mount && it.file == file;
            let at = self.open.handles.iter().position(is_it).expect("it is open");
            self.sync(at).await;
            if self.open.dirty.contains_key(&(mount, file)) {
                return;
            }
        }
        let found = self.look_up(mount, from).await.expect("the file is found");
        self.open.looked(mount, file);
        let (directory, last) = cut(to.1);
        let directory = self.walk_making(mount, to.0, directory).await;
        let linked = self.mounts[mount].files.link(found.ino, directory, last.as_bytes()).await;
        if self.model.current(to).is_some() {
            assert_eq!(linked.err(), Some(Errno::EXIST), "{to:?} exists");
            return;
        }
        linked.expect("a file is linked");
        self.model.split(file);
        let id = self.model.move_in(to);
        self.model.bind(to, id, file);
        self.model.retain(to.0, file);
        self.check_names(file).await;
    }

    /// Moves a directory with everything below it.
    async fn move_directory(&mut self, mount: usize) {
        let bucket = self.dice.of(&[PLAIN, KEPT, KEPT, KEPT, TRASH, HELD]);
        let pairs = DIRECTORIES.iter().flat_map(|from| DIRECTORIES.map(|to| (*from, to)));
        let can_move = |(from, to): &(&str, &str)| {
            from != to && self.model.moved(bucket, from, to).is_some_and(|it| !it.is_empty())
        };
        let pairs: Vec<(&str, &str)> = pairs.filter(can_move).collect();
        let is_free = |(_, to): &(&str, &str)| self.model.below(bucket, to).is_empty();
        let free: Vec<(&str, &str)> = pairs.iter().copied().filter(is_free).collect();
        let pairs = if free.is_empty() { pairs } else { free };
        if pairs.is_empty() {
            return;
        }
        let (from, to) = self.dice.of(&pairs);
        let Some(moved) = self.model.moved(bucket, from, to) else { return };
        let is_inside = to.starts_with(from);
        if moved.is_empty() || is_inside || from.starts_with(to) {
            return;
        }
        self.record(format!("mount {mount}: move {bucket} {from} to {to}: {moved:?}"));
        let ((above, last), (new_above, new_last)) = (cut(from), cut(to));
        let above = self.walk(mount, bucket, above).await.expect("the directory of a key");
        let new_above = self.walk_making(mount, bucket, new_above).await;
        let (old, new) = ((above, last.as_bytes()), (new_above, new_last.as_bytes()));
        let renamed = self.mounts[mount].files.rename(old, new, RenameMode::Replace).await;
        let renamed = match renamed {
            // The target may have directories without keys below it.
            Err(Errno::NOTEMPTY) if self.model.below(bucket, to).is_empty() && bucket != HELD => {
                return;
            }
            renamed => renamed.err(),
        };
        if bucket == HELD {
            assert_eq!(renamed, Some(Errno::XDEV), "objects may be locked below it");
            return;
        }
        if !self.model.below(bucket, to).is_empty() {
            assert_eq!(renamed, Some(Errno::NOTEMPTY), "{to}");
            return;
        }
        assert_eq!(renamed, None, "{from} to {to}");
        self.counts.directories += 1;
        for (old, new) in &moved {
            let current = self.model.key_mut((bucket, old)).current.take();
            self.model.key_mut((bucket, new)).current = current;
        }
        for (old, new) in moved {
            self.check_key((bucket, old)).await;
            self.check_key((bucket, new)).await;
        }
    }

    async fn make_or_remove_directory(&mut self, mount: usize) {
        let bucket = self.dice.of(&[PLAIN, KEPT, HELD, TRASH]);
        let directory = self.dice.of(&DIRECTORIES);
        if self.dice.one_in(2) {
            self.record(format!("mount {mount}: make directory {bucket} {directory}"));
            self.walk_making(mount, bucket, directory).await;
        } else {
            self.remove_directory(mount, bucket, directory).await;
        }
    }

    /// Removes a directory, which succeeds only if it is empty.
    pub(crate) async fn remove_directory(&mut self, mount: usize, bucket: usize, directory: &str) {
        self.record(format!("mount {mount}: remove directory {bucket} {directory}"));
        let (above, last) = cut(directory);
        let Ok(above) = self.walk(mount, bucket, above).await else { return };
        let removed = self.mounts[mount].files.remove_directory(above, last.as_bytes()).await;
        let is_empty = self.model.below(bucket, directory).is_empty();
        match removed {
            Ok(()) | Err(Errno::NOENT) => assert!(is_empty, "{directory} has keys"),
            // Another directory may be below it.
            Err(error) => assert_eq!(error, Errno::NOTEMPTY, "{directory}"),
        }
    }

    async fn truncate_by_name(&mut self, mount: usize, name: Name) {
        let Some(current) = self.model.current(name) else { return };
        let file = current.file;
        if self.open.dirty.contains_key(&(mount, file)) || !self.become_writer(mount, file).await {
            return;
        }
        let size = self.model.body(file).bytes.len();
        let new = self.dice.below(size + 50);
        self.record(format!("mount {mount}: truncate {name:?} from {size} to {new}"));
        let found = self.look_up(mount, name).await.expect("the file is found");
        self.open.looked(mount, file);
        let set = SetNode { size: Some(new as u64), ..SetNode::default() };
        let set = self.mounts[mount].files.set(found.ino, None, set).await;
        if self.model.is_locked(file, false) {
            assert_eq!(set.err(), Some(Errno::PERM), "{name:?} is locked");
            self.counts.refused += 1;
            return;
        }
        set.expect("the file is truncated");
        self.add_dirty(mount, file, |dirty| dirty.resize(new));
        let dirty = self.open.dirty.remove(&(mount, file)).expect("it was made");
        let changes = dirty.changes_content(size);
        self.content_changes(mount, file, dirty, changes);
        self.check_names(file).await;
    }

    async fn change_by_name(&mut self, mount: usize, name: Name) {
        let Some(current) = self.model.current(name) else { return };
        let found = self.look_up(mount, name).await.expect("the file is found");
        self.open.looked(mount, current.file);
        self.change_attributes(mount, current.file, found.ino).await;
        self.check_names(current.file).await;
    }

    /// Changes permissions, extended attributes, or the S3 headers, metadata and tags of the
    /// object.
    pub(crate) async fn change_attributes(&mut self, mount: usize, file: FileId, ino: Ino) {
        match self.dice.below(6) {
            0 => self.change_mode(mount, file, ino).await,
            1 | 2 => self.change_xattr(mount, file, ino).await,
            kind => self.change_item(mount, file, ino, kind).await,
        }
    }

    async fn change_mode(&mut self, mount: usize, file: FileId, ino: Ino) {
        let mode = self.dice.of(&[0o600, 0o640, 0o644, 0o400]);
        self.record(format!("mount {mount}: chmod {mode:o} {file}"));
        let attributes = AttributeChange { mode: Some(mode), ..AttributeChange::default() };
        let set = SetNode { attributes, size: None };
        let may_fail = self.expected_result(mount, file) != Flush::Kept;
        let set = self.mounts[mount].files.set(ino, None, set).await;
        let is_refused = may_fail && set.as_ref().err() == Some(&Errno::PERM);
        assert!(set.is_ok() || is_refused, "permissions may change: {set:?}");
        match self.open.dirty.get_mut(&(mount, file)) {
            Some(dirty) => {
                dirty.chmod(mode);
                // Beside the other mount, the change is committed with the data before the call
                // returns, unless the file is new. From here on it certainly is.
                let is_meant = |handle: &Handle| handle.mount == mount && handle.file == file;
                if let Some(at) = self.open.handles.iter().position(is_meant) {
                    self.open.handles[at].unreported_error |= set.is_err();
                    self.sync(at).await;
                }
            }
            None => {
                self.model.split(file);
                self.model.body_mut(file).mode = mode;
            }
        }
    }

    async fn change_xattr(&mut self, mount: usize, file: FileId, ino: Ino) {
        // Long values are in a separate record.
        let length = self.dice.of(&[5, 5, 3_000]);
        let value = (!self.dice.one_in(4)).then(|| bytes(self.step, length));
        self.record(format!("mount {mount}: user.x of {file}, {length} bytes {}", value.is_some()));
        let files = &self.mounts[mount].files;
        let changed = match &value {
            Some(value) => files.set_xattr(ino, b"user.x", value, XattrWrite::Set, false).await,
            None => files.remove_xattr(ino, b"user.x").await,
        };
        let has = self.model.body(file).xattr.is_some();
        let missing = (value.is_none() && !has).then_some(Errno::NODATA);
        assert_eq!(changed.err(), missing);
        if missing.is_some() {
            return;
        }
        self.model.split(file);
        self.model.body_mut(file).xattr = value;
    }

    async fn change_item(&mut self, mount: usize, file: FileId, ino: Ino, kind: usize) {
        let name =
            ["user.ashlar.content-type", "user.ashlar.meta.k", "user.ashlar.tag.t"][kind - 3];
        let value = format!("text/set-{}", self.step);
        self.record(format!("mount {mount}: {name} of {file}"));
        let files = &self.mounts[mount].files;
        let set =
            files.set_xattr(ino, name.as_bytes(), value.as_bytes(), XattrWrite::Set, false).await;
        let is_tag = kind == 5;
        let is_version = self.model.names_of(file).is_empty() && self.model.is_bound(file);
        if !is_tag && (is_version || self.model.is_locked(file, false)) {
            assert_eq!(set.err(), Some(Errno::PERM), "{name} of file {file}");
            return;
        }
        set.expect("a header may be set");
        // The tags of a version are its only mutable part.
        if !is_version {
            self.model.split(file);
        }
        let body = self.model.body_mut(file);
        match kind {
            3 => body.content_type = Some(value),
            4 => body.user = Some(value),
            _ => body.tag = Some(value),
        }
    }

    /// Returns true if clients see the versions of a bucket.
    pub(crate) fn is_shown(&self, bucket: usize) -> bool {
        self.model.buckets[bucket].versioning.is_shown()
    }
}
