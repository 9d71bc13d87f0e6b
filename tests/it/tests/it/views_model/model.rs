//! The keys of a few buckets, their versions, their trash, and the files behind them.
//!
//! A name, a version record and a descriptor each lead to a file. Before a file that noncurrent
//! versions share is changed, these versions get a copy, so a version never changes. The model is
//! written to be easy to read, not fast, and knows nothing of records.

use std::collections::BTreeMap;

use record::{Ino, ObjectLock, RetentionDefault, Tag, Timestamp, VersionRef, Versioning};

/// The file behind names, versions and descriptors.
pub(crate) type FileId = usize;

/// A bucket and a key.
pub(crate) type Name = (usize, &'static str);

/// The keys of each bucket. The move of a directory to another one turns some of them into others.
pub(crate) const KEYS: [&str; 10] =
    ["d/e/f.txt", "d/e/g", "d/f.txt", "d/g", "f.txt", "g", "x/e/f.txt", "x/e/g", "x/f.txt", "x/g"];

/// The directories of the keys.
pub(crate) const DIRECTORIES: [&str; 4] = ["d", "d/e", "x", "x/e"];

pub(crate) const PLAIN: usize = 0;
pub(crate) const KEPT: usize = 1;
pub(crate) const HELD: usize = 2;
pub(crate) const TRASH: usize = 3;

/// Buckets: a plain one, one with versions, one with object lock, one with a trash.
pub(crate) const BUCKETS: [&str; 4] = ["plain", "kept", "held", "trash"];

/// The content and the metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: Option<String>,
    /// The value of the user metadata `k`.
    pub(crate) user: Option<String>,
    /// The value of the tag `t`.
    pub(crate) tag: Option<String>,
    /// The extended attribute `user.x`.
    pub(crate) xattr: Option<Vec<u8>>,
    pub(crate) mode: u32,
    pub(crate) lock: ObjectLock,
    /// True for SSE-S3. A later change of the bucket's default does not change it.
    pub(crate) is_encrypted: bool,
}

impl Body {
    pub(crate) fn new(bytes: Vec<u8>) -> Body {
        Body {
            bytes,
            content_type: None,
            user: None,
            tag: None,
            xattr: None,
            mode: 0o644,
            lock: ObjectLock::default(),
            is_encrypted: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) body: Body,
    /// Its inode number, once a mount has shown it.
    pub(crate) ino: Option<Ino>,
    /// Its entity tag, once a client has seen it since its last change.
    pub(crate) etag: Option<Tag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionKind {
    Marker,
    Object(FileId),
}

/// A noncurrent version, a delete marker or an item of the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noncurrent {
    /// `None` until a listing has shown it.
    pub(crate) id: Option<VersionRef>,
    /// Its place among the versions of the key.
    pub(crate) at: i64,
    pub(crate) what: VersionKind,
    /// Its Last-Modified, once a client has seen it as a noncurrent version.
    pub(crate) changed: Option<Timestamp>,
    /// The time at which a pass first saw it in the trash.
    pub(crate) seen: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    /// `None` until a client has seen it.
    pub(crate) id: Option<VersionRef>,
    pub(crate) file: FileId,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    pub(crate) current: Option<Current>,
    /// The newest first.
    pub(crate) older: Vec<Noncurrent>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) versioning: Versioning,
    /// The default retention; only for the bucket with object lock.
    pub(crate) default: Option<RetentionDefault>,
    /// True if the default encryption is SSE-S3.
    pub(crate) encrypts: bool,
    pub(crate) keys: BTreeMap<&'static str, Key>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) files: BTreeMap<FileId, Node>,
    next: FileId,
    /// The clock of all volumes.
    pub(crate) now: Timestamp,
}

impl Model {
    pub(crate) fn new(now: Timestamp) -> Model {
        let versioning =
            [Versioning::Off, Versioning::Enabled, Versioning::Enabled, Versioning::Trash];
        let bucket = |versioning| Bucket {
            versioning,
            default: None,
            encrypts: false,
            keys: BTreeMap::new(),
        };
        let buckets = versioning.map(bucket).into();
        Model { buckets, files: BTreeMap::new(), next: 0, now }
    }

