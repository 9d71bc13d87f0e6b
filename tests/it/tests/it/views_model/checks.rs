//! Compares the results of clients and programs with the model.

use std::sync::Arc;

use bytes::Bytes;
use files::OpenMode;
use futures::TryStreamExt as _;
use record::{Encryption, Header, VersionRef, XattrPlace};
use rustix::io::Errno;
use volume::{FsError, ListQuery, ListedAs, Object, VersionsEntry, VersionsQuery, Volume};

use super::model::{BUCKETS, FileId, KEYS, Name, TRASH, VersionKind};
use super::{World, fs};

/// More versions than a key ever has in this test.
const VERSIONS_OF_KEY_MAX: usize = 500;

/// A version in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    id: VersionRef,
    is_latest: bool,
    /// Its length in bytes; `None` for a delete marker.
    size: Option<u64>,
}

impl World {
    /// Checks a little after each step, and everything in some steps.
    pub(crate) async fn check_some(&mut self) {
        if !self.open.handles.is_empty() {
            let at = self.dice.below(self.open.handles.len());
            let handle = self.open.handles[at].clone();
            self.read_through(handle.mount, handle.file, handle.id).await;
        }
        let name = self.name();
        self.check_key(name).await;
        if self.step.is_multiple_of(25) {
            let bucket = self.dice.below(BUCKETS.len());
            self.check_bucket(bucket).await;
        }
        if self.step.is_multiple_of(500) {
            self.check_all().await;
        }
        if self.step.is_multiple_of(1_000) {
            self.check().await;
        }
    }

    pub(crate) async fn check_all(&mut self) {
        for bucket in 0..BUCKETS.len() {
            self.check_bucket(bucket).await;
        }
        for handle in self.open.handles.clone() {
            self.read_through(handle.mount, handle.file, handle.id).await;
        }
    }

