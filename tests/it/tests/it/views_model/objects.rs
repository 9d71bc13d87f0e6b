//! Operations of S3 clients through the gateway.

use bytes::Bytes;
use md5::{Digest as _, Md5};
use record::{
    Header, ObjectHeaders, ObjectLock, RetainUntil, RetentionMode, Tag, Timestamp, VersionRef,
};
use volume::{
    CopyChanges, Exempt, FsError, NewObject, ObjectChange, ObjectMode, RenameConditions,
    WriteCondition,
};

use super::model::{BUCKETS, Body, HELD, KEPT, KEYS, Name, Noncurrent, PLAIN, TRASH, VersionKind};
use super::{World, fs, owner};
use crate::versions::dice::HOUR;

/// If all buckets together have more versions than this, removals become more frequent.
const VERSIONS_MANY: usize = 90;

/// Returns a content that is unique for each seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let line = format!("{seed:015}\n").into_bytes();
    let mut bytes = line.repeat(length.div_ceil(line.len()));
    bytes.truncate(length);
    bytes
}

/// Returns the entity tag as a gateway computes it.
fn etag(bytes: &[u8]) -> Tag {
    Tag::Md5(Md5::digest(bytes).into())
}

/// Returns the pair of this key and its value, or no pair.
fn pair(key: &str, value: Option<&String>) -> Vec<(String, String)> {
    value.map(|value| (key.to_owned(), value.clone())).into_iter().collect()
}

fn headers_of(body: &Body) -> ObjectHeaders {
    let content_type = body.content_type.clone();
    ObjectHeaders {
        headers: content_type.map(|value| (Header::ContentType, value)).into_iter().collect(),
        user: pair("k", body.user.as_ref()),
        tags: pair("t", body.tag.as_ref()),
        acl: None,
        lock: body.lock,
    }
}

impl World {
    /// Chooses a key of a bucket, mostly one that has a current version.
    pub(crate) fn name(&mut self) -> Name {
        let bucket = self.dice.of(&[PLAIN, KEPT, KEPT, KEPT, HELD, HELD, TRASH, TRASH]);
        self.key_of(bucket)
    }

    pub(crate) fn key_of(&mut self, bucket: usize) -> Name {
        let name = (bucket, self.dice.of(&KEYS));
        if self.dice.one_in(3) || self.model.current(name).is_some() {
            return name;
        }
        (bucket, self.dice.of(&KEYS))
    }

    /// Inline in a record, staged inline, in a shared block, in one block, in several blocks.
    pub(crate) fn length(&mut self) -> usize {
        match self.dice.below(40) {
            0..16 => 9,
            16..30 => 300,
            30..36 => 6_000,
            36..38 => 40_000,
            38 => 80_000,
            _ => 200_000,
        }
    }

    pub(crate) async fn object_operation(&mut self) {
        let olds: usize = self
            .model
            .buckets
            .iter()
            .flat_map(|it| it.keys.values())
            .map(|it| it.older.len())
            .sum();
        if olds > VERSIONS_MANY && self.dice.one_in(2) {
            return self.remove_some().await;
        }
        let name = self.name();
        match self.dice.below(100) {
            0..30 => {
                let if_absent = self.dice.one_in(6);
                self.put(name, if_absent).await;
            }
            30..40 => self.copy().await,
            40..55 => self.delete(name).await,
            55..72 => self.remove_some().await,
            72..88 => self.change().await,
            88..92 => self.rename_key().await,
            _ => self.trash_operation().await,
        }
    }

    /// Returns the lock that a new object gets: the requested one, with the default of the bucket.
    fn lock(&mut self, bucket: usize) -> ObjectLock {
        if bucket != HELD {
            return ObjectLock::default();
        }
        let requested = match self.dice.below(3) {
            0 => ObjectLock::default(),
            1 => ObjectLock { retention: Some(self.retention()), legal_hold: None },
            _ => ObjectLock { retention: None, legal_hold: Some(true) },
        };
        // The commit gives an object without a requested retention that of the bucket.
        let default = self.model.buckets[bucket].default;
        let retention = default.map(|default| default.beginning(self.model.now));
        ObjectLock { retention: requested.retention.or(retention), ..requested }
    }