    pub(crate) fn key(&self, (bucket, key): Name) -> Key {
        self.buckets[bucket].keys.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn key_mut(&mut self, (bucket, key): Name) -> &mut Key {
        self.buckets[bucket].keys.entry(key).or_default()
    }

    pub(crate) fn versioning(&self, name: Name) -> Versioning {
        self.buckets[name.0].versioning
    }

    pub(crate) fn current(&self, name: Name) -> Option<Current> {
        self.key(name).current
    }

    pub(crate) fn body(&self, file: FileId) -> &Body {
        &self.files[&file].body
    }

    pub(crate) fn body_mut(&mut self, file: FileId) -> &mut Body {
        &mut self.files.get_mut(&file).expect("a file of the model").body
    }

    pub(crate) fn make(&mut self, body: Body) -> FileId {
        self.next += 1;
        self.files.insert(self.next, Node { body, ino: None, etag: None });
        self.next
    }

    pub(crate) fn is_locked(&self, file: FileId, bypasses: bool) -> bool {
        self.body(file).lock.holds(self.now, bypasses)
    }

    /// Returns the names that lead to a file.
    pub(crate) fn names_of(&self, file: FileId) -> Vec<Name> {
        let mut names = Vec::new();
        for (bucket, it) in self.buckets.iter().enumerate() {
            for (key, found) in &it.keys {
                if found.current.is_some_and(|current| current.file == file) {
                    names.push((bucket, *key));
                }
            }
        }
        names
    }

    fn olds_mut(&mut self) -> impl Iterator<Item = &mut Noncurrent> {
        let keys = self.buckets.iter_mut().flat_map(|bucket| bucket.keys.values_mut());
        keys.flat_map(|key| key.older.iter_mut())
    }

    /// Returns true if noncurrent versions share a file.
    pub(crate) fn is_bound(&self, file: FileId) -> bool {
        let keys = self.buckets.iter().flat_map(|bucket| bucket.keys.values());
        keys.flat_map(|key| &key.older).any(|old| old.what == VersionKind::Object(file))
    }

    /// Gives the noncurrent versions that share a file a copy of it, before the file changes.
    pub(crate) fn split(&mut self, file: FileId) {
        if !self.is_bound(file) {
            return;
        }
        let Node { body, etag, .. } = self.files[&file].clone();
        let copy = self.make(body);
        self.files.get_mut(&copy).expect("it was made").etag = etag;
        for old in self.olds_mut().filter(|old| old.what == VersionKind::Object(file)) {
            old.what = VersionKind::Object(copy);
        }
    }

    /// Removes the files to which nothing leads.
    pub(crate) fn forget(&mut self, is_open: impl Fn(FileId) -> bool) {
        let keys = self.buckets.iter().flat_map(|bucket| bucket.keys.values());
        let mut used: Vec<FileId> = Vec::new();
        for key in keys {
            used.extend(key.current.map(|current| current.file));
            used.extend(key.older.iter().filter_map(|old| match old.what {
                VersionKind::Object(file) => Some(file),
                VersionKind::Marker => None,
            }));
        }
        used.sort_unstable();
        self.files.retain(|file, _| used.binary_search(file).is_ok() || is_open(*file));
    }

    /// Turns the current version into a noncurrent one, at the place of its id.
    fn keep_noncurrent(&mut self, name: Name, current: Current) {
        let (versioning, before) = (self.versioning(name), self.now.0 - 1);
        let key = self.key_mut(name);
        let has_null = key.older.iter().any(|old| old.id == Some(VersionRef::Null));
        let (id, at) = match current.id {
            Some(VersionRef::Id(id)) => (current.id, id.time().0),
            // An item of the trash has its own id. A key has at most one null version.
            Some(VersionRef::Null) if versioning == Versioning::Trash || has_null => (None, before),
            Some(VersionRef::Null) => (current.id, before),
            None => panic!("the version of {name:?} has not been seen"),
        };
        let old = Noncurrent {
            id,
            at,
            what: VersionKind::Object(current.file),
            changed: None,
            seen: None,
        };
        // Two versions that one operation made differ only in the random part of their ids.
        let is_older = |old: &Noncurrent| (old.at, old.id) < (at, id);
        let place = key.older.iter().position(is_older).unwrap_or(key.older.len());
        key.older.insert(place, old);
    }

    fn remove_null(&mut self, name: Name) {
        self.key_mut(name).older.retain(|old| old.id != Some(VersionRef::Null));
    }

    /// Makes room for a new current version. The old one is kept as the bucket's versioning
    /// requires. Returns the id of the new version; `None` if it gets a new id.
    pub(crate) fn supersede(&mut self, name: Name) -> Option<VersionRef> {
        let current = self.key_mut(name).current.take();
        match (self.versioning(name), current) {
            (Versioning::Off, _) | (Versioning::Trash | Versioning::Enabled, None) => {}
            (Versioning::Trash | Versioning::Enabled, Some(current)) => {
                self.keep_noncurrent(name, current);
            }
            (Versioning::Suspended, current) => {
                if let Some(current) = current
                    && current.id != Some(VersionRef::Null)
                {
                    self.keep_noncurrent(name, current);
                }
                self.remove_null(name);
            }
        }
        self.fresh(name)
    }

    fn fresh(&self, name: Name) -> Option<VersionRef> {
        (self.versioning(name) != Versioning::Enabled).then_some(VersionRef::Null)
    }

    fn mark(&mut self, name: Name) {
        let (id, at) = (self.fresh(name), self.now.0);
        let marker = Noncurrent { id, at, what: VersionKind::Marker, changed: None, seen: None };
        self.key_mut(name).older.insert(0, marker);
    }

    /// A client or a program deletes the key.
    pub(crate) fn delete(&mut self, name: Name) {
        self.supersede(name);
        if self.versioning(name).is_shown() {
            self.mark(name);
        }
    }

    /// The current version moves to another key, and a delete marker replaces it.
    pub(crate) fn move_away(&mut self, name: Name) {
        self.key_mut(name).current = None;
        if self.versioning(name).is_shown() {
            if self.versioning(name) == Versioning::Suspended {
                self.remove_null(name);
            }
            self.mark(name);
        }
    }

    /// A file moves to a key that has none, or whose file moves elsewhere in the same operation.
    pub(crate) fn move_in(&mut self, name: Name) -> Option<VersionRef> {
        if self.versioning(name) == Versioning::Suspended {
            self.remove_null(name);
        }
        self.fresh(name)
    }

    pub(crate) fn bind(&mut self, name: Name, id: Option<VersionRef>, file: FileId) {
        self.key_mut(name).current = Some(Current { id, file });
    }

    /// Removes the items that were deleted before `until`, and returns their number.
    pub(crate) fn empty_trash(&mut self, until: Timestamp) -> u64 {
        let mut removed = 0;
        for name in KEYS.map(|key| (TRASH, key)) {
            let key = self.key_mut(name);
            let before = key.older.len();
            // The time of an item is slightly before the operation that put it into the trash.
            key.older.retain(|old| old.at + 1 >= until.0);
            removed += before - key.older.len();
        }
        removed as u64
    }

    /// Gives a file the default retention of a bucket.
    pub(crate) fn retain(&mut self, bucket: usize, file: FileId) {
        let now = self.now;
        if let Some(default) = self.buckets[bucket].default {
            self.body_mut(file).lock.retain(default.beginning(now), now);
        }
    }

    /// Makes the newest noncurrent version current again, if it is an object.
    pub(crate) fn restore_previous(&mut self, name: Name) {
        let key = self.key_mut(name);
        if let Some(Noncurrent { id, what: VersionKind::Object(file), .. }) =
            key.older.first().copied()
        {
            key.older.remove(0);
            key.current = Some(Current { id, file });
        }
    }

    /// Returns the keys below a directory that have a current version, each with its key after the
    /// directory is renamed; `None` if one of the new keys is not in [`KEYS`].
    pub(crate) fn moved(
        &self,
        bucket: usize,
        from: &str,
        to: &str,
    ) -> Option<Vec<(&'static str, &'static str)>> {
        let mut moved = Vec::new();
        for key in self.below(bucket, from) {
            let new = format!("{to}{}", &key[from.len()..]);
            moved.push((key, *KEYS.iter().find(|key| **key == new)?));
        }
        Some(moved)
    }

    /// Returns the keys below a directory that have a current version.
    pub(crate) fn below(&self, bucket: usize, directory: &str) -> Vec<&'static str> {
        let is_below =
            |key: &str| key.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
        let keys = KEYS.into_iter().filter(|key| is_below(key));
        keys.filter(|key| self.current((bucket, key)).is_some()).collect()
    }
}