    /// Checks each version of each key, and the listing of current objects.
    pub(crate) async fn check_bucket(&mut self, bucket: usize) {
        let volume = self.volume();
        let query = ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1_000 };
        let listed = volume.list(BUCKETS[bucket], query).await.expect("a listing");
        let keys = listed.entries.iter().map(|entry| String::from_utf8_lossy(entry.key()));
        // Directories without keys are listed as objects whose key ends in a slash.
        let keys: Vec<String> =
            keys.filter(|key| !key.ends_with('/')).map(std::borrow::Cow::into_owned).collect();
        let expected: Vec<&str> =
            KEYS.into_iter().filter(|key| self.model.current((bucket, key)).is_some()).collect();
        assert_eq!(keys, expected, "the objects of {}", BUCKETS[bucket]);
        self.check_other_keys(&volume, bucket).await;
        for name in KEYS.map(|key| (bucket, key)) {
            self.check_key(name).await;
            for place in 0..self.model.key(name).older.len() {
                self.check_noncurrent(&volume, name, place).await;
            }
        }
    }

    /// Fails if other keys have versions.
    async fn check_other_keys(&self, volume: &Volume, bucket: usize) {
        let query =
            VersionsQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1_000 };
        let page = volume.list_versions(BUCKETS[bucket].into(), &query).await.expect("a page");
        for entry in page.entries {
            let VersionsEntry::Version { key, listed_as, .. } = &entry else { continue };
            let is_known = KEYS.iter().any(|known| known.as_bytes() == key);
            // A directory without keys is an object of no bytes.
            let is_directory = key.ends_with(b"/") && matches!(listed_as, ListedAs::Object(_));
            assert!(is_known || is_directory, "{}: {entry:?}", BUCKETS[bucket]);
        }
    }

    /// Checks the keys of a file after a change of it, and one of their versions.
    pub(crate) async fn check_names(&mut self, file: FileId) {
        for name in self.model.names_of(file) {
            self.check_key(name).await;
        }
    }

    /// Checks the versions of a key, its current object in both views, and one older version.
    pub(crate) async fn check_key(&mut self, name: Name) {
        let volume = self.volume();
        if name.0 == TRASH {
            self.check_trash(&volume, name).await;
        } else if self.is_shown(name.0) {
            self.check_versions(&volume, name).await;
        }
        self.check_object(&volume, name).await;
        let older = self.model.key(name).older.len();
        if older > 0 {
            let place = self.dice.below(older);
            self.check_noncurrent(&volume, name, place).await;
        }
        let mount = self.dice.below(2);
        self.check_file(mount, name).await;
    }

    /// Checks the listing of a key's versions page by page. Gives the model the ids of new
    /// versions.
    async fn check_versions(&mut self, volume: &Volume, name: Name) {
        let key = self.model.key(name);
        let is_null = |id: &Option<VersionRef>| *id == Some(VersionRef::Null);
        let mut ids = key.older.iter().map(|old| old.id).chain(key.current.map(|it| it.id));
        let limit = match ids.by_ref().filter(is_null).count() {
            0 | 1 => self.dice.of(&[1, 2, 1_000]),
            // The move of a directory can add a second null version, and a page cannot begin after
            // it.
            _ => 1_000,
        };
        let (mut lines, mut after) = (Vec::new(), None);
        loop {
            let prefix = name.1.as_bytes().to_vec();
            let query = VersionsQuery { prefix, delimiter: None, after, limit };
            let page = volume.list_versions(BUCKETS[name.0].into(), &query).await.expect("a page");
            for entry in page.entries {
                let VersionsEntry::Version { key, version, is_latest, listed_as, .. } = entry
                else {
                    panic!("a listing without a delimiter has no prefixes");
                };
                assert_eq!(key, name.1.as_bytes());
                let size = match listed_as {
                    ListedAs::Marker(_) => None,
                    ListedAs::Object(inode) => Some(volume::size_and_tag(&inode).0),
                };
                lines.push(Line { id: version, is_latest, size });
            }
            if !page.truncated {
                break;
            }
            assert!(lines.len() <= VERSIONS_OF_KEY_MAX, "the pages of {name:?} do not advance");
            after = lines.last().map(|line| (name.1.as_bytes().to_vec(), Some(line.id)));
        }
        self.learn(name, &lines);
        assert_eq!(lines, self.expected_lines(name, &lines), "the versions of {name:?}");
    }

    /// Returns the entries that a listing must show. If the current version and a noncurrent one
    /// are null versions, `listed` has an id for the noncurrent one.
    fn expected_lines(&self, name: Name, listed: &[Line]) -> Vec<Line> {
        let key = self.model.key(name);
        let size = |file| Some(self.model.body(file).bytes.len() as u64);
        let mut lines: Vec<Line> = Vec::new();
        if let Some(current) = key.current {
            let id = current.id.expect("it was learnt");
            lines.push(Line { id, is_latest: true, size: size(current.file) });
        }
        for old in &key.older {
            let id = old.id.expect("it was learnt");
            let is_null = |id| id == Some(VersionRef::Null);
            let is_second = is_null(old.id) && key.current.is_some_and(|it| is_null(it.id));
            let id = match listed.get(lines.len()) {
                Some(line) if is_second && line.id != VersionRef::Null => line.id,
                Some(_) | None => id,
            };
            assert!(!is_second || id != VersionRef::Null, "{name:?} shows null twice: {listed:?}");
            let (size, is_marker) = match old.what {
                VersionKind::Marker => (None, true),
                VersionKind::Object(file) => (size(file), false),
            };
            lines.push(Line { id, is_latest: is_marker && lines.is_empty(), size });
        }
        lines
    }

    /// Takes unknown ids from a listing. Each must be unique.
    fn learn(&mut self, name: Name, lines: &[Line]) {
        let key = self.model.key_mut(name);
        let current = key.current.iter_mut().map(|current| &mut current.id);
        let ids: Vec<&mut Option<VersionRef>> =
            current.chain(key.older.iter_mut().map(|old| &mut old.id)).collect();
        let known: Vec<VersionRef> = ids.iter().filter_map(|id| **id).collect();
        for (id, line) in ids.into_iter().zip(lines) {
            if id.is_none() {
                assert!(line.id != VersionRef::Null && !known.contains(&line.id), "{name:?}");
                *id = Some(line.id);
            }
        }
    }

    async fn check_trash(&mut self, volume: &Volume, name: Name) {
        let trash = volume.trash(BUCKETS[TRASH].into(), name.1.as_bytes(), None).await;
        let trash = trash.expect("the trash is listed");
        let line = |id, size| Line { id: VersionRef::Id(id), is_latest: false, size: Some(size) };
        let lines: Vec<Line> = trash.iter().map(|(_, it)| line(it.id, it.bytes)).collect();
        let key = self.model.key_mut(name);
        for (old, line) in key.older.iter_mut().zip(&lines) {
            old.id.get_or_insert(line.id);
        }
        let key = self.model.key(name);
        let expected = key.older.iter().map(|old| match (old.what, old.id) {
            (VersionKind::Object(file), Some(VersionRef::Id(id))) => {
                line(id, self.model.body(file).bytes.len() as u64)
            }
            _ => panic!("{old:?} in the trash"),
        });
        assert_eq!(lines, expected.collect::<Vec<_>>(), "the trash of {name:?}");
    }

    /// Checks the current object of a key through S3.
    async fn check_object(&mut self, volume: &Arc<Volume>, name: Name) {
        let key = self.model.key(name);
        let found = fs(volume.stat(BUCKETS[name.0], name.1.as_bytes()).await);
        let Some(current) = key.current else {
            let marker = key.older.first().filter(|old| old.what == VersionKind::Marker);
            let expected = match marker.and_then(|marker| marker.id) {
                Some(id) if self.is_shown(name.0) => FsError::Deleted(id),
                _ => FsError::NoSuchKey,
            };
            assert_eq!(found.err(), Some(expected), "{name:?}");
            return;
        };
        let object = found.unwrap_or_else(|error| panic!("{name:?}: {error}"));
        if self.is_shown(name.0) {
            assert_eq!(object.version, current.id, "{name:?}");
        }
        self.compare(volume, current.file, &object, &format!("{name:?}")).await;
    }

    /// Checks that a noncurrent version has not changed.
    async fn check_noncurrent(&mut self, volume: &Arc<Volume>, name: Name, place: usize) {
        let old = self.model.key(name).older[place];
        let id = old.id.expect("it was learnt");
        let is_hidden = self.model.current(name).is_some_and(|current| current.id == old.id);
        // If there are two null versions, their id leads to the current one.
        if !self.is_shown(name.0) || is_hidden {
            return;
        }
        let found = volume.stat_version(BUCKETS[name.0], name.1.as_bytes(), Some(id)).await;
        let VersionKind::Object(file) = old.what else {
            let is_marker = matches!(fs(found).err(), Some(FsError::IsMarker(of, _)) if of == id);
            assert!(is_marker, "{name:?} {id:?} is a marker");
            return;
        };
        let object = fs(found).unwrap_or_else(|error| panic!("{name:?} {id:?}: {error}"));
        self.compare(volume, file, &object, &format!("{name:?} {id:?}")).await;
        let changed = object.changed();
        let known = &mut self.model.key_mut(name).older[place].changed;
        assert_eq!(*known.get_or_insert(changed), changed, "Last-Modified of {name:?} {id:?}");
    }

    async fn compare(&mut self, volume: &Volume, file: FileId, object: &Object, what: &str) {
        let body = self.model.body(file).clone();
        let read: Vec<Bytes> =
            volume.read(object, 0..object.size()).try_collect().await.expect("it is read");
        let read = read.concat();
        let first =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned();
        assert!(
            read == body.bytes,
            "{what}, file {file}: {} bytes {:?}, and not {} bytes {:?}",
            read.len(),
            first(&read),
            body.bytes.len(),
            first(&body.bytes)
        );
        let kept = &object.file().object;
        let value = |pairs: &[(String, String)]| pairs.first().map(|(_, value)| value.clone());
        let content_type = kept.header(Header::ContentType).map(str::to_owned);
        assert_eq!(content_type, body.content_type, "{what}: its type");
        assert_eq!(value(&kept.user), body.user, "{what}: its user metadata");
        assert_eq!(value(&kept.tags), body.tag, "{what}: its tags");
        assert_eq!(kept.lock, body.lock, "{what}: its lock");
        assert_eq!(object.inode.attributes.mode, body.mode, "{what}: its mode");
        let encryption = body.is_encrypted.then_some(&Encryption::S3);
        assert_eq!(object.file().encryption.as_ref(), encryption, "{what}: its encryption");
        let xattr = object.inode.xattrs.iter().find(|xattr| xattr.name == b"user.x");
        match (xattr.map(|xattr| &xattr.value), &body.xattr) {
            (None, None) => {}
            (Some(XattrPlace::Inline(value)), Some(expected)) => assert_eq!(value, expected),
            (Some(XattrPlace::Apart(length)), Some(expected)) => {
                assert_eq!(*length as usize, expected.len(), "{what}");
            }
            (found, expected) => panic!("{what}: user.x is {found:?}, and not {expected:?}"),
        }
        let node = self.model.files.get_mut(&file).expect("a file of the model");
        assert_eq!(node.etag.get_or_insert(*object.tag()), object.tag(), "{what}: its tag");
    }

    /// Checks the file of a key on a mount.
    async fn check_file(&mut self, mount: usize, name: Name) {
        let found = self.look_up(mount, name).await;
        let Some(current) = self.model.current(name) else {
            assert_eq!(found.err(), Some(Errno::NOENT), "{name:?} on mount {mount}");
            return;
        };
        let file = current.file;
        let found = found.unwrap_or_else(|error| panic!("{name:?} on mount {mount}: {error}"));
        self.open.looked(mount, file);
        let size = self.seen(mount, file).len() as u64;
        assert_eq!(found.size, size, "the size of {name:?} on mount {mount}");
        let node = self.model.files.get_mut(&file).expect("a file of the model");
        assert_eq!(*node.ino.get_or_insert(found.ino), found.ino, "the number of {name:?}");
        let xattr = self.mounts[mount].files.xattr(found.ino, b"user.x").await;
        match (xattr, &self.model.body(file).xattr) {
            (Ok(value), Some(expected)) => assert_eq!(value, *expected, "{name:?}"),
            (Err(Errno::NODATA), None) => {}
            (found, expected) => panic!("{name:?}: user.x is {found:?}, and not {expected:?}"),
        }
        // Closing this descriptor would flush the dirty data.
        if self.open.dirty.contains_key(&(mount, file)) {
            return;
        }
        let files = &self.mounts[mount].files;
        let opened = files.open(found.ino, OpenMode::default()).await.expect("it is opened");
        let read = files.read(opened.handle, 0, u64::MAX).await.expect("it is read").concat();
        files.release(opened.handle).await;
        assert!(read == self.model.body(file).bytes, "{name:?} on mount {mount}, file {file}");
    }
}