    fn retention(&mut self) -> RetainUntil {
        let mode = self.dice.of(&[RetentionMode::Governance, RetentionMode::Compliance]);
        let hours = i64::try_from(self.dice.below(40)).expect("few");
        RetainUntil { mode, until: Timestamp(self.model.now.0 + hours * HOUR) }
    }

    pub(crate) async fn put(&mut self, name: Name, if_absent: bool) {
        let length = self.length();
        self.put_of(name, length, if_absent).await;
    }

    pub(crate) async fn put_of(&mut self, name: Name, length: usize, if_absent: bool) {
        let mut body = Body::new(bytes(self.step << 8, length));
        body.lock = self.lock(name.0);
        body.content_type = Some("text/x-put".to_owned());
        body.user = self.dice.one_in(2).then(|| format!("put {}", self.step));
        body.tag = self.dice.one_in(2).then(|| format!("put {}", self.step));
        body.is_encrypted = self.model.buckets[name.0].encrypts;
        self.record(format!("PUT {name:?} {length} bytes, if absent {if_absent}, {:?}", body.lock));
        let encryption = self.default_encryption(name.0);
        let keys = self.gateway.content_keys(encryption.as_ref()).await.expect("a ring key");
        let mut writer = self.gateway.writer(Some(&keys), Some(length as u64));
        writer.write(Bytes::from(body.bytes.clone())).await.expect("the body is taken");
        let staged = writer.finish().await.expect("the body is taken");
        let (tag, headers) = (etag(&body.bytes), headers_of(&body));
        let new = NewObject { owner: owner(), headers, tag, sums: Vec::new(), encryption };
        let condition = if if_absent { WriteCondition::IfAbsent } else { WriteCondition::None };
        let (bucket, key) = (BUCKETS[name.0], name.1.as_bytes());
        let put = fs(self.gateway.put(bucket, key, staged, new, condition).await);
        if if_absent && self.model.current(name).is_some() {
            assert_eq!(put.err(), Some(FsError::PreconditionFailed));
            return;
        }
        let version = put.expect("a PUT succeeds").version;
        self.bind_new_object(name, version, body, Some(tag)).await;
    }

    /// A new object replaces the current version.
    async fn bind_new_object(
        &mut self,
        name: Name,
        version: Option<VersionRef>,
        body: Body,
        tag: Option<Tag>,
    ) {
        let id = self.model.supersede(name);
        let file = self.model.make(body);
        self.model.files.get_mut(&file).expect("it was made").etag = tag;
        let told = version.unwrap_or(VersionRef::Null);
        assert!(id.is_none_or(|id| id == told), "{name:?}: the answer names version {told:?}");
        self.model.bind(name, Some(told), file);
        self.check_key(name).await;
    }

    async fn copy(&mut self) {
        let (from, to) = (self.name(), self.name());
        let version = match self.model.key(from).older.first() {
            Some(Noncurrent { id, what: VersionKind::Object(_), .. }) if self.dice.one_in(3) => *id,
            _ => None,
        };
        let current = self.model.current(from).and_then(|current| current.id);
        let version = version
            .filter(|_| self.model.versioning(from).is_shown())
            .filter(|id| Some(*id) != current);
        let lock = self.lock(to.0);
        self.record(format!("copy {from:?} {version:?} to {to:?}, {lock:?}"));
        let source = self.gateway.stat_version(BUCKETS[from.0], from.1.as_bytes(), version).await;
        let Ok(source) = fs(source) else {
            assert!(version.is_none() && self.model.current(from).is_none(), "{from:?}");
            return;
        };
        let file = match version {
            Some(_) => match self.model.key(from).older[0].what {
                VersionKind::Object(file) => file,
                VersionKind::Marker => unreachable!("it was looked at"),
            },
            None => self.model.current(from).expect("it was found").file,
        };
        let mode = ObjectMode::without_key(self.default_encryption(to.0));
        let mode = mode.expect("no key of a client is needed");
        let changes = CopyChanges { lock, mode, ..CopyChanges::default() };
        let (bucket, key) = (BUCKETS[to.0], to.1.as_bytes());
        let none = WriteCondition::None;
        let copied = self.gateway.copy(&source, bucket, key, changes, none, &owner()).await;
        let copied = fs(copied).expect("a copy succeeds");
        let is_encrypted = self.model.buckets[to.0].encrypts;
        let body = self.model.body(file).clone();
        let body = Body { lock, is_encrypted, xattr: None, mode: 0o644, ..body };
        let tag = self.model.files[&file].etag;
        self.bind_new_object(to, copied.version, body, tag).await;
    }

    pub(crate) async fn delete(&mut self, name: Name) {
        self.record(format!("DELETE {name:?}"));
        let keys = vec![(name.1.as_bytes().to_vec(), None)];
        let deleted = self.gateway.delete(BUCKETS[name.0], keys).await;
        let deleted = fs(fs(deleted).expect("a DELETE succeeds").remove(0));
        let deleted = deleted.expect("a DELETE succeeds");
        assert_eq!(deleted.existed, self.model.current(name).is_some(), "{name:?}");
        assert_eq!(deleted.marker.is_some(), self.model.versioning(name).is_shown());
        self.model.delete(name);
        if let (Some(marker), Some(first)) =
            (deleted.marker, self.model.key_mut(name).older.first_mut())
        {
            assert!(first.id.is_none_or(|id| id == marker), "{name:?}: the marker {marker:?}");
            first.id = Some(marker);
        }
        self.check_key(name).await;
    }

    /// Removes versions by their ids.
    async fn remove_some(&mut self) {
        let bucket = self.dice.of(&[KEPT, KEPT, HELD, TRASH]);
        let keys = KEYS.map(|key| (bucket, key));
        let many = keys.into_iter().max_by_key(|name| self.model.key(*name).older.len());
        let name = if self.dice.one_in(2) { many.expect("a key") } else { self.key_of(bucket) };
        let key = self.model.key(name);
        let current = key.current.filter(|_| bucket != TRASH).and_then(|current| current.id);
        let mut ids: Vec<VersionRef> = key.older.iter().filter_map(|old| old.id).collect();
        ids.extend(current);
        if ids.is_empty() {
            ids.push(VersionRef::Null);
        }
        let (id, bypasses) = (self.dice.of(&ids), self.dice.one_in(2));
        self.remove(name, id, bypasses).await;
    }

    pub(crate) async fn remove(&mut self, name: Name, id: VersionRef, bypasses: bool) {
        self.record(format!("DELETE {name:?} version {id:?}, bypasses {bypasses}"));
        let (bucket, object) = (BUCKETS[name.0], name.1.as_bytes());
        let is_trash = name.0 == TRASH;
        let removed = if is_trash {
            self.gateway.delete_version_sparing(bucket, object, id, Exempt::Current).await
        } else {
            self.gateway.delete_version(bucket, object, id, bypasses).await
        };
        let removed = fs(removed);
        let key = self.model.key(name);
        let is_current = !is_trash && key.current.is_some_and(|current| current.id == Some(id));
        let place = key.older.iter().position(|old| old.id == Some(id));
        let what = match (is_current, place) {
            (true, _) => key.current.map(|current| VersionKind::Object(current.file)),
            (false, place) => place.map(|place| key.older[place].what),
        };
        if let Some(VersionKind::Object(file)) = what
            && self.model.is_locked(file, bypasses && !is_trash)
        {
            assert_eq!(removed.err(), Some(FsError::Locked), "{name:?} {id:?} is locked");
            self.counts.refused += 1;
            return;
        }
        let removed = removed.expect("a version that is not locked can be removed");
        assert_eq!(removed.existed, what.is_some(), "{name:?} {id:?}");
        assert_eq!(removed.was_marker, what == Some(VersionKind::Marker), "{name:?} {id:?}");
        if is_current {
            self.model.key_mut(name).current = None;
            self.model.restore_previous(name);
        } else if let Some(place) = place {
            self.model.key_mut(name).older.remove(place);
            if what == Some(VersionKind::Marker) && place == 0 && key.current.is_none() {
                self.model.restore_previous(name);
            }
        }
        self.check_key(name).await;
    }

    /// Changes tags or locks of an object or a version.
    async fn change(&mut self) {
        let name = self.name();
        let key = self.model.key(name);
        let shown = self.model.versioning(name).is_shown();
        let mut all: Vec<(Option<VersionRef>, usize)> = Vec::new();
        all.extend(key.current.map(|current| (None, current.file)));
        let current = key.current.and_then(|current| current.id);
        for old in key.older.iter().filter(|old| shown && old.id != current) {
            if let VersionKind::Object(file) = old.what {
                all.push((old.id, file));
            }
        }
        if all.is_empty() {
            return;
        }
        let (version, file) = self.dice.of(&all);
        let kind = if name.0 == HELD { self.dice.below(3) } else { 0 };
        let mut lock = self.model.body(file).lock;
        let tag = format!("set {}", self.step);
        let tags = [("t".to_owned(), tag.clone())];
        let mut expected = Ok(());
        let change = match kind {
            0 => ObjectChange::Tags(&tags),
            1 => {
                let hold = self.dice.one_in(3);
                lock.legal_hold = Some(hold);
                ObjectChange::LegalHold(hold)
            }
            _ => {
                let retention = (!self.dice.one_in(3)).then(|| self.retention());
                let bypasses_governance = self.dice.one_in(3);
                expected =
                    may_retain(lock.retention, retention, self.model.now, bypasses_governance);
                lock.retention = retention;
                ObjectChange::Retention { retention, bypasses_governance }
            }
        };
        self.record(format!("change {name:?} {version:?}: {change:?}"));
        let (bucket, object) = (BUCKETS[name.0], name.1.as_bytes());
        let changed = self.gateway.change_object(bucket, object, version, None, change).await;
        let changed = fs(changed).map(|_| ());
        assert_eq!(changed, expected, "{name:?} {version:?}");
        // The change separates the name from the versions that share its file.
        if !self.model.names_of(file).is_empty() {
            self.model.split(file);
        }
        if changed.is_err() {
            return;
        }
        let file = self.file_of(name, version);
        let body = self.model.body_mut(file);
        if kind == 0 {
            body.tag = Some(tag);
        } else {
            body.lock = lock;
        }
        self.check_key(name).await;
    }

    /// Returns the file of a version, or of the current one.
    fn file_of(&self, name: Name, version: Option<VersionRef>) -> usize {
        let key = self.model.key(name);
        let Some(version) = version else { return key.current.expect("an object").file };
        let old = key.older.iter().find(|old| old.id == Some(version)).expect("a version");
        match old.what {
            VersionKind::Object(file) => file,
            VersionKind::Marker => unreachable!("a marker is not changed"),
        }
    }

    /// `RenameObject`, in a bucket that shows no versions.
    async fn rename_key(&mut self) {
        let bucket = self.dice.of(&[PLAIN, TRASH]);
        let (from, to) = (self.key_of(bucket), self.key_of(bucket));
        self.record(format!("rename {from:?} to {to:?} by S3"));
        let conditions = RenameConditions::default();
        let (old, new) = (from.1.as_bytes(), to.1.as_bytes());
        let renamed = self.gateway.rename(BUCKETS[bucket], old, new, &conditions, None).await;
        let renamed = fs(renamed);
        let Some(current) = self.model.current(from) else {
            assert_eq!(renamed, Err(FsError::NoSuchKey));
            return;
        };
        renamed.expect("an object can be renamed");
        if from == to {
            return;
        }
        if self.model.current(to).is_some_and(|other| other.file == current.file) {
            // Both names have the same file, so only the old name is removed.
            self.model.key_mut(from).current = None;
        } else {
            self.model.split(current.file);
            self.model.supersede(to);
            self.model.key_mut(from).current = None;
            self.model.bind(to, Some(VersionRef::Null), current.file);
        }
        self.check_key(from).await;
        self.check_key(to).await;
    }

    /// Restores an item of a key from the trash, or empties the trash.
    async fn trash_operation(&mut self) {
        if self.dice.one_in(8) {
            return self.empty_trash().await;
        }
        let name = self.key_of(TRASH);
        let many = self.model.key(name).older.len();
        if many > 0 {
            let (place, replaces) = (self.dice.below(many), self.dice.one_in(2));
            self.restore(name, place, replaces).await;
        }
    }

    /// Restores an item of a key's trash.
    pub(crate) async fn restore(&mut self, name: Name, place: usize, replaces: bool) {
        let key = self.model.key(name);
        let old = key.older[place];
        let Some(VersionRef::Id(id)) = old.id else { panic!("{name:?}: {old:?} has no id") };
        self.record(format!("restore {name:?} {id:?}, replaces {replaces}"));
        let bucket = BUCKETS[TRASH].into();
        let restored = fs(self.gateway.restore(bucket, name.1.as_bytes(), id, replaces).await);
        if key.current.is_some() && !replaces {
            assert_eq!(restored, Err(FsError::NameExists));
            return;
        }
        restored.expect("an item of the trash can be restored");
        self.counts.restored += 1;
        self.model.supersede(name);
        let key = self.model.key_mut(name);
        key.older.retain(|other| other.id != old.id);
        let VersionKind::Object(file) = old.what else { panic!("a marker in the trash") };
        self.model.bind(name, Some(VersionRef::Null), file);
        self.check_key(name).await;
    }

    async fn empty_trash(&mut self) {
        let hours = i64::try_from(self.dice.below(60)).expect("few");
        let until = Timestamp(self.model.now.0 - hours * HOUR);
        self.record(format!("empty the trash until {until:?}"));
        let emptied = self.gateway.empty_trash(BUCKETS[TRASH].into(), b"", until).await;
        let emptied = fs(emptied).expect("the trash can be emptied");
        assert_eq!(emptied, self.model.empty_trash(until), "items of the trash");
        self.check_bucket(TRASH).await;
    }

    /// Removes everything after all retentions have expired.
    pub(crate) async fn remove_all(&mut self) {
        for bucket in 0..BUCKETS.len() {
            for name in KEYS.map(|key| (bucket, key)) {
                self.release_holds(name).await;
                if self.model.versioning(name).keeps() && bucket != TRASH {
                    while let Some(id) = self.any_version(name) {
                        self.remove(name, id, false).await;
                    }
                } else {
                    self.delete(name).await;
                    while let Some(id) = self.model.key(name).older.first().and_then(|old| old.id) {
                        self.remove(name, id, false).await;
                    }
                }
            }
        }
    }

    fn any_version(&self, name: Name) -> Option<VersionRef> {
        let key = self.model.key(name);
        let current = key.current.and_then(|current| current.id);
        current.or_else(|| key.older.first().and_then(|old| old.id))
    }

    async fn release_holds(&mut self, name: Name) {
        let key = self.model.key(name);
        let mut all: Vec<Option<VersionRef>> = key.current.iter().map(|_| None).collect();
        all.extend(
            key.older.iter().filter(|old| old.what != VersionKind::Marker).map(|old| old.id),
        );
        for version in all.into_iter().filter(|_| name.0 == HELD) {
            self.record(format!("release {name:?} {version:?}"));
            let change = ObjectChange::LegalHold(false);
            let (bucket, object) = (BUCKETS[name.0], name.1.as_bytes());
            let released = self.gateway.change_object(bucket, object, version, None, change).await;
            fs(released).expect("a legal hold can be released");
            let file = self.file_of(name, version);
            if !self.model.names_of(file).is_empty() {
                self.model.split(file);
            }
            let file = self.file_of(name, version);
            self.model.body_mut(file).lock.legal_hold = Some(false);
        }
    }
}

/// Fails with `Locked` if a client may not replace the retention `old` by `new`.
fn may_retain(
    old: Option<RetainUntil>,
    new: Option<RetainUntil>,
    now: Timestamp,
    bypasses: bool,
) -> Result<(), FsError> {
    let old = match old {
        Some(old) if now < old.until => old,
        _ => return Ok(()),
    };
    if old.mode == RetentionMode::Governance && bypasses {
        return Ok(());
    }
    let is_longer = new.is_some_and(|new| new.mode == old.mode && new.until >= old.until);
    if is_longer { Ok(()) } else { Err(FsError::Locked) }
}
